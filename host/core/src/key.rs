//! Row keys: one text per row, from whichever door it came in by.
//!
//! A key is the row's whole primary key: the columns sorted by name, each `name=value`, joined by `&`. Name and value
//! are percent-encoded; a value is the canonical text of its CQL value (see [`keyvector_cql::canonical_text`]):
//! `movie_id=12&studio=Redwood%3DRidge`. With the table's schema it gives back typed values.

use std::borrow::Cow;
use std::fmt;

use keyvector_cql::{CqlType, Decimals, canonical_text_into, elements, parse_canonical, sorted};

use crate::document::FailureClass;
use crate::schema::{Column, KeyPart, TableSchema, quote_identifier};

/// The number of this format. The embedded store's own format number stands for it; an index elsewhere carries it.
pub const KEY_FORMAT: u32 = 1;

/// A key of more bytes can never be stored.
///
/// # Source
/// Amazon S3 Vectors user guide, "Limitations and restrictions": vector key length.
pub const KEY_BYTES_MAX: usize = 1024;

/// A row's whole primary key as text: columns sorted by name, `name=value` joined by `&`, percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(String);

/// How key values reach the host, which decides what can be told from their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A change stream: the bytes were made here, from a text.
    Stream,
    /// CQL: the bytes are the server's own. In a partition key it compares them as bytes, so that two spellings of one
    /// value are two rows; such a row has no key.
    Cql,
}

/// Why a row has no key, or a key no row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", column.as_ref().map(|name| format!("key column {}: ", quote_identifier(name))).unwrap_or_default())]
pub struct KeyError {
    /// The column at fault, where it is one.
    pub column: Option<String>,
    /// [`FailureClass::BadKey`] or [`FailureClass::KeyNotCanonical`].
    pub class: FailureClass,
    pub reason: String,
}

impl RowKey {
    /// The key of a row. `cells` gives the bytes of column `i` of [`TableSchema::key_columns`], `None` for null.
    ///
    /// # Errors
    /// - `BadKey`: a null, or bytes that are no value of the column's type.
    /// - `KeyNotCanonical`: an address of 16 bytes that is a mapped IPv4 one; in a partition key a decimal of negative
    ///   scale, and through [`Door::Cql`] bytes that are not those of the canonical text.
    pub fn encode<'a>(
        schema: &TableSchema,
        cells: impl Fn(usize) -> Option<&'a [u8]>,
        door: Door,
    ) -> Result<Self, KeyError> {
        encode_parts(schema, schema.key_parts.iter(), cells, door).map(Self)
    }

    /// Takes a text that an index or a store gives back.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no index can hold it.
    pub fn is_too_long(&self) -> bool {
        self.0.len() > KEY_BYTES_MAX
    }

    /// The typed values: the bytes of column `i` of [`TableSchema::key_columns`], in that order.
    ///
    /// # Errors
    /// `BadKey` for a key that is foreign: one that does not come out of [`RowKey::encode`] byte for byte.
    pub fn decode(&self, schema: &TableSchema) -> Result<Vec<(usize, Vec<u8>)>, KeyError> {
        let mut segments = self.0.split('&');
        let mut values = Vec::with_capacity(schema.key_parts.len());
        for part in &schema.key_parts {
            let column = &schema.columns[part.column];
            let foreign = |reason: &str| KeyError::bad(Some(column), reason);
            let segment = segments.next().ok_or_else(|| foreign("the key does not name it"))?;
            let encoded = segment
                .strip_prefix(part.prefix.as_str())
                .ok_or_else(|| foreign("the key names another column in its place"))?;
            let text = percent_decode(encoded).ok_or_else(|| foreign("its percent-encoding is broken"))?;
            let bytes =
                parse_canonical(&column.cql_type, &text).map_err(|fault| foreign(&fault.to_string()))?;
            values.push((part.column, bytes));
        }
        if segments.next().is_some() {
            return Err(KeyError::bad(None, "the key has more columns than the table's primary key"));
        }
        values.sort_unstable_by_key(|(column, _)| *column);
        let again = Self::encode(
            schema,
            |column| values.get(column).map(|(_, bytes)| bytes.as_slice()),
            Door::Stream,
        )?;
        if again == *self {
            Ok(values)
        } else {
            Err(KeyError::bad(None, "the key is not spelled as this host spells it"))
        }
    }

    /// The part of the key that names the partition: the partition key's columns alone, in the same encoding.
    ///
    /// # Errors
    /// `BadKey` where the key does not have the columns of the table's primary key.
    pub fn partition_part(&self, schema: &TableSchema) -> Result<String, KeyError> {
        let mut partition = String::new();
        let mut segments = self.0.split('&');
        for part in &schema.key_parts {
            let segment = segments.next().filter(|segment| segment.starts_with(part.prefix.as_str()));
            let segment = segment.ok_or_else(|| {
                KeyError::bad(Some(&schema.columns[part.column]), "the key does not name it in its place")
            })?;
            if part.in_partition {
                if !partition.is_empty() {
                    partition.push('&');
                }
                partition.push_str(segment);
            }
        }
        if segments.next().is_some() {
            return Err(KeyError::bad(None, "the key has more columns than the table's primary key"));
        }
        Ok(partition)
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text of a partition, as [`RowKey::partition_part`] gives it. `cells` as for [`RowKey::encode`]; those of
/// clustering columns are not asked for.
///
/// # Errors
/// As [`RowKey::encode`].
pub fn encode_partition<'a>(
    schema: &TableSchema,
    cells: impl Fn(usize) -> Option<&'a [u8]>,
    door: Door,
) -> Result<String, KeyError> {
    encode_parts(schema, schema.key_parts.iter().filter(|part| part.in_partition), cells, door)
}

/// The condition that finds the row: `WHERE "movie_id" = ? AND "studio" = ?`, in the order of
/// [`TableSchema::key_columns`].
pub fn where_clause(schema: &TableSchema) -> String {
    let conditions: Vec<String> =
        schema.key_columns().iter().map(|column| format!("{} = ?", quote_identifier(&column.name))).collect();
    format!("WHERE {}", conditions.join(" AND "))
}

impl KeyError {
    pub(crate) fn bad(column: Option<&Column>, reason: impl Into<String>) -> Self {
        let column = column.map(|column| column.name.clone());
        Self { column, class: FailureClass::BadKey, reason: reason.into() }
    }

    fn not_canonical(column: &Column, reason: &str) -> Self {
        Self {
            column: Some(column.name.clone()),
            class: FailureClass::KeyNotCanonical,
            reason: reason.to_owned(),
        }
    }
}

fn encode_parts<'a, 's>(
    schema: &'s TableSchema,
    parts: impl Iterator<Item = &'s KeyPart>,
    cells: impl Fn(usize) -> Option<&'a [u8]>,
    door: Door,
) -> Result<String, KeyError> {
    let mut key = String::with_capacity(64);
    for part in parts {
        let column = &schema.columns[part.column];
        let bytes = cells(part.column).ok_or_else(|| KeyError::bad(Some(column), "it is null or missing"))?;
        if !key.is_empty() {
            key.push('&');
        }
        key.push_str(&part.prefix);
        encode_value(column, bytes, part.in_partition, door, &mut key)?;
    }
    Ok(key)
}

fn encode_value(
    column: &Column,
    bytes: &[u8],
    in_partition: bool,
    door: Door,
    key: &mut String,
) -> Result<(), KeyError> {
    let bad = |fault: keyvector_cql::ValueError| KeyError::bad(Some(column), fault.to_string());
    match &column.cql_type {
        // Every value of these types has one spelling in bytes, and a text that needs no percent-encoding.
        CqlType::Bigint
        | CqlType::Blob
        | CqlType::Int
        | CqlType::Smallint
        | CqlType::Timestamp
        | CqlType::Timeuuid
        | CqlType::Tinyint
        | CqlType::Uuid => {
            canonical_text_into(&column.cql_type, bytes, Decimals::AsWritten, key).map_err(bad)
        }
        CqlType::Text => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| KeyError::bad(Some(column), "text is not UTF-8"))?;
            percent_encode(text, key);
            Ok(())
        }
        cql_type => {
            check_spelling(column, cql_type, bytes, in_partition)?;
            // A partition key is compared by the server as bytes, a clustering column as values.
            let decimals = if in_partition { Decimals::AsWritten } else { Decimals::Stripped };
            let mut text = String::new();
            canonical_text_into(cql_type, bytes, decimals, &mut text).map_err(bad)?;
            if in_partition && door == Door::Cql {
                let again = parse_canonical(cql_type, &text);
                // The server keeps sets and maps in an order of its own, whatever order is bound.
                if again.as_deref().ok() != Some(&*sorted(cql_type, bytes).map_err(bad)?) {
                    let reason = "its bytes are not those of its canonical text, so the row cannot be told from another";
                    return Err(KeyError::not_canonical(column, reason));
                }
            }
            percent_encode(&text, key);
            Ok(())
        }
    }
}

/// Refuses values, at any depth, that the server tells from another of the same text.
fn check_spelling(
    column: &Column,
    cql_type: &CqlType,
    bytes: &[u8],
    in_partition: bool,
) -> Result<(), KeyError> {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match cql_type {
        _ if bytes.is_empty() => Ok(()),
        CqlType::Inet if bytes.len() == 16 && bytes.starts_with(&MAPPED) => Err(KeyError::not_canonical(
            column,
            "it is an IPv4 address in 16 bytes, whose text is that of the 4 bytes",
        )),
        CqlType::Decimal if in_partition && bytes[0] >= 0x80 => Err(KeyError::not_canonical(
            column,
            "it is a decimal of negative scale, for which a stream has no known text",
        )),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Udt(_)
        | CqlType::Vector(..) => {
            let bad = |fault: keyvector_cql::ValueError| KeyError::bad(Some(column), fault.to_string());
            for element in elements(cql_type, bytes).map_err(bad)? {
                if let (element, Some(bytes)) = element.map_err(bad)? {
                    check_spelling(column, element, bytes, in_partition)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Appends the text with every byte but `A–Z a–z 0–9 - . _ ~` as `%XX`.
pub(crate) fn percent_encode(text: &str, out: &mut String) {
    let mut rest = text;
    loop {
        let plain = rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
        out.push_str(&rest[..plain]);
        rest = &rest[plain..];
        let Some(character) = rest.chars().next() else { return };
        let (escaped, after) = rest.split_at(character.len_utf8());
        for byte in escaped.bytes() {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
        rest = after;
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// `None` for a broken escape, or bytes that are not UTF-8.
fn percent_decode(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains('%') {
        return Some(Cow::Borrowed(encoded));
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            bytes.push((digit(after.first()?)? << 4) | digit(after.get(1)?)?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
