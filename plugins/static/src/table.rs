//! Reading the table and embedding by it: the rules of `data/FORMAT.md`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The table of piece vectors and its list of pieces.
pub(crate) struct Table<'a> {
    dimension: usize,
    pieces_max: usize,
    word_characters_max: usize,
    /// Pieces that begin a word, and pieces that go on within one, to their row.
    first: Pieces<'a>,
    rest: Pieces<'a>,
    ascii: [Class; 128],
    /// The other known characters, sorted.
    other: Vec<(char, Class)>,
    scales: Vec<f32>,
    rows: &'a [u8],
    vocabulary_sum: u64,
    rows_sum: u64,
}

type Pieces<'a> = HashMap<&'a str, u32, BuildHasherDefault<PieceHash>>;

/// Eight bytes at a time, multiply and rotate: the pieces are ours, so no adversary picks them.
#[derive(Default)]
pub(crate) struct PieceHash(u64);

impl Hasher for PieceHash {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Separator,
    Single,
    Letter,
}

/// Punctuation outside ASCII that is a word of its own.
const SINGLES: [u32; 60] = [
    0x00A1, 0x00A7, 0x00AB, 0x00B6, 0x00B7, 0x00BB, 0x00BF, 0x05BE, 0x060C, 0x0964, 0x0965, 0x0F0B, 0x0F0D,
    0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2016, 0x2018, 0x2019, 0x201A, 0x201C, 0x201D, 0x201E,
    0x2020, 0x2021, 0x2022, 0x2026, 0x2030, 0x2032, 0x2033, 0x203A, 0x203F, 0x208D, 0x208E, 0x27E8, 0x27E9,
    0x3001, 0x3002, 0x3008, 0x3009, 0x300A, 0x300B, 0x300C, 0x300D, 0x300E, 0x300F, 0x301C, 0x30FB, 0xFF01,
    0xFF08, 0xFF09, 0xFF0C, 0xFF0D, 0xFF0E, 0xFF0F, 0xFF1A, 0xFF1F,
];

const HEADER_BYTES: usize = 64;

pub(crate) fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn is_cjk(character: char) -> bool {
    matches!(character as u32, 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F)
}

fn is_ignored(character: char) -> bool {
    matches!(character as u32, 0..=8 | 0x0E..=0x1F | 0x7F..=0x84 | 0x86..=0x9F | 0xAD | 0x61C | 0x180E
        | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xFFFD | 0xE0000..=0xE007F)
}

impl<'a> Table<'a> {
    /// Reads table and list. The sum over the rows, which takes most of the time, is left to tests.
    ///
    /// # Errors
    /// Says which part of the two files does not fit.
    pub(crate) fn new(table: &'a [u8], vocabulary: &'a str) -> Result<Self, String> {
        let u32_at = |at: usize| {
            let bytes = table.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| u32::from_le_bytes(bytes) as usize).ok_or("the table ends within its header")
        };
        let u64_at = |at: usize| {
            let bytes = table.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or("the table ends within its header")
        };
        if !table.starts_with(b"KVSTAT02") {
            return Err("the table is not of format KVSTAT02".to_owned());
        }
        let (count, dimension) = (u32_at(8)?, u32_at(12)?);
        let (pieces_max, word_characters_max) = (u32_at(16)?, u32_at(20)?);
        let (vocabulary_sum, rows_sum) = (u64_at(24)?, u64_at(32)?);
        let rows_start = count.checked_mul(4).and_then(|scales| scales.checked_add(HEADER_BYTES));
        let size =
            count.checked_mul(dimension).zip(rows_start).and_then(|(rows, start)| rows.checked_add(start));
        let (Some(rows_start), true) = (rows_start, size == Some(table.len())) else {
            return Err(format!(
                "the table has {} bytes, which {count} rows of {dimension} do not fill",
                table.len()
            ));
        };
        if vocabulary_sum != fnv1a64(vocabulary.as_bytes()) {
            return Err("the list of pieces is not the one that the table was made with".to_owned());
        }
        if vocabulary.split_terminator('\n').count() != count {
            return Err(format!("the list of pieces has not one line for each of {count} rows"));
        }
        let (mut first, mut rest) = (Pieces::default(), Pieces::default());
        first.reserve(count);
        rest.reserve(count / 4);
        for (row, piece) in (0u32..).zip(vocabulary.split_terminator('\n')) {
            match piece.strip_prefix("##") {
                Some(continuation) if !continuation.is_empty() => rest.insert(continuation, row),
                _ => first.insert(piece, row),
            };
        }
        let (ascii, other) = classes(vocabulary);
        let (scales, _) = table[HEADER_BYTES..rows_start].as_chunks();
        let scales = scales.iter().map(|scale| f32::from_le_bytes(*scale)).collect();
        let rows = &table[rows_start..];
        Ok(Self {
            dimension,
            pieces_max,
            word_characters_max,
            first,
            rest,
            ascii,
            other,
            scales,
            rows,
            vocabulary_sum,
            rows_sum,
        })
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// How many pieces of a text count.
    pub(crate) fn pieces_max(&self) -> usize {
        self.pieces_max
    }

    /// Names the numbers: both sums, which stand in the table's header.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:016x}-{:016x}", self.rows_sum, self.vocabulary_sum)
    }

    fn class(&self, character: char) -> Class {
        if let Some(class) = self.ascii.get(character as usize) {
            return *class;
        }
        match self.other.binary_search_by_key(&character, |known| known.0) {
            Ok(found) => self.other[found].1,
            // A letter or digit of no piece makes its word unknown; anything else parts words.
            Err(_) if character.is_alphanumeric() && !is_cjk(character) => Class::Letter,
            Err(_) => Class::Separator,
        }
    }

    /// Cuts a word, longest piece first; a word with a part that is no piece gives nothing.
    fn cut_word(&self, word: &str, ids: &mut Vec<u32>) {
        let max = self.word_characters_max;
        if word.is_empty() || (word.len() > max && word.chars().count() > max) {
            return;
        }
        let before = ids.len();
        let mut start = 0;
        while start < word.len() {
            let pieces = if start == 0 { &self.first } else { &self.rest };
            let ends =
                word[start..].char_indices().rev().map(|(at, character)| start + at + character.len_utf8());
            let found = ends.into_iter().find_map(|end| pieces.get(&word[start..end]).map(|&id| (id, end)));
            let Some((id, end)) = found else {
                ids.truncate(before);
                return;
            };
            ids.push(id);
            start = end;
        }
    }

    /// The text's pieces as rows of the table. `word` is working space.
    pub(crate) fn ids(&self, text: &str, word: &mut String, ids: &mut Vec<u32>) {
        ids.clear();
        word.clear();
        if text.is_ascii() {
            for byte in text.bytes() {
                let character = char::from(byte.to_ascii_lowercase());
                if !is_ignored(character) && self.push(character, word, ids) {
                    return;
                }
            }
        } else {
            for decomposed in text.nfd().filter(|&c| !is_ignored(c) && !is_combining_mark(c)) {
                for character in decomposed.to_lowercase().filter(|&c| !is_combining_mark(c)) {
                    if self.push(character, word, ids) {
                        return;
                    }
                }
            }
        }
        self.cut_word(word, ids);
        ids.truncate(self.pieces_max);
    }

    /// Takes one more character. True: there are as many pieces as count.
    fn push(&self, character: char, word: &mut String, ids: &mut Vec<u32>) -> bool {
        let class = self.class(character);
        if class == Class::Letter {
            word.push(character);
            return false;
        }
        self.cut_word(word, ids);
        word.clear();
        if class == Class::Single {
            word.push(character);
            self.cut_word(word, ids);
            word.clear();
        }
        ids.truncate(self.pieces_max);
        ids.len() == self.pieces_max
    }

    /// The sum of the rows in order, scaled to length 1; all zeros where there is no piece. `vector` has `dimension`
    /// numbers. The order of the operations fixes every bit.
    pub(crate) fn embed(&self, ids: &[u32], vector: &mut [f32]) {
        vector.fill(0.0);
        for &id in ids {
            let (start, scale) = (id as usize * self.dimension, self.scales[id as usize]);
            for (sum, &number) in vector.iter_mut().zip(&self.rows[start..start + self.dimension]) {
                *sum += scale * f32::from(number as i8);
            }
        }
        let length = vector.iter().fold(0f64, |squares, &x| squares + f64::from(x) * f64::from(x)).sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
        }
    }
}

/// The classes of all characters that occur in the list.
fn classes(vocabulary: &str) -> ([Class; 128], Vec<(char, Class)>) {
    let mut ascii = [Class::Separator; 128];
    let mut other = Vec::new();
    // One bit a character of the basic plane: most have been seen before.
    let mut seen = vec![0u64; 1024];
    for character in vocabulary.chars().filter(|&character| character != '\n') {
        let code = character as usize;
        if let Some(bits) = seen.get_mut(code / 64) {
            let bit = 1u64 << (code % 64);
            if *bits & bit != 0 {
                continue;
            }
            *bits |= bit;
        }
        let single =
            character.is_ascii_punctuation() || SINGLES.contains(&(character as u32)) || is_cjk(character);
        let class = if single { Class::Single } else { Class::Letter };
        match ascii.get_mut(code) {
            Some(slot) => *slot = class,
            None => other.push((character, class)),
        }
    }
    other.sort_unstable_by_key(|known| known.0);
    other.dedup_by_key(|known| known.0);
    (ascii, other)
}
