//! Whole and decimal numbers of any size as text.

use num_bigint::{BigInt, Sign};

use crate::text::shown;
use crate::value::{NUMBER_DIGITS_MAX, ValueError};

/// Appends `-?digits`.
pub(crate) fn put_varint(number: &BigInt, out: &mut String) -> Result<(), ValueError> {
    if number.sign() == Sign::Minus {
        out.push('-');
    }
    out.push_str(&digits(number)?);
    Ok(())
}

/// Reads `[+-]?digits`.
pub(crate) fn parse_varint(text: &str) -> Result<BigInt, ValueError> {
    let (negative, digits) = sign(text);
    from_digits(negative, digits).ok_or_else(|| not_a("varint", text))?
}

/// Appends a decimal exactly: `12.50`, `1.5E+3`, `1E-7`. With `strip`, zeros at the end go first, and zero is `0`.
///
/// Plain where the scale is not negative and the first digit is no further than 1E-6, else with an exponent, so
/// that no scale makes the text long.
///
/// # Source
/// Java's `BigDecimal.toString` and `stripTrailingZeros`.
pub(crate) fn put(unscaled: &BigInt, scale: i32, strip: bool, out: &mut String) -> Result<(), ValueError> {
    let mut digits = digits(unscaled)?;
    let mut scale = i64::from(scale);
    if strip {
        let kept = digits.trim_end_matches('0').len();
        if kept == 0 {
            // Zero is `0`, whatever its scale.
            scale = 0;
        } else {
            scale -= (digits.len() - kept) as i64;
            digits.truncate(kept);
            if scale < i64::from(i32::MIN) {
                return Err(ValueError::new(
                    "a decimal's scale is out of range once zeros at the end are stripped",
                ));
            }
        }
    }
    if unscaled.sign() == Sign::Minus {
        out.push('-');
    }
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        out.push_str(&digits);
    } else if scale > 0 && adjusted >= -6 {
        // At most six zeros are filled in: the first digit stands no further than that.
        match digits.len().checked_sub(scale as usize) {
            Some(0) | None => {
                out.push_str("0.");
                (digits.len()..scale as usize).for_each(|_| out.push('0'));
                out.push_str(&digits);
            }
            Some(whole) => {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
    } else {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        if adjusted != 0 {
            out.push_str(if adjusted > 0 { "E+" } else { "E" });
            out.push_str(&adjusted.to_string());
        }
    }
    Ok(())
}

/// Reads `[+-]?digits[.digits][E[+-]digits]` exactly: all digits count, zeros at the end included, and the exponent
/// only moves the scale.
pub(crate) fn parse(text: &str) -> Result<(BigInt, i32), ValueError> {
    let fault = || not_a("decimal", text);
    let (negative, rest) = sign(text);
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(fault());
            }
            (mantissa, exponent.parse::<i64>().map_err(|_| out_of_range(text))?)
        }
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled = if fraction.is_empty() {
        from_digits(negative, whole)
    } else {
        from_digits(negative, &format!("{whole}{fraction}"))
    };
    let scale = (fraction.len() as i64).checked_sub(exponent).and_then(|scale| i32::try_from(scale).ok());
    Ok((unscaled.ok_or_else(fault)??, scale.ok_or_else(|| out_of_range(text))?))
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The number of these digits; `None` where there is anything else, or nothing.
fn from_digits(negative: bool, digits: &str) -> Option<Result<BigInt, ValueError>> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > NUMBER_DIGITS_MAX {
        return Some(Err(too_long()));
    }
    let number = if significant.len() < 19 {
        significant.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')).into()
    } else {
        BigInt::parse_bytes(significant.as_bytes(), 10)?
    };
    Some(Ok(if negative { -number } else { number }))
}

/// The digits of the number without its sign.
fn digits(number: &BigInt) -> Result<String, ValueError> {
    // A decimal digit takes less than 3.322 bits, so what has more bits is not even tried.
    if number.bits() > NUMBER_DIGITS_MAX as u64 * 3322 / 1000 {
        return Err(too_long());
    }
    let digits = number.magnitude().to_string();
    if digits.len() > NUMBER_DIGITS_MAX { Err(too_long()) } else { Ok(digits) }
}

fn not_a(name: &str, text: &str) -> ValueError {
    ValueError::new(format!("{:?} is no {name}", shown(text)))
}

fn out_of_range(text: &str) -> ValueError {
    ValueError::new(format!("{:?} has a scale beyond 32 bits", shown(text)))
}

fn too_long() -> ValueError {
    ValueError::new(format!("a number has more than {NUMBER_DIGITS_MAX} digits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(unscaled: i64, scale: i32, strip: bool) -> String {
        let mut out = String::new();
        put(&unscaled.into(), scale, strip, &mut out).unwrap();
        out
    }

    #[test]
    fn layout_is_java_s() {
        for (unscaled, scale, exact, stripped) in [
            (10, 1, "1.0", "1"),
            (100, 2, "1.00", "1"),
            (-102_500, 4, "-10.2500", "-10.25"),
            (0, 0, "0", "0"),
            (0, 3, "0.000", "0"),
            (0, 7, "0E-7", "0"),
            (0, -3, "0E+3", "0"),
            (123, -1, "1.23E+3", "1.23E+3"),
            (100, 0, "100", "1E+2"),
            (1, -2, "1E+2", "1E+2"),
            (1, 6, "0.000001", "0.000001"),
            (1, 7, "1E-7", "1E-7"),
            (-15, 8, "-1.5E-7", "-1.5E-7"),
            (5, i32::MAX, "5E-2147483647", "5E-2147483647"),
            (5, i32::MIN, "5E+2147483648", "5E+2147483648"),
            (12, i32::MIN, "1.2E+2147483649", "1.2E+2147483649"),
        ] {
            assert_eq!(text(unscaled, scale, false), exact);
            assert_eq!(text(unscaled, scale, true), stripped);
            assert_eq!(parse(exact).unwrap(), (unscaled.into(), scale), "{exact}");
        }
        assert!(put(&10.into(), i32::MIN, true, &mut String::new()).is_err());
    }

    #[test]
    fn reads_other_spellings() {
        for (spelled, unscaled, scale) in [
            ("+1.50", 150, 2),
            ("007", 7, 0),
            ("1.", 1, 0),
            (".5", 5, 1),
            ("1.50E1", 150, 1),
            ("1e-0000000000000000000000000002", 1, 2),
            ("-0", 0, 0),
        ] {
            assert_eq!(parse(spelled).unwrap(), (unscaled.into(), scale), "{spelled}");
        }
        for spelled in [
            "",
            "-",
            ".",
            "1e",
            "1e+",
            "1.2.3",
            "e5",
            "1e5.0",
            "0x1",
            "1 ",
            "١",
            "+-1",
            "1e99999999999999999999",
            "1E2147483649",
        ] {
            assert!(parse(spelled).is_err(), "{spelled}");
        }
    }

    #[test]
    fn hostile_sizes_cost_little() {
        assert!(parse(&"9".repeat(NUMBER_DIGITS_MAX)).is_ok());
        assert!(parse(&"9".repeat(NUMBER_DIGITS_MAX + 1)).is_err());
        assert!(parse_varint(&"9".repeat(10_000_000)).is_err());
        assert_eq!(parse_varint(&"0".repeat(10_000_000)), Ok(0.into()));
        assert!(
            put_varint(&BigInt::from_signed_bytes_be(&vec![0x7f; 10_000_000]), &mut String::new()).is_err()
        );
        let most = parse_varint(&"9".repeat(NUMBER_DIGITS_MAX)).unwrap();
        put_varint(&most, &mut String::new()).unwrap();
    }

    proptest! {
        #[test]
        fn decimals_read_back(bytes in proptest::collection::vec(any::<u8>(), 1..40), scale in prop_oneof![any::<i32>(), -20..20i32]) {
            let unscaled = BigInt::from_signed_bytes_be(&bytes);
            let mut out = String::new();
            put(&unscaled, scale, false, &mut out).unwrap();
            prop_assert_eq!(parse(&out).unwrap(), (unscaled, scale));
        }

        #[test]
        fn varints_read_back(bytes in proptest::collection::vec(any::<u8>(), 1..60)) {
            let number = BigInt::from_signed_bytes_be(&bytes);
            let mut out = String::new();
            put_varint(&number, &mut out).unwrap();
            prop_assert_eq!(&out, &number.to_string());
            prop_assert_eq!(parse_varint(&out).unwrap(), number);
        }
    }
}
