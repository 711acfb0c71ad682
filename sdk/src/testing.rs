//! Tests of a table plugin, native and without a host: rows in, documents out, by the way the host takes.

use keyvector_cql::CqlType;
use serde_json::Value;

use crate::bindings::table::exports::keyvector::plugin::table as wit;
use crate::bindings::table::keyvector::plugin::types::Packed;
use crate::metadata::{MetadataKey, MetadataType};
use crate::model::{Embeddings, LocalModel, ModelInfo, Purpose, Texts, open_local};
use crate::table::{Opened, Table, describe, open, render};

/// What the plugin said of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Rendered {
    /// `metadata` is an object, empty where the plugin gave none.
    Document {
        /// What is embedded.
        text: String,
        /// As the host reads it.
        metadata: Value,
    },
    /// Filtered out.
    Skipped,
    /// Refused, and why.
    Failed(String),
}

impl Rendered {
    /// A document, with its metadata as JSON.
    ///
    /// # Panics
    /// Where `metadata` is no JSON.
    pub fn document(text: &str, metadata: &str) -> Self {
        let metadata =
            serde_json::from_str(metadata).unwrap_or_else(|cause| panic!("metadata {metadata}: {cause}"));
        Self::Document { text: text.to_owned(), metadata }
    }

    /// A refused row with its whole reason.
    pub fn failed(reason: &str) -> Self {
        Self::Failed(reason.to_owned())
    }
}

/// A row by column name; columns left out are null. Values are written as canonical text: `1994`, `true`,
/// `["heist","night"]` for a set of texts.
pub type TestRow<'a> = &'a [(&'a str, &'a str)];

/// Opens the plugin on a table with these columns (name and CQL type), renders the rows as one batch, and compares.
///
/// # Panics
/// Where an answer differs from the expected one, names the row and both; where the plugin refuses configuration or
/// table; and where the answer breaks the contract (metadata undeclared, of another type, twice).
pub fn test<T: Table>(config: &str, columns: &[(&str, &str)], cases: &[(TestRow<'_>, Rendered)]) {
    let table = TestTable::<T>::open(config, columns).unwrap_or_else(|cause| panic!("{cause}"));
    let rows: Vec<_> = cases.iter().map(|(row, _)| *row).collect();
    for (given, (row, expected)) in table.render(&rows).iter().zip(cases) {
        assert!(given == expected, "row {row:?}\n   gave {given:?}\nwanted {expected:?}");
    }
}

/// A plugin opened on a table, for tests that [`test()`] is too narrow for.
pub struct TestTable<T> {
    opened: Opened<T>,
    reads: Vec<(String, CqlType)>,
    metadata: Vec<MetadataKey>,
}

impl<T: Table> TestTable<T> {
    /// Asks the plugin what it reads and opens it on those columns, as the host does.
    ///
    /// # Errors
    /// What the plugin, or the host before it, says to the operator.
    pub fn open(config: &str, columns: &[(&str, &str)]) -> Result<Self, String> {
        let info = describe::<T>(config)?;
        let mut reads = Vec::new();
        let mut given = Vec::new();
        for name in info.reads {
            let Some((_, cql_type)) = columns.iter().find(|(column, _)| *column == name) else {
                return Err(format!("column `{name}`: the table has none of that name"));
            };
            let parsed: CqlType = cql_type.parse().map_err(|cause| format!("type `{cql_type}`: {cause}"))?;
            let kind = wit::ColumnKind::Regular;
            given.push(wit::Column { name: name.clone(), cql_type: parsed.to_string(), kind });
            reads.push((name, parsed));
        }
        Ok(Self { opened: open::<T>(config, given)?, reads, metadata: info.metadata })
    }

    /// Renders the rows as one batch.
    ///
    /// # Panics
    /// Where the answer breaks the contract, or a row names a column or value that cannot be.
    pub fn render(&self, rows: &[TestRow<'_>]) -> Vec<Rendered> {
        let mut cells = Vec::new();
        for row in rows {
            for (name, cql_type) in &self.reads {
                match row.iter().find(|(column, _)| column == name) {
                    None => cells.extend((-1i32).to_be_bytes()),
                    Some((_, text)) => {
                        let bytes = keyvector_cql::parse_canonical(cql_type, text)
                            .unwrap_or_else(|cause| panic!("column `{name}`, `{text}`: {cause}"));
                        cells.extend(i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes());
                        cells.extend(bytes);
                    }
                }
            }
        }
        self.render_cells(u32::try_from(rows.len()).unwrap_or(u32::MAX), &cells)
    }

    /// Renders rows that are given as the host gives them: cell after cell an i32 big-endian length, then the bytes.
    ///
    /// # Panics
    /// Where the answer breaks the contract, or the cells are not `rows` rows.
    pub fn render_cells(&self, rows: u32, cells: &[u8]) -> Vec<Rendered> {
        let documents = render(&self.opened, rows, cells);
        let texts = unpack(&documents.texts);
        let metadata = unpack(&documents.metadata);
        let count = documents.states.len();
        assert!(
            count == rows as usize && texts.len() == count && metadata.len() == count,
            "{rows} rows gave {count} states, {} texts and {} metadata",
            texts.len(),
            metadata.len()
        );
        let entries = documents.states.iter().zip(texts).zip(metadata);
        entries
            .map(|((state, text), metadata)| {
                let text =
                    String::from_utf8(text.to_vec()).unwrap_or_else(|cause| panic!("a text is {cause}"));
                match state {
                    wit::RowState::Document => Rendered::Document { text, metadata: self.check(metadata) },
                    wit::RowState::Skipped => Rendered::Skipped,
                    wit::RowState::Failed => Rendered::Failed(text),
                }
            })
            .collect()
    }

    /// Reads one row's metadata and holds it against the declaration, as the host would.
    fn check(&self, json: &[u8]) -> Value {
        if json.is_empty() {
            return Value::Object(serde_json::Map::new());
        }
        let words = String::from_utf8_lossy(json);
        let value: Value =
            serde_json::from_slice(json).unwrap_or_else(|cause| panic!("metadata {words}: {cause}"));
        let Value::Object(members) = &value else { panic!("metadata {words} is no object") };
        let mut written = 0;
        for (name, member) in members {
            let Some(key) = self.metadata.iter().find(|key| key.name == *name) else {
                panic!("metadata `{name}` is not declared")
            };
            let all = |of: fn(&Value) -> bool| member.as_array().is_some_and(|items| items.iter().all(of));
            let fits = match key.value_type {
                MetadataType::Text => member.is_string(),
                MetadataType::Number => member.is_number(),
                MetadataType::Boolean => member.is_boolean(),
                MetadataType::TextList => all(Value::is_string),
                MetadataType::NumberList => all(Value::is_number),
            };
            assert!(fits, "metadata `{name}`: {member} is no {:?}", key.value_type);
            written += serde_json::to_string(name).map_or(0, |name| name.len()) + 1 + 1;
            written += serde_json::to_string(member).map_or(0, |member| member.len());
        }
        // A key given twice is lost in `value`, but not in the length of what was written.
        assert!(words.len() == written + 1, "metadata {words} names a key twice");
        value
    }
}

fn unpack(packed: &Packed) -> Vec<&[u8]> {
    let mut start = 0;
    let items = packed.ends.iter().map(|&end| {
        let item = &packed.data[start..end as usize];
        start = end as usize;
        item
    });
    let items = items.collect();
    assert!(start == packed.data.len(), "{} bytes follow the last end", packed.data.len() - start);
    items
}

/// A local model opened as the host opens it.
pub struct TestModel<M> {
    model: M,
    /// What the model said of itself.
    pub info: ModelInfo,
}

impl<M: LocalModel> TestModel<M> {
    /// # Errors
    /// What the model says to the operator.
    pub fn open(config: &str) -> Result<Self, String> {
        let (model, info) = open_local(config)?;
        Ok(Self { model, info })
    }

    /// Embeds the texts in one call. The answer is not checked: a test may want a wrong one.
    pub fn embed(&self, texts: &[&str], purpose: Purpose) -> Embeddings {
        let mut packed = Packed { data: Vec::new(), ends: Vec::new() };
        for text in texts {
            packed.data.extend_from_slice(text.as_bytes());
            packed.ends.push(u32::try_from(packed.data.len()).unwrap_or(u32::MAX));
        }
        self.model.embed(Texts::new(&packed), purpose)
    }
}
