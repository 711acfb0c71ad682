//! Metadata as JSON: what the service gets, what its limits measure, what the embedded store keeps.

use std::fmt::{self, Write as _};

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::document::{Metadata, MetadataValue};

/// Metadata as the JSON that the service gets: keys sorted, no white space, numbers as short as they read back.
/// Its length in bytes is what the limits count. Numbers must be finite.
pub fn metadata_json(metadata: &Metadata) -> String {
    let mut json = String::with_capacity(256);
    json.push('{');
    for (name, value) in &metadata.0 {
        if json.len() > 1 {
            json.push(',');
        }
        write_entry(&mut json, name, value);
    }
    json.push('}');
    json
}

pub(super) fn write_entry(json: &mut String, name: &str, value: &MetadataValue) {
    write_text(json, name);
    json.push(':');
    match value {
        MetadataValue::Text(text) => write_text(json, text),
        MetadataValue::Number(number) => write_number(json, *number),
        MetadataValue::Boolean(flag) => json.push_str(if *flag { "true" } else { "false" }),
        MetadataValue::TextList(texts) => write_list(json, texts, |json, text| write_text(json, text)),
        MetadataValue::NumberList(numbers) => {
            write_list(json, numbers, |json, number| write_number(json, *number))
        }
    }
}

fn write_list<T>(json: &mut String, items: &[T], write_item: impl Fn(&mut String, &T)) {
    json.push('[');
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            json.push(',');
        }
        write_item(json, item);
    }
    json.push(']');
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        json.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            b'\n' => json.push_str("\\n"),
            b'\r' => json.push_str("\\r"),
            b'\t' => json.push_str("\\t"),
            0x08 => json.push_str("\\b"),
            0x0c => json.push_str("\\f"),
            control => write_display(json, format_args!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    json.push_str(rest);
    json.push('"');
}

/// Plain digits or an exponent, whichever is shorter. −0 and 0 are one number.
fn write_number(json: &mut String, number: f64) {
    debug_assert!(number.is_finite(), "metadata numbers are finite");
    let number = if number == 0.0 { 0.0 } else { number };
    let start = json.len();
    write_display(json, format_args!("{number}"));
    if json.len() - start > 6 {
        let exponential = format!("{number:e}");
        if exponential.len() < json.len() - start {
            json.truncate(start);
            json.push_str(&exponential);
        }
    }
}

fn write_display(json: &mut String, arguments: fmt::Arguments<'_>) {
    json.write_fmt(arguments).expect("writing to a string cannot fail");
}

/// Reads metadata from its JSON. An empty list is a list of texts: JSON does not tell which it was.
///
/// # Errors
/// What is not metadata: not an object, null, a nested object, a mixed list.
pub fn parse_metadata(json: &str) -> Result<Metadata, String> {
    serde_json::from_str(json).map_err(|error| format!("stored metadata cannot be read: {error}"))
}

/// Reads only these keys of metadata, which is quicker where a filter asks for one or two of them.
///
/// # Errors
/// As [`parse_metadata`]; values under other keys are not looked at.
pub fn parse_metadata_keys(json: &str, keys: &[&str]) -> Result<Metadata, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    ObjectVisitor { keys: Some(keys) }
        .deserialize(&mut deserializer)
        .and_then(|metadata| deserializer.end().map(|()| metadata))
        .map_err(|error| format!("stored metadata cannot be read: {error}"))
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ObjectVisitor { keys: None }.deserialize(deserializer)
    }
}

/// An object's entries: all of them, or these keys' only.
#[derive(Clone, Copy)]
struct ObjectVisitor<'k> {
    keys: Option<&'k [&'k str]>,
}

impl<'de> DeserializeSeed<'de> for ObjectVisitor<'_> {
    type Value = Metadata;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Metadata, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, numbers, booleans and lists")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
        let mut metadata = Metadata::default();
        while let Some(name) = map.next_key_seed(NameVisitor { keys: self.keys })? {
            match name {
                Some(name) => {
                    metadata.0.insert(name.into(), map.next_value()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(metadata)
    }
}

/// A key if it is wanted.
struct NameVisitor<'k> {
    keys: Option<&'k [&'k str]>,
}

impl<'de> DeserializeSeed<'de> for NameVisitor<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameVisitor<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metadata key")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Option<String>, E> {
        Ok(self.keys.is_none_or(|keys| keys.contains(&name)).then(|| name.to_owned()))
    }
}

impl<'de> Deserialize<'de> for MetadataValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = MetadataValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a boolean or a list of texts or of numbers")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Boolean(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Number(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<MetadataValue, E> {
        Ok(MetadataValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<MetadataValue, A::Error> {
        let mixed = || de::Error::custom("a list holds texts only or numbers only");
        match items.next_element::<MetadataValue>()? {
            None => Ok(MetadataValue::TextList(Vec::new())),
            Some(MetadataValue::Text(first)) => {
                let mut texts = vec![first];
                while let Some(item) = items.next_element::<MetadataValue>()? {
                    let MetadataValue::Text(text) = item else { return Err(mixed()) };
                    texts.push(text);
                }
                Ok(MetadataValue::TextList(texts))
            }
            Some(MetadataValue::Number(first)) => {
                let mut numbers = vec![first];
                while let Some(item) = items.next_element::<MetadataValue>()? {
                    let MetadataValue::Number(number) = item else { return Err(mixed()) };
                    numbers.push(number);
                }
                Ok(MetadataValue::NumberList(numbers))
            }
            Some(_) => Err(mixed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(number: f64) -> String {
        let json = metadata_json(&Metadata([("n".into(), MetadataValue::Number(number))].into()));
        json.strip_prefix("{\"n\":").and_then(|rest| rest.strip_suffix('}')).unwrap().to_owned()
    }

    #[test]
    fn numbers_are_as_short_as_they_read_back() {
        assert_eq!(number(1990.0), "1990");
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(0.1), "0.1");
        assert_eq!(number(-7.5), "-7.5");
        assert_eq!(number(1e21), "1e21");
        assert_eq!(number(1.5e-7), "1.5e-7");
        assert_eq!(number(9_007_199_254_740_991.0), "9007199254740991");
    }

    #[test]
    fn what_is_not_metadata_is_refused() {
        for json in [
            "[]",
            "3",
            "{\"a\":null}",
            "{\"a\":{}}",
            "{\"a\":[1,\"b\"]}",
            "{\"a\":[[1]]}",
            "{\"a\":1",
            "{\"a\":[true]}",
        ] {
            assert!(parse_metadata(json).is_err(), "{json}");
        }
        assert_eq!(parse_metadata("{}"), Ok(Metadata::default()));
        assert!(parse_metadata_keys("{\"a\":1,\"b\":null}", &["a"]).is_ok());
        assert!(parse_metadata_keys("{\"a\":1} x", &["a"]).is_err());
    }

    fn values() -> impl Strategy<Value = MetadataValue> {
        let number = || {
            prop_oneof![
                prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL,
                (-3000i32..3000).prop_map(f64::from)
            ]
        };
        prop_oneof![
            any::<String>().prop_map(MetadataValue::Text),
            number().prop_map(MetadataValue::Number),
            any::<bool>().prop_map(MetadataValue::Boolean),
            prop::collection::vec(any::<String>(), 0..4).prop_map(MetadataValue::TextList),
            prop::collection::vec(number(), 1..4).prop_map(MetadataValue::NumberList),
        ]
    }

    proptest! {
        #[test]
        fn json_reads_back(entries in prop::collection::btree_map(any::<String>(), values(), 0..6)) {
            let metadata = Metadata(entries.into_iter().map(|(name, value)| (name.into(), value)).collect());
            let json = metadata_json(&metadata);
            prop_assert_eq!(parse_metadata(&json), Ok(metadata.clone()));
            let some: Vec<&str> = metadata.0.keys().step_by(2).map(|name| &**name).chain(["missing"]).collect();
            let mut part = metadata.clone();
            part.0.retain(|name, _| some.contains(&&**name));
            prop_assert_eq!(parse_metadata_keys(&json, &some), Ok(part));
            // Another reader sees the same, and could not have spelt it shorter.
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert!(serde_json::to_string(&value).unwrap().len() >= json.len());
        }
    }
}
