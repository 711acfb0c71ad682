//! Fast reading of the long number arrays in a model's answer.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON array of numbers, found in an answer but not read yet; use it as a field's type.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Answer<'a> {
///     #[serde(borrow)]
///     embedding: keyvector_sdk::FloatArray<'a>,
/// }
/// let answer: Answer = serde_json::from_str(r#"{"embedding":[0.25,-1e-3]}"#)?;
/// let mut vectors = Vec::new();
/// assert_eq!(answer.embedding.read_into(&mut vectors)?, 2);
/// assert_eq!(vectors, [0.25, -0.001]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub struct FloatArray<'a>(#[serde(borrow)] &'a RawValue);

impl FloatArray<'_> {
    /// Appends the numbers and returns how many there were. See [`read_floats`].
    ///
    /// # Errors
    /// It is something other than an array of numbers.
    pub fn read_into(&self, floats: &mut Vec<f32>) -> Result<usize, String> {
        read_floats(self.0.get(), floats)
    }
}

/// Reads one JSON array of numbers, appends them, each rounded once to the nearest f32, and returns how many there were.
/// `null` is read as NaN: no vector. A number beyond f32 reads as infinity, which the host refuses.
///
/// # Errors
/// The text is no such array; `floats` is as it was.
pub fn read_floats(json: &str, floats: &mut Vec<f32>) -> Result<usize, String> {
    let before = floats.len();
    let read = array(json.as_bytes(), floats);
    if let Err(at) = read {
        floats.truncate(before);
        return Err(format!("no JSON array of numbers: byte {at} does not fit"));
    }
    Ok(floats.len() - before)
}

/// On error the offset of the byte that does not fit.
fn array(json: &[u8], floats: &mut Vec<f32>) -> Result<(), usize> {
    let mut at = expect(json, 0, b'[')?;
    at = blanks(json, at);
    if json.get(at) == Some(&b']') {
        at += 1;
    } else {
        loop {
            at = blanks(json, at);
            let (number, end) = number(json, at)?;
            floats.push(number);
            at = blanks(json, end);
            match json.get(at) {
                Some(b',') => at += 1,
                Some(b']') => break at += 1,
                _ => return Err(at),
            }
        }
    }
    at = blanks(json, at);
    if at == json.len() { Ok(()) } else { Err(at) }
}

fn blanks(json: &[u8], at: usize) -> usize {
    at + json[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

fn expect(json: &[u8], at: usize, byte: u8) -> Result<usize, usize> {
    let at = blanks(json, at);
    if json.get(at) == Some(&byte) { Ok(at + 1) } else { Err(at) }
}

/// The powers of ten that an f64 holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Reads one number (or null) and says where it ends.
fn number(json: &[u8], start: usize) -> Result<(f32, usize), usize> {
    let mut at = start;
    if json[at..].starts_with(b"null") {
        return Ok((f32::NAN, at + 4));
    }
    let negative = json.get(at) == Some(&b'-');
    at += usize::from(negative);
    let mut mantissa = 0u64;
    let mut digits = 0;
    let mut digit = |at: usize| {
        let digit = json.get(at)?.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Leading zeros are no digits; from the 20th digit on the slow way reads the number.
        digits += i32::from(digits > 0 || digit > 0);
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        Some(at + 1)
    };
    let first = at;
    while let Some(next) = digit(at) {
        at = next;
    }
    if at == first || (json[first] == b'0' && at - first > 1) {
        return Err(at.min(first + 1));
    }
    let mut exponent = 0i32;
    if json.get(at) == Some(&b'.') {
        let point = at + 1;
        at = point;
        while let Some(next) = digit(at) {
            at = next;
        }
        if at == point {
            return Err(at);
        }
        exponent = -i32::try_from(at - point).unwrap_or(i32::MAX);
    }
    if let Some(b'e' | b'E') = json.get(at) {
        at += 1;
        let down = json.get(at) == Some(&b'-');
        at += usize::from(down || json.get(at) == Some(&b'+'));
        let first = at;
        let mut written = 0i32;
        while let Some(digit) = json.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit <= 9) {
            written = written.saturating_mul(10).saturating_add(i32::from(digit));
            at += 1;
        }
        if at == first {
            return Err(at);
        }
        exponent = exponent.saturating_add(if down { -written } else { written });
    }
    let value = if digits <= 19 { exact(mantissa, exponent) } else { None };
    let value = match value {
        Some(value) if negative => -value,
        Some(value) => value,
        None => {
            let text = std::str::from_utf8(&json[start..at]).map_err(|_| start)?;
            text.parse().map_err(|_| start)?
        }
    };
    Ok((value, at))
}

/// `mantissa × 10^exponent` as the nearest f32, where that is sure: with both factors exact the f64 is the nearest one, and
/// rounding it again is right unless it fell just between two f32s (or where those are subnormal).
fn exact(mantissa: u64, exponent: i32) -> Option<f32> {
    const EXACT_MAX: u64 = 1 << 53;
    if mantissa == 0 {
        return Some(0.0);
    }
    if mantissa > EXACT_MAX {
        return None;
    }
    let tens = *TENS.get(exponent.unsigned_abs() as usize)?;
    let value = if exponent < 0 { mantissa as f64 / tens } else { mantissa as f64 * tens };
    let below_f32 = value.to_bits() & 0x1fff_ffff;
    (below_f32 != 0x1000_0000 && value >= f64::from(f32::MIN_POSITIVE)).then_some(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> Result<Vec<f32>, String> {
        let mut floats = vec![7.0];
        let count = read_floats(json, &mut floats);
        assert_eq!(floats[0], 7.0);
        match count {
            Ok(count) => {
                assert_eq!(count, floats.len() - 1);
                Ok(floats.split_off(1))
            }
            Err(cause) => {
                assert_eq!(floats.len(), 1, "what was there before stays alone");
                Err(cause)
            }
        }
    }

    #[test]
    fn arrays_are_read() {
        assert_eq!(read("[]"), Ok(vec![]));
        assert_eq!(read(" [ 1 , -2.5e-1,\n0,1E+2, 0.0 ] "), Ok(vec![1.0, -0.25, 0.0, 100.0, 0.0]));
        assert_eq!(read("[1e999]"), Ok(vec![f32::INFINITY]));
        assert_eq!(read("[0.00000000000000000000000000000000000000000000000000001]"), Ok(vec![0.0]));
        assert!(read("[null]").unwrap()[0].is_nan());
        assert!(read("[-0.0]").unwrap()[0].is_sign_negative());
    }

    #[test]
    fn other_texts_are_refused() {
        for json in [
            "", "[", "1", "[1", "[1,]", "[,1]", "[1]x", "[01]", "[1.]", "[.5]", "[1e]", "[+1]", "[-]",
            "[\"1\"]", "[nul]", "[[1]]", "[é]",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_f32_is_read_back(bits: u32, doubles: bool) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let json = if doubles { format!("[{}]", f64::from(value)) } else { format!("[{value:e}]") };
            prop_assert_eq!(read(&json).unwrap()[0].to_bits(), value.to_bits());
        }

        #[test]
        fn every_spelling_is_rounded_as_the_standard_library_does(text in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?") {
            let expected: f32 = text.parse().unwrap();
            prop_assert_eq!(read(&format!("[{text}]")).unwrap()[0].to_bits(), expected.to_bits());
        }

        #[test]
        fn midpoints_between_two_f32s_are_rounded_right(bits in 0x0080_0000u32..0x7f00_0000, tail in "[0-9]{0,6}") {
            let low = f64::from(f32::from_bits(bits));
            let high = f64::from(f32::from_bits(bits + 1));
            let text = format!("{}", (low + high) / 2.0);
            let text = if text.contains('.') { text + &tail } else { text };
            let expected: f32 = text.parse().unwrap();
            prop_assert_eq!(read(&format!("[{text}]")).unwrap()[0].to_bits(), expected.to_bits());
        }

        #[test]
        fn junk_never_panics(json in "\\PC*") {
            let accepted = read(&json).is_ok();
            if accepted {
                prop_assert!(serde_json::from_str::<Vec<Option<f64>>>(&json).is_ok() || json.contains(['e', 'E']));
            }
        }
    }
}
