//! The small members of a record and its rows: texts, numbers, instants.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Row metadata, of which only `expirationTime` matters here.
pub(super) struct MetadataSeed;

impl<'de> DeserializeSeed<'de> for MetadataSeed {
    type Value = Option<i64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MetadataSeed {
    type Value = Option<i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut expires_at_ms = None;
        while let Some(name) = map.next_key_seed(Words)? {
            if name.as_deref() == Some("expirationTime") {
                expires_at_ms = map.next_value_seed(Words)?.and_then(|at| instant_ms(&at));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(expires_at_ms)
    }
}

/// A string, or a number in its shortest spelling; `None` for anything else.
pub(super) struct Words;

impl<'de> DeserializeSeed<'de> for Words {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Words {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Milliseconds since 1970 of an instant whose unit is not documented: ISO 8601, or a number that by its size is in
/// seconds (below 10^11, the year 5138), milliseconds (below 10^14), microseconds (below 10^17) or nanoseconds.
pub(super) fn instant_ms(text: &str) -> Option<i64> {
    let Ok(number) = text.parse::<f64>() else {
        let bytes = keyvector_cql::parse_text(&keyvector_cql::CqlType::Timestamp, text).ok()?;
        return Some(i64::from_be_bytes(bytes.try_into().ok()?));
    };
    let milliseconds = match number.abs() {
        size if size < 1e11 => number * 1e3,
        size if size < 1e14 => number,
        size if size < 1e17 => number / 1e3,
        size if size.is_finite() => number / 1e6,
        _ => return None,
    };
    // At these sizes a double is finer than a millisecond, so this rounds right.
    Some(milliseconds.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::instant_ms;

    #[test]
    fn instants_in_every_unit() {
        for text in [
            "1786000000.125",
            "1786000000125",
            "1786000000125000",
            "1786000000125000000",
            "1.786000000125E9",
            "2026-08-06T07:06:40.125Z",
            "2026-08-06 09:06:40.125+0200",
        ] {
            assert_eq!(instant_ms(text), Some(1_786_000_000_125), "{text}");
        }
        assert_eq!(instant_ms("1786086400"), Some(1_786_086_400_000));
        assert_eq!(instant_ms("-1.5"), Some(-1_500));
        assert_eq!(instant_ms("0"), Some(0));
        for text in ["", "soon", "NaN", "inf", "1e999"] {
            assert_eq!(instant_ms(text), None, "{text}");
        }
    }
}
