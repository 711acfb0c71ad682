//! How far a file has been read, as the durable text in a lease, and how to know the file again.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use keyvector_core::change::SequenceNumber;
use keyvector_core::port;

/// The number of the position's text form. Another one is refused with both numbers.
pub const POSITION_FORMAT: u32 = 1;

/// What stands between the numbers of two generations. No file is longer.
const GENERATION_STEP: u128 = 1_000_000_000_000_000_000;

/// How much of the beginning, and of what lies before the offset, makes a file known again.
const MARK_BYTES: u64 = 1024;

/// A file, however it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A position, durable as
/// `file:1:<generation>:<offset>:<line>:<device>-<inode>:<mark>`.
///
/// | field | is |
/// |---|---|
/// | generation | how many files came before this one; jumps where data was lost |
/// | offset | bytes of the file that are done, up to the end of a line |
/// | line | lines that are done, blank ones counted |
/// | device, inode | the file, decimal |
/// | mark | hash of the file's beginning and of what lies before the offset, 16 hex digits |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) generation: u64,
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) id: FileId,
    pub(super) mark: String,
}

impl Position {
    pub(super) fn to_text(&self) -> String {
        let Self { generation, offset, line, id, mark } = self;
        format!("file:{POSITION_FORMAT}:{generation}:{offset}:{line}:{}-{}:{mark}", id.device, id.inode)
    }

    /// # Errors
    /// `Fatal` for a text of another format or of another source.
    pub(super) fn parse(text: &str) -> port::Result<Self> {
        let foreign = || {
            port::Error::Fatal(format!(
                "the checkpoint {text:?} is no position in a file (file:{POSITION_FORMAT}:…): \
                 does the lease belong to another source?"
            ))
        };
        let rest = text.strip_prefix("file:").ok_or_else(foreign)?;
        let (format, rest) = rest.split_once(':').ok_or_else(foreign)?;
        let format = number(format).ok_or_else(foreign)?;
        if format != u64::from(POSITION_FORMAT) {
            return Err(port::Error::Fatal(format!(
                "the checkpoint {text:?} has position format {format}, this host knows format \
                 {POSITION_FORMAT}: run the host that wrote it, or a newer one"
            )));
        }
        let fields: Vec<&str> = rest.split(':').collect();
        let &[generation, offset, line, id, mark] = fields.as_slice() else {
            return Err(foreign());
        };
        let (device, inode) = id.split_once('-').ok_or_else(foreign)?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if mark.len() != 16 || !mark.bytes().all(hex) {
            return Err(foreign());
        }
        Ok(Self {
            generation: number(generation).ok_or_else(foreign)?,
            offset: number(offset).ok_or_else(foreign)?,
            line: number(line).ok_or_else(foreign)?,
            id: FileId {
                device: number(device).ok_or_else(foreign)?,
                inode: number(inode).ok_or_else(foreign)?,
            },
            mark: mark.to_owned(),
        })
    }
}

/// Plain decimal digits only: `str::parse` would take a plus sign.
fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// The sequence number of the line that ends at byte `end` of the `generation`-th file. Rises over the shard's files,
/// and is the same whenever the line is read again.
pub(super) fn sequence_number(generation: u64, end: u64) -> SequenceNumber {
    let number = u128::from(generation) * GENERATION_STEP + u128::from(end);
    SequenceNumber::new(&number.to_string()).expect("a number is printed as decimal digits")
}

/// The first and the last bytes of what was read: enough to know the file again under another name or inode, and to
/// see that its content was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Mark {
    /// Takes the bytes that follow what was taken before.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let kept = MARK_BYTES as usize;
        let missing = kept.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(kept)..]);
        let over = self.tail.len().saturating_sub(kept);
        self.tail.drain(..over);
    }

    /// The mark that a file has at this offset; `None` where the file is shorter.
    pub(super) fn read(file: &File, offset: u64) -> io::Result<Option<Self>> {
        let length = offset.min(MARK_BYTES);
        let mut mark = Self { head: vec![0; length as usize], tail: vec![0; length as usize] };
        for (bytes, at) in [(&mut mark.head, 0), (&mut mark.tail, offset - length)] {
            match file.read_exact_at(bytes, at) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(mark))
    }

    pub(super) fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.head.len() as u64).to_le_bytes()).update(&self.head).update(&self.tail);
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn position() -> Position {
        Position {
            generation: 3,
            offset: 1234,
            line: 17,
            id: FileId { device: 65025, inode: u64::MAX },
            mark: "0123456789abcdef".into(),
        }
    }

    #[test]
    fn a_position_reads_back() {
        let text = position().to_text();
        assert_eq!(text, "file:1:3:1234:17:65025-18446744073709551615:0123456789abcdef");
        assert_eq!(Position::parse(&text).unwrap(), position());
    }

    #[test]
    fn another_format_is_refused_with_both_numbers() {
        let message = Position::parse("file:2:what:ever").unwrap_err().to_string();
        assert!(message.contains("format 2") && message.contains("format 1"), "{message}");
    }

    #[test]
    fn other_texts_are_no_positions() {
        let good = position().to_text();
        for text in [
            "",
            "file",
            "file:",
            "file:1",
            "file:1:",
            "file:x:1",
            "49590338271490256608559692538361571095921575989136588898",
        ] {
            assert!(Position::parse(text).is_err(), "{text}");
        }
        for (from, to) in [
            (":3:", ":+3:"),
            (":3:", "::"),
            (":17:", ":-17:"),
            ("65025-", "65025"),
            ("abcdef", "ABCDEF"),
            ("abcdef", "abcde"),
            (":17:", ":99999999999999999999:"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            assert!(Position::parse(&text).is_err(), "{text}");
        }
        assert!(Position::parse(&format!("{good}:more")).is_err());
    }

    #[test]
    fn sequence_numbers_rise_over_generations() {
        let numbers = [(0, 0), (0, 1), (0, u64::pow(10, 18) - 1), (1, 0), (1, 5), (2, 4), (u64::MAX, 4)];
        assert!(numbers.map(|(g, e)| sequence_number(g, e)).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_mark_fed_in_pieces_is_the_mark_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..5000u32).map(|n| (n % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        for offset in [0, 1, 700, 1024, 1025, 2047, 2048, 2049, 5000] {
            for piece in [1, 7, 1023, 1024, 1025, 5000] {
                let mut mark = Mark::default();
                bytes[..offset].chunks(piece).for_each(|piece| mark.feed(piece));
                assert_eq!(
                    Mark::read(&file, offset as u64).unwrap(),
                    Some(mark),
                    "{offset} in pieces of {piece}"
                );
            }
        }
        assert_eq!(Mark::read(&file, 5001).unwrap(), None);
    }
}
