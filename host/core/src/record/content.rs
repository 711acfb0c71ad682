//! What stands behind a union's member: scalars as strings, collections as arrays, user-defined types as objects.

use std::fmt;

use keyvector_cql::{CqlType, parse_text_into, put_element};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::value::{CellSeed, Outcome, ValueSeed, other_shapes_are_faults};

/// What stands behind the union's member: a string (a boolean for `boolT`), a list of cells or map entries, or fields.
pub(super) struct ContentSeed<'a> {
    pub(super) cql_type: &'a CqlType,
    pub(super) out: &'a mut Vec<u8>,
}

impl ContentSeed<'_> {
    fn wrong<E>(&self, found: &str) -> Result<Outcome, E> {
        Ok(Outcome::Fault(format!("{found} stands where a {} is expected", self.cql_type)))
    }
}

impl<'de> DeserializeSeed<'de> for ContentSeed<'_> {
    type Value = Outcome;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outcome, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ContentSeed<'_> {
    type Value = Outcome;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.cql_type)
    }

    fn visit_unit<E>(self) -> Result<Outcome, E> {
        Ok(Outcome::Null)
    }

    fn visit_str<E>(self, text: &str) -> Result<Outcome, E> {
        Ok(match parse_text_into(self.cql_type, text, self.out) {
            Ok(()) => Outcome::Value,
            Err(fault) => Outcome::Fault(fault.to_string()),
        })
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Outcome, E> {
        if *self.cql_type != CqlType::Boolean {
            return self.wrong("a JSON boolean");
        }
        self.out.push(u8::from(flag));
        Ok(Outcome::Value)
    }

    // A JSON number may have lost digits on its way; the API sends strings.
    fn visit_u64<E>(self, _: u64) -> Result<Outcome, E> {
        self.wrong("a JSON number (not a string)")
    }

    fn visit_i64<E>(self, _: i64) -> Result<Outcome, E> {
        self.wrong("a JSON number (not a string)")
    }

    fn visit_f64<E>(self, _: f64) -> Result<Outcome, E> {
        self.wrong("a JSON number (not a string)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Outcome, A::Error> {
        let Self { cql_type, out } = self;
        match cql_type {
            CqlType::List(element) | CqlType::Set(element) => {
                read_counted(&mut seq, out, |seq, out| read_element(seq, element, out))
            }
            CqlType::Map(key, value) => {
                read_counted(&mut seq, out, |seq, out| seq.next_element_seed(EntrySeed { key, value, out }))
            }
            CqlType::Tuple(fields) => {
                let mut fault = None;
                let mut given = fields.len();
                for (index, field) in fields.iter().enumerate() {
                    match read_element(&mut seq, field, out)? {
                        None => {
                            given = index;
                            break;
                        }
                        Some(Outcome::Fault(reason)) => fault = fault.or(Some(reason)),
                        Some(Outcome::Null | Outcome::Value) => {}
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    fault = Some(format!("a tuple has more than {} fields", fields.len()));
                }
                for _ in given..fields.len() {
                    out.extend_from_slice(&NULL);
                }
                Ok(fault.map_or(Outcome::Value, Outcome::Fault))
            }
            other => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Outcome::Fault(format!("a JSON array stands where a {other} is expected")))
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome, A::Error> {
        let Self { cql_type, out } = self;
        let CqlType::Udt(fields) = cql_type else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Outcome::Fault(format!("a JSON object stands where a {cql_type} is expected")));
        };
        // Fields come in any order.
        let mut given: Vec<Option<Outcome>> = fields.iter().map(|_| None).collect();
        let mut contents: Vec<Vec<u8>> = vec![Vec::new(); fields.len()];
        let mut fault = None;
        while let Some(field) = map.next_key_seed(FieldSeed(fields))? {
            let index = match field {
                Ok(index) => index,
                Err(reason) => {
                    map.next_value::<IgnoredAny>()?;
                    fault = fault.or(Some(reason));
                    continue;
                }
            };
            let seed = CellSeed { cql_type: &fields[index].1, out: &mut contents[index] };
            let outcome = map.next_value_seed(seed)?;
            if given[index].replace(outcome).is_some() {
                fault = fault.or(Some(format!("field {:?} comes twice", fields[index].0)));
            }
        }
        for (outcome, bytes) in given.into_iter().zip(&contents) {
            match outcome {
                None | Some(Outcome::Null) => out.extend_from_slice(&NULL),
                Some(Outcome::Value) => match put_element(Some(bytes), out) {
                    Ok(()) => {}
                    Err(reason) => fault = fault.or(Some(reason.to_string())),
                },
                Some(Outcome::Fault(reason)) => fault = fault.or(Some(reason)),
            }
        }
        Ok(fault.map_or(Outcome::Value, Outcome::Fault))
    }
}

/// The length that stands for a null.
const NULL: [u8; 4] = (-1i32).to_be_bytes();

/// Reads elements until there are none, with their count in front.
fn read_counted<'de, A: SeqAccess<'de>>(
    seq: &mut A,
    out: &mut Vec<u8>,
    mut read: impl FnMut(&mut A, &mut Vec<u8>) -> Result<Option<Outcome>, A::Error>,
) -> Result<Outcome, A::Error> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0i32;
    let mut fault = None;
    while let Some(outcome) = read(seq, out)? {
        // A JSON text of 2^31 elements would be far over every source's limit.
        count = count.saturating_add(1);
        if let Outcome::Fault(reason) = outcome {
            fault = fault.or(Some(reason));
        }
    }
    if let Some(reason) = fault {
        return Ok(Outcome::Fault(reason));
    }
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Ok(Outcome::Value)
}

/// Reads one cell, if there is another, with its length in front.
fn read_element<'de, A: SeqAccess<'de>>(
    seq: &mut A,
    cql_type: &CqlType,
    out: &mut Vec<u8>,
) -> Result<Option<Outcome>, A::Error> {
    let start = out.len();
    out.extend_from_slice(&NULL);
    let Some(outcome) = seq.next_element_seed(CellSeed { cql_type, out })? else {
        out.truncate(start);
        return Ok(None);
    };
    Ok(Some(with_length(outcome, out, start)))
}

/// Writes the length of what was read behind the four bytes at `start`.
fn with_length(outcome: Outcome, out: &mut Vec<u8>, start: usize) -> Outcome {
    match outcome {
        Outcome::Value => match i32::try_from(out.len() - start - 4) {
            Ok(length) => out[start..start + 4].copy_from_slice(&length.to_be_bytes()),
            Err(_) => return Outcome::Fault("a value is over 2 GiB".to_owned()),
        },
        // The four bytes say null already.
        Outcome::Null | Outcome::Fault(_) => out.truncate(start + 4),
    }
    outcome
}

/// A map's entry: `{"key": …, "value": …, "metadata": …}`.
struct EntrySeed<'a> {
    key: &'a CqlType,
    value: &'a CqlType,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Outcome;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outcome, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = Outcome;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map's entry")
    }

    other_shapes_are_faults!("a map's entry");

    fn visit_unit<E>(self) -> Result<Outcome, E> {
        Ok(Outcome::Fault("a map's entry is null".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome, A::Error> {
        let (mut key_bytes, mut value_bytes) = (NULL.to_vec(), NULL.to_vec());
        let (mut key, mut value) = (Outcome::Null, Outcome::Null);
        while let Some(part) = map.next_key_seed(EntryPartSeed)? {
            match part {
                EntryPart::Key => {
                    key_bytes.truncate(4);
                    let read = map.next_value_seed(ValueSeed { cql_type: self.key, out: &mut key_bytes })?;
                    key = with_length(read, &mut key_bytes, 0);
                }
                EntryPart::Value => {
                    value_bytes.truncate(4);
                    let read =
                        map.next_value_seed(ValueSeed { cql_type: self.value, out: &mut value_bytes })?;
                    value = with_length(read, &mut value_bytes, 0);
                }
                EntryPart::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.out.extend_from_slice(&key_bytes);
        self.out.extend_from_slice(&value_bytes);
        Ok(match (key, value) {
            (Outcome::Fault(reason), _) | (_, Outcome::Fault(reason)) => Outcome::Fault(reason),
            (Outcome::Null, _) => Outcome::Fault("a map's entry has no key".to_owned()),
            _ => Outcome::Value,
        })
    }
}

enum EntryPart {
    Key,
    Value,
    Other,
}

struct EntryPartSeed;

impl<'de> DeserializeSeed<'de> for EntryPartSeed {
    type Value = EntryPart;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EntryPart, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for EntryPartSeed {
    type Value = EntryPart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("key or value")
    }

    fn visit_str<E>(self, name: &str) -> Result<EntryPart, E> {
        Ok(match name {
            "key" => EntryPart::Key,
            "value" => EntryPart::Value,
            _ => EntryPart::Other,
        })
    }
}

/// A field of a user-defined type by its name.
struct FieldSeed<'a>(&'a [(String, CqlType)]);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Result<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = Result<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|(field, _)| field == name).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            format!("the user-defined type has no field {shown:?} in the schema")
        }))
    }
}
