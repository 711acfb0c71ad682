//! Random types and values of them.

use keyvector_cql::{CqlType, CqlValue, canonical_text};
use proptest::collection::vec;
use proptest::prelude::*;

/// Types that a primary key can hold, nested up to three levels.
pub(crate) fn key_type() -> impl Strategy<Value = CqlType> {
    nested(prop::sample::select(vec![
        CqlType::Ascii,
        CqlType::Bigint,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::Smallint,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Timeuuid,
        CqlType::Tinyint,
        CqlType::Uuid,
        CqlType::Varint,
    ]))
}

fn nested(scalar: impl Strategy<Value = CqlType> + 'static) -> impl Strategy<Value = CqlType> {
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|element| CqlType::List(Box::new(element))),
            inner.clone().prop_map(|element| CqlType::Set(Box::new(element))),
            (inner.clone(), inner.clone())
                .prop_map(|(key, value)| CqlType::Map(Box::new(key), Box::new(value))),
            vec(inner.clone(), 1..4).prop_map(CqlType::Tuple),
            vec(inner.clone(), 1..4).prop_map(|fields| {
                let name = |index: usize| ["street", "Zip", "we\"ird"][index].to_owned();
                CqlType::Udt(
                    fields.into_iter().enumerate().map(|(index, field)| (name(index), field)).collect(),
                )
            }),
            (inner, 1u16..4).prop_map(|(element, dimension)| CqlType::Vector(Box::new(element), dimension)),
        ]
    })
}

/// A type and a value of it.
pub(crate) fn typed_value() -> impl Strategy<Value = (CqlType, CqlValue)> {
    key_type().prop_flat_map(|cql_type| {
        let value = value_of(&cql_type, true);
        (Just(cql_type), value)
    })
}

/// Values of a type: sets and maps hold no key twice, decimals no negative scale, addresses no mapped one.
pub(crate) fn value_of(cql_type: &CqlType, may_be_empty: bool) -> BoxedStrategy<CqlValue> {
    let filled = filled_value_of(cql_type);
    let has_no_empty = matches!(cql_type, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    if !may_be_empty || has_no_empty {
        return filled;
    }
    prop_oneof![19 => filled, 1 => Just(CqlValue::Empty)].boxed()
}

fn filled_value_of(cql_type: &CqlType) -> BoxedStrategy<CqlValue> {
    match cql_type {
        CqlType::Ascii => "[ -~]{0,6}".prop_map(CqlValue::Ascii).boxed(),
        CqlType::Text => prop_oneof!["[a-c&=%/é🎬\"\\\\\u{0}-\u{1f}]{0,6}", any::<String>()]
            .prop_map(CqlValue::Text)
            .boxed(),
        CqlType::Blob => vec(any::<u8>(), 0..8).prop_map(CqlValue::Blob).boxed(),
        CqlType::Boolean => any::<bool>().prop_map(CqlValue::Boolean).boxed(),
        CqlType::Bigint => any::<i64>().prop_map(CqlValue::Bigint).boxed(),
        CqlType::Date => any::<i32>().prop_map(CqlValue::Date).boxed(),
        CqlType::Decimal => (varint(), prop_oneof![0i32..12, 0..=i32::MAX])
            .prop_map(|(unscaled, scale)| CqlValue::Decimal { unscaled, scale })
            .boxed(),
        CqlType::Double => {
            any::<u64>().prop_map(|bits| CqlValue::Double(one_nan_f64(f64::from_bits(bits)))).boxed()
        }
        CqlType::Float => {
            any::<u32>().prop_map(|bits| CqlValue::Float(one_nan_f32(f32::from_bits(bits)))).boxed()
        }
        CqlType::Inet => prop_oneof![
            any::<[u8; 4]>().prop_map(|octets| CqlValue::Inet(octets.into())),
            // Runs of zeros are what the short form is about.
            (any::<[u8; 16]>(), any::<u16>()).prop_map(|(mut octets, zeros)| {
                for (group, octets) in octets.chunks_mut(2).enumerate() {
                    if zeros & (1 << group) != 0 {
                        octets.fill(0);
                    }
                }
                octets[0] |= 1;
                CqlValue::Inet(octets.into())
            }),
        ]
        .boxed(),
        CqlType::Int => any::<i32>().prop_map(CqlValue::Int).boxed(),
        CqlType::Smallint => any::<i16>().prop_map(CqlValue::Smallint).boxed(),
        CqlType::Time => (0..86_400_000_000_000i64).prop_map(CqlValue::Time).boxed(),
        CqlType::Timestamp => any::<i64>().prop_map(CqlValue::Timestamp).boxed(),
        CqlType::Timeuuid => any::<[u8; 16]>().prop_map(CqlValue::Timeuuid).boxed(),
        CqlType::Tinyint => any::<i8>().prop_map(CqlValue::Tinyint).boxed(),
        CqlType::Uuid => any::<[u8; 16]>().prop_map(CqlValue::Uuid).boxed(),
        CqlType::Varint => varint().prop_map(CqlValue::Varint).boxed(),
        CqlType::Counter => any::<i64>().prop_map(CqlValue::Counter).boxed(),
        CqlType::Duration => (0..i32::MAX, 0..i32::MAX, 0..i64::MAX)
            .prop_map(|(months, days, nanoseconds)| CqlValue::Duration { months, days, nanoseconds })
            .boxed(),
        CqlType::List(element) => vec(value_of(element, true), 0..4).prop_map(CqlValue::List).boxed(),
        CqlType::Set(element) => {
            let element_type = (**element).clone();
            vec(value_of(element, true), 0..4)
                .prop_map(move |mut elements| {
                    keep_first(&element_type, &mut elements, |element| element);
                    CqlValue::Set(elements)
                })
                .boxed()
        }
        CqlType::Map(key, value) => {
            let key_type = (**key).clone();
            vec((value_of(key, true), value_of(value, true)), 0..4)
                .prop_map(move |mut entries| {
                    keep_first(&key_type, &mut entries, |entry| &entry.0);
                    CqlValue::Map(entries)
                })
                .boxed()
        }
        CqlType::Tuple(fields) => {
            fields.iter().map(nullable).collect::<Vec<_>>().prop_map(CqlValue::Tuple).boxed()
        }
        CqlType::Udt(fields) => {
            let names: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
            let values: Vec<_> = fields.iter().map(|(_, field)| nullable(field)).collect();
            values.prop_map(move |values| CqlValue::Udt(names.iter().cloned().zip(values).collect())).boxed()
        }
        CqlType::Vector(element, dimension) => {
            vec(value_of(element, false), usize::from(*dimension)).prop_map(CqlValue::Vector).boxed()
        }
        CqlType::Custom(_) => panic!("custom types have no values here"),
    }
}

fn nullable(field: &CqlType) -> BoxedStrategy<CqlValue> {
    prop_oneof![4 => value_of(field, true), 1 => Just(CqlValue::Null)].boxed()
}

fn varint() -> impl Strategy<Value = num_bigint::BigInt> {
    vec(any::<u8>(), 1..12).prop_map(|bytes| num_bigint::BigInt::from_signed_bytes_be(&bytes))
}

fn one_nan_f64(number: f64) -> f64 {
    if number.is_nan() { f64::from_bits(0x7ff8 << 48) } else { number }
}

fn one_nan_f32(number: f32) -> f32 {
    if number.is_nan() { f32::from_bits(0x7fc0 << 16) } else { number }
}

fn keep_first<T>(key_type: &CqlType, entries: &mut Vec<T>, key: impl Fn(&T) -> &CqlValue) {
    let mut seen = std::collections::BTreeSet::new();
    entries.retain(|entry| {
        let bytes = key(entry).encode(key_type).expect("generated to fit");
        seen.insert(canonical_text(key_type, &bytes).expect("generated to fit"))
    });
}
