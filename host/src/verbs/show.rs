//! Rows, metadata and tables as they are printed.

use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::presets;
use comfy_table::{ContentArrangement, Table};
use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::row::{Cell, Row};
use keyvector_core::schema::TableSchema;
use keyvector_core::text;
use keyvector_cql::{CqlType, canonical_text};
use serde_json::{Map, Value};

/// Writes a line of data to standard output.
pub(super) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Writes one JSON value as a line of data to standard output; nothing in it steers a terminal.
pub(super) fn json_line(value: &Value) -> io::Result<()> {
    line(json_text(&value.to_string()))
}

/// JSON text with the characters escaped that steer or mislead and that JSON lets through, U+009B and U+202E for example.
/// They stand in strings only, so the value stays the same.
pub(super) fn json_text(json: &str) -> Cow<'_, str> {
    if !json.contains(text::acts) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        match text::acts(character) {
            true => {
                let units = &mut [0; 2];
                out.extend(character.encode_utf16(units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// A table for people, without frames. Nothing is wrapped: a key that is cut in two cannot be copied.
pub(super) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

/// The lines of a table without the space around them. One without a header begins with an empty line otherwise.
pub(super) fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.skip_while(|line| line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Names of the host's own metadata begin so.
fn is_own(name: &str) -> bool {
    name.starts_with('_')
}

/// The plugin's metadata as JSON.
pub(super) fn metadata_object(metadata: &Metadata) -> Map<String, Value> {
    let plugins = metadata.0.iter().filter(|(name, _)| !is_own(name));
    plugins.map(|(name, value)| (name.to_string(), metadata_value(value))).collect()
}

fn metadata_value(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Text(text) => text.as_str().into(),
        MetadataValue::Number(number) => number_value(*number),
        MetadataValue::Boolean(flag) => (*flag).into(),
        MetadataValue::TextList(texts) => texts.as_slice().into(),
        MetadataValue::NumberList(numbers) => numbers.iter().copied().map(number_value).collect(),
    }
}

/// Whole numbers without a point.
#[allow(clippy::cast_possible_truncation, reason = "checked to be whole and below 2^53 just before")]
fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        return (number as i64).into();
    }
    number.into()
}

/// One metadata value as a cell of a table.
pub(super) fn metadata_text(metadata: &Metadata, name: &str) -> String {
    match metadata.0.get(name) {
        None => String::new(),
        Some(MetadataValue::Text(text)) => one_line(text),
        Some(MetadataValue::TextList(texts)) => one_line(&texts.join(", ")),
        Some(value) => metadata_value(value).to_string(),
    }
}

/// A row as JSON: columns by name, nulls left out. Whole numbers up to 32 bits and booleans as such, every other scalar
/// as its canonical text, collections as arrays of those.
pub(super) fn row_object(schema: &TableSchema, row: &Row) -> Map<String, Value> {
    let mut object = Map::new();
    for (column, cell) in schema.columns.iter().zip(row.cells()) {
        let value = match cell {
            Cell::Null => continue,
            Cell::Bytes(bytes) => cell_value(&column.cql_type, bytes),
            Cell::Fault(reason) => Value::String(format!("error: {reason}")),
        };
        object.insert(column.name.clone(), value);
    }
    object
}

fn cell_value(cql_type: &CqlType, bytes: &[u8]) -> Value {
    let text = match canonical_text(cql_type, bytes) {
        Ok(text) => text,
        Err(error) => return Value::String(format!("error: {error}")),
    };
    let plain = match cql_type {
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int => text.parse::<i32>().ok().map(Value::from),
        CqlType::Boolean => text.parse::<bool>().ok().map(Value::from),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Udt(_)
        | CqlType::Vector(..) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    plain.unwrap_or(Value::String(text))
}

/// A text on one line, nothing in it that steers a terminal.
pub(super) fn one_line(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '\n' => out.push_str(" ⏎ "),
            '\t' => out.push(' '),
            character => text::push_escaped(&mut out, character),
        }
    }
    out
}

/// A text with its lines, nothing in them that steers a terminal.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(one_line).collect::<Vec<_>>().join("\n")
}

/// The first `characters` of a text, with `…` where it goes on.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// `9,876`.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A moment in UTC, to the second.
pub(super) fn moment(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| milliseconds.to_string(), |moment| moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_steer_the_terminal_and_are_cut_at_a_character() {
        assert_eq!(one_line("a\nb\u{1b}[2J\u{202e}"), "a ⏎ b\\u{1b}[2J\\u{202e}");
        assert_eq!(shortened("日本語", 2), "日本…");
        assert_eq!(shortened("日本", 2), "日本");
        assert_eq!(moment(1_796_040_000_000), "2026-11-30 12:00:00Z");
        assert_eq!(
            (thousands(0), thousands(999), thousands(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
    }

    #[test]
    fn json_for_terminals_is_the_same_value_without_control_characters() {
        let value = Value::from("a\u{7f}\u{80}\u{9b}31m\u{9f}\u{a0}\u{1b}é\u{202e}\u{e0041}");
        let json = value.to_string();
        let shown = json_text(&json);
        assert!(!shown.contains(text::acts), "{shown:?}");
        assert!(shown.contains("\\u009b31m") && shown.contains('é'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert!(matches!(json_text("{\"a\":1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn rows_keep_their_types_and_numbers_stay_exact() {
        let schema = TableSchema::parse_cql(
            "CREATE TABLE k.t (a int PRIMARY KEY, b bigint, c text, d set<text>, e boolean, f double);",
        )
        .unwrap();
        let values =
            [("a", "7"), ("b", "9223372036854775807"), ("c", "x\"y"), ("d", r#"["p","q"]"#), ("e", "true")];
        let bytes: Vec<Option<Vec<u8>>> = schema
            .columns
            .iter()
            .map(|column| {
                let (_, text) = values.iter().find(|(name, _)| *name == column.name)?;
                Some(keyvector_cql::parse_canonical(&column.cql_type, text).unwrap())
            })
            .collect();
        let row = Row::new(bytes.iter().map(|bytes| bytes.as_deref().map_or(Cell::Null, Cell::Bytes)));
        let shown = Value::Object(row_object(&schema, &row));
        assert_eq!(
            shown,
            serde_json::json!({"a": 7, "b": "9223372036854775807", "c": "x\"y", "d": ["p", "q"], "e": true})
        );
    }
}
