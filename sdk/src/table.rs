//! The role `table`: rows to documents.

use serde::de::DeserializeOwned;

use crate::bindings::table::exports::keyvector::plugin::table as wit;
use crate::bindings::table::keyvector::plugin::types::Packed;
use crate::cells::{ColumnInfo, Columns, Row, split_row};
use crate::metadata::{Metadata, MetadataKey, check_declaration};

/// One table's rows to documents. See the crate's example.
///
/// A document may depend on the row and on the configuration, on nothing else: the host runs many instances side by
/// side, replaces them at will, and compares what they say of one row.
pub trait Table: Sized {
    /// The configuration, from a JSON object. Unknown keys are refused. `()`-like: an empty struct.
    type Config: DeserializeOwned;

    /// The columns that [`Table::document`] reads, where they do not depend on the configuration.
    const READS: &'static [&'static str] = &[];

    /// The columns that [`Table::document`] reads. Nothing else of a row reaches the plugin, and a change elsewhere in the
    /// row costs nothing. The least is best.
    fn reads(_config: &Self::Config) -> Vec<String> {
        Self::READS.iter().map(|&name| name.to_owned()).collect()
    }

    /// All metadata keys that a document may have: at most 47, of them 9 not filterable, none beginning with `_`.
    fn metadata(config: &Self::Config) -> Vec<MetadataKey>;

    /// Looks at the table's columns and resolves those that are read.
    ///
    /// # Errors
    /// A sentence for the operator: this is the wrong table.
    fn open(config: Self::Config, columns: &Columns) -> Result<Self, String>;

    /// The row's document, or `None` if the row is filtered out. A blank text has no vector either.
    ///
    /// # Errors
    /// The reason why this row cannot be rendered. It becomes a dead letter; the rows beside it go on.
    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String>;
}

/// What is embedded for a row, and what stands beside its vector.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// What is embedded. Nothing but white space and format characters: no vector.
    pub text: String,
    /// What queries filter by and show.
    pub metadata: Metadata,
}

#[doc(hidden)]
pub struct Opened<T> {
    table: T,
    columns: usize,
}

#[doc(hidden)]
pub fn describe<T: Table>(config: &str) -> Result<wit::TableInfo, String> {
    crate::log::panics_to_log();
    let config: T::Config = crate::config::parse(config)?;
    let metadata = T::metadata(&config);
    check_declaration(&metadata)?;
    let reads = T::reads(&config);
    if let Some(twice) = reads.iter().enumerate().find(|(at, name)| reads[..*at].contains(name)) {
        return Err(format!("column `{}` is read twice", twice.1));
    }
    Ok(wit::TableInfo { reads, metadata })
}

#[doc(hidden)]
pub fn open<T: Table>(config: &str, columns: Vec<wit::Column>) -> Result<Opened<T>, String> {
    crate::log::panics_to_log();
    let config: T::Config = crate::config::parse(config)?;
    let reads = T::reads(&config);
    if !columns.iter().map(|column| &column.name).eq(&reads) {
        let given: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        return Err(format!(
            "the plugin reads [{}], the table gave [{}]",
            reads.join(", "),
            given.join(", ")
        ));
    }
    let columns = columns.into_iter().map(|column| {
        let cql_type = column
            .cql_type
            .parse()
            .map_err(|cause| format!("column `{}`: type `{}`: {cause}", column.name, column.cql_type))?;
        Ok(ColumnInfo { name: column.name, cql_type, kind: column.kind })
    });
    let columns = Columns::new(columns.collect::<Result<_, String>>()?);
    Ok(Opened { table: T::open(config, &columns)?, columns: columns.len() })
}

/// # Panics
/// Where the host breaks its side of the contract: the cells are not `rows` rows of the columns read.
#[doc(hidden)]
pub fn render<T: Table>(opened: &Opened<T>, rows: u32, cells: &[u8]) -> wit::Documents {
    let mut states = Vec::with_capacity(rows as usize);
    // Most of a document's text stands in its cells, so their size is a close bound, and one allocation serves the batch.
    let mut texts = Packer::with_capacity(rows, cells.len());
    let mut metadata = Packer::with_capacity(rows, cells.len() / 2);
    let mut spans = vec![None; opened.columns];
    let mut at = 0;
    for row in 0..rows {
        at = match split_row(cells, at, &mut spans) {
            Ok(at) => at,
            Err(cause) => panic!("the host sent broken cells: row {row} of {rows}: {cause}"),
        };
        let document = opened.table.document(&Row::new(cells, &spans));
        states.push(pack(document, &mut texts, &mut metadata));
    }
    assert!(at == cells.len(), "the host sent {} bytes more than {rows} rows", cells.len() - at);
    wit::Documents { states, texts: texts.0, metadata: metadata.0 }
}

fn pack(
    document: Result<Option<Document>, String>,
    texts: &mut Packer,
    metadata: &mut Packer,
) -> wit::RowState {
    let written = document.and_then(|document| match document {
        Some(document) => document.metadata.write_to(&mut metadata.0.data).map(|()| Some(document.text)),
        None => Ok(None),
    });
    let (state, text) = match &written {
        Ok(Some(text)) => (wit::RowState::Document, text.as_str()),
        Ok(None) => (wit::RowState::Skipped, ""),
        Err(reason) => (wit::RowState::Failed, reason.as_str()),
    };
    texts.0.data.extend_from_slice(text.as_bytes());
    texts.end();
    metadata.end();
    state
}

/// Byte strings end to end, as they cross the boundary.
struct Packer(Packed);

impl Packer {
    fn with_capacity(rows: u32, bytes: usize) -> Self {
        Self(Packed { data: Vec::with_capacity(bytes), ends: Vec::with_capacity(rows as usize) })
    }

    fn end(&mut self) {
        // The component's memory is 32 bits wide.
        self.0.ends.push(self.0.data.len() as u32);
    }
}
