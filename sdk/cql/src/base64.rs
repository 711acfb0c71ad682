//! The stream's form of blobs: standard base64 with padding (RFC 4648, section 4).

use crate::value::ValueError;

/// Appends the bytes.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let fault = || ValueError::new("a blob is not base64");
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ValueError::new("a blob's base64 is not a multiple of four characters"));
    }
    let Some((last, whole)) = groups.split_last() else { return Ok(()) };
    out.reserve(groups.len() * 3);
    for group in whole {
        out.extend_from_slice(&bits(group).ok_or_else(fault)?.to_be_bytes()[1..]);
    }
    let length = match last {
        [_, _, b'=', b'='] => 1,
        [_, _, _, b'='] => 2,
        _ => 3,
    };
    let padded = std::array::from_fn(|index| if index > length { b'A' } else { last[index] });
    let bytes = bits(&padded).ok_or_else(fault)?.to_be_bytes();
    let (kept, dropped) = bytes[1..].split_at(length);
    if dropped.iter().any(|&byte| byte != 0) {
        return Err(fault());
    }
    out.extend_from_slice(kept);
    Ok(())
}

fn bits(group: &[u8; 4]) -> Option<u32> {
    group.iter().try_fold(0, |bits, &character| Some((bits << 6) | sextet(character)?))
}

fn sextet(character: u8) -> Option<u32> {
    Some(u32::from(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_rfc_4648() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("Zm9vYmE=", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            let mut out = Vec::new();
            decode_into(text, &mut out).unwrap();
            assert_eq!(out, bytes, "{text}");
        }
        for text in
            ["Zg", "Zg=", "Z===", "====", "Zm9=v===", "Zh==", "Zm9=", "-_-_", "Zm 9", "Zg==Zg==", "é=="]
        {
            assert!(decode_into(text, &mut Vec::new()).is_err(), "{text}");
        }
    }
}
