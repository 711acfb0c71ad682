//! A table's schema: names, types and roles of its columns.

use std::fmt;

use keyvector_cql::{CqlType, quote_if_needed};

mod parse;

pub use parse::SchemaError;

/// What part a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    PartitionKey,
    ClusteringKey,
    Static,
    Regular,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub cql_type: CqlType,
    pub kind: ColumnKind,
}

/// A table's columns: partition key in its order, then clustering key in its order, then the others by name. Made by
/// [`TableSchema::new`] or [`TableSchema::parse_cql`].
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    pub keyspace: String,
    pub table: String,
    pub columns: Vec<Column>,
    partition_columns: usize,
    key_columns: usize,
    /// Whether each clustering column is sorted in descending order.
    clustering_descending: Vec<bool>,
    /// The key's columns sorted by name, as a row key needs them.
    pub(crate) key_parts: Box<[KeyPart]>,
}

/// One column's place in a row key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyPart {
    /// The column's index in [`TableSchema::columns`].
    pub(crate) column: usize,
    /// `name=`, percent-encoded.
    pub(crate) prefix: String,
    pub(crate) in_partition: bool,
}

impl TableSchema {
    /// Takes the columns in any order, but those of a key in the key's.
    ///
    /// # Errors
    /// No partition key, a name that comes twice, a key column of a type that no key can have, a static column
    /// without a clustering key.
    pub fn new(
        keyspace: impl Into<String>,
        table: impl Into<String>,
        mut columns: Vec<Column>,
    ) -> Result<Self, SchemaError> {
        columns.sort_by(|one, other| {
            // A stable sort leaves key columns in the key's order.
            let is_key = |column: &Column| column.kind <= ColumnKind::ClusteringKey;
            let by_kind = (if is_key(one) { one.kind } else { ColumnKind::Regular }).cmp(&if is_key(other) {
                other.kind
            } else {
                ColumnKind::Regular
            });
            by_kind
                .then_with(|| if is_key(one) { std::cmp::Ordering::Equal } else { one.name.cmp(&other.name) })
        });
        let count = |kind| columns.iter().filter(|column| column.kind == kind).count();
        let partition_columns = count(ColumnKind::PartitionKey);
        let clustering_columns = count(ColumnKind::ClusteringKey);
        let key_columns = partition_columns + clustering_columns;
        if partition_columns == 0 {
            return Err(SchemaError::new(None, "the table has no PRIMARY KEY"));
        }
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SchemaError::new(None, format!("column {} comes twice", quote_identifier(twice[0]))));
        }
        if let Some(column) = columns[..key_columns].iter().find(|column| !may_be_key(&column.cql_type)) {
            let name = quote_identifier(&column.name);
            let message =
                format!("column {name} is in the PRIMARY KEY, which cannot hold a {}", column.cql_type);
            return Err(SchemaError::new(None, message));
        }
        if let Some(column) = columns.iter().find(|column| column.kind == ColumnKind::Static)
            && clustering_columns == 0
        {
            let name = quote_identifier(&column.name);
            return Err(SchemaError::new(
                None,
                format!("column {name} is STATIC, but the table has no clustering key"),
            ));
        }
        let mut key_parts: Box<[KeyPart]> = columns[..key_columns]
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let mut prefix = String::new();
                crate::key::percent_encode(&column.name, &mut prefix);
                prefix.push('=');
                KeyPart { column: index, prefix, in_partition: index < partition_columns }
            })
            .collect();
        key_parts.sort_by(|one, other| columns[one.column].name.cmp(&columns[other.column].name));
        Ok(Self {
            keyspace: keyspace.into(),
            table: table.into(),
            columns,
            partition_columns,
            key_columns,
            clustering_descending: vec![false; clustering_columns],
            key_parts,
        })
    }

    /// Reads a `table.cql`: `CREATE KEYSPACE`, `USE`, any number of `CREATE TYPE` before their use, one
    /// `CREATE TABLE`, comments. Secondary indexes, views and functions are passed over.
    ///
    /// # Errors
    /// What cannot be read, with its line and what to do.
    pub fn parse_cql(text: &str) -> Result<Self, SchemaError> {
        parse::parse_cql(text)
    }

    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The partition key in its order; these are the first of [`Self::columns`].
    pub fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_columns]
    }

    /// The clustering key in its order; these follow the partition key in [`Self::columns`].
    pub fn clustering_key(&self) -> &[Column] {
        &self.columns[self.partition_columns..self.key_columns]
    }

    /// Partition key and clustering key: column `i` of it is column `i` of [`Self::columns`].
    pub fn key_columns(&self) -> &[Column] {
        &self.columns[..self.key_columns]
    }

    /// For each clustering column, whether it is sorted in descending order.
    pub fn clustering_descending(&self) -> &[bool] {
        &self.clustering_descending
    }

    /// The key in one line: `demo.films(movie_id int; studio text)`, the partition key before the semicolon.
    pub fn describe_key(&self) -> String {
        let list = |columns: &[Column]| {
            let columns: Vec<String> = columns
                .iter()
                .map(|column| format!("{} {}", quote_if_needed(&column.name), column.cql_type))
                .collect();
            columns.join(", ")
        };
        let mut text = format!("{self}({}", list(self.partition_key()));
        if !self.clustering_key().is_empty() {
            text.push_str("; ");
            text.push_str(&list(self.clustering_key()));
        }
        text.push(')');
        text
    }
}

/// `keyspace.table`, quoted where CQL needs it.
impl fmt::Display for TableSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quote_if_needed(&self.keyspace), quote_if_needed(&self.table))
    }
}

/// A name as CQL takes it whatever it holds: always quoted, so that case and reserved words never matter.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The server takes no counters and no durations in a key, however deep inside a frozen type.
fn may_be_key(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Counter | CqlType::Duration | CqlType::Custom(_) => false,
        CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => may_be_key(element),
        CqlType::Map(key, value) => may_be_key(key) && may_be_key(value),
        CqlType::Tuple(fields) => fields.iter().all(may_be_key),
        CqlType::Udt(fields) => fields.iter().all(|(_, field)| may_be_key(field)),
        _ => true,
    }
}
