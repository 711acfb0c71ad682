//! A row's metadata: JSON read straight into the types that the plugin declared.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use keyvector_core::document::{Metadata, MetadataKey, MetadataType, MetadataValue};
use keyvector_core::text::acts;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// Keys on one vector: the index's 50 less the host's own three.
pub const METADATA_KEYS_MAX: usize = 47;
/// Of these may be non-filterable: the index's 10 less the host's own.
pub const NON_FILTERABLE_KEYS_MAX: usize = 9;
/// The largest whole number that every reader of JSON keeps: 2^53.
const WHOLE_NUMBER_MAX: u64 = 1 << 53;

/// The keys that a plugin declared, checked.
#[derive(Debug)]
pub(crate) struct Declared(BTreeMap<Arc<str>, MetadataType>);

impl Declared {
    /// # Errors
    /// Says which declared key is not allowed.
    pub(crate) fn new(keys: &[MetadataKey]) -> Result<Self, String> {
        let mut declared = BTreeMap::new();
        for key in keys {
            if key.name.is_empty() {
                return Err("a metadata key without a name".to_owned());
            }
            if key.name.starts_with('_') {
                return Err(format!("metadata key {:?}: names that begin with _ are the host's", key.name));
            }
            if key.name.starts_with('$') {
                return Err(format!(
                    "metadata key {:?}: names that begin with $ are the filter language's",
                    key.name
                ));
            }
            if key.name.chars().any(acts) {
                return Err(format!("metadata key {:?}: names may not hold control characters", key.name));
            }
            if declared.insert(key.name.as_str().into(), key.value_type).is_some() {
                return Err(format!("metadata key {:?} twice", key.name));
            }
        }
        let non_filterable = keys.iter().filter(|key| !key.filterable).count();
        if non_filterable > NON_FILTERABLE_KEYS_MAX {
            return Err(format!(
                "{non_filterable} non-filterable metadata keys, of {NON_FILTERABLE_KEYS_MAX} that an index has"
            ));
        }
        Ok(Self(declared))
    }

    /// Reads one row's metadata: a JSON object or nothing; null is absent.
    ///
    /// # Errors
    /// Says which key breaks which rule: undeclared, given twice, of another type, too deep, not finite, beyond 2^53.
    pub(crate) fn parse(&self, json: &[u8]) -> Result<Metadata, String> {
        if json.is_empty() {
            return Ok(Metadata::default());
        }
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let metadata = deserializer
            .deserialize_map(Object(self))
            .and_then(|metadata| deserializer.end().map(|()| metadata))
            .map_err(|error| format!("metadata: {error}"))?;
        if metadata.len() > METADATA_KEYS_MAX {
            return Err(format!(
                "metadata: {} keys, of {METADATA_KEYS_MAX} that a vector may have",
                metadata.len()
            ));
        }
        Ok(Metadata(metadata))
    }
}

struct Object<'a>(&'a Declared);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = BTreeMap<Arc<str>, MetadataValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        // A null is absent, but its key is taken all the same.
        let mut nulls = Vec::new();
        while let Some((name, value_type)) = map.next_key_seed(Name(self.0))? {
            let twice = |name: &str| A::Error::custom(format!("key {name:?} comes twice"));
            let vacant = match values.entry(name) {
                Entry::Occupied(taken) => return Err(twice(taken.key())),
                Entry::Vacant(vacant) if nulls.contains(vacant.key()) => return Err(twice(vacant.key())),
                Entry::Vacant(vacant) => vacant,
            };
            match map.next_value_seed(Value { name: vacant.key(), value_type })? {
                Some(value) => drop(vacant.insert(value)),
                None => nulls.push(vacant.into_key()),
            }
        }
        Ok(values)
    }
}

/// Reads a name: the declared one, which is shared, with its type.
struct Name<'a>(&'a Declared);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = (Arc<str>, MetadataType);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = (Arc<str>, MetadataType);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        match self.0.0.get_key_value(name) {
            Some((name, &value_type)) => Ok((Arc::clone(name), value_type)),
            None => Err(E::custom(format!("key {name:?} is not declared"))),
        }
    }
}

/// Reads one value of a declared type; lists are read element by element with the element's type, so nothing nests
/// deeper than the declaration.
#[derive(Clone, Copy)]
struct Value<'a> {
    name: &'a str,
    value_type: MetadataType,
}

impl Value<'_> {
    fn number<E: Error>(self, number: f64, unexpected: Unexpected<'_>) -> Result<Option<MetadataValue>, E> {
        if self.value_type != MetadataType::Number {
            return Err(E::invalid_type(unexpected, &self));
        }
        // Larger ones are whole or not finite.
        if number.abs() > WHOLE_NUMBER_MAX as f64 {
            return Err(E::custom(format!(
                "key {:?}: {number} is beyond 2^53: declare the key as text",
                self.name
            )));
        }
        Ok(Some(MetadataValue::Number(number)))
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Option<MetadataValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Option<MetadataValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value_type = match self.value_type {
            MetadataType::Text => "text",
            MetadataType::Number => "a number",
            MetadataType::Boolean => "a boolean",
            MetadataType::TextList => "a list of texts",
            MetadataType::NumberList => "a list of numbers",
        };
        write!(f, "{value_type} for key {:?}", self.name)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match self.value_type {
            MetadataType::Boolean => Ok(Some(MetadataValue::Boolean(value))),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        if value > WHOLE_NUMBER_MAX {
            // Said before the digits are lost.
            return Err(E::custom(format!(
                "key {:?}: {value} is beyond 2^53: declare the key as text",
                self.name
            )));
        }
        self.number(value as f64, Unexpected::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        if value.unsigned_abs() > WHOLE_NUMBER_MAX {
            return Err(E::custom(format!(
                "key {:?}: {value} is beyond 2^53: declare the key as text",
                self.name
            )));
        }
        self.number(value as f64, Unexpected::Signed(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.number(value, Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        match self.value_type {
            MetadataType::Text => Ok(Some(MetadataValue::Text(value.to_owned()))),
            _ => Err(E::invalid_type(Unexpected::Str(value), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let null = || A::Error::custom(format!("key {:?}: a list may not hold null", self.name));
        match self.value_type {
            MetadataType::TextList => {
                let element = Value { value_type: MetadataType::Text, ..self };
                let mut texts = Vec::new();
                while let Some(value) = seq.next_element_seed(element)? {
                    let Some(MetadataValue::Text(text)) = value else { return Err(null()) };
                    texts.push(text);
                }
                Ok(Some(MetadataValue::TextList(texts)))
            }
            MetadataType::NumberList => {
                let element = Value { value_type: MetadataType::Number, ..self };
                let mut numbers = Vec::new();
                while let Some(value) = seq.next_element_seed(element)? {
                    let Some(MetadataValue::Number(number)) = value else { return Err(null()) };
                    numbers.push(number);
                }
                Ok(Some(MetadataValue::NumberList(numbers)))
            }
            _ => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str, value_type: MetadataType) -> MetadataKey {
        MetadataKey { name: name.to_owned(), value_type, filterable: true }
    }

    fn declared() -> Declared {
        Declared::new(&[
            key("title", MetadataType::Text),
            key("year", MetadataType::Number),
            key("seen", MetadataType::Boolean),
            key("tags", MetadataType::TextList),
            key("scores", MetadataType::NumberList),
        ])
        .unwrap()
    }

    #[test]
    fn values_come_in_their_declared_types() {
        let json = r#" {"year":1994,"title":"é\n","seen":true,"tags":["a","b"],"scores":[1,-2.5e3]} "#;
        let metadata = declared().parse(json.as_bytes()).unwrap();
        let expected = [
            ("scores", MetadataValue::NumberList(vec![1.0, -2500.0])),
            ("seen", MetadataValue::Boolean(true)),
            ("tags", MetadataValue::TextList(vec!["a".into(), "b".into()])),
            ("title", MetadataValue::Text("é\n".into())),
            ("year", MetadataValue::Number(1994.0)),
        ];
        let expected = expected.map(|(name, value)| (name.into(), value)).into();
        assert_eq!(metadata, Metadata(expected));
    }

    #[test]
    fn nothing_and_null_are_absent() {
        for json in ["", "{}", r#"{"year":null,"tags":null}"#] {
            assert_eq!(declared().parse(json.as_bytes()).unwrap(), Metadata::default(), "{json}");
        }
        assert!(declared().parse(br#"{"year":9007199254740992,"tags":[]}"#).is_ok());
    }

    #[test]
    fn what_breaks_the_contract_is_named() {
        for (json, part) in [
            ("[1]", "expected an object"),
            ("null", "expected an object"),
            ("{\"year\":1} x", "trailing characters"),
            (r#"{"yea":1}"#, r#"key "yea" is not declared"#),
            (r#"{"_keyvector":"x"}"#, r#"key "_keyvector" is not declared"#),
            (r#"{"year":1,"year":1}"#, r#"key "year" comes twice"#),
            (r#"{"year":null,"year":1}"#, r#"key "year" comes twice"#),
            (r#"{"year":"1"}"#, r#"expected a number for key "year""#),
            (r#"{"year":true}"#, r#"expected a number for key "year""#),
            (r#"{"year":[1]}"#, r#"expected a number for key "year""#),
            (r#"{"title":1}"#, r#"expected text for key "title""#),
            (r#"{"title":{"a":{"b":{"c":1}}}}"#, r#"expected text for key "title""#),
            (r#"{"tags":["a",1]}"#, r#"expected text for key "tags""#),
            (r#"{"tags":["a",null]}"#, r#"key "tags": a list may not hold null"#),
            (r#"{"tags":[["a"]]}"#, r#"expected text for key "tags""#),
            (r#"{"year":9007199254740993}"#, "9007199254740993 is beyond 2^53"),
            (r#"{"year":-9007199254740993}"#, "-9007199254740993 is beyond 2^53"),
            (r#"{"year":123456789012345678901234567890}"#, "is beyond 2^53"),
            (r#"{"year":1e400}"#, "number out of range"),
            (r#"{"year":NaN}"#, "expected value"),
            (r#"{"year":1"#, "EOF while parsing"),
        ] {
            let error = declared().parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        assert!(declared().parse(b"{\"title\":\"\xff\"}").is_err());
    }

    #[test]
    fn a_vector_has_at_most_47_keys() {
        let keys: Vec<_> = (0..48).map(|n| key(&format!("k{n}"), MetadataType::Number)).collect();
        let declared = Declared::new(&keys).unwrap();
        let object = |count| {
            let members = (0..count).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
            format!("{{{members}}}").into_bytes()
        };
        assert_eq!(declared.parse(&object(47)).unwrap().0.len(), 47);
        assert!(declared.parse(&object(48)).unwrap_err().contains("48 keys, of 47"));
    }

    #[test]
    fn declarations_are_checked() {
        let error = |keys: &[MetadataKey]| Declared::new(keys).unwrap_err();
        assert!(error(&[key("_a", MetadataType::Text)]).contains("begin with _"));
        assert!(error(&[key("", MetadataType::Text)]).contains("without a name"));
        assert!(
            error(&[key("a", MetadataType::Text), key("a", MetadataType::Number)]).contains("\"a\" twice")
        );
        let hidden = |n| MetadataKey { filterable: false, ..key(&format!("k{n}"), MetadataType::Text) };
        assert!(Declared::new(&(0..9).map(hidden).collect::<Vec<_>>()).is_ok());
        assert!(error(&(0..10).map(hidden).collect::<Vec<_>>()).contains("10 non-filterable"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(json: Vec<u8>) {
            drop(declared().parse(&json));
        }

        #[test]
        fn texts_and_numbers_survive(title: String, year in -1e15..1e15_f64) {
            let json = serde_json::json!({ "title": title, "year": year }).to_string();
            let metadata = declared().parse(json.as_bytes()).unwrap().0;
            prop_assert_eq!(&metadata["title"], &MetadataValue::Text(title));
            prop_assert_eq!(&metadata["year"], &MetadataValue::Number(year));
        }
    }
}
