//! Types, values and texts of `keyvector-cql`.

use keyvector_cql::{
    CqlType, CqlValue, Decimals, canonical_text, canonical_text_into, parse_canonical, parse_text, sorted,
};

use crate::Target;
use crate::input::Input;
use crate::value;

const TYPE_WORDS: &[&str] = &[
    "list<",
    "set<",
    "map<",
    "tuple<",
    "udt<",
    "vector<",
    "frozen<",
    ">",
    ",",
    ":",
    "\"",
    "\"\"",
    "'",
    "''",
    "int",
    "text",
    "varchar",
    "uuid",
    "duration",
    "'org.apache.cassandra.db.marshal.LongType'",
    ".",
    "65535",
    "0",
];

/// A type's spelling.
pub const TYPES: Target = Target { name: "cql_type", run: types, samples: type_samples, words: TYPE_WORDS };

fn types(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<CqlType>() {
        Ok(cql_type) => {
            let spelled = cql_type.to_string();
            assert_eq!(spelled.parse::<CqlType>().as_ref(), Ok(&cql_type), "{spelled}");
        }
        Err(fault) => {
            assert!(!fault.message.is_empty());
            assert!(fault.position <= text.chars().count(), "{fault}");
        }
    }
}

fn type_samples() -> Vec<Vec<u8>> {
    [
        "int",
        "frozen<list<frozen<set<Text>>>>",
        " map < text , frozen < tuple < int , uuid > > > ",
        "vector<float, 3>",
        "udt<Street:text,\"Zip\":int,\"order\":blob,\"a\"\"b\":date>",
        "'org.apache.cassandra.db.marshal.DurationType'",
        "'com.example.It''s'",
        "ks.addr",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A type and a cell of it.
pub const VALUES: Target = Target { name: "cql_value", run: values, samples: value_samples, words: &[] };

fn values(data: &[u8]) {
    let mut input = Input::new(data);
    let cql_type = value::cql_type(&mut input, 3);
    let bytes = if input.flag() { value::cell(&mut input, &cql_type) } else { input.rest().to_vec() };
    let decoded = CqlValue::decode(&cql_type, &bytes);
    let text = canonical_text(&cql_type, &bytes);

    if let Ok(decoded) = &decoded {
        let again = decoded.encode(&cql_type).expect("what was decoded is a value of the type");
        let twice = CqlValue::decode(&cql_type, &again).expect("what was encoded is one too");
        // By what they show, since NaN is not equal to itself.
        assert_eq!(format!("{twice:?}"), format!("{decoded:?}"), "{cql_type}");
        assert_eq!(twice.encode(&cql_type).as_ref(), Ok(&again), "{cql_type}");
        if let Ok(text) = &text {
            assert_eq!(
                &canonical_text(&cql_type, &again).unwrap(),
                text,
                "{cql_type}: one value has one text"
            );
        }
    }
    match text {
        Ok(text) => {
            assert!(decoded.is_ok(), "{cql_type}: {text:?} is the text of no value");
            let back =
                parse_canonical(&cql_type, &text).unwrap_or_else(|fault| panic!("{cql_type}: {fault}"));
            assert_eq!(canonical_text(&cql_type, &back).as_ref(), Ok(&text), "{cql_type}");
            let in_order = sorted(&cql_type, &bytes).expect("what has a text can be sorted");
            assert_eq!(canonical_text(&cql_type, &in_order).as_ref(), Ok(&text), "{cql_type}");
            assert_eq!(sorted(&cql_type, &in_order).unwrap(), in_order, "{cql_type}: sorted stays sorted");
            stripped(&cql_type, &bytes);
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// The text with decimals stripped of zeros reads back as a value that has this text, stripped or not.
fn stripped(cql_type: &CqlType, bytes: &[u8]) {
    let mut text = String::new();
    // Equal numbers may be one key of a set twice.
    if canonical_text_into(cql_type, bytes, Decimals::Stripped, &mut text).is_err() {
        return;
    }
    let back =
        parse_canonical(cql_type, &text).unwrap_or_else(|fault| panic!("{cql_type}: {text:?}: {fault}"));
    let mut again = String::new();
    canonical_text_into(cql_type, &back, Decimals::Stripped, &mut again).unwrap();
    assert_eq!(again, text, "{cql_type}");
}

fn value_samples() -> Vec<Vec<u8>> {
    // One a scalar and one a kind of parts, each read as a made value and as plain bytes.
    (0..32u8)
        .flat_map(|cql_type| {
            [
                vec![cql_type, 1, 0, 0, 0, 0, 0, 0, 0, 42, 7],
                vec![cql_type, 0, 0, 0, 0, 1, 0, 0, 0, 1, 65],
                vec![cql_type, 1, 1, 0, 2, 3, 65, 66, 67, 0, 2, 68, 69],
            ]
        })
        .collect()
}

const TEXT_WORDS: &[&str] = &[
    "-",
    "+",
    ".",
    "E",
    "e-",
    "0",
    "00",
    "NaN",
    "Infinity",
    "-0.0",
    "true",
    "false",
    "T",
    "Z",
    "+0200",
    ":",
    "1970-01-01",
    "2026-08-06T07:06:40.125Z",
    "P1Y2M3DT4H",
    "1y2mo3w4d5h6m7s8ms9us10ns",
    "::ffff:1.2.3.4",
    "/",
    "%",
    "[",
    "]",
    ",",
    "null",
    "\"",
    "\\\"",
    "\\u00e9",
    "[[\"a\",\"b\"]]",
    "==",
    "9223372036854775807",
    "-2147483649",
    "\u{e9}",
];

/// A type and a text, read as a change stream's spelling and as a key's.
pub const TEXTS: Target = Target { name: "cql_text", run: texts, samples: text_samples, words: TEXT_WORDS };

fn texts(data: &[u8]) {
    let mut input = Input::new(data);
    let cql_type = value::cql_type(&mut input, 2);
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };

    if let Ok(bytes) = parse_canonical(&cql_type, text) {
        assert_eq!(
            canonical_text(&cql_type, &bytes).as_deref(),
            Ok(text),
            "{cql_type}: no other text is read"
        );
    }
    if let Ok(bytes) = parse_text(&cql_type, text) {
        let canonical =
            canonical_text(&cql_type, &bytes).unwrap_or_else(|fault| panic!("{cql_type}: {fault}"));
        assert_eq!(parse_canonical(&cql_type, &canonical).as_ref(), Ok(&bytes), "{cql_type}: {canonical:?}");
        // The canonical text is one of the spellings of the same value; a blob's is hexadecimal there, base64 here.
        if cql_type != CqlType::Blob {
            assert_eq!(parse_text(&cql_type, &canonical).as_ref(), Ok(&bytes), "{cql_type}: {canonical:?}");
        }
    }
}

fn text_samples() -> Vec<Vec<u8>> {
    let spelled: [(u8, &str); 26] = [
        (0, "-17"),
        (1, "a text"),
        (2, "ascii"),
        (3, "9223372036854775807"),
        (4, "yv66vg=="),
        (4, "cafebabe"),
        (5, "true"),
        (6, "2026-02-28"),
        (6, "20512"),
        (7, "-10.2500"),
        (7, "1.5E+7"),
        (8, "2.5e-7"),
        (9, "0.1"),
        (10, "2001:db8::17"),
        (10, "/127.0.0.1"),
        (12, "23:59:58.123456789"),
        (13, "2026-08-06 09:06:40.125+0200"),
        (13, "1772600767089"),
        (14, "7d3f0e80-1755-11f1-8de9-0242ac120002"),
        (17, "123456789012345678901234567890"),
        (19, "1mo2d3h"),
        (19, "P1Y2M10DT2H30M"),
        (19, "-PT26H"),
        (19, "P0001-00-10T02:30:00"),
        (20, "[\"1\",\"-1\"]"),
        (22, "[[\"a\",\"7\"]]"),
    ];
    spelled
        .iter()
        .map(|&(cql_type, text)| {
            // Types with parts take further bytes: these are of int or text.
            let more: &[u8] = match cql_type {
                20 => &[0],
                22 => &[1, 0],
                _ => &[],
            };
            [&[cql_type], more, text.as_bytes()].concat()
        })
        .collect()
}
