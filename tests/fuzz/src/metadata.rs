//! Stored metadata.

use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::fingerprint::hash_metadata;
use keyvector_core::index::{metadata_json, parse_metadata, parse_metadata_keys};

use crate::Target;
use crate::input::Input;

/// Metadata as JSON.
pub const METADATA: Target = Target {
    name: "metadata",
    run: metadata,
    samples: || {
        [
            r#"{"genre":"drama","year":2012,"seen":true,"tags":["a","b"],"scores":[1,-2.5e3]}"#,
            r#"{"a":"\u00e9\n\"\\","b":[],"c":1e21,"d":-0.0,"e":[0.1]}"#,
            r#"{"_keyvector":"1.2.3","_keyvector_pk":"movie_id=1"}"#,
            "{}",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    words: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\":",
        "null",
        "true",
        "1e308",
        "1e-320",
        "-0",
        "9007199254740993",
        "\\ud83c\\udf0a",
        "\\ud800",
        "\\u0000",
        "\\u001f",
        "\\u007f",
        "[[",
        "{}",
    ],
};

fn metadata(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = parse_metadata(text);
    let Ok(metadata) = parsed else { return };
    assert!(metadata.0.values().all(is_finite), "{text}");
    let json = metadata_json(&metadata);
    let again = parse_metadata(&json).unwrap_or_else(|fault| panic!("{json}: {fault}"));
    assert_eq!(again, metadata, "{json}");
    assert_eq!(metadata_json(&again), json, "one value has one spelling");
    assert_eq!(hash_metadata(&again), hash_metadata(&metadata));
    // Half of the keys, read alone.
    let keys: Vec<&str> = metadata.0.keys().step_by(2).map(|name| &**name).collect();
    let mut half = metadata.clone();
    half.0.retain(|name, _| keys.contains(&&**name));
    assert_eq!(parse_metadata_keys(text, &keys), Ok(half));
}

fn is_finite(value: &MetadataValue) -> bool {
    match value {
        MetadataValue::Number(number) => number.is_finite(),
        MetadataValue::NumberList(numbers) => numbers.iter().all(|number| number.is_finite()),
        _ => true,
    }
}

/// Metadata made of a fuzzer's choices, of few names and values, so that filters meet them.
pub(crate) fn any(input: &mut Input<'_>) -> Metadata {
    let text = |input: &mut Input<'_>| (*input.pick(&["", "drama", "sea", "1", "true"])).to_owned();
    let number = |input: &mut Input<'_>| *input.pick(&[0.0, -0.0, 1.0, 1990.0, 1990.5, -1e300]);
    let entries = (0..input.below(5)).map(|_| {
        let name = (*input.pick(&["genre", "year", "tags", "seen"])).to_owned();
        let value = match input.below(5) {
            0 => MetadataValue::Text(text(input)),
            1 => MetadataValue::Number(number(input)),
            2 => MetadataValue::Boolean(input.flag()),
            3 => MetadataValue::TextList((0..input.below(3)).map(|_| text(input)).collect()),
            _ => MetadataValue::NumberList((0..input.below(3)).map(|_| number(input)).collect()),
        };
        (name.into(), value)
    });
    Metadata(entries.collect())
}
