//! Dead letters: the durable trace of a row that was set aside.

use crate::change::SequenceNumber;
use crate::document::FailureClass;
use crate::key::RowKey;

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
    /// Scrubbed, at most 1 KiB, control characters escaped.
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

/// A reason fit to be stored and shown: control characters escaped, at most [`REASON_BYTES_MAX`] bytes, cut at a
/// character boundary.
pub fn scrub_reason(reason: &str) -> String {
    let mut out = String::with_capacity(reason.len().min(REASON_BYTES_MAX));
    for character in reason.chars() {
        let before = out.len();
        if character.is_control() || is_invisible(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
        if out.len() > REASON_BYTES_MAX - '…'.len_utf8() {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// Characters that could turn or hide text on a terminal.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_escaped_and_cut_at_a_character() {
        assert_eq!(scrub_reason("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(scrub_reason("\u{202e}x"), "\\u{202e}x");
        let long = scrub_reason(&"語".repeat(1000));
        assert!(long.len() <= REASON_BYTES_MAX && long.ends_with("語…"));
    }
}
