//! Row keys: one text per row, from whichever door it came in by.

use std::fmt;

/// A row's whole primary key as text: columns sorted by name, `name=value` joined by `&`, percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(String);

impl RowKey {
    /// Takes a text that an index or a store gives back.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
