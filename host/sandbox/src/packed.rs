//! Byte strings end to end, as the boundary carries texts both ways.

use std::ops::Range;

use crate::bindings::types::Packed;
use crate::guest::Stop;

/// Checks an answer's frame: as many ends as `count`, rising, the last equal to the data's length.
///
/// # Errors
/// Says which list (`what`) breaks the contract, and how.
pub(crate) fn check(packed: &Packed, count: usize, what: &str) -> Result<(), Stop> {
    if packed.ends.len() != count {
        return Err(Stop::output(format!("answered {} {what} for {count} rows", packed.ends.len())));
    }
    if let Some(at) = packed.ends.windows(2).position(|pair| pair[1] < pair[0]) {
        let (from, to) = (packed.ends[at], packed.ends[at + 1]);
        return Err(Stop::output(format!("{what}: end {} falls from {from} to {to}", at + 1)));
    }
    let end = packed.ends.last().map_or(0, |&end| end as usize);
    if end != packed.data.len() {
        return Err(Stop::output(format!(
            "{what}: the last end is {end}, of {} bytes of data",
            packed.data.len()
        )));
    }
    Ok(())
}

/// Item `index` of a packed list that passed [`check`].
pub(crate) fn item(packed: &Packed, index: usize) -> &[u8] {
    let start = index.checked_sub(1).map_or(0, |before| packed.ends[before] as usize);
    &packed.data[start..packed.ends[index] as usize]
}

/// Packs texts.
///
/// # Panics
/// When they hold more than 4 GiB together, which no batch limit allows.
pub(crate) fn pack<'a>(texts: impl ExactSizeIterator<Item = &'a str> + Clone) -> Packed {
    let mut packed = Packed {
        data: Vec::with_capacity(texts.clone().map(str::len).sum()),
        ends: Vec::with_capacity(texts.len()),
    };
    for text in texts {
        packed.data.extend_from_slice(text.as_bytes());
        packed.ends.push(u32::try_from(packed.data.len()).expect("a batch of texts is far below 4 GiB"));
    }
    packed
}

/// The items of a range as a list of their own.
pub(crate) fn slice(packed: &Packed, range: Range<usize>) -> Packed {
    let start = range.start.checked_sub(1).map_or(0, |before| packed.ends[before]);
    let ends: Vec<u32> = packed.ends[range].iter().map(|end| end - start).collect();
    let length = ends.last().map_or(0, |&end| end as usize);
    Packed { data: packed.data[start as usize..][..length].to_vec(), ends }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_texts_come_apart_as_they_went_in(texts: Vec<String>, cut in 0_usize..20, width in 0_usize..20) {
            let packed = pack(texts.iter().map(String::as_str));
            check(&packed, texts.len(), "texts").unwrap();
            for (index, text) in texts.iter().enumerate() {
                prop_assert_eq!(item(&packed, index), text.as_bytes());
            }
            let (from, to) = (cut.min(texts.len()), (cut + width).min(texts.len()));
            let part = slice(&packed, from..to);
            check(&part, to - from, "texts").unwrap();
            prop_assert_eq!(part.data, texts[from..to].concat().into_bytes());
        }
    }

    #[test]
    fn broken_frames_are_named() {
        let broken = |ends: &[u32], data: &[u8], count| {
            check(&Packed { data: data.to_vec(), ends: ends.to_vec() }, count, "texts").unwrap_err().reason
        };
        assert_eq!(broken(&[1], b"a", 2), "answered 1 texts for 2 rows");
        assert_eq!(broken(&[2, 1], b"a", 2), "texts: end 1 falls from 2 to 1");
        assert_eq!(broken(&[1, 2], b"abc", 2), "texts: the last end is 2, of 3 bytes of data");
        assert_eq!(broken(&[], b"abc", 0), "texts: the last end is 0, of 3 bytes of data");
    }
}
