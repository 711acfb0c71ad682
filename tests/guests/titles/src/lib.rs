//! Another plugin for the film table, which takes the place of `movies` in tests: it fits the same index, needs no
//! configuration either, makes other texts, and refuses no row.

use keyvector_sdk::{Column, Columns, Document, Metadata, MetadataKey, MetadataType, Row, Table, Text};
use serde::Deserialize;

struct Titles {
    title: Column<Text>,
}

#[derive(Deserialize)]
struct Config {}

impl Table for Titles {
    type Config = Config;
    const READS: &'static [&'static str] = &["title"];

    fn metadata(_: &Config) -> Vec<MetadataKey> {
        vec![MetadataKey::new("title", MetadataType::Text).not_filterable()]
    }

    fn open(_: Config, columns: &Columns) -> Result<Self, String> {
        Ok(Self { title: columns.column("title")? })
    }

    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        let title = row.get(&self.title)?;
        Ok(title.map(|title| Document {
            text: format!("a film called {title}"),
            metadata: Metadata::new().text("title", Some(title)),
        }))
    }
}

keyvector_sdk::export_table!(Titles);
