//! Integers of variable length: the number of leading one bits of the first byte says how many bytes follow, the rest
//! is big-endian.
//!
//! # Source
//! Native protocol version 5, section 3, `[unsigned vint]` and `[vint]`.

use crate::value::ValueError;

/// Takes an unsigned vint off the front of `bytes`.
pub(crate) fn take_unsigned(bytes: &mut &[u8]) -> Result<u64, ValueError> {
    let (&first, rest) = bytes.split_first().ok_or_else(|| ValueError::new("a vint has no bytes"))?;
    let extra = first.leading_ones() as usize;
    if rest.len() < extra {
        return Err(ValueError::new("a vint ends too early"));
    }
    // With seven or eight leading ones the first byte carries no bits of the number.
    let mut number = u64::from(first & 0x7fu8.checked_shr(extra as u32).unwrap_or(0));
    for &byte in &rest[..extra] {
        number = (number << 8) | u64::from(byte);
    }
    *bytes = &rest[extra..];
    Ok(number)
}

/// Appends an unsigned vint in its shortest form.
pub(crate) fn put_unsigned(number: u64, out: &mut Vec<u8>) {
    // n extra bytes hold 7 + 7n bits; eight hold all 64.
    let bits = 64 - (number | 1).leading_zeros() as usize;
    let extra = (bits.saturating_sub(1) / 7).min(8);
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&number.to_be_bytes());
        return;
    }
    let bytes = number.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[7 - extra..]);
    // The leading ones; the bit after them is 0 by the choice of `extra`.
    out[start] |= !(0xffu8.checked_shr(extra as u32).unwrap_or(0));
}

/// Takes a signed vint: zigzag, so that small negative numbers are short too.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Result<i64, ValueError> {
    let zigzag = take_unsigned(bytes)?;
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

pub(crate) fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_unsigned(((number << 1) ^ (number >> 63)) as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_forms() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16383, &[0xbf, 0xff]),
            (16384, &[0xc0, 0x40, 0x00]),
            ((1 << 49) - 1, &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            ((1 << 56) - 1, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (1 << 56, &[0xff, 0x01, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[0xff; 9]),
        ] {
            let mut out = Vec::new();
            put_unsigned(number, &mut out);
            assert_eq!(out, bytes, "{number}");
            assert_eq!(take_unsigned(&mut &out[..]), Ok(number));
        }
        assert!(take_unsigned(&mut &[][..]).is_err());
        assert!(take_unsigned(&mut &[0xff, 0][..]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift;
            let mut out = Vec::new();
            put_unsigned(number, &mut out);
            let mut rest = &out[..];
            prop_assert_eq!(take_unsigned(&mut rest), Ok(number));
            prop_assert!(rest.is_empty());

            let signed = number as i64;
            let mut out = Vec::new();
            put_signed(signed, &mut out);
            prop_assert_eq!(take_signed(&mut &out[..]), Ok(signed));
        }
    }
}
