//! What a stored vector was made from: one short text beside it.

use crate::change::SequenceNumber;
use crate::document::{Metadata, MetadataValue};

/// The number of this format. The embedded store's own format number stands for it; elsewhere a vector whose fingerprint
/// has another number is made anew.
pub const FINGERPRINT_FORMAT: u32 = 1;

/// The fingerprint's durable text is at most this long.
pub const FINGERPRINT_BYTES_MAX: usize = 128;

/// Hashes of all that a vector was made from, and where its change stood in the stream. Two equal hashes mean equal
/// input: the hashes are the leading bits of BLAKE3 (128 for texts, 64 for the rest).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub model: u64,
    pub text: u128,
    pub metadata: u64,
    pub shard: u32,
    pub sequence_number: SequenceNumber,
}

impl Fingerprint {
    /// `1.<model>.<text>.<metadata>.<shard>.<sequence number>`, hexadecimal but for the last.
    pub fn to_text(&self) -> String {
        format!(
            "{FINGERPRINT_FORMAT}.{:016x}.{:032x}.{:016x}.{:08x}.{}",
            self.model,
            self.text,
            self.metadata,
            self.shard,
            short(self.sequence_number.as_str())
        )
    }

    /// Reads [`Self::to_text`], and no other spelling of it. `None`: not one of ours, or of another format.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        if parts.next()? != FINGERPRINT_FORMAT.to_string() {
            return None;
        }
        let fingerprint = Self {
            model: u64::from_str_radix(hex(parts.next()?, 16)?, 16).ok()?,
            text: u128::from_str_radix(hex(parts.next()?, 32)?, 16).ok()?,
            metadata: u64::from_str_radix(hex(parts.next()?, 16)?, 16).ok()?,
            shard: u32::from_str_radix(hex(parts.next()?, 8)?, 16).ok()?,
            sequence_number: SequenceNumber::new(parts.next().filter(|digits| short(digits) == *digits)?)?,
        };
        parts.next().is_none().then_some(fingerprint)
    }
}

/// `from_str_radix` alone would take a plus sign, capitals and any number of digits.
fn hex(digits: &str, count: usize) -> Option<&str> {
    let ours = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digits.len() == count && digits.bytes().all(ours)).then_some(digits)
}

/// Sequence numbers are 21 to 48 digits with leading zeros; without those, the fingerprint always fits.
fn short(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    }
}

pub fn hash_text(text: &str) -> u128 {
    let hash = blake3::hash(text.as_bytes());
    u128::from_be_bytes(leading(&hash))
}

/// Hash of a model identity, a shard id, a plugin's digest.
pub fn hash_name(name: &str) -> u64 {
    u64::from_be_bytes(leading(&blake3::hash(name.as_bytes())))
}

pub fn hash_shard(shard_id: &str) -> u32 {
    u32::from_be_bytes(leading(&blake3::hash(shard_id.as_bytes())))
}

/// By value: keys sorted, each value with its type, so that no two different metadata spell the same bytes.
pub fn hash_metadata(metadata: &Metadata) -> u64 {
    let mut hasher = blake3::Hasher::new();
    let mut put = |tag: u8, bytes: &[u8]| {
        hasher.update(&[tag]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for (name, value) in &metadata.0 {
        put(b'k', name.as_bytes());
        match value {
            MetadataValue::Text(text) => put(b't', text.as_bytes()),
            MetadataValue::Number(number) => put(b'n', &number_bytes(*number)),
            MetadataValue::Boolean(flag) => put(b'b', &[u8::from(*flag)]),
            MetadataValue::TextList(texts) => {
                put(b'T', &(texts.len() as u64).to_le_bytes());
                texts.iter().for_each(|text| put(b't', text.as_bytes()));
            }
            MetadataValue::NumberList(numbers) => {
                put(b'N', &(numbers.len() as u64).to_le_bytes());
                numbers.iter().for_each(|number| put(b'n', &number_bytes(*number)));
            }
        }
    }
    u64::from_be_bytes(leading(&hasher.finalize()))
}

/// −0 and 0 are one number.
fn number_bytes(number: f64) -> [u8; 8] {
    (if number == 0.0 { 0.0 } else { number }).to_le_bytes()
}

fn leading<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&hash.as_bytes()[..N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_fits() {
        let fingerprint = Fingerprint {
            model: u64::MAX,
            text: u128::MAX,
            metadata: u64::MAX,
            shard: u32::MAX,
            sequence_number: SequenceNumber::new(&"9".repeat(48)).unwrap(),
        };
        let text = fingerprint.to_text();
        assert!(text.len() <= FINGERPRINT_BYTES_MAX, "{} bytes", text.len());
        assert_eq!(Fingerprint::parse(&text), Some(fingerprint));
        assert_eq!(Fingerprint::parse(&text.replacen("1.", "2.", 1)), None);
        assert_eq!(Fingerprint::parse(&format!("{text}.1")), None);
        assert_eq!(Fingerprint::parse(""), None);
    }

    #[test]
    fn metadata_hashes_by_value() {
        let with = |name: &str, value| Metadata([(name.into(), value)].into());
        let text = |text: &str| MetadataValue::Text(text.to_owned());
        assert_ne!(hash_metadata(&with("a", text("bc"))), hash_metadata(&with("ab", text("c"))));
        assert_ne!(
            hash_metadata(&with("a", text("1"))),
            hash_metadata(&with("a", MetadataValue::Number(1.0)))
        );
        let list = |texts: &[&str]| MetadataValue::TextList(texts.iter().map(|&t| t.to_owned()).collect());
        assert_ne!(hash_metadata(&with("a", list(&["x", "y"]))), hash_metadata(&with("a", list(&["xy"]))));
        assert_eq!(
            hash_metadata(&with("a", MetadataValue::Number(-0.0))),
            hash_metadata(&with("a", MetadataValue::Number(0.0)))
        );
    }
}
