//! Values, and their bytes in the native protocol.

use std::net::IpAddr;

use num_bigint::BigInt;

use crate::elements::{elements, put_framed};
use crate::types::CqlType;
use crate::{duration, vint};

/// A number with more decimal digits than this is not turned to or from text: the work grows with the square of it.
pub const NUMBER_DIGITS_MAX: usize = 20_000;

/// Why bytes or a text are no value of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A value of any CQL type.
#[derive(Clone, Debug, PartialEq)]
pub enum CqlValue {
    /// A null inside a collection, tuple or user-defined type.
    Null,
    /// No bytes, of a type for which that is not a value of its own (not text, ascii, blob).
    Empty,
    Ascii(String),
    Bigint(i64),
    Blob(Vec<u8>),
    Boolean(bool),
    Counter(i64),
    /// Days since 1970-01-01.
    Date(i32),
    /// `unscaled × 10^(−scale)`.
    Decimal {
        unscaled: BigInt,
        scale: i32,
    },
    Double(f64),
    /// The three parts stand apart (a month has no fixed days) and share one sign.
    Duration {
        months: i32,
        days: i32,
        nanoseconds: i64,
    },
    Float(f32),
    Inet(IpAddr),
    Int(i32),
    Smallint(i16),
    Text(String),
    /// Nanoseconds since midnight, below 24 hours.
    Time(i64),
    /// Milliseconds since 1970-01-01T00:00Z.
    Timestamp(i64),
    Timeuuid([u8; 16]),
    Tinyint(i8),
    Uuid([u8; 16]),
    Varint(BigInt),
    List(Vec<CqlValue>),
    Set(Vec<CqlValue>),
    Map(Vec<(CqlValue, CqlValue)>),
    Tuple(Vec<CqlValue>),
    /// All fields in declared order.
    Udt(Vec<(String, CqlValue)>),
    Vector(Vec<CqlValue>),
}

impl CqlValue {
    /// Reads a value's bytes. Fields that a tuple's or user-defined type's bytes leave out are [`CqlValue::Null`].
    ///
    /// # Errors
    /// Bytes that are no value of the type, and every value of a [`CqlType::Custom`].
    pub fn decode(cql_type: &CqlType, bytes: &[u8]) -> Result<Self, ValueError> {
        Ok(match cql_type {
            CqlType::Ascii => Self::Ascii(ascii(bytes)?.to_owned()),
            CqlType::Text => Self::Text(utf8(bytes)?.to_owned()),
            CqlType::Blob => Self::Blob(bytes.to_vec()),
            CqlType::Custom(class) => {
                return Err(ValueError::new(format!("values of the custom type '{class}' cannot be read")));
            }
            _ if bytes.is_empty() => Self::Empty,
            CqlType::Bigint => Self::Bigint(i64::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Boolean => Self::Boolean(fixed::<1>(cql_type, bytes)? != [0]),
            CqlType::Counter => Self::Counter(i64::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Date => Self::Date(date(fixed(cql_type, bytes)?)),
            CqlType::Decimal => {
                let (unscaled, scale) = decimal(bytes)?;
                Self::Decimal { unscaled, scale }
            }
            CqlType::Double => Self::Double(f64::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Duration => {
                let (months, days, nanoseconds) = duration::decode(bytes)?;
                Self::Duration { months, days, nanoseconds }
            }
            CqlType::Float => Self::Float(f32::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Inet => Self::Inet(inet(bytes)?),
            CqlType::Int => Self::Int(i32::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Smallint => Self::Smallint(i16::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Time => Self::Time(time(fixed(cql_type, bytes)?)?),
            CqlType::Timestamp => Self::Timestamp(i64::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Timeuuid => Self::Timeuuid(fixed(cql_type, bytes)?),
            CqlType::Tinyint => Self::Tinyint(i8::from_be_bytes(fixed(cql_type, bytes)?)),
            CqlType::Uuid => Self::Uuid(fixed(cql_type, bytes)?),
            CqlType::Varint => Self::Varint(BigInt::from_signed_bytes_be(bytes)),
            CqlType::List(_) => Self::List(decode_all(cql_type, bytes)?),
            CqlType::Set(_) => Self::Set(decode_all(cql_type, bytes)?),
            CqlType::Vector(..) => Self::Vector(decode_all(cql_type, bytes)?),
            CqlType::Tuple(_) => Self::Tuple(decode_all(cql_type, bytes)?),
            CqlType::Map(..) => {
                let mut values = decode_all(cql_type, bytes)?.into_iter();
                let mut entries = Vec::with_capacity(values.len() / 2);
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    entries.push((key, value));
                }
                Self::Map(entries)
            }
            CqlType::Udt(fields) => {
                let values = decode_all(cql_type, bytes)?;
                Self::Udt(fields.iter().map(|(name, _)| name.clone()).zip(values).collect())
            }
        })
    }

    /// The value's bytes as a value of the type.
    ///
    /// # Errors
    /// A value that does not belong to the type, a null that stands alone, parts over 2 GiB.
    pub fn encode(&self, cql_type: &CqlType) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        self.encode_into(cql_type, &mut out)?;
        Ok(out)
    }

    fn encode_into(&self, cql_type: &CqlType, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match (self, cql_type) {
            (Self::Empty, CqlType::Custom(_)) => return Err(mismatch(self, cql_type)),
            (Self::Empty, _) => {}
            (Self::Ascii(text), CqlType::Ascii) => {
                out.extend_from_slice(ascii(text.as_bytes())?.as_bytes());
            }
            (Self::Text(text), CqlType::Text) => out.extend_from_slice(text.as_bytes()),
            (Self::Blob(bytes), CqlType::Blob) => out.extend_from_slice(bytes),
            (Self::Bigint(number), CqlType::Bigint)
            | (Self::Counter(number), CqlType::Counter)
            | (Self::Timestamp(number), CqlType::Timestamp) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Boolean(flag), CqlType::Boolean) => out.push(u8::from(*flag)),
            (Self::Date(days), CqlType::Date) => out.extend_from_slice(&date_bytes(*days)),
            (Self::Decimal { unscaled, scale }, CqlType::Decimal) => put_decimal(unscaled, *scale, out),
            (Self::Double(number), CqlType::Double) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Duration { months, days, nanoseconds }, CqlType::Duration) => {
                duration::check(*months, *days, *nanoseconds)?;
                vint::put_signed(i64::from(*months), out);
                vint::put_signed(i64::from(*days), out);
                vint::put_signed(*nanoseconds, out);
            }
            (Self::Float(number), CqlType::Float) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Inet(IpAddr::V4(address)), CqlType::Inet) => out.extend_from_slice(&address.octets()),
            (Self::Inet(IpAddr::V6(address)), CqlType::Inet) => out.extend_from_slice(&address.octets()),
            (Self::Int(number), CqlType::Int) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Smallint(number), CqlType::Smallint) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Time(nanoseconds), CqlType::Time) => {
                out.extend_from_slice(&time(nanoseconds.to_be_bytes())?.to_be_bytes());
            }
            (Self::Timeuuid(bytes), CqlType::Timeuuid) | (Self::Uuid(bytes), CqlType::Uuid) => {
                out.extend_from_slice(bytes);
            }
            (Self::Tinyint(number), CqlType::Tinyint) => out.extend_from_slice(&number.to_be_bytes()),
            (Self::Varint(number), CqlType::Varint) => out.extend_from_slice(&number.to_signed_bytes_be()),
            (Self::List(values), CqlType::List(element)) | (Self::Set(values), CqlType::Set(element)) => {
                put_count(values.len(), out)?;
                encode_all(cql_type, values.iter().map(|value| (value, &**element)), out)?;
            }
            (Self::Map(entries), CqlType::Map(key_type, value_type)) => {
                put_count(entries.len(), out)?;
                let flat =
                    entries.iter().flat_map(|(key, value)| [(key, &**key_type), (value, &**value_type)]);
                encode_all(cql_type, flat, out)?;
            }
            (Self::Vector(values), CqlType::Vector(element, dimension)) => {
                if values.len() != usize::from(*dimension) {
                    let (found, wanted) = (values.len(), dimension);
                    return Err(ValueError::new(format!("a vector of {wanted} elements was given {found}")));
                }
                encode_all(cql_type, values.iter().map(|value| (value, &**element)), out)?;
            }
            (Self::Tuple(values), CqlType::Tuple(fields)) if values.len() == fields.len() => {
                encode_all(cql_type, values.iter().zip(fields), out)?;
            }
            (Self::Udt(values), CqlType::Udt(fields))
                if values.iter().map(|(name, _)| name).eq(fields.iter().map(|(name, _)| name)) =>
            {
                let values = values.iter().map(|(_, value)| value);
                encode_all(cql_type, values.zip(fields.iter().map(|(_, field)| field)), out)?;
            }
            _ => return Err(mismatch(self, cql_type)),
        }
        Ok(())
    }

    /// The kind of value, for messages: no contents.
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "a null",
            Self::Empty => "an empty value",
            Self::Ascii(_) => "an ascii",
            Self::Bigint(_) => "a bigint",
            Self::Blob(_) => "a blob",
            Self::Boolean(_) => "a boolean",
            Self::Counter(_) => "a counter",
            Self::Date(_) => "a date",
            Self::Decimal { .. } => "a decimal",
            Self::Double(_) => "a double",
            Self::Duration { .. } => "a duration",
            Self::Float(_) => "a float",
            Self::Inet(_) => "an inet",
            Self::Int(_) => "an int",
            Self::Smallint(_) => "a smallint",
            Self::Text(_) => "a text",
            Self::Time(_) => "a time",
            Self::Timestamp(_) => "a timestamp",
            Self::Timeuuid(_) => "a timeuuid",
            Self::Tinyint(_) => "a tinyint",
            Self::Uuid(_) => "a uuid",
            Self::Varint(_) => "a varint",
            Self::List(_) => "a list",
            Self::Set(_) => "a set",
            Self::Map(_) => "a map",
            Self::Tuple(_) => "a tuple of other fields",
            Self::Udt(_) => "a user-defined type of other fields",
            Self::Vector(_) => "a vector",
        }
    }
}

fn decode_all(cql_type: &CqlType, bytes: &[u8]) -> Result<Vec<CqlValue>, ValueError> {
    elements(cql_type, bytes)?
        .map(|element| match element? {
            (element, Some(bytes)) => CqlValue::decode(element, bytes),
            (_, None) => Ok(CqlValue::Null),
        })
        .collect()
}

fn encode_all<'a>(
    parent: &CqlType,
    values: impl Iterator<Item = (&'a CqlValue, &'a CqlType)>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let mut bytes = Vec::new();
    for (value, cql_type) in values {
        bytes.clear();
        match value {
            CqlValue::Null => put_framed(parent, None, out)?,
            value => {
                value.encode_into(cql_type, &mut bytes)?;
                put_framed(parent, Some(&bytes), out)?;
            }
        }
    }
    Ok(())
}

fn mismatch(value: &CqlValue, cql_type: &CqlType) -> ValueError {
    ValueError::new(format!("{} is no {cql_type}", value.kind()))
}

pub(crate) fn put_count(count: usize, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let count = i32::try_from(count).map_err(|_| ValueError::new("a collection has over 2^31 elements"))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

pub(crate) fn fixed<const N: usize>(cql_type: &CqlType, bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| ValueError::new(format!("a {cql_type} has {N} bytes, not {}", bytes.len())))
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, ValueError> {
    std::str::from_utf8(bytes)
        .map_err(|fault| ValueError::new(format!("text is not UTF-8 from byte {} on", fault.valid_up_to())))
}

pub(crate) fn ascii(bytes: &[u8]) -> Result<&str, ValueError> {
    match bytes.iter().position(|byte| !byte.is_ascii()) {
        Some(at) => Err(ValueError::new(format!("ascii has a byte above 127 at {at}"))),
        None => utf8(bytes),
    }
}

/// The server stores days as unsigned, with 1970-01-01 in the middle.
pub(crate) fn date(bytes: [u8; 4]) -> i32 {
    (u32::from_be_bytes(bytes) ^ (1 << 31)) as i32
}

pub(crate) fn date_bytes(days: i32) -> [u8; 4] {
    ((days as u32) ^ (1 << 31)).to_be_bytes()
}

pub(crate) fn time(bytes: [u8; 8]) -> Result<i64, ValueError> {
    let nanoseconds = i64::from_be_bytes(bytes);
    if (0..crate::time::NANOSECONDS_OF_DAY).contains(&nanoseconds) {
        Ok(nanoseconds)
    } else {
        Err(ValueError::new("a time is from 0 to below 24 hours"))
    }
}

pub(crate) fn inet(bytes: &[u8]) -> Result<IpAddr, ValueError> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(octets));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) => Ok(IpAddr::from(octets)),
        Err(_) => Err(ValueError::new(format!("an inet has 4 or 16 bytes, not {}", bytes.len()))),
    }
}

pub(crate) fn decimal(bytes: &[u8]) -> Result<(BigInt, i32), ValueError> {
    match bytes.split_first_chunk() {
        Some((scale, unscaled)) if !unscaled.is_empty() => {
            Ok((BigInt::from_signed_bytes_be(unscaled), i32::from_be_bytes(*scale)))
        }
        _ => Err(ValueError::new(format!("a decimal has at least 5 bytes, not {}", bytes.len()))),
    }
}

pub(crate) fn put_decimal(unscaled: &BigInt, scale: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&unscaled.to_signed_bytes_be());
}
