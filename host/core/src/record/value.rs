//! Cell values: unions with one member, whose name is the type and whose scalars are strings.

use std::fmt;

use keyvector_cql::{CqlType, elements, sorted};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::content::ContentSeed;

/// What was read. With `Value` the bytes are in the buffer; otherwise the buffer may hold leftovers.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Null,
    Value,
    /// Why the value cannot be read as its column's type.
    Fault(String),
}

impl Outcome {
    /// Sorts the sets and maps of a value that stands from `start` to the end of the buffer.
    pub(super) fn finished(self, cql_type: &CqlType, out: &mut Vec<u8>, start: usize) -> Self {
        if self != Self::Value || !cql_type.has_parts() {
            return self;
        }
        match sorted(cql_type, &out[start..]) {
            Ok(std::borrow::Cow::Borrowed(_)) => self,
            Ok(std::borrow::Cow::Owned(bytes)) => {
                out.truncate(start);
                out.extend_from_slice(&bytes);
                self
            }
            Err(fault) => Self::Fault(fault.to_string()),
        }
    }

    /// Takes a value that a table which is not frozen cannot tell from null as null: an empty collection, a
    /// user-defined type of nothing but nulls.
    pub(super) fn null_if_empty(self, cql_type: &CqlType, bytes: &[u8]) -> Self {
        let has_nothing = || match cql_type {
            CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => bytes.starts_with(&[0; 4]),
            CqlType::Udt(_) => elements(cql_type, bytes)
                .is_ok_and(|mut fields| fields.all(|field| matches!(field, Ok((_, None))))),
            _ => false,
        };
        if self == Self::Value && has_nothing() { Self::Null } else { self }
    }
}

/// Takes JSON that is not of the wanted shape as the fault of one cell, not of the whole record.
macro_rules! other_shapes_are_faults {
    ($wanted:literal) => {
        fn visit_str<E>(self, _: &str) -> Result<Outcome, E> {
            Ok(Outcome::Fault(concat!("a JSON string stands where ", $wanted, " is expected").to_owned()))
        }

        fn visit_bool<E>(self, _: bool) -> Result<Outcome, E> {
            Ok(Outcome::Fault(concat!("a JSON boolean stands where ", $wanted, " is expected").to_owned()))
        }

        fn visit_u64<E>(self, _: u64) -> Result<Outcome, E> {
            Ok(Outcome::Fault(concat!("a JSON number stands where ", $wanted, " is expected").to_owned()))
        }

        fn visit_i64<E>(self, _: i64) -> Result<Outcome, E> {
            Ok(Outcome::Fault(concat!("a JSON number stands where ", $wanted, " is expected").to_owned()))
        }

        fn visit_f64<E>(self, _: f64) -> Result<Outcome, E> {
            Ok(Outcome::Fault(concat!("a JSON number stands where ", $wanted, " is expected").to_owned()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Outcome, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Outcome::Fault(concat!("a JSON array stands where ", $wanted, " is expected").to_owned()))
        }
    };
}

pub(super) use other_shapes_are_faults;

/// A cell: `{"value": …, "metadata": …}`. Without a value it is null.
pub(super) struct CellSeed<'a> {
    pub(super) cql_type: &'a CqlType,
    pub(super) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for CellSeed<'_> {
    type Value = Outcome;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outcome, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CellSeed<'_> {
    type Value = Outcome;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell")
    }

    other_shapes_are_faults!("a cell");

    fn visit_unit<E>(self) -> Result<Outcome, E> {
        Ok(Outcome::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome, A::Error> {
        let mut outcome = None;
        let start = self.out.len();
        while let Some(is_value) = map.next_key_seed(IsNamed("value"))? {
            if !is_value {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.out.truncate(start);
            let read = map.next_value_seed(ValueSeed { cql_type: self.cql_type, out: self.out })?;
            outcome = Some(match outcome {
                None => read,
                Some(_) => Outcome::Fault("a cell has two values".to_owned()),
            });
        }
        Ok(outcome.unwrap_or(Outcome::Null))
    }
}

/// A union: `{"textT": "…"}`. Empty it is null.
pub(super) struct ValueSeed<'a> {
    pub(super) cql_type: &'a CqlType,
    pub(super) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Outcome;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outcome, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Outcome;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, an object with one member such as textT")
    }

    other_shapes_are_faults!("a value with its type");

    fn visit_unit<E>(self) -> Result<Outcome, E> {
        Ok(Outcome::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome, A::Error> {
        let Some(fits) = map.next_key_seed(UnionMember(self.cql_type))? else { return Ok(Outcome::Null) };
        let outcome = match fits {
            Ok(()) => map.next_value_seed(ContentSeed { cql_type: self.cql_type, out: self.out })?,
            Err(reason) => {
                map.next_value::<IgnoredAny>()?;
                Outcome::Fault(reason)
            }
        };
        if map.next_entry::<IgnoredAny, IgnoredAny>()?.is_none() {
            return Ok(outcome);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Outcome::Fault("a value has more than one type".to_owned()))
    }
}

/// Checks the member's name against the column's type.
struct UnionMember<'a>(&'a CqlType);

impl<'de> DeserializeSeed<'de> for UnionMember<'_> {
    type Value = Result<(), String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for UnionMember<'_> {
    type Value = Result<(), String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member such as textT")
    }

    fn visit_str<E>(self, member: &str) -> Result<Self::Value, E> {
        let wanted = self.0;
        let fits = match wanted {
            CqlType::Ascii => member == "asciiT",
            CqlType::Bigint => member == "bigintT",
            CqlType::Blob => member == "blobT",
            CqlType::Boolean => member == "boolT",
            CqlType::Counter => member == "counterT",
            CqlType::Date => member == "dateT",
            CqlType::Decimal => member == "decimalT",
            CqlType::Double => member == "doubleT",
            CqlType::Duration => member == "durationT",
            CqlType::Float => member == "floatT",
            CqlType::Inet => member == "inetT",
            CqlType::Int => member == "intT",
            CqlType::Smallint => member == "smallintT",
            CqlType::Text => member == "textT" || member == "varcharT",
            CqlType::Time => member == "timeT",
            CqlType::Timestamp => member == "timestampT",
            CqlType::Timeuuid => member == "timeuuidT",
            CqlType::Tinyint => member == "tinyintT",
            CqlType::Uuid => member == "uuidT",
            CqlType::Varint => member == "varintT",
            CqlType::List(_) => member == "listT",
            CqlType::Set(_) => member == "setT",
            CqlType::Map(..) => member == "mapT",
            CqlType::Tuple(_) => member == "tupleT",
            CqlType::Udt(_) => member == "udtT",
            // Keyspaces has neither, so that no member for them is known.
            CqlType::Vector(..) | CqlType::Custom(_) => false,
        };
        Ok(if fits {
            Ok(())
        } else if MEMBERS.contains(&member) {
            Err(format!("the stream says {member}, the schema {wanted}"))
        } else {
            let shown: String = member.chars().take(40).collect();
            Err(format!("the value type {shown:?} is not known to this host"))
        })
    }
}

/// All members of the union.
const MEMBERS: [&str; 26] = [
    "asciiT",
    "bigintT",
    "blobT",
    "boolT",
    "counterT",
    "dateT",
    "decimalT",
    "doubleT",
    "durationT",
    "floatT",
    "inetT",
    "intT",
    "listT",
    "mapT",
    "setT",
    "smallintT",
    "textT",
    "timeT",
    "timestampT",
    "timeuuidT",
    "tinyintT",
    "tupleT",
    "udtT",
    "uuidT",
    "varcharT",
    "varintT",
];

/// Whether a name is the wanted one.
struct IsNamed(&'static str);

impl<'de> DeserializeSeed<'de> for IsNamed {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsNamed {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a name such as {}", self.0)
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
