//! The worked cells of `cells.json`, which the SDKs of other languages read too.
#![allow(clippy::unwrap_used, reason = "a test")]

use keyvector_sdk::{Boolean, CqlType, Integer, Kind, Number, NumberList, Text, TextList, Timestamp, Uuid};
use serde_json::{Value, json};

/// What `K` reads, as JSON; `None` is null.
fn read<'a, K: Kind>(
    cql_type: &'a CqlType,
    bytes: &'a [u8],
    to_json: impl Fn(K::Value<'a>) -> Value,
) -> Result<Value, String> {
    assert!(K::accepts(cql_type), "{cql_type}");
    Ok(K::read(cql_type, bytes)?.map_or(Value::Null, to_json))
}

/// JSON has no infinite numbers.
fn number(value: f64) -> Value {
    match value {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}

#[test]
fn worked_cells() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cells.json")).unwrap();
    assert!(cases.len() > 40, "{}", cases.len());
    for case in cases {
        let member = |name: &str| case[name].as_str().unwrap();
        let cql_type: CqlType = member("type").parse().unwrap();
        let hex = |at: usize| u8::from_str_radix(&member("bytes")[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..member("bytes").len()).step_by(2).map(hex).collect();
        let (cql_type, bytes) = (&cql_type, bytes.as_slice());
        let given = match member("kind") {
            "Text" => read::<Text>(cql_type, bytes, |text| json!(text)),
            "Integer" => read::<Integer>(cql_type, bytes, |value| json!(value.to_string())),
            "Number" => read::<Number>(cql_type, bytes, number),
            "Boolean" => read::<Boolean>(cql_type, bytes, |flag| json!(flag)),
            "Timestamp" => read::<Timestamp>(cql_type, bytes, |value| json!(value.to_string())),
            "Uuid" => read::<Uuid>(cql_type, bytes, |text| json!(text)),
            "TextList" => read::<TextList>(cql_type, bytes, |texts| json!(texts)),
            "NumberList" => read::<NumberList>(cql_type, bytes, |numbers| json!(numbers)),
            other => panic!("{other}"),
        };
        match case.get("error") {
            Some(error) => assert_eq!(given.unwrap_err(), error.as_str().unwrap(), "{case}"),
            None => assert_eq!(as_floats(&given.unwrap()), as_floats(&case["value"]), "{case}"),
        }
    }
}

/// `1` and `1.0` are one number.
fn as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(as_floats).collect(),
        other => other.clone(),
    }
}
