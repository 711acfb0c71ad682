//! Random inputs: samples, changed in a few places.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

/// A changed input is cut to this.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Bytes that mean something to some format: ends, signs, quotes, lengths.
const BYTES: [u8; 16] =
    [0, 1, 2, 4, 0x7f, 0x80, 0xc3, 0xff, b'"', b'\\', b'\n', b'-', b'0', b'[', b'{', b'%'];

/// Numbers at the ends of ranges, as lengths and counts are written.
const NUMBERS: [u32; 10] = [0, 1, 3, 4, 255, 65_535, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

pub(crate) struct Mutator<'a> {
    random: StdRng,
    samples: &'a [Vec<u8>],
    words: &'a [&'a str],
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, samples: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self { random: StdRng::seed_from_u64(seed), samples, words }
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = match self.samples.choose(&mut self.random) {
            Some(sample) if self.random.random_bool(0.95) => sample.clone(),
            _ => self.any_bytes(64),
        };
        // Mostly few changes, so that what is around them still makes sense.
        let most = 1 << self.random.random_range(0..5);
        for _ in 0..self.random.random_range(1..=most) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        match self.random.random_range(0..11) {
            0 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            1 if at < input.len() => input[at] = self.random.random(),
            2 if at < input.len() => input[at] = *BYTES.choose(&mut self.random).unwrap(),
            3 => drop(input.drain(self.part(at, input.len()))),
            4 => {
                let part = input[self.part(at, input.len())].to_vec();
                let to = self.random.random_range(0..=input.len());
                input.splice(to..to, part);
            }
            5 => {
                let bytes = self.any_bytes(8);
                input.splice(at..at, bytes);
            }
            6 | 7 if !self.words.is_empty() => {
                let word = self.words.choose(&mut self.random).unwrap().bytes();
                let replaced = if self.random.random() { self.part(at, input.len()) } else { at..at };
                input.splice(replaced, word);
            }
            8 => {
                // The rest of another sample.
                if let Some(other) = self.samples.choose(&mut self.random) {
                    let from = self.random.random_range(0..=other.len());
                    input.splice(at.., other[from..].iter().copied());
                }
            }
            9 if at + 4 <= input.len() => {
                let number = *NUMBERS.choose(&mut self.random).unwrap();
                let bytes = if self.random.random() { number.to_be_bytes() } else { number.to_le_bytes() };
                input[at..at + 4].copy_from_slice(&bytes);
            }
            10 => self.change_digits(input, at),
            _ => input.truncate(at),
        }
    }

    /// Replaces the decimal digits that come next, if any do.
    fn change_digits(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit) else { return };
        let start = at + start;
        let length = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.random.random_range(0..4) {
            0 => self.random.random_range(0..20_u64).to_string(),
            1 => self.random.random::<u64>().to_string(),
            2 => format!("{}e{}", self.random.random_range(0..10), self.random.random_range(-400..400)),
            _ => "9".repeat(self.random.random_range(1..60)),
        };
        input.splice(start..start + length, number.into_bytes());
    }

    /// From a place on, mostly a few bytes.
    fn part(&mut self, at: usize, length: usize) -> Range<usize> {
        let left = length - at;
        let most = if self.random.random_bool(0.9) { left.min(16) } else { left };
        at..at + self.random.random_range(0..=most)
    }

    fn any_bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.random.random_range(0..=most)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }
}
