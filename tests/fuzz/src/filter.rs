//! Filters of queries, beside a second reading of the language that shares nothing with the first.

use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::filter::{FILTER_DEPTH_MAX, Filter};
use serde_json::Value;

use crate::Target;
use crate::input::Input;

/// Metadata, then a filter's JSON.
pub const FILTERS: Target = Target {
    name: "filter",
    run: filters,
    samples,
    words: &[
        "\"$and\":[",
        "\"$or\":[",
        "\"$eq\":",
        "\"$ne\":",
        "\"$gt\":",
        "\"$gte\":",
        "\"$lt\":",
        "\"$lte\":",
        "\"$in\":[",
        "\"$nin\":[",
        "\"$exists\":",
        "\"$startsWith\":",
        "\"$not\":",
        "\"genre\":",
        "\"year\":",
        "\"tags\":",
        "\"seen\":",
        "\"hidden\":",
        "\"\":",
        "{",
        "}",
        "[",
        "]",
        ",",
        "true",
        "false",
        "null",
        "1990",
        "1990.5",
        "-0",
        "1e308",
        "\"drama\"",
        "\"1\"",
        "{\"$and\":[{\"$or\":[",
    ],
};

fn filters(data: &[u8]) {
    let mut input = Input::new(data);
    let metadata: Vec<Metadata> = (0..3).map(|_| crate::metadata::any(&mut input)).collect();
    let Ok(json) = serde_json::from_slice::<Value>(input.rest()) else { return };
    let hidden = vec!["hidden".to_owned()];
    match Filter::parse(&json, &hidden) {
        Ok(filter) => {
            // Its JSON, printed and read again, is the same filter.
            let printed: Value = serde_json::from_str(&json.to_string()).unwrap();
            assert_eq!(Filter::parse(&printed, &hidden).as_ref(), Ok(&filter), "{json}");
            assert!(!filter.keys().contains("hidden"), "{json}");
            assert!(depth(&json) <= FILTER_DEPTH_MAX, "{json}");
            for metadata in &metadata {
                assert_eq!(filter.matches(metadata), holds(&json, metadata), "{json} of {metadata:?}");
            }
        }
        Err(fault) => {
            assert!(!fault.at.is_empty() && !fault.reason.is_empty());
        }
    }
}

/// Objects of filters on the way down.
fn depth(filter: &Value) -> usize {
    let Value::Object(members) = filter else { return 0 };
    let below = members
        .iter()
        .filter(|(name, _)| *name == "$and" || *name == "$or")
        .flat_map(|(_, list)| list.as_array().into_iter().flatten().map(depth));
    1 + below.max().unwrap_or(0)
}

/// What the table in `filter.rs` of core says of a filter that was accepted, read off the JSON itself.
fn holds(filter: &Value, metadata: &Metadata) -> bool {
    filter.as_object().unwrap().iter().all(|(name, operand)| match (name.as_str(), operand) {
        ("$and", list) => list.as_array().unwrap().iter().all(|filter| holds(filter, metadata)),
        ("$or", list) => list.as_array().unwrap().iter().any(|filter| holds(filter, metadata)),
        (key, Value::Object(operators)) => {
            operators.iter().all(|(operator, operand)| test(operator, operand, metadata.0.get(key)))
        }
        (key, bare) => test("$eq", bare, metadata.0.get(key)),
    })
}

fn test(operator: &str, operand: &Value, stored: Option<&MetadataValue>) -> bool {
    let ordering = match (stored, operand.as_f64()) {
        (Some(MetadataValue::Number(stored)), Some(bound)) => stored.partial_cmp(&bound),
        _ => None,
    };
    let any_of = |list: &Value| list.as_array().unwrap().iter().any(|one| equals(one, stored));
    match operator {
        "$eq" => equals(operand, stored),
        "$ne" => !equals(operand, stored),
        "$gt" => ordering.is_some_and(std::cmp::Ordering::is_gt),
        "$gte" => ordering.is_some_and(std::cmp::Ordering::is_ge),
        "$lt" => ordering.is_some_and(std::cmp::Ordering::is_lt),
        "$lte" => ordering.is_some_and(std::cmp::Ordering::is_le),
        "$in" => any_of(operand),
        "$nin" => !any_of(operand),
        "$exists" => operand.as_bool() == Some(stored.is_some()),
        unknown => panic!("{unknown} was accepted"),
    }
}

fn equals(wanted: &Value, stored: Option<&MetadataValue>) -> bool {
    match stored {
        None => false,
        Some(MetadataValue::Text(text)) => wanted.as_str() == Some(text),
        Some(MetadataValue::Number(number)) => wanted.as_f64() == Some(*number),
        Some(MetadataValue::Boolean(flag)) => wanted.as_bool() == Some(*flag),
        Some(MetadataValue::TextList(texts)) => texts.iter().any(|text| wanted.as_str() == Some(text)),
        Some(MetadataValue::NumberList(numbers)) => {
            numbers.iter().any(|number| wanted.as_f64() == Some(*number))
        }
    }
}

fn samples() -> Vec<Vec<u8>> {
    // Three rows: none, genre drama and year 1990, lists.
    let metadata = [0, 2, 0, 0, 1, 1, 1, 3, 2, 2, 3, 2, 1, 3, 3, 2, 1];
    [
        r#"{"genre":"drama"}"#,
        r#"{"year":{"$gte":1990,"$lt":2000},"genre":{"$ne":"sea"}}"#,
        r#"{"$or":[{"tags":{"$in":["drama","sea"]}},{"seen":{"$exists":false}}]}"#,
        r#"{"$and":[{"year":{"$nin":[1,1990.5]}},{"$or":[{"seen":true},{"year":{"$lte":-0.0}}]}]}"#,
        r#"{"hidden":1}"#,
    ]
    .iter()
    .map(|filter| [&metadata, filter.as_bytes()].concat())
    .chain([[
        &metadata[..],
        "{\"$and\":[".repeat(17).as_bytes(),
        b"{\"year\":1}",
        "]}".repeat(17).as_bytes(),
    ]
    .concat()])
    .chain([[&metadata[..], "{\"$or\":[".repeat(15).as_bytes(), b"{\"year\":1}", "]}".repeat(15).as_bytes()]
        .concat()])
    .collect()
}
