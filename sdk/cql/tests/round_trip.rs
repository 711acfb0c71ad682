//! Random values of random types, there and back; and bytes and texts that are no values at all.

mod values;

use keyvector_cql::{CqlType, CqlValue, canonical_text, parse_canonical, parse_text, sorted};
use proptest::collection::vec;
use proptest::prelude::*;

use values::{key_type, typed_value};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn type_spelling_reads_back(cql_type in key_type()) {
        prop_assert_eq!(cql_type.to_string().parse::<CqlType>(), Ok(cql_type));
    }

    #[test]
    fn bytes_read_back((cql_type, value) in typed_value()) {
        let bytes = value.encode(&cql_type).unwrap();
        let again = CqlValue::decode(&cql_type, &bytes).unwrap();
        // Compared as bytes too, since NaN is not equal to itself.
        prop_assert_eq!(again.encode(&cql_type).unwrap(), bytes);
        prop_assert_eq!(format!("{again:?}"), format!("{value:?}"));
    }

    #[test]
    fn canonical_text_reads_back((cql_type, value) in typed_value()) {
        let bytes = value.encode(&cql_type).unwrap();
        let text = canonical_text(&cql_type, &bytes).unwrap();
        let back = parse_canonical(&cql_type, &text).unwrap();
        prop_assert_eq!(&back, &*sorted(&cql_type, &bytes).unwrap());
        prop_assert_eq!(canonical_text(&cql_type, &back).unwrap(), text);
    }

    #[test]
    fn the_order_of_sets_and_maps_does_not_matter((cql_type, value) in typed_value()) {
        let bytes = value.encode(&cql_type).unwrap();
        let turned = turn_around(value).encode(&cql_type).unwrap();
        prop_assert_eq!(canonical_text(&cql_type, &bytes).unwrap(), canonical_text(&cql_type, &turned).unwrap());
        prop_assert_eq!(sorted(&cql_type, &bytes).unwrap(), sorted(&cql_type, &turned).unwrap());
    }

    /// Whatever the bytes, the answer is a value or an error, and both functions agree on which.
    #[test]
    fn any_bytes_are_survived(cql_type in key_type(), bytes in vec(prop_oneof![any::<u8>(), Just(0), Just(1), Just(4), Just(0xff)], 0..40)) {
        let value = CqlValue::decode(&cql_type, &bytes);
        let text = canonical_text(&cql_type, &bytes);
        if let Ok(text) = &text {
            prop_assert!(value.is_ok(), "{text}");
            // A text that two spellings in bytes share reads back as one of them, if it is a key's text at all.
            if let Ok(back) = parse_canonical(&cql_type, text) {
                prop_assert_eq!(&canonical_text(&cql_type, &back).unwrap(), text);
            }
        }
        drop(sorted(&cql_type, &bytes));
    }

    #[test]
    fn damaged_bytes_are_survived((cql_type, value) in typed_value(), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let mut bytes = value.encode(&cql_type).unwrap();
        if bytes.is_empty() {
            return Ok(());
        }
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        drop(CqlValue::decode(&cql_type, &bytes));
        drop(canonical_text(&cql_type, &bytes));
        drop(sorted(&cql_type, &bytes));
    }

    #[test]
    fn any_text_is_survived(cql_type in key_type(), text in prop_oneof![any::<String>(), "[0-9:.,+\\-eEPTZ\\[\\]\"\\\\nul]{0,20}"]) {
        for bytes in [parse_text(&cql_type, &text), parse_canonical(&cql_type, &text)].into_iter().flatten() {
            prop_assert!(canonical_text(&cql_type, &bytes).is_ok());
        }
        drop(text.parse::<CqlType>());
    }

    /// No text but the one that comes out goes in.
    #[test]
    fn only_the_canonical_text_is_read((cql_type, value) in typed_value(), at in any::<prop::sample::Index>(), new in "[ 0a+\\[\",.-]") {
        let bytes = value.encode(&cql_type).unwrap();
        let text = canonical_text(&cql_type, &bytes).unwrap();
        let place = at.index(text.len() + 1);
        if !text.is_char_boundary(place) {
            return Ok(());
        }
        let changed = format!("{}{new}{}", &text[..place], &text[place..]);
        if let Ok(bytes) = parse_canonical(&cql_type, &changed) {
            prop_assert_eq!(canonical_text(&cql_type, &bytes).unwrap(), changed);
        }
    }
}

/// The same value with every set and map the other way round.
fn turn_around(value: CqlValue) -> CqlValue {
    let all = |values: Vec<CqlValue>| values.into_iter().map(turn_around).collect::<Vec<_>>();
    match value {
        CqlValue::Set(elements) => CqlValue::Set(all(elements).into_iter().rev().collect()),
        CqlValue::Map(entries) => CqlValue::Map(
            entries.into_iter().rev().map(|(key, value)| (turn_around(key), turn_around(value))).collect(),
        ),
        CqlValue::List(elements) => CqlValue::List(all(elements)),
        CqlValue::Tuple(fields) => CqlValue::Tuple(all(fields)),
        CqlValue::Vector(elements) => CqlValue::Vector(all(elements)),
        CqlValue::Udt(fields) => {
            CqlValue::Udt(fields.into_iter().map(|(name, value)| (name, turn_around(value))).collect())
        }
        scalar => scalar,
    }
}

#[test]
fn claims_of_huge_counts_cost_nothing() {
    let nested: CqlType = "list<list<int>>".parse().unwrap();
    for bytes in
        [&[0x7f, 0xff, 0xff, 0xff][..], &[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff], &[0xff; 8]]
    {
        assert!(CqlValue::decode(&nested, bytes).is_err());
        assert!(canonical_text(&nested, bytes).is_err());
    }
}

/// Bytes as the protocol and the drivers' documentation give them.
#[test]
fn known_bytes() {
    for (cql_type, hex, text) in [
        ("int", "ffffffff", "-1"),
        ("varint", "d8f0", "-10000"),
        ("varint", "00ff", "255"),
        ("date", "7fffffff", "1969-12-31"),
        ("date", "80000000", "1970-01-01"),
        ("decimal", "00000002ff85", "-1.23"),
        ("duration", "020406", "1mo2d3ns"),
        ("list<int>", "00000002000000040000000100000004ffffffff", "[\"1\",\"-1\"]"),
        ("set<text>", "0000000200000001620000000161", "[\"a\",\"b\"]"),
        ("map<text,int>", "0000000100000001610000000400000007", "[[\"a\",\"7\"]]"),
        ("tuple<int,text>", "0000000400000007ffffffff", "[\"7\",null]"),
        ("udt<a:int,b:text>", "0000000400000007", "[\"7\",null]"),
        ("vector<float,2>", "3f80000040000000", "[\"1.0\",\"2.0\"]"),
        ("vector<text,2>", "0161026262", "[\"a\",\"bb\"]"),
        ("vector<smallint,2>", "0200010202ff", "[\"1\",\"767\"]"),
        ("vector<vector<int,1>,2>", "0000000100000002", "[[\"1\"],[\"2\"]]"),
    ] {
        let cql_type: CqlType = cql_type.parse().unwrap();
        let bytes = unhex(hex);
        assert_eq!(canonical_text(&cql_type, &bytes).unwrap(), text, "{cql_type}");
        CqlValue::decode(&cql_type, &bytes).unwrap();
    }
}

/// Values that a type cannot hold are refused by name, not written as something else.
#[test]
fn misfits_are_refused() {
    for (cql_type, value) in [
        ("int", CqlValue::Bigint(1)),
        ("ascii", CqlValue::Ascii("é".into())),
        ("time", CqlValue::Time(86_400_000_000_000)),
        ("time", CqlValue::Time(-1)),
        ("int", CqlValue::Null),
        ("duration", CqlValue::Duration { months: 1, days: -1, nanoseconds: 0 }),
        ("vector<float,2>", CqlValue::Vector(vec![CqlValue::Float(1.0)])),
        ("vector<float,1>", CqlValue::Vector(vec![CqlValue::Null])),
        ("vector<float,1>", CqlValue::Vector(vec![CqlValue::Empty])),
        ("tuple<int,int>", CqlValue::Tuple(vec![CqlValue::Int(1)])),
        ("udt<a:int>", CqlValue::Udt(vec![("b".into(), CqlValue::Int(1))])),
        ("'x.Y'", CqlValue::Empty),
    ] {
        let cql_type: CqlType = cql_type.parse().unwrap();
        assert!(value.encode(&cql_type).is_err(), "{cql_type} {value:?}");
    }
    for (cql_type, hex) in [
        ("int", "000000"),
        ("int", "0000000000"),
        ("uuid", "00"),
        ("inet", "0000000000"),
        ("decimal", "00000000"),
        ("text", "ff"),
        ("ascii", "c3a9"),
        ("time", "00004e94914f0000"),
        ("duration", "0201"),
        ("duration", "02040600"),
        ("duration", "020304"),
        ("list<int>", "00000001"),
        ("list<int>", "ffffffff"),
        ("list<int>", "0000000000"),
        ("set<int>", "0000000200000004000000010000000400000001"),
        ("set<int>", "00000001ffffffff"),
        ("tuple<int>", "00000004000000070000"),
        ("vector<int,2>", "00000001"),
        ("vector<int,1>", "0000000100"),
        ("'x.Y'", "00"),
        ("'x.Y'", ""),
    ] {
        let cql_type: CqlType = cql_type.parse().expect("hexadecimal");
        assert!(canonical_text(&cql_type, &unhex(hex)).is_err(), "{cql_type} {hex}");
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}
