use crate::bindings::exports::keyvector::plugin::table::{Documents, RowState};
use crate::bindings::keyvector::plugin::types::Packed;

/// The answer that a cell dictates, checked by nobody: all numbers are u32 in little-endian order, and each part is its
/// count and its items. States (a byte each: 0 document, 1 skipped, else failed), the texts' data and ends, the
/// metadata's data and ends. What is cut off panics.
pub(crate) fn answer(mut cell: &[u8]) -> Documents {
    let states = take_bytes(&mut cell);
    let states = states
        .iter()
        .map(|state| match state {
            0 => RowState::Document,
            1 => RowState::Skipped,
            _ => RowState::Failed,
        })
        .collect();
    Documents { states, texts: take_packed(&mut cell), metadata: take_packed(&mut cell) }
}

fn take_packed(rest: &mut &[u8]) -> Packed {
    let data = take_bytes(rest).to_vec();
    let count = take_number(rest);
    Packed { data, ends: (0..count).map(|_| take_number(rest)).collect() }
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = take_number(rest) as usize;
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    bytes
}

fn take_number(rest: &mut &[u8]) -> u32 {
    let (number, after) = rest.split_first_chunk().expect("the cell is cut off");
    *rest = after;
    u32::from_le_bytes(*number)
}
