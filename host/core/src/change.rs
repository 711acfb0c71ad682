//! One change of one row, as a stream tells it.

use std::cmp::Ordering;
use std::fmt;

use crate::key::RowKey;
use crate::row::Row;

/// Orders records within one shard, and says nothing across shards. Decimal digits of any length (the services write
/// 21 to 48 of them), compared as numbers, never as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SequenceNumber(String);

impl SequenceNumber {
    /// Takes the service's digits. `None` where there is anything but ASCII digits, or nothing.
    pub fn new(digits: &str) -> Option<Self> {
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| Self(digits.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn significant(&self) -> &str {
        self.0.trim_start_matches('0')
    }
}

impl From<u64> for SequenceNumber {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl Ord for SequenceNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (self.significant(), other.significant());
        mine.len()
            .cmp(&theirs.len())
            .then_with(|| mine.cmp(theirs))
            .then_with(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client's statement.
    User,
    /// Expiry of a row or of single cells: with an after image it is an update.
    Ttl,
    /// A write made in another Region.
    Replication,
}

/// What a stream's records carry; fixed when the stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ViewType {
    #[default]
    NewAndOldImages,
    NewImage,
    OldImage,
    KeysOnly,
}

impl ViewType {
    /// The service's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NewAndOldImages => "NEW_AND_OLD_IMAGES",
            Self::NewImage => "NEW_IMAGE",
            Self::OldImage => "OLD_IMAGE",
            Self::KeysOnly => "KEYS_ONLY",
        }
    }
}

/// A row's state before a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    /// The record says nothing of it (the view gives no before image).
    Unknown,
    /// There was no row.
    Absent,
    Row(Row),
}

/// One change of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub key: RowKey,
    pub sequence_number: SequenceNumber,
    /// When the service says the change was made, milliseconds since 1970.
    pub created_at_ms: Option<i64>,
    pub origin: Origin,
    pub before: Before,
    /// `None`: the row is gone.
    pub after: Option<Row>,
}

/// A change that names a partition, or a range of it, but no row: a static column was written, or many rows were
/// deleted at once. It means "this partition changed".
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionChange {
    /// The canonical partition part of the row keys concerned (see [`crate::key`]).
    pub partition: String,
    pub sequence_number: SequenceNumber,
    pub created_at_ms: Option<i64>,
    /// Only static cells changed; otherwise rows may be gone.
    pub static_only: bool,
    /// The partition's static cells after the change; `None`: none are left, or the record does not tell.
    pub statics: Option<Row>,
}
