//! One canonical text per value, and the spellings that a change stream uses.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::net::{IpAddr, Ipv6Addr};

use crate::elements::{elements, put_framed};
use crate::types::CqlType;
use crate::value::{self, CqlValue, ValueError, fixed, put_count};
use crate::{base64, decimal, duration, float, json, time, vint};

/// How decimals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimals {
    /// `1.0` and `1.00` differ.
    AsWritten,
    /// Zeros at the end are stripped first: equal numbers have one text.
    Stripped,
}

/// The one text of a value, decimals as written.
///
/// | type | text |
/// |---|---|
/// | integers, varint, counter | digits, `-` if negative |
/// | boolean | `true`, `false` |
/// | float, double | shortest digits that read back: `0.1`, `1.0E7`, `-0.0`, `NaN`, `Infinity` |
/// | decimal | as Java's `BigDecimal.toString` |
/// | text, ascii | as it is |
/// | uuid, timeuuid | lower case with hyphens |
/// | timestamp | milliseconds since 1970 |
/// | date | `yyyy-MM-dd`, years outside 0000–9999 with a sign |
/// | time | `HH:mm:ss.nnnnnnnnn` |
/// | duration | CQL's short form, `1y2mo3d4h5m6s7ms8us9ns` |
/// | inet | dotted, or as RFC 5952 |
/// | blob | lower-case hexadecimal |
/// | types with parts | compact JSON: scalars as strings of their text; a map as an array of pairs, a user-defined type as an array of all its fields; sets and maps sorted by text |
///
/// A value of no bytes is the empty text.
///
/// # Errors
/// Bytes that are no value of the type, numbers of too many digits, a set or map that holds a key twice or a null.
pub fn canonical_text(cql_type: &CqlType, bytes: &[u8]) -> Result<String, ValueError> {
    let mut out = String::new();
    canonical_text_into(cql_type, bytes, Decimals::AsWritten, &mut out)?;
    Ok(out)
}

/// Appends the one text of a value.
///
/// # Errors
/// As [`canonical_text`]; then `out` may hold a part of it.
pub fn canonical_text_into(
    cql_type: &CqlType,
    bytes: &[u8],
    decimals: Decimals,
    out: &mut String,
) -> Result<(), ValueError> {
    match cql_type {
        CqlType::Ascii => out.push_str(value::ascii(bytes)?),
        CqlType::Text => out.push_str(value::utf8(bytes)?),
        CqlType::Blob => put_hex(bytes, out),
        CqlType::Custom(_) => return CqlValue::decode(cql_type, bytes).map(|_| ()),
        _ if bytes.is_empty() => {}
        CqlType::Bigint | CqlType::Counter | CqlType::Timestamp => {
            put_display(i64::from_be_bytes(fixed(cql_type, bytes)?), out);
        }
        CqlType::Boolean => out.push_str(if fixed::<1>(cql_type, bytes)? == [0] { "false" } else { "true" }),
        CqlType::Date => time::put_date(value::date(fixed(cql_type, bytes)?), out),
        CqlType::Decimal => {
            let (unscaled, scale) = value::decimal(bytes)?;
            decimal::put(&unscaled, scale, decimals == Decimals::Stripped, out)?;
        }
        CqlType::Double => float::put(f64::from_be_bytes(fixed(cql_type, bytes)?), out),
        CqlType::Duration => {
            let (months, days, nanoseconds) = duration::decode(bytes)?;
            duration::put(months, days, nanoseconds, out);
        }
        CqlType::Float => float::put(f32::from_be_bytes(fixed(cql_type, bytes)?), out),
        CqlType::Inet => put_display(value::inet(bytes)?, out),
        CqlType::Int => put_display(i32::from_be_bytes(fixed(cql_type, bytes)?), out),
        CqlType::Smallint => put_display(i16::from_be_bytes(fixed(cql_type, bytes)?), out),
        CqlType::Tinyint => put_display(i8::from_be_bytes(fixed(cql_type, bytes)?), out),
        CqlType::Time => time::put_time(value::time(fixed(cql_type, bytes)?)?, out),
        CqlType::Timeuuid | CqlType::Uuid => put_uuid(fixed(cql_type, bytes)?, out),
        CqlType::Varint => decimal::put_varint(&num_bigint::BigInt::from_signed_bytes_be(bytes), out)?,
        CqlType::List(_) | CqlType::Tuple(_) | CqlType::Udt(_) | CqlType::Vector(..) => {
            out.push('[');
            let mut text = String::new();
            for (index, element) in elements(cql_type, bytes)?.enumerate() {
                let (element_type, bytes) = element?;
                if index > 0 {
                    out.push(',');
                }
                put_element_text(element_type, bytes, decimals, &mut text, out)?;
            }
            out.push(']');
        }
        CqlType::Set(element) => {
            out.push('[');
            let sorted = sorted_by_text(cql_type, bytes, decimals)?;
            for (index, entry) in sorted.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                put_text_as_json(element, &entry.text, out);
            }
            out.push(']');
        }
        CqlType::Map(key, value_type) => {
            out.push('[');
            let mut text = String::new();
            let sorted = sorted_by_text(cql_type, bytes, decimals)?;
            for (index, entry) in sorted.iter().enumerate() {
                out.push_str(if index > 0 { ",[" } else { "[" });
                put_text_as_json(key, &entry.text, out);
                out.push(',');
                put_element_text(value_type, entry.value, decimals, &mut text, out)?;
                out.push(']');
            }
            out.push(']');
        }
    }
    Ok(())
}

/// An entry of a set or map; `value` is a map's only.
struct Entry<'a> {
    text: String,
    key: &'a [u8],
    value: Option<&'a [u8]>,
}

/// The entries of a set or map, sorted by the canonical text of their keys.
fn sorted_by_text<'a>(
    cql_type: &'a CqlType,
    bytes: &'a [u8],
    decimals: Decimals,
) -> Result<Vec<Entry<'a>>, ValueError> {
    let is_map = matches!(cql_type, CqlType::Map(..));
    let kind = if is_map { "map" } else { "set" };
    let mut entries = Vec::new();
    let mut elements = elements(cql_type, bytes)?;
    while let Some(element) = elements.next() {
        let (key_type, key) = element?;
        let key = key.ok_or_else(|| ValueError::new(format!("a {kind} holds a null key")))?;
        let mut text = String::new();
        canonical_text_into(key_type, key, decimals, &mut text)?;
        let value = if is_map { elements.next().transpose()?.and_then(|(_, value)| value) } else { None };
        entries.push(Entry { text, key, value });
    }
    entries.sort_by(|one, other| one.text.cmp(&other.text));
    if let Some(twice) = entries.windows(2).find(|pair| pair[0].text == pair[1].text) {
        return Err(ValueError::new(format!("a {kind} holds {:?} twice", shown(&twice[0].text))));
    }
    Ok(entries)
}

/// The same value with its sets and maps, at every depth, in the order of their canonical texts.
/// Short tuples and user-defined types come out with their missing fields as nulls where anything was sorted.
///
/// # Errors
/// As [`canonical_text`].
pub fn sorted<'a>(cql_type: &CqlType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueError> {
    if !holds_unordered(cql_type) || bytes.is_empty() {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut out = Vec::with_capacity(bytes.len());
    let put = |parent: &CqlType, element: &CqlType, bytes: Option<&[u8]>, out: &mut Vec<u8>| match bytes {
        Some(bytes) => put_framed(parent, Some(&sorted(element, bytes)?), out),
        None => put_framed(parent, None, out),
    };
    match cql_type {
        CqlType::Set(element) => {
            let entries = sorted_by_text(cql_type, bytes, Decimals::AsWritten)?;
            put_count(entries.len(), &mut out)?;
            for entry in entries {
                put(cql_type, element, Some(entry.key), &mut out)?;
            }
        }
        CqlType::Map(key, value) => {
            let entries = sorted_by_text(cql_type, bytes, Decimals::AsWritten)?;
            put_count(entries.len(), &mut out)?;
            for entry in entries {
                put(cql_type, key, Some(entry.key), &mut out)?;
                put(cql_type, value, entry.value, &mut out)?;
            }
        }
        _ => {
            let elements = elements(cql_type, bytes)?;
            if matches!(cql_type, CqlType::List(_)) {
                put_count(elements.remaining(), &mut out)?;
            }
            for element in elements {
                let (element, bytes) = element?;
                put(cql_type, element, bytes, &mut out)?;
            }
        }
    }
    Ok(Cow::Owned(out))
}

/// Whether a set or a map is anywhere in the type.
fn holds_unordered(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Set(_) | CqlType::Map(..) => true,
        CqlType::List(element) | CqlType::Vector(element, _) => holds_unordered(element),
        CqlType::Tuple(fields) => fields.iter().any(holds_unordered),
        CqlType::Udt(fields) => fields.iter().any(|(_, field)| holds_unordered(field)),
        _ => false,
    }
}

/// `text` is a buffer to use again.
fn put_element_text(
    cql_type: &CqlType,
    bytes: Option<&[u8]>,
    decimals: Decimals,
    text: &mut String,
    out: &mut String,
) -> Result<(), ValueError> {
    let Some(bytes) = bytes else {
        out.push_str("null");
        return Ok(());
    };
    text.clear();
    canonical_text_into(cql_type, bytes, decimals, text)?;
    put_text_as_json(cql_type, text, out);
    Ok(())
}

fn put_text_as_json(cql_type: &CqlType, text: &str, out: &mut String) {
    // A value of no bytes has no JSON of its own, whatever its type.
    if cql_type.has_parts() && !text.is_empty() { out.push_str(text) } else { json::put_string(text, out) }
}

/// The bytes of a canonical text: the inverse of [`canonical_text`].
///
/// # Errors
/// A text that is not the canonical one of any value of the type.
pub fn parse_canonical(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Vec::new();
    if cql_type.has_parts() && !text.is_empty() {
        let mut reader = json::Reader::new(text);
        parse_json(cql_type, &mut reader, &mut bytes)?;
        if !reader.is_at_end() {
            return Err(ValueError::new(format!("text goes on after a {cql_type}")));
        }
    } else {
        parse_scalar(cql_type, text, Blobs::Hex, &mut bytes)?;
    }
    if canonical_text(cql_type, &bytes)? == text {
        Ok(bytes)
    } else {
        Err(ValueError::new(format!("{:?} is not how a {cql_type} is written in a key", shown(text))))
    }
}

/// Reads the JSON of one value that has parts or stands inside one. Recursion goes no deeper than the type.
fn parse_json(
    cql_type: &CqlType,
    reader: &mut json::Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if !cql_type.has_parts() || reader.peek() == Some(b'"') {
        return parse_scalar(cql_type, &reader.string()?, Blobs::Hex, out);
    }
    reader.expect("[")?;
    let start = out.len();
    let mut count = 0;
    match cql_type {
        CqlType::List(element) | CqlType::Set(element) => {
            put_count(0, out)?;
            while !reader.eat("]") {
                if count > 0 {
                    reader.expect(",")?;
                }
                count += 1;
                parse_json_element(cql_type, element, reader, out)?;
            }
        }
        CqlType::Map(key, value) => {
            put_count(0, out)?;
            while !reader.eat("]") {
                reader.expect(if count > 0 { ",[" } else { "[" })?;
                count += 1;
                parse_json_element(cql_type, key, reader, out)?;
                reader.expect(",")?;
                parse_json_element(cql_type, value, reader, out)?;
                reader.expect("]")?;
            }
        }
        CqlType::Tuple(fields) => {
            return parse_json_fields(cql_type, fields.iter(), reader, out);
        }
        CqlType::Udt(fields) => {
            return parse_json_fields(cql_type, fields.iter().map(|(_, field)| field), reader, out);
        }
        CqlType::Vector(element, dimension) => {
            return parse_json_fields(cql_type, (0..*dimension).map(|_| &**element), reader, out);
        }
        _ => {}
    }
    let mut counted = Vec::with_capacity(4);
    put_count(count, &mut counted)?;
    out[start..start + 4].copy_from_slice(&counted);
    Ok(())
}

fn parse_json_fields<'a>(
    parent: &CqlType,
    fields: impl Iterator<Item = &'a CqlType>,
    reader: &mut json::Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            reader.expect(",")?;
        }
        parse_json_element(parent, field, reader, out)?;
    }
    reader.expect("]")
}

fn parse_json_element(
    parent: &CqlType,
    element: &CqlType,
    reader: &mut json::Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if reader.eat("null") {
        return put_framed(parent, None, out);
    }
    let mut bytes = Vec::new();
    parse_json(element, reader, &mut bytes)?;
    put_framed(parent, Some(&bytes), out)
}

/// The bytes of a scalar in any spelling that a change stream may use: see [`canonical_text`]'s table, and beside it
/// base64 for blobs; any decimal spelling of numbers; dates as days and times as nanoseconds; timestamps as ISO 8601
/// with any offset; ISO durations; inet in Java's forms. The empty text is a value of no bytes.
///
/// # Errors
/// A text that is no value of the type, and every type with parts.
pub fn parse_text(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Vec::new();
    parse_text_into(cql_type, text, &mut bytes)?;
    Ok(bytes)
}

/// Appends the bytes of a scalar.
///
/// # Errors
/// As [`parse_text`]; then `out` may hold a part of it.
pub fn parse_text_into(cql_type: &CqlType, text: &str, out: &mut Vec<u8>) -> Result<(), ValueError> {
    if cql_type.has_parts() {
        return Err(ValueError::new(format!("a text stands where a {cql_type} is expected")));
    }
    parse_scalar(cql_type, text, Blobs::Base64, out)
}

#[derive(Clone, Copy)]
enum Blobs {
    Base64,
    Hex,
}

fn parse_scalar(cql_type: &CqlType, text: &str, blobs: Blobs, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match cql_type {
        CqlType::Custom(class) => {
            return Err(ValueError::new(format!("values of the custom type '{class}' cannot be read")));
        }
        _ if text.is_empty() => {}
        CqlType::Ascii => out.extend_from_slice(value::ascii(text.as_bytes())?.as_bytes()),
        CqlType::Text => out.extend_from_slice(text.as_bytes()),
        CqlType::Blob => match blobs {
            Blobs::Base64 => base64::decode_into(text, out)?,
            Blobs::Hex => parse_hex(text, out)?,
        },
        CqlType::Bigint | CqlType::Counter => {
            out.extend_from_slice(&integer::<i64>(cql_type, text)?.to_be_bytes())
        }
        CqlType::Int => out.extend_from_slice(&integer::<i32>(cql_type, text)?.to_be_bytes()),
        CqlType::Smallint => out.extend_from_slice(&integer::<i16>(cql_type, text)?.to_be_bytes()),
        CqlType::Tinyint => out.extend_from_slice(&integer::<i8>(cql_type, text)?.to_be_bytes()),
        CqlType::Boolean => out.push(match text {
            "true" => 1,
            "false" => 0,
            _ => return Err(not_a(cql_type, text)),
        }),
        CqlType::Date => out.extend_from_slice(&value::date_bytes(time::parse_date(text)?)),
        CqlType::Decimal => {
            let (unscaled, scale) = decimal::parse(text)?;
            value::put_decimal(&unscaled, scale, out);
        }
        CqlType::Double => out.extend_from_slice(&float::parse::<f64>(text)?.to_be_bytes()),
        CqlType::Float => out.extend_from_slice(&float::parse::<f32>(text)?.to_be_bytes()),
        CqlType::Duration => {
            let (months, days, nanoseconds) = duration::parse(text)?;
            vint::put_signed(i64::from(months), out);
            vint::put_signed(i64::from(days), out);
            vint::put_signed(nanoseconds, out);
        }
        CqlType::Inet => match parse_inet(text).ok_or_else(|| not_a(cql_type, text))? {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        },
        CqlType::Time => out.extend_from_slice(&time::parse_time(text)?.to_be_bytes()),
        CqlType::Timestamp => out.extend_from_slice(&time::parse_timestamp(text)?.to_be_bytes()),
        CqlType::Timeuuid | CqlType::Uuid => {
            out.extend_from_slice(&parse_uuid(text).ok_or_else(|| not_a(cql_type, text))?);
        }
        CqlType::Varint => out.extend_from_slice(&decimal::parse_varint(text)?.to_signed_bytes_be()),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Udt(_)
        | CqlType::Vector(..) => return Err(not_a(cql_type, text)),
    }
    Ok(())
}

/// A text as error messages show it: its beginning.
pub(crate) fn shown(text: &str) -> &str {
    let mut end = text.len().min(60);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn not_a(cql_type: &CqlType, text: &str) -> ValueError {
    ValueError::new(format!("{:?} is no {cql_type}", shown(text)))
}

fn integer<I: std::str::FromStr>(cql_type: &CqlType, text: &str) -> Result<I, ValueError> {
    text.parse().map_err(|_| not_a(cql_type, text))
}

fn put_display(value: impl Display, out: &mut String) {
    write!(out, "{value}").expect("a String takes all text");
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn put_hex(bytes: &[u8], out: &mut String) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

fn parse_hex(text: &str, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let fault = || ValueError::new("a blob is not lower-case hexadecimal");
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(fault());
    }
    for &[high, low] in pairs {
        out.push((hex_digit(high).ok_or_else(fault)? << 4) | hex_digit(low).ok_or_else(fault)?);
    }
    Ok(())
}

fn hex_digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Where the hyphens of a uuid stand.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

fn put_uuid(bytes: [u8; 16], out: &mut String) {
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        put_hex(&[*byte], out);
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let characters: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (index, &character) in characters.iter().enumerate() {
        if UUID_HYPHENS.contains(&index) {
            if character != b'-' {
                return None;
            }
        } else {
            bytes[digits / 2] = (bytes[digits / 2] << 4) | hex_digit(character)?;
            digits += 1;
        }
    }
    Some(bytes)
}

/// Reads Java's `/` in front, and a mapped address as the IPv4 one that Java makes of it.
fn parse_inet(text: &str) -> Option<IpAddr> {
    let text = text.strip_prefix('/').unwrap_or(text);
    match text.parse().ok()? {
        IpAddr::V6(address) => Some(unmapped(address)),
        address => Some(address),
    }
}

fn unmapped(address: Ipv6Addr) -> IpAddr {
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}
