//! The worked example of a table plugin: the film table, as text to search by and metadata to filter by.
//!
//! ```text
//! CREATE TABLE demo.films (movie_id int, studio text, title text, year int, genre text, plot text,
//!     runtime_min int, tags set<text>, unlisted boolean, PRIMARY KEY (movie_id, studio))
//! ```
//! The text is `title (year)`, then the plot. Unlisted films are filtered out. A negative year or running time is a
//! mistake in the row, and refused. Films with neither title nor plot have a blank text, and so no vector.

use keyvector_sdk::{
    Boolean, Column, Columns, Document, Integer, Metadata, MetadataKey, MetadataType, Row, Table, Text,
    TextList,
};
use serde::Deserialize;

struct Movies {
    studio: Column<Text>,
    title: Column<Text>,
    year: Column<Integer>,
    genre: Column<Text>,
    plot: Column<Text>,
    runtime_min: Column<Integer>,
    tags: Column<TextList>,
    unlisted: Column<Boolean>,
}

/// There is nothing to configure: `{}`.
#[derive(Deserialize)]
struct Config {}

impl Table for Movies {
    type Config = Config;
    const READS: &'static [&'static str] =
        &["studio", "title", "year", "genre", "plot", "runtime_min", "tags", "unlisted"];

    fn metadata(_: &Config) -> Vec<MetadataKey> {
        vec![
            MetadataKey::new("title", MetadataType::Text).not_filterable(),
            MetadataKey::new("studio", MetadataType::Text),
            MetadataKey::new("year", MetadataType::Number),
            MetadataKey::new("genre", MetadataType::Text),
            MetadataKey::new("runtime", MetadataType::Number),
            MetadataKey::new("tags", MetadataType::TextList),
        ]
    }

    fn open(_: Config, columns: &Columns) -> Result<Self, String> {
        Ok(Self {
            studio: columns.column("studio")?,
            title: columns.column("title")?,
            year: columns.column("year")?,
            genre: columns.column("genre")?,
            plot: columns.column("plot")?,
            runtime_min: columns.column("runtime_min")?,
            tags: columns.column("tags")?,
            unlisted: columns.column("unlisted")?,
        })
    }

    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        if row.get(&self.unlisted)? == Some(true) {
            return Ok(None);
        }
        let title = row.get(&self.title)?;
        let year = not_negative(row, &self.year)?;
        let plot = row.get(&self.plot)?;
        let runtime = not_negative(row, &self.runtime_min)?;
        let tags = row.get(&self.tags)?.unwrap_or_default();
        let metadata = Metadata::new()
            .text("title", title)
            .text("studio", row.get(&self.studio)?)
            .integer("year", year)
            .text("genre", row.get(&self.genre)?)
            .integer("runtime", runtime)
            .texts("tags", &tags);
        Ok(Some(Document { text: text(title, year, plot), metadata }))
    }
}

/// `title (year)`, a line break, the plot, each where the row has it. With neither title nor plot the text is blank: a
/// year alone says nothing to search by.
fn text(title: Option<&str>, year: Option<i64>, plot: Option<&str>) -> String {
    let title = title.unwrap_or_default().trim();
    let plot = plot.unwrap_or_default().trim();
    if title.is_empty() && plot.is_empty() {
        return String::new();
    }
    let mut text = String::with_capacity(title.len() + plot.len() + 16);
    text.push_str(title);
    if let Some(year) = year {
        text.push_str(if title.is_empty() { "(" } else { " (" });
        text.push_str(&year.to_string());
        text.push(')');
    }
    if !plot.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(plot);
    }
    text
}

fn not_negative(row: &Row<'_>, column: &Column<Integer>) -> Result<Option<i64>, String> {
    match row.get(column)? {
        Some(value) if value < 0 => {
            Err(format!("column `{}` is {value}; it cannot be negative", column.name()))
        }
        value => Ok(value),
    }
}

keyvector_sdk::export_table!(Movies);

#[cfg(test)]
mod tests {
    use super::*;
    use keyvector_sdk::testing::{Rendered, TestTable, test};

    const FILMS: [(&str, &str); 9] = [
        ("movie_id", "int"),
        ("studio", "text"),
        ("title", "text"),
        ("year", "int"),
        ("genre", "text"),
        ("plot", "text"),
        ("runtime_min", "int"),
        ("tags", "set<text>"),
        ("unlisted", "boolean"),
    ];

    #[test]
    fn films_become_documents() {
        test::<Movies>(
            "{}",
            &FILMS,
            &[
                (
                    &[
                        ("movie_id", "12"),
                        ("studio", "Redwood=Ridge"),
                        ("title", "The Long Vault"),
                        ("year", "1994"),
                        ("genre", "crime"),
                        ("plot", "A lock outlives its maker."),
                        ("runtime_min", "117"),
                        ("tags", r#"["heist","night \"shift\""]"#),
                    ],
                    Rendered::document(
                        "The Long Vault (1994)\nA lock outlives its maker.",
                        r#"{"title":"The Long Vault","studio":"Redwood=Ridge","year":1994,"genre":"crime",
                            "runtime":117,"tags":["heist","night \"shift\""]}"#,
                    ),
                ),
                (&[("title", "Untold"), ("unlisted", "true"), ("year", "-1")], Rendered::Skipped),
                (
                    &[("title", "Told"), ("unlisted", "false")],
                    Rendered::document("Told", r#"{"title":"Told"}"#),
                ),
                (
                    &[("title", "A"), ("year", "-7")],
                    Rendered::failed("column `year` is -7; it cannot be negative"),
                ),
                (
                    &[("runtime_min", "-1")],
                    Rendered::failed("column `runtime_min` is -1; it cannot be negative"),
                ),
                (&[("year", "2001"), ("plot", " \n")], Rendered::document("", r#"{"year":2001}"#)),
                (
                    &[("year", "0"), ("plot", "No name.")],
                    Rendered::document("(0)\nNo name.", r#"{"year":0}"#),
                ),
                (&[], Rendered::document("", "{}")),
            ],
        );
    }

    #[test]
    fn another_table_is_refused_by_column_and_type() {
        let refusal = |columns: &[(&str, &str)]| TestTable::<Movies>::open("{}", columns).err().unwrap();
        assert_eq!(refusal(&FILMS[..8]), "column `unlisted`: the table has none of that name");
        let mut other = FILMS;
        other[3].1 = "text";
        assert_eq!(
            refusal(&other),
            "column `year` is of type text; tinyint, smallint, int, bigint or counter is needed"
        );
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let refusal = TestTable::<Movies>::open(r#"{"txt":1}"#, &FILMS).err().unwrap();
        assert_eq!(refusal, "configuration: `txt` is no key of this plugin");
    }
}
