//! Keyspaces' records in their JSON form, read against a table's schema.

use crate::change::{Change, PartitionChange};
use crate::document::FailureClass;
use crate::key::RowKey;

/// One record of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// It names a row.
    Row(Change),
    /// It names a partition or a range of it.
    Partition(PartitionChange),
}

/// A record that cannot be used, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRecord {
    pub class: FailureClass,
    /// Where the record names a row all the same.
    pub key: Option<RowKey>,
    pub reason: String,
}
