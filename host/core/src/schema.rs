//! A table's schema: names, types and roles of its columns.

use keyvector_cql::CqlType;

/// What part a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A table's columns: partition key in its order, then clustering key in its order, then the others by name.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    pub keyspace: String,
    pub table: String,
    pub columns: Vec<Column>,
}
