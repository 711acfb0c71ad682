//! Dead letters: the durable trace of a row that was set aside.

use crate::change::SequenceNumber;
use crate::document::FailureClass;
use crate::key::RowKey;
use crate::text;

/// A letter as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    pub table: String,
    /// `None` where the record could not be read far enough to name a row.
    pub key: Option<RowKey>,
    pub shard_id: String,
    pub sequence_number: SequenceNumber,
    /// Where in the source, for people: `films.jsonl line 137`.
    pub place: String,
    pub class: FailureClass,
    /// One line of at most 1 KiB; see [`scrub_reason`].
    pub reason: String,
    pub attempts: u32,
    pub created_at_ms: i64,
    pub host_version: String,
    pub plugin_digest: String,
    /// The row's after image (or the unreadable line), at most [`IMAGE_BYTES_MAX`]; kept only where no table can be
    /// read.
    pub image: Option<Vec<u8>>,
    pub image_cut: bool,
}

/// Above this an image is cut, and the letter says so.
pub const IMAGE_BYTES_MAX: usize = 350 * 1024;

/// Above this a reason is cut at a character boundary.
pub const REASON_BYTES_MAX: usize = 1024;

/// A letter as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLetter {
    pub id: u64,
    pub letter: Letter,
}

/// Which letters to list. Empty: all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LetterFilter {
    pub table: Option<String>,
    pub class: Option<FailureClass>,
    /// Milliseconds since 1970, inclusive.
    pub since_ms: Option<i64>,
    /// Milliseconds since 1970, exclusive.
    pub until_ms: Option<i64>,
}

/// A reason fit to be stored and shown: one line of at most [`REASON_BYTES_MAX`] bytes, in which nothing acts. A longer one
/// loses its middle: what happened stands at the beginning, and what a guest said last (a traceback's own message) at the
/// end.
pub fn scrub_reason(reason: &str) -> String {
    text::one_line_of_both_ends(reason, REASON_BYTES_MAX)
}
