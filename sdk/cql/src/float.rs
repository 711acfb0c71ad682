//! Floating-point numbers as text: the shortest digits that read back, in Java's layout.

use std::fmt::{LowerExp, Write};

use crate::value::ValueError;

/// Appends `0.1`, `9999999.0`, `1.0E7`, `1.0E-4`, `-0.0`, `NaN`, `-Infinity`: plain from 1E-3 to below 1E7.
///
/// # Source
/// The layout of Java's `Double.toString`; the digits are the shortest that read back, which Java gives since 19.
pub(crate) fn put<F: Float>(number: F, out: &mut String) {
    if number.is_nan() {
        out.push_str("NaN");
        return;
    }
    if number.is_negative() {
        out.push('-');
    }
    if number.is_infinite() {
        out.push_str("Infinity");
        return;
    }
    // The standard library's `{:e}` gives the shortest digits: `1e7`, `1.25e-3`.
    let mut scientific = Scientific { text: [0; 32], length: 0 };
    write!(scientific, "{:e}", number.abs()).expect("a double has at most 17 digits and an exponent of 3");
    let text = std::str::from_utf8(&scientific.text[..scientific.length]).expect("written as text");
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a number there");
    let (first, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if first == "0" {
        out.push_str("0.0");
        return;
    }
    match exponent {
        -3..=-1 => {
            out.push_str(&"0.00"[..1 + exponent.unsigned_abs() as usize]);
            out.push_str(first);
            out.push_str(fraction);
        }
        0..=6 => {
            let whole = exponent as usize;
            out.push_str(first);
            for index in 0..whole {
                out.push(fraction.as_bytes().get(index).map_or('0', |&digit| char::from(digit)));
            }
            out.push('.');
            out.push_str(fraction.get(whole..).filter(|rest| !rest.is_empty()).unwrap_or("0"));
        }
        _ => {
            out.push_str(first);
            out.push('.');
            out.push_str(if fraction.is_empty() { "0" } else { fraction });
            write!(out, "E{exponent}").expect("a String takes all text");
        }
    }
}

/// Reads any decimal spelling, `NaN` and `Infinity`, straight into the wanted width.
///
/// # Errors
/// No number, or a finite one beyond the type's range.
pub(crate) fn parse<F: Float>(text: &str) -> Result<F, ValueError> {
    let fault = |what: &str| ValueError::new(format!("{:?} is {what} {}", crate::text::shown(text), F::NAME));
    let number: F = text.parse().map_err(|_| fault("no"))?;
    // The standard library reads `1e999` as infinity, but only this spelling means it.
    if number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(fault("out of range of a"));
    }
    Ok(if number.is_nan() { F::NAN } else { number })
}

struct Scientific {
    text: [u8; 32],
    length: usize,
}

impl Write for Scientific {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.text.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// What `f32` and `f64` share here.
pub(crate) trait Float: Copy + LowerExp + std::str::FromStr {
    const NAME: &'static str;
    const NAN: Self;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
    fn is_negative(self) -> bool;
    fn abs(self) -> Self;
}

macro_rules! float {
    ($type:ty, $name:literal) => {
        impl Float for $type {
            const NAME: &'static str = $name;
            // Java's canonical NaN: quiet, no payload, no sign.
            const NAN: Self = Self::from_bits(Self::INFINITY.to_bits() | (1 << (Self::MANTISSA_DIGITS - 2)));
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn is_infinite(self) -> bool {
                self.is_infinite()
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            fn abs(self) -> Self {
                self.abs()
            }
        }
    };
}

float!(f32, "float");
float!(f64, "double");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text<F: Float>(number: F) -> String {
        let mut out = String::new();
        put(number, &mut out);
        out
    }

    #[test]
    fn layout() {
        for (number, expected) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.5, "1.23456785E7"),
            (1e-3, "0.001"),
            (0.0125, "0.0125"),
            (1e-4, "1.0E-4"),
            (5e-324, "5.0E-324"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (100.0, "100.0"),
            (123_456.789, "123456.789"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-f64::NAN, "NaN"),
        ] {
            assert_eq!(text(number), expected);
        }
        assert_eq!(text(0.1f32), "0.1");
        assert_eq!(text(f32::MAX), "3.4028235E38");
        assert_eq!(text(16_777_216f32), "1.6777216E7");
        assert_eq!(<f64 as Float>::NAN.to_bits(), 0x7ff8_0000_0000_0000);
        assert_eq!(<f32 as Float>::NAN.to_bits(), 0x7fc0_0000);
    }

    #[test]
    fn reads_every_spelling() {
        for spelled in ["0.1", "1e-1", "+0.1", ".1", "0.10000000000000000", "1.0E-1", "00.1"] {
            assert_eq!(parse::<f64>(spelled).unwrap().to_bits(), 0.1f64.to_bits(), "{spelled}");
        }
        // Reading as a double first and then narrowing would give the other neighbour.
        assert_eq!(parse::<f32>("1.00000017881393432617187499").unwrap(), 1.000_000_1);
        for spelled in ["", "x", "1,5", "0x10", "1_0", "1e999", "--1", " 1"] {
            assert!(parse::<f64>(spelled).is_err(), "{spelled}");
        }
        assert!(parse::<f32>("3.5E38").is_err());
    }

    proptest! {
        #[test]
        fn doubles_read_back(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            let back = parse::<f64>(&text(number)).unwrap();
            prop_assert!(back.to_bits() == bits || (number.is_nan() && back.is_nan()));
        }

        #[test]
        fn floats_read_back(bits in any::<u32>()) {
            let number = f32::from_bits(bits);
            let back = parse::<f32>(&text(number)).unwrap();
            prop_assert!(back.to_bits() == bits || (number.is_nan() && back.is_nan()));
        }
    }
}
