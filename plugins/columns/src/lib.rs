//! A table plugin without code: a text template and metadata columns, from configuration.
//!
//! ```toml
//! [table.plugin_config]
//! text = "{title} ({year})\n{plot}"
//! metadata = [
//!     "studio",                                       # a text to filter by
//!     { column = "year", type = "number" },
//!     { column = "title", filterable = false },       # only shown
//!     { column = "tags", type = "text-list", name = "labels" },
//! ]
//! ```
//! # Text
//! `{column}` stands for the cell, `{{` and `}}` for braces. An absent cell is the empty text. A cell that is no text is
//! written as keyvector-host writes it everywhere: `1994`, `true`, `2026-11-30`, a timestamp as milliseconds since 1970.
//! Lists and sets are their elements joined by `, `. Where every cell that the template names is absent or blank, the row
//! has no text, whatever stands between the cells, and so no vector.
//!
//! # Metadata
//! An entry is a column's name, or `column` with `type`, `name` (the column's unless said) and `filterable` (true unless
//! said). The type has to be said where it is not `text`, since it is declared before a table is seen:
//!
//! | type | columns |
//! |---|---|
//! | `text` | any |
//! | `number` | tinyint, smallint, int, bigint, counter, varint, decimal, float, double, timestamp (milliseconds) |
//! | `boolean` | boolean |
//! | `text-list` | list, set or vector of any scalar |
//! | `number-list` | list, set or vector of numbers |
//!
//! Null is absent. A number that is not finite, or that a JSON number may change (of 2^53 and beyond in a column of
//! exact numbers), fails its row: make such a column `text`.

mod template;

use keyvector_sdk::{
    Boolean, Canonical, Column, Columns, CqlType, Document, INTEGER_MAX, Integer, Kind, Metadata,
    MetadataKey, MetadataType, Number, NumberList, Row, Table, TextList, Timestamp,
};
use serde::Deserialize;
use template::Piece;

struct ColumnsPlugin {
    text: Vec<TextPart>,
    metadata: Vec<(String, MetadataColumn)>,
}

enum TextPart {
    Literal(String),
    Cell(Column<Canonical>),
    List(Column<TextList>),
}

enum MetadataColumn {
    Text(Column<Canonical>),
    Integer(Column<Integer>),
    Timestamp(Column<Timestamp>),
    Number(Column<Number>),
    Boolean(Column<Boolean>),
    TextList(Column<TextList>),
    NumberList(Column<NumberList>),
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "RawConfig")]
struct Config {
    text: Vec<Piece>,
    metadata: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    text: String,
    #[serde(default)]
    metadata: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a metadata entry is a column's name, or a table of `column`, `type`, `name`, `filterable`"
)]
enum RawEntry {
    Column(String),
    Entry(Entry),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    column: String,
    #[serde(default, rename = "type")]
    value_type: ValueType,
    name: Option<String>,
    #[serde(default = "yes")]
    filterable: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ValueType {
    #[default]
    Text,
    Number,
    Boolean,
    TextList,
    NumberList,
}

fn yes() -> bool {
    true
}

impl Entry {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.column)
    }
}

impl TryFrom<RawConfig> for Config {
    type Error = String;

    fn try_from(raw: RawConfig) -> Result<Self, String> {
        let text = template::parse(&raw.text).map_err(|cause| format!("`text`: {cause}"))?;
        if !text.iter().any(|piece| matches!(piece, Piece::Column(_))) {
            return Err(
                "`text` names no column, such as `{title}`: every row would have the same text".to_owned()
            );
        }
        let entries = raw.metadata.into_iter().map(|entry| match entry {
            RawEntry::Entry(entry) => entry,
            RawEntry::Column(column) => {
                Entry { column, value_type: ValueType::Text, name: None, filterable: true }
            }
        });
        Ok(Self { text, metadata: entries.collect() })
    }
}

impl Table for ColumnsPlugin {
    type Config = Config;

    /// Each column once, in the order in which the configuration names them.
    fn reads(config: &Config) -> Vec<String> {
        let in_text = config.text.iter().filter_map(|piece| match piece {
            Piece::Column(name) => Some(name),
            Piece::Literal(_) => None,
        });
        let mut reads: Vec<String> = Vec::new();
        for name in in_text.chain(config.metadata.iter().map(|entry| &entry.column)) {
            if !reads.contains(name) {
                reads.push(name.clone());
            }
        }
        reads
    }

    fn metadata(config: &Config) -> Vec<MetadataKey> {
        let keys = config.metadata.iter().map(|entry| {
            let value_type = match entry.value_type {
                ValueType::Text => MetadataType::Text,
                ValueType::Number => MetadataType::Number,
                ValueType::Boolean => MetadataType::Boolean,
                ValueType::TextList => MetadataType::TextList,
                ValueType::NumberList => MetadataType::NumberList,
            };
            let key = MetadataKey::new(entry.name(), value_type);
            if entry.filterable { key } else { key.not_filterable() }
        });
        keys.collect()
    }

    fn open(config: Config, columns: &Columns) -> Result<Self, String> {
        let text = config.text.into_iter().map(|piece| {
            Ok(match piece {
                Piece::Literal(text) => TextPart::Literal(text),
                Piece::Column(name) => match columns.column::<TextList>(&name) {
                    Ok(column) => TextPart::List(column),
                    Err(_) => TextPart::Cell(columns.column(&name)?),
                },
            })
        });
        let metadata = config
            .metadata
            .iter()
            .map(|entry| Ok((entry.name().to_owned(), metadata_column(entry, columns)?)));
        Ok(Self {
            text: text.collect::<Result<_, String>>()?,
            metadata: metadata.collect::<Result<_, String>>()?,
        })
    }

    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        let text = self.text(row)?;
        let mut metadata = Metadata::new();
        for (name, column) in &self.metadata {
            metadata = put(metadata, name, column, row)?;
        }
        Ok(Some(Document { text, metadata }))
    }
}

impl ColumnsPlugin {
    fn text(&self, row: &Row<'_>) -> Result<String, String> {
        let mut text = String::with_capacity(512);
        let mut says_something = false;
        for part in &self.text {
            let before = text.len();
            match part {
                TextPart::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                TextPart::Cell(column) => text.push_str(row.get(column)?.as_deref().unwrap_or_default()),
                TextPart::List(column) => {
                    for (position, element) in row.get(column)?.iter().flatten().enumerate() {
                        text.push_str(if position > 0 { ", " } else { "" });
                        text.push_str(element);
                    }
                }
            }
            says_something |= !text[before..].trim().is_empty();
        }
        Ok(if says_something { text } else { String::new() })
    }
}

/// Resolves a metadata column.
///
/// # Errors
/// The column's type does not fit the declared one: names column, type and the types that would fit.
fn metadata_column(entry: &Entry, columns: &Columns) -> Result<MetadataColumn, String> {
    let name = &entry.column;
    let refuse = |allowed: &str, word: &str| {
        let found = columns.get(name).map_or_else(String::new, |column| column.cql_type.to_string());
        format!("column `{name}` is of type {found}; metadata of type {word} needs {allowed}")
    };
    match entry.value_type {
        ValueType::Text => {
            columns.column(name).map(MetadataColumn::Text).map_err(|_| refuse(Canonical::ALLOWED, "text"))
        }
        ValueType::Number => (columns.column(name).map(MetadataColumn::Integer))
            .or_else(|_| columns.column(name).map(MetadataColumn::Timestamp))
            .or_else(|_| columns.column(name).map(MetadataColumn::Number))
            .map_err(|_| refuse(&format!("timestamp, {}", Number::ALLOWED), "number")),
        ValueType::Boolean => {
            columns.column(name).map(MetadataColumn::Boolean).map_err(|_| refuse(Boolean::ALLOWED, "boolean"))
        }
        ValueType::TextList => columns
            .column(name)
            .map(MetadataColumn::TextList)
            .map_err(|_| refuse(TextList::ALLOWED, "text-list")),
        ValueType::NumberList => columns
            .column(name)
            .map(MetadataColumn::NumberList)
            .map_err(|_| refuse(NumberList::ALLOWED, "number-list")),
    }
}

fn put(metadata: Metadata, name: &str, column: &MetadataColumn, row: &Row<'_>) -> Result<Metadata, String> {
    Ok(match column {
        MetadataColumn::Text(column) => metadata.text(name, row.get(column)?.as_deref()),
        MetadataColumn::Integer(column) => metadata.integer(name, row.get(column)?),
        MetadataColumn::Timestamp(column) => metadata.integer(name, row.get(column)?),
        MetadataColumn::Number(column) => {
            let value = row.get(column)?;
            exact_or_refused(column.cql_type(), value.as_slice(), column.name())?;
            metadata.number(name, value)
        }
        MetadataColumn::Boolean(column) => metadata.boolean(name, row.get(column)?),
        MetadataColumn::TextList(column) => metadata.texts(name, &row.get(column)?.unwrap_or_default()),
        MetadataColumn::NumberList(column) => {
            let values = row.get(column)?.unwrap_or_default();
            exact_or_refused(column.cql_type(), &values, column.name())?;
            metadata.numbers(name, &values)
        }
    })
}

/// Refuses whole numbers that an f64 may have changed.
fn exact_or_refused(cql_type: &CqlType, values: &[f64], column: &str) -> Result<(), String> {
    let number_type = match cql_type {
        CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => element,
        scalar => scalar,
    };
    let exact =
        matches!(number_type, CqlType::Varint | CqlType::Bigint | CqlType::Counter | CqlType::Decimal);
    // 2^53 itself may be what 2^53 + 1 became.
    if exact && values.iter().any(|value| value.abs() >= INTEGER_MAX as f64) {
        return Err(format!("column `{column}`: a whole number beyond 2^53; give it as text"));
    }
    Ok(())
}

keyvector_sdk::export_table!(ColumnsPlugin);

#[cfg(test)]
mod tests {
    use super::*;
    use keyvector_sdk::testing::{Rendered, TestTable, test};

    const COLUMNS: [(&str, &str); 12] = [
        ("id", "uuid"),
        ("title", "text"),
        ("year", "int"),
        ("plot", "text"),
        ("tags", "set<text>"),
        ("ratings", "list<double>"),
        ("seen", "boolean"),
        ("added", "timestamp"),
        ("price", "decimal"),
        ("big", "bigint"),
        ("huge", "varint"),
        ("credits", "map<text,text>"),
    ];
    const FILMS: &str = r#"{
        "text": "{title} ({year})\n{plot}",
        "metadata": ["title", {"column":"year","type":"number"}, {"column":"tags","type":"text-list","name":"labels"},
            {"column":"ratings","type":"number-list"}, {"column":"seen","type":"boolean","filterable":false},
            {"column":"added","type":"number"}, {"column":"price","type":"number"}]
    }"#;

    #[test]
    fn rows_become_documents() {
        test::<ColumnsPlugin>(
            FILMS,
            &COLUMNS,
            &[
                (
                    &[
                        ("title", "Salt"),
                        ("year", "1994"),
                        ("plot", "A ship is late."),
                        ("tags", r#"["a","b"]"#),
                        ("ratings", r#"["0.5","2.0"]"#),
                        ("seen", "true"),
                        ("added", "1700000000000"),
                        ("price", "12.50"),
                    ],
                    Rendered::document(
                        "Salt (1994)\nA ship is late.",
                        r#"{"title":"Salt","year":1994,"labels":["a","b"],"ratings":[0.5,2.0],"seen":true,
                            "added":1700000000000,"price":12.5}"#,
                    ),
                ),
                (&[("title", "Salt")], Rendered::document("Salt ()\n", r#"{"title":"Salt"}"#)),
                (
                    &[("title", " "), ("seen", "false")],
                    Rendered::document("", r#"{"title":" ","seen":false}"#),
                ),
                (
                    &[("title", "x"), ("ratings", r#"["NaN"]"#)],
                    Rendered::failed("metadata `ratings`: NaN is not a finite number"),
                ),
            ],
        );
    }

    #[test]
    fn every_type_has_a_text() {
        test::<ColumnsPlugin>(
            r#"{"text": "{id}|{tags}|{ratings}|{seen}|{credits}|{{{huge}}}", "metadata": ["huge", "credits"]}"#,
            &COLUMNS,
            &[(
                &[
                    ("id", "0bad0bad-0bad-4bad-8bad-0bad0bad0bad"),
                    ("tags", r#"["x","y"]"#),
                    ("ratings", r#"["1.0"]"#),
                    ("seen", "false"),
                    ("credits", r#"[["a","b"]]"#),
                    ("huge", "123456789012345678901234567890"),
                ],
                Rendered::document(
                    r#"0bad0bad-0bad-4bad-8bad-0bad0bad0bad|x, y|1.0|false|[["a","b"]]|{123456789012345678901234567890}"#,
                    r#"{"huge":"123456789012345678901234567890","credits":"[[\"a\",\"b\"]]"}"#,
                ),
            )],
        );
    }

    #[test]
    fn whole_numbers_beyond_two_to_the_53_fail_their_row() {
        test::<ColumnsPlugin>(
            r#"{"text":"{title}","metadata":[{"column":"big","type":"number"},{"column":"huge","type":"number"}]}"#,
            &COLUMNS,
            &[
                (
                    &[("title", "x"), ("big", "9007199254740992"), ("huge", "-9007199254740991")],
                    Rendered::document("x", r#"{"big":9007199254740992,"huge":-9007199254740991.0}"#),
                ),
                (
                    &[("big", "9007199254740993")],
                    Rendered::failed(
                        "metadata `big`: 9007199254740993 is beyond 2^53; declare the key as text and give it as text",
                    ),
                ),
                (
                    &[("huge", "9007199254740993")],
                    Rendered::failed("column `huge`: a whole number beyond 2^53; give it as text"),
                ),
            ],
        );
    }

    #[test]
    fn the_operators_mistakes_are_named() {
        for (config, words) in [
            (r#"{}"#, "missing field `text`"),
            (r#"{"text":"{title"}"#, "`text`: the `{` at character 1 has no `}`"),
            (r#"{"text":"title"}"#, "`text` names no column"),
            (r#"{"text":"{name}"}"#, "column `name`: the table has none of that name"),
            (r#"{"text":"{title}","metdata":[]}"#, "unknown field `metdata`"),
            (r#"{"text":"{title}","metadata":[{"colum":"x"}]}"#, "a metadata entry is a column's name, or"),
            (
                r#"{"text":"{title}","metadata":["title",{"column":"plot","name":"title"}]}"#,
                "`title`: declared twice",
            ),
            (r#"{"text":"{title}","metadata":[{"column":"plot","name":"_x"}]}"#, "begin with `_`"),
            (
                r#"{"text":"{title}","metadata":[{"column":"plot","type":"number"}]}"#,
                "column `plot` is of type text; metadata of type number needs timestamp, tinyint",
            ),
            (
                r#"{"text":"{title}","metadata":[{"column":"credits","type":"text-list"}]}"#,
                "column `credits` is of type map<text,text>; metadata of type text-list needs a list, set",
            ),
            (
                r#"{"text":"{title}","metadata":[{"column":"tags","type":"number-list"}]}"#,
                "column `tags` is of type set<text>; metadata of type number-list needs",
            ),
            (
                r#"{"text":"{title}","metadata":[{"column":"year","type":"boolean"}]}"#,
                "column `year` is of type int; metadata of type boolean needs boolean",
            ),
        ] {
            let refusal = TestTable::<ColumnsPlugin>::open(config, &COLUMNS).err().unwrap();
            assert!(refusal.contains(words), "{config}: {refusal}");
        }
    }
}
