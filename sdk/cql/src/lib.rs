//! CQL types, values in native-protocol bytes, and one canonical text per value.
//!
//! | step | function |
//! |---|---|
//! | a type from its spelling, and back | [`CqlType`]'s `FromStr` and `Display` |
//! | typed bytes to a value, and back | [`CqlValue::decode`], [`CqlValue::encode`] |
//! | typed bytes to their one text, and back | [`canonical_text`], [`parse_canonical`] |
//! | a scalar as a change stream spells it, to bytes | [`parse_text`] |
//!
//! "Bytes" are always a value as CQL's native protocol, version 5, sends it, without the length in front. A value of no
//! bytes is legal for every type; of all but text, ascii and blob it is called *empty* here, and its text is empty.
//!
//! No I/O and no clock. Small, and compiles to WebAssembly: hosts and plugins share it.

mod base64;
mod decimal;
mod duration;
mod elements;
mod float;
mod identifier;
mod json;
mod text;
mod time;
mod types;
mod value;
mod vint;

pub use elements::{Elements, elements, put_element};
pub use identifier::quote_if_needed;
pub use text::{
    Decimals, canonical_text, canonical_text_into, parse_canonical, parse_text, parse_text_into, sorted,
};
pub use time::{date_from_days, days_from_date};
pub use types::{CqlType, TYPE_DEPTH_MAX, TYPE_NODES_MAX, TypeError};
pub use value::{CqlValue, NUMBER_DIGITS_MAX, ValueError};
