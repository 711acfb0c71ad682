//! Every CQL type through both doors, in every spelling: one row, one key, and back to the same typed value.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../sdk/cql/tests/values/mod.rs"]
mod values;

use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::document::FailureClass;
use keyvector_core::key::{Door, KEY_BYTES_MAX, KeyError, RowKey, encode_partition, where_clause};
use keyvector_core::record::{self, BadRecord, Record};
use keyvector_core::schema::TableSchema;
use keyvector_cql::{CqlType, CqlValue, canonical_text, sorted};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One key value: its type, its text in a key (percent-encoding apart), the server's bytes in hexadecimal, and what
/// the stream may say for it.
struct Case {
    cql_type: &'static str,
    text: &'static str,
    bytes: &'static str,
    stream: Vec<Value>,
}

fn case(
    cql_type: &'static str,
    text: &'static str,
    bytes: &'static str,
    stream: impl IntoIterator<Item = Value>,
) -> Case {
    Case { cql_type, text, bytes, stream: stream.into_iter().collect() }
}

/// The same member with each of these texts.
fn each(member: &str, spellings: &[&str]) -> Vec<Value> {
    spellings.iter().map(|&spelling| json!({ member: spelling })).collect()
}

fn cell(value: Value) -> Value {
    json!({ "value": value })
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        case("tinyint", "-128", "80", each("tinyintT", &["-128", "-0128"])),
        case("smallint", "-300", "fed4", each("smallintT", &["-300"])),
        case("int", "41", "00000029", each("intT", &["41", "+41", "0041"])),
        case("int", "0", "00000000", each("intT", &["0", "-0", "+0"])),
        case("bigint", "-9007199254740993", "ffdfffffffffffff", each("bigintT", &["-9007199254740993"])),
        case("varint", "123456789012345678901234567890", "018ee90ff6c373e0ee4e3f0ad2", each("varintT", &["123456789012345678901234567890", "+00123456789012345678901234567890"])),
        case("varint", "-10000", "d8f0", each("varintT", &["-10000"])),
        case("varint", "255", "00ff", each("varintT", &["255"])),
        case("boolean", "true", "01", [json!({"boolT": true}), json!({"boolT": "true"})]),
        case("boolean", "false", "00", [json!({"boolT": false})]),
        case("float", "0.1", "3dcccccd", each("floatT", &["0.1", "0.10", "1e-1", "1.0E-1", "0.100000001"])),
        case("float", "3.4028235E38", "7f7fffff", each("floatT", &["3.4028235E38", "3.4028235e+38", "340282350000000000000000000000000000000"])),
        case("float", "NaN", "7fc00000", each("floatT", &["NaN", "nan", "-NaN"])),
        case("double", "1.0", "3ff0000000000000", each("doubleT", &["1.0", "1", "1e0", "1.", "10E-1"])),
        case("double", "9999999.0", "416312cfe0000000", each("doubleT", &["9999999", "9.999999E6"])),
        case("double", "1.0E7", "416312d000000000", each("doubleT", &["1.0E7", "10000000", "1e+7"])),
        case("double", "1.0E-4", "3f1a36e2eb1c432d", each("doubleT", &["1.0E-4", "0.0001"])),
        case("double", "0.001", "3f50624dd2f1a9fc", each("doubleT", &["0.001", "1E-3"])),
        case("double", "5.0E-324", "0000000000000001", each("doubleT", &["4.9E-324", "5e-324"])),
        case("double", "-0.0", "8000000000000000", each("doubleT", &["-0.0", "-0", "-0e5"])),
        case("double", "0.0", "0000000000000000", each("doubleT", &["0.0", "0"])),
        case("double", "NaN", "7ff8000000000000", each("doubleT", &["NaN"])),
        case("double", "Infinity", "7ff0000000000000", each("doubleT", &["Infinity", "inf", "+Infinity"])),
        case("double", "-Infinity", "fff0000000000000", each("doubleT", &["-Infinity"])),
        case("text", "Redwood=Ridge", "526564776f6f643d5269646765", [json!({"textT": "Redwood=Ridge"}), json!({"varcharT": "Redwood=Ridge"})]),
        case("varchar", "978-3", "3937382d33", [json!({"varcharT": "978-3"}), json!({"textT": "978-3"})]),
        case("text", "é", "c3a9", each("textT", &["é"])),
        case("text", "e\u{301}", "65cc81", each("textT", &["e\u{301}"])),
        case("text", "A\u{0}\n~", "41000a7e", each("textT", &["A\u{0}\n~"])),
        case("ascii", "plain-7", "706c61696e2d37", each("asciiT", &["plain-7"])),
        case("uuid", "b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d77", "b3a1c7de5f424c089d0e6a2f1c3b5d77", each("uuidT", &["b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d77", "B3A1C7DE-5F42-4C08-9D0E-6A2F1C3B5D77"])),
        case("timeuuid", "7d3f0e80-1755-11f1-8de9-0242ac120002", "7d3f0e80175511f18de90242ac120002", each("timeuuidT", &["7d3f0e80-1755-11f1-8de9-0242ac120002", "7D3F0E80-1755-11F1-8DE9-0242AC120002"])),
        case("timestamp", "1772600767089", "0000019cb73d3271", each("timestampT", &["1772600767089", "2026-03-04T05:06:07.089Z", "2026-03-04T05:06:07.089", "2026-03-04T06:06:07.089+01:00", "2026-03-04 05:06:07.089+0000", "2026-03-04 05:06:07.089Z", "2026-03-04T05:06:07.089000Z"])),
        case("timestamp", "-1", "ffffffffffffffff", each("timestampT", &["-1", "1969-12-31T23:59:59.999Z"])),
        case("timestamp", "-9223372036854775808", "8000000000000000", each("timestampT", &["-9223372036854775808"])),
        case("date", "2026-02-28", "80005020", each("dateT", &["2026-02-28", "20512"])),
        case("date", "1969-12-31", "7fffffff", each("dateT", &["1969-12-31", "-1"])),
        case("date", "+5881580-07-11", "ffffffff", each("dateT", &["+5881580-07-11", "2147483647"])),
        case("date", "-5877641-06-23", "00000000", each("dateT", &["-5877641-06-23", "-2147483648"])),
        case("time", "12:34:56.789000000", "000029327b048f40", each("timeT", &["12:34:56.789", "12:34:56.789000000", "45296789000000"])),
        case("time", "08:00:00.000000000", "00001a3185c50000", each("timeT", &["08:00", "08:00:00", "28800000000000"])),
        case("inet", "192.168.1.1", "c0a80101", each("inetT", &["192.168.1.1", "/192.168.1.1", "::ffff:192.168.1.1", "::FFFF:c0a8:101"])),
        case("inet", "2001:db8::17", "20010db8000000000000000000000017", each("inetT", &["2001:db8::17", "2001:db8:0:0:0:0:0:17", "/2001:0DB8:0:0:0:0:0:17"])),
        case("blob", "cafebabe000102", "cafebabe000102", each("blobT", &["yv66vgABAg=="])),
        case("frozen<list<int>>", r#"["3","1","3"]"#, "00000003000000040000000300000004000000010000000400000003", [json!({"listT": [cell(json!({"intT": "3"})), cell(json!({"intT": "1"})), cell(json!({"intT": "+3"}))]})]),
        case("frozen<list<int>>", "[]", "00000000", [json!({"listT": []})]),
        // The server keeps 2 before 10; as texts they come the other way round.
        case("frozen<set<int>>", r#"["10","2"]"#, "000000020000000400000002000000040000000a", [
            json!({"setT": [cell(json!({"intT": "2"})), cell(json!({"intT": "10"}))]}),
            json!({"setT": [cell(json!({"intT": "10"})), cell(json!({"intT": "02"}))]}),
        ]),
        case("frozen<map<text, int>>", r#"[["a","1"],["b","2"]]"#, "00000002000000016100000004000000010000000162 0000000400000002", [
            json!({"mapT": [{"key": {"textT": "b"}, "value": {"intT": "2"}}, {"value": {"intT": "1"}, "key": {"textT": "a"}, "metadata": {}}]}),
        ]),
        case("frozen<tuple<double, text, int>>", r#"["59.91","say \"hi\"\\\u000a",null]"#, "00000008 404df47ae147ae14 0000000a 7361792022686922 5c0a ffffffff", [
            json!({"tupleT": [cell(json!({"doubleT": "59.910"})), cell(json!({"textT": "say \"hi\"\\\n"})), {}]}),
            json!({"tupleT": [cell(json!({"doubleT": "5.991E1"})), cell(json!({"textT": "say \"hi\"\\\n"}))]}),
        ]),
        case("frozen<addr>", r#"["Havnegata 9","9"]"#, "0000000b4861766e656761746120390000000400000009", [
            json!({"udtT": {"Street": cell(json!({"textT": "Havnegata 9"})), "no": cell(json!({"intT": "9"}))}}),
            json!({"udtT": {"no": cell(json!({"intT": "9"})), "Street": cell(json!({"textT": "Havnegata 9"}))}}),
        ]),
        case("frozen<list<frozen<set<uuid>>>>", r#"[["00000000-0000-4000-8000-00000000000a"]]"#, "00000001 00000018 00000001 00000010 0000000000004000800000000000000a", [
            json!({"listT": [cell(json!({"setT": [cell(json!({"uuidT": "00000000-0000-4000-8000-00000000000A"}))]}))]}),
        ]),
        // Keyspaces has no vectors: this one comes through the CQL door alone.
        case("vector<float, 2>", r#"["1.0","-2.5"]"#, "3f800000c0200000", []),
    ]
}

const TYPES: &str = "CREATE TYPE ks.addr (\"Street\" text, no int);";

/// A table whose key is one value of the type beside another column, in the partition or the clustering key.
fn table(cql_type: &str, in_partition: bool) -> TableSchema {
    let key = if in_partition { "(k, other)" } else { "other, k" };
    let text = format!("{TYPES} CREATE TABLE ks.t (k {cql_type}, other int, PRIMARY KEY ({key}));");
    TableSchema::parse_cql(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn through_stream(schema: &TableSchema, in_partition: bool, value: &Value) -> Result<RowKey, BadRecord> {
    let other = json!({"intT": "7"});
    let (partition, clustering) = if in_partition {
        (json!({"k": value, "other": other}), json!({}))
    } else {
        (json!({"other": other}), json!({"k": value}))
    };
    let record =
        json!({"partitionKeys": partition, "clusteringKeys": clustering, "newImage": {"valueCells": {}}});
    let view = ViewType::NewAndOldImages;
    match record::parse(schema, view, record.to_string().as_bytes(), Some(SequenceNumber::from(1)))? {
        Record::Row(change) => Ok(change.key),
        Record::Partition(change) => panic!("names no row: {change:?}"),
    }
}

fn through_cql(schema: &TableSchema, bytes: Option<&[u8]>) -> Result<RowKey, KeyError> {
    let seven = 7i32.to_be_bytes();
    let is_k = |column: usize| schema.columns[column].name == "k";
    RowKey::encode(schema, |column| if is_k(column) { bytes } else { Some(&seven) }, Door::Cql)
}

fn bytes_of_k(schema: &TableSchema, key: &RowKey) -> Vec<u8> {
    let values = key.decode(schema).unwrap_or_else(|fault| panic!("{key}: {fault}"));
    values
        .into_iter()
        .find(|(column, _)| schema.columns[*column].name == "k")
        .map(|(_, bytes)| bytes)
        .unwrap()
}

/// Percent-encoding, written as plainly as can be.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

#[test]
fn every_type_has_one_key_through_both_doors_in_every_spelling() {
    for case in cases() {
        let bytes = unhex(case.bytes);
        for in_partition in [true, false] {
            let schema = table(case.cql_type, in_partition);
            let expected = format!("k={}&other=7", encoded(case.text));
            let key = through_cql(&schema, Some(&bytes))
                .unwrap_or_else(|fault| panic!("{} {}: {fault}", case.cql_type, case.text));
            assert_eq!(key.as_str(), expected, "{} through CQL", case.cql_type);
            for value in &case.stream {
                let key = through_stream(&schema, in_partition, value)
                    .unwrap_or_else(|fault| panic!("{value}: {fault:?}"));
                assert_eq!(key.as_str(), expected, "{value} through the stream");
            }
            let cql_type = &schema.columns[schema.column_index("k").unwrap()].cql_type;
            assert_eq!(
                bytes_of_k(&schema, &key),
                *sorted(cql_type, &bytes).unwrap(),
                "{} back",
                case.cql_type
            );
        }
    }
}

/// All types of CQL that a key can hold are in the table above.
#[test]
fn no_type_is_forgotten() {
    let cases = cases();
    for name in [
        "ascii",
        "bigint",
        "blob",
        "boolean",
        "date",
        "decimal",
        "double",
        "float",
        "inet",
        "int",
        "smallint",
        "text",
        "time",
        "timestamp",
        "timeuuid",
        "tinyint",
        "uuid",
        "varchar",
        "varint",
        "list<",
        "set<",
        "map<",
        "tuple<",
        "addr",
        "vector<",
    ] {
        let decimal = name == "decimal" && !decimals().is_empty();
        assert!(decimal || cases.iter().any(|case| case.cql_type.contains(name)), "{name} is missing");
    }
    for name in ["counter", "duration", "frozen<list<duration>>"] {
        let text = format!("CREATE TABLE ks.t (k {name} PRIMARY KEY);");
        let fault = TableSchema::parse_cql(&text).unwrap_err();
        assert!(fault.message.contains("cannot hold"), "{fault}");
    }
}

/// Decimals: spelling, text in a partition key, text in a clustering key, the server's bytes.
#[rustfmt::skip]
fn decimals() -> Vec<(&'static [&'static str], &'static str, &'static str, &'static str)> {
    vec![
        (&["1.0", "+1.0", "01.0", "1.0E0", "10E-1"], "1.0", "1", "000000010a"),
        (&["1.00", "100E-2"], "1.00", "1", "0000000264"),
        (&["-10.2500"], "-10.2500", "-10.25", "00000004fe6f9c"),
        (&["0", "-0"], "0", "0", "0000000000"),
        (&["0.000"], "0.000", "0", "0000000300"),
        (&["100"], "100", "1E+2", "0000000064"),
        (&["0.000001"], "0.000001", "0.000001", "0000000601"),
        (&["0.0000001", "1E-7"], "1E-7", "1E-7", "0000000701"),
        (&["1E-2147483647"], "1E-2147483647", "1E-2147483647", "7fffffff01"),
    ]
}

#[test]
fn decimals_count_every_zero_in_a_partition_key_and_none_in_a_clustering_key() {
    for (spellings, in_partition, in_clustering, bytes) in decimals() {
        for (is_partition, text) in [(true, in_partition), (false, in_clustering)] {
            let schema = table("decimal", is_partition);
            let expected = format!("k={}&other=7", encoded(text));
            let key = through_cql(&schema, Some(&unhex(bytes))).unwrap();
            assert_eq!(key.as_str(), expected);
            for spelling in spellings {
                let key = through_stream(&schema, is_partition, &json!({"decimalT": spelling})).unwrap();
                assert_eq!(key.as_str(), expected, "{spelling}");
            }
            let back = bytes_of_k(&schema, &key);
            assert_eq!(canonical_text(&CqlType::Decimal, &back).unwrap(), text);
            if is_partition {
                assert_eq!(back, unhex(bytes));
            }
        }
    }
    // In a clustering key these are one number, whatever the scale.
    let schema = table("decimal", false);
    for spelling in ["100", "100.0", "1E2", "1E+2", "10E1", "0.001E5"] {
        let key = through_stream(&schema, false, &json!({"decimalT": spelling})).unwrap();
        assert_eq!(key.as_str(), "k=1E%2B2&other=7", "{spelling}");
    }
    let nested = table("frozen<list<decimal>>", false);
    let list = json!({"listT": [cell(json!({"decimalT": "1.50"}))]});
    assert_eq!(
        through_stream(&nested, false, &list).unwrap().as_str(),
        format!("k={}&other=7", encoded(r#"["1.5"]"#))
    );
}

/// A value of no bytes is the empty text for every type, and null is an error for every type.
#[test]
fn empty_is_a_value_and_null_is_none() {
    let all = cases();
    for (cql_type, case) in all.iter().map(|case| (case.cql_type, Some(case))).chain([("decimal", None)]) {
        for in_partition in [true, false] {
            let schema = table(cql_type, in_partition);
            let key = through_cql(&schema, Some(&[])).unwrap();
            assert_eq!(key.as_str(), "k=&other=7");
            assert_eq!(bytes_of_k(&schema, &key), b"");
            assert_eq!(through_cql(&schema, None).unwrap_err().class, FailureClass::BadKey);

            let member = case
                .and_then(|case| case.stream.first())
                .and_then(Value::as_object)
                .and_then(|union| union.keys().next());
            let Some(member) = member.filter(|member| {
                !["boolT", "listT", "setT", "mapT", "tupleT", "udtT"].contains(&member.as_str())
            }) else {
                continue;
            };
            assert_eq!(through_stream(&schema, in_partition, &json!({member: ""})).unwrap(), key);
            for null in [json!({member: null}), json!({}), json!(null)] {
                let bad = through_stream(&schema, in_partition, &null).unwrap_err();
                assert_eq!(bad.class, FailureClass::BadKey, "{null}");
                assert!(bad.reason.contains("key column \"k\": it is null or missing"), "{}", bad.reason);
            }
        }
    }
}

/// Rows that the server tells apart by their partition key's bytes, while their text is one: poison, never another row's
/// key. In a clustering key the server compares values, so these are one row, but for addresses.
#[test]
fn bytes_that_are_not_their_text_s_are_poison_in_a_partition_key() {
    for (cql_type, bytes, clustering) in [
        ("varint", "0001", Some("1")),
        ("varint", "ffff", Some("-1")),
        ("boolean", "02", Some("true")),
        ("double", "7ff8000000000001", Some("NaN")),
        ("double", "fff8000000000000", Some("NaN")),
        ("float", "7fc00001", Some("NaN")),
        ("decimal", "000000000001", Some("1")),
        ("decimal", "ffffffff01", Some("1E+1")),
        ("inet", "00000000000000000000ffffc0a80101", None),
        ("frozen<list<varint>>", "00000001000000020001", Some(r#"["1"]"#)),
        ("frozen<list<inet>>", "00000001 00000010 00000000000000000000ffffc0a80101", None),
        ("frozen<list<decimal>>", "00000001 00000005 ffffffff01", Some(r#"["1E+1"]"#)),
        ("frozen<tuple<int, int>>", "0000000400000007", Some(r#"["7",null]"#)),
        ("frozen<addr>", "0000000161", Some(r#"["a",null]"#)),
    ] {
        let bytes = unhex(bytes);
        let fault = through_cql(&table(cql_type, true), Some(&bytes)).unwrap_err();
        assert_eq!(fault.class, FailureClass::KeyNotCanonical, "{cql_type}: {fault}");
        assert_eq!(fault.column.as_deref(), Some("k"));
        let key = through_cql(&table(cql_type, false), Some(&bytes));
        match clustering {
            Some(text) => {
                assert_eq!(key.unwrap().as_str(), format!("k={}&other=7", encoded(text)), "{cql_type}")
            }
            None => assert_eq!(key.unwrap_err().class, FailureClass::KeyNotCanonical, "{cql_type}"),
        }
    }
    // The same through the stream, where only a decimal's exponent can say so.
    for spelling in ["1E+3", "1E3", "0E1", "12.5E2", "10E1"] {
        let bad = through_stream(&table("decimal", true), true, &json!({"decimalT": spelling})).unwrap_err();
        assert_eq!(bad.class, FailureClass::KeyNotCanonical, "{spelling}");
    }
}

/// What is no value of its type is poison, with the column and the reason.
#[test]
#[rustfmt::skip]
fn values_that_contradict_the_schema_are_poison() {
    for (cql_type, values) in [
        ("int", vec![json!({"intT": "2147483648"}), json!({"intT": "4.0"}), json!({"intT": " 4"}), json!({"intT": 4}), json!({"bigintT": "4"}), json!({"intT": "4", "textT": "4"}), json!({"newT": "4"}), json!("4")]),
        ("varint", vec![json!({"varintT": "1e3"}), json!({"varintT": "0x1"})]),
        ("boolean", vec![json!({"boolT": "yes"}), json!({"boolT": 1})]),
        ("double", vec![json!({"doubleT": "1,5"}), json!({"doubleT": "1e999"}), json!({"doubleT": 1.5})]),
        ("float", vec![json!({"floatT": "3.5E38"})]),
        ("ascii", vec![json!({"asciiT": "é"}), json!({"textT": "e"})]),
        ("text", vec![json!({"asciiT": "e"}), json!({"textT": ["e"]})]),
        ("uuid", vec![json!({"uuidT": "b3a1c7de5f424c089d0e6a2f1c3b5d77"}), json!({"uuidT": "b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d7"})]),
        ("timestamp", vec![json!({"timestampT": "2026-03-04T05:06:07.0891Z"}), json!({"timestampT": "2026-02-30T00:00Z"}), json!({"timestampT": "9223372036854775808"})]),
        ("date", vec![json!({"dateT": "2026-02-29"}), json!({"dateT": "2147483648"}), json!({"dateT": "2026-02-28T00:00"})]),
        ("time", vec![json!({"timeT": "24:00"}), json!({"timeT": "86400000000000"}), json!({"timeT": "25:00:00"})]),
        ("inet", vec![json!({"inetT": "192.168.1"}), json!({"inetT": "host/192.168.1.1"}), json!({"inetT": "fe80::1%eth0"})]),
        ("blob", vec![json!({"blobT": "cafe0"}), json!({"blobT": "yv66vgABAg"})]),
        ("frozen<list<int>>", vec![json!({"setT": []}), json!({"listT": [cell(json!({"textT": "x"}))]}), json!({"listT": {}}), json!({"listT": [7]})]),
        ("frozen<set<int>>", vec![json!({"setT": [cell(json!({"intT": "1"})), cell(json!({"intT": "01"}))]}), json!({"setT": [{}]})]),
        ("frozen<map<int, int>>", vec![json!({"mapT": [{"value": {"intT": "1"}}]}), json!({"mapT": [null]})]),
        ("frozen<tuple<int>>", vec![json!({"tupleT": [cell(json!({"intT": "1"})), cell(json!({"intT": "2"}))]})]),
        ("frozen<addr>", vec![json!({"udtT": {"street": cell(json!({"textT": "lower case"}))}})]),
        ("vector<float, 2>", vec![json!({"vectorT": [1, 2]}), json!({"listT": []})]),
    ] {
        for value in values {
            for in_partition in [true, false] {
                let bad = through_stream(&table(cql_type, in_partition), in_partition, &value).unwrap_err();
                assert_eq!(bad.class, FailureClass::BadKey, "{value}");
                assert!(bad.reason.starts_with("key column \"k\": "), "{}", bad.reason);
            }
        }
    }
    for (cql_type, bytes) in [("int", "00"), ("text", "ff"), ("time", "ffffffffffffffff"), ("inet", "00"), ("frozen<set<int>>", "00000001")] {
        let fault = through_cql(&table(cql_type, true), Some(&unhex(bytes))).unwrap_err();
        assert_eq!(fault.class, FailureClass::BadKey, "{cql_type}");
    }
}

fn films() -> TableSchema {
    TableSchema::parse_cql(
        "CREATE TABLE demo.films (studio text, movie_id int, plot text, PRIMARY KEY (movie_id, studio))",
    )
    .unwrap()
}

fn film_key(movie_id: i32, studio: &str) -> RowKey {
    let movie_id = movie_id.to_be_bytes();
    let cells = [&movie_id[..], studio.as_bytes()];
    RowKey::encode(&films(), |column| cells.get(column).copied(), Door::Cql).unwrap()
}

#[test]
fn the_design_s_example() {
    let schema = films();
    let key = film_key(12, "Redwood=Ridge");
    assert_eq!(key.as_str(), "movie_id=12&studio=Redwood%3DRidge");
    assert_eq!(key.decode(&schema).unwrap(), [(0, vec![0, 0, 0, 12]), (1, b"Redwood=Ridge".to_vec())]);
    assert_eq!(where_clause(&schema), r#"WHERE "movie_id" = ? AND "studio" = ?"#);
    assert_eq!(key.partition_part(&schema).unwrap(), "movie_id=12");
    let partition = encode_partition(&schema, |_| Some(&[0, 0, 0, 12]), Door::Cql).unwrap();
    assert_eq!(partition, "movie_id=12");
    assert_eq!(schema.describe_key(), "demo.films(movie_id int; studio text)");
}

/// Columns go by the bytes of their names, whatever their place in the key; names are encoded like values.
#[test]
fn names_of_columns_are_sorted_and_encoded() {
    let schema = TableSchema::parse_cql(
        r#"CREATE TABLE ks."Movies" ("movieId" text, "order" int, "token" text, "we""ird & é" text,
           PRIMARY KEY (("we""ird & é", "movieId"), "order", "token"))"#,
    )
    .unwrap();
    let cells = [&b"w"[..], b"m", &[0, 0, 0, 5], b"t"];
    let key = RowKey::encode(&schema, |column| cells.get(column).copied(), Door::Cql).unwrap();
    assert_eq!(key.as_str(), "movieId=m&order=5&token=t&we%22ird%20%26%20%C3%A9=w");
    assert_eq!(key.partition_part(&schema).unwrap(), "movieId=m&we%22ird%20%26%20%C3%A9=w");
    assert_eq!(key.decode(&schema).unwrap().len(), 4);
    assert_eq!(
        where_clause(&schema),
        r#"WHERE "we""ird & é" = ? AND "movieId" = ? AND "order" = ? AND "token" = ?"#
    );
    assert_eq!(schema.to_string(), r#"ks."Movies""#);
}

/// Texts that look alike or hold separators stay apart, and length is counted in bytes.
#[test]
fn keys_are_injective_and_measured_in_bytes() {
    let schema = TableSchema::parse_cql("CREATE TABLE ks.t (a text, b text, PRIMARY KEY (a, b))").unwrap();
    let key = |a: &str, b: &str| {
        let cells = [a.as_bytes(), b.as_bytes()];
        RowKey::encode(&schema, |column| cells.get(column).copied(), Door::Cql).unwrap()
    };
    let pairs = [
        ("\u{e9}", ""),
        ("e\u{301}", ""),
        ("a|b", "c"),
        ("a", "b|c"),
        ("x%2Fy", ""),
        ("x/y", ""),
        ("a&b=c", ""),
        ("a", "b=c"),
        ("A", ""),
        ("a", ""),
        ("", "a"),
        ("", ""),
        ("a", "&"),
        ("a&", ""),
    ];
    let mut keys: Vec<RowKey> = pairs.iter().map(|(a, b)| key(a, b)).collect();
    for (key, (a, b)) in keys.iter().zip(pairs) {
        assert_eq!(key.decode(&schema).unwrap(), [(0, a.as_bytes().to_vec()), (1, b.as_bytes().to_vec())]);
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), pairs.len());

    // "a=" and "&b=" take five bytes; each of these characters takes twelve.
    let fits = key(&"🎬".repeat(84), &"x".repeat(KEY_BYTES_MAX - 5 - 84 * 12));
    assert_eq!(fits.as_str().len(), KEY_BYTES_MAX);
    assert!(!fits.is_too_long());
    assert!(key(&"🎬".repeat(84), &"x".repeat(KEY_BYTES_MAX - 4 - 84 * 12)).is_too_long());
    assert!(key(&"🎬".repeat(300), "").is_too_long(), "300 characters, 1,200 bytes, 3,600 in the key");
}

/// A key is ours only if it is what its values encode to, byte for byte.
#[test]
fn foreign_keys_are_told() {
    let schema = films();
    for foreign in [
        "",
        "12",
        "movie_id=12",
        "studio=a&movie_id=12",
        "movie_id=12&studio=a&x=1",
        "movie_id=12&studio=a&",
        "&movie_id=12&studio=a",
        "movie_id=012&studio=a",
        "movie_id=+12&studio=a",
        "movie_id=%31&studio=a",
        "movie_id=12&studio=%61",
        "movie_id=12&studio=%c3%a9",
        "movie_id=12&studio=é",
        "movie_id=12&studio=a b",
        "movie_id=12&studio=%",
        "movie_id=12&studio=%4",
        "movie_id=12&studio=%ZZ",
        "movie_id=12&studio=%FF",
        "movie_id=12&studio=a=b",
        "MOVIE_ID=12&studio=a",
        "movie_id=x&studio=a",
        "movie_id=2147483648&studio=a",
        "movie_id=12&studio=a\0",
    ] {
        let fault = RowKey::from_stored(foreign).decode(&schema).unwrap_err();
        assert_eq!(fault.class, FailureClass::BadKey, "{foreign}: {fault}");
    }
    for (cql_type, in_partition, foreign) in [
        ("decimal", true, "k=1E%2B3&other=7"),
        ("decimal", false, "k=1.50&other=7"),
        ("decimal", false, "k=100&other=7"),
        ("double", true, "k=1&other=7"),
        ("double", true, "k=1.0e7&other=7"),
        ("inet", true, "k=%3A%3Affff%3A1.2.3.4&other=7"),
        ("blob", true, "k=CAFE&other=7"),
        ("blob", true, "k=yv4%3D&other=7"),
        ("timestamp", true, "k=2026-03-04T05%3A06%3A07Z&other=7"),
        ("date", true, "k=20512&other=7"),
        ("time", true, "k=08%3A00&other=7"),
        ("boolean", true, "k=1&other=7"),
        ("uuid", true, "k=B3A1C7DE-5F42-4C08-9D0E-6A2F1C3B5D77&other=7"),
        ("frozen<set<int>>", true, "k=%5B%222%22%2C%2210%22%5D&other=7"),
        ("frozen<set<int>>", true, "k=%5B%222%22%2C%222%22%5D&other=7"),
        ("frozen<list<int>>", true, "k=%5B%222%22%20%5D&other=7"),
        ("frozen<list<int>>", true, "k=%5B2%5D&other=7"),
    ] {
        let fault = RowKey::from_stored(foreign).decode(&table(cql_type, in_partition)).unwrap_err();
        assert!(
            matches!(fault.class, FailureClass::BadKey | FailureClass::KeyNotCanonical),
            "{foreign}: {fault}"
        );
    }
    assert!(RowKey::from_stored("movie_id=12").partition_part(&schema).is_err());
}

/// A value as the stream says it: what the API's union looks like.
fn in_stream(cql_type: &CqlType, value: &CqlValue) -> Value {
    if matches!(value, CqlValue::Null) {
        return json!({});
    }
    let cell_of = |cql_type: &CqlType, value: &CqlValue| match value {
        CqlValue::Null => json!({}),
        value => cell(in_stream(cql_type, value)),
    };
    match (cql_type, value) {
        (CqlType::List(element), CqlValue::List(values)) => {
            json!({"listT": values.iter().map(|value| cell_of(element, value)).collect::<Vec<_>>()})
        }
        (CqlType::Set(element), CqlValue::Set(values)) => {
            json!({"setT": values.iter().map(|value| cell_of(element, value)).collect::<Vec<_>>()})
        }
        (CqlType::Map(key_type, value_type), CqlValue::Map(entries)) => {
            let entry = |(key, value): &(CqlValue, CqlValue)| json!({"key": in_stream(key_type, key), "value": in_stream(value_type, value)});
            json!({"mapT": entries.iter().map(entry).collect::<Vec<_>>()})
        }
        (CqlType::Tuple(fields), CqlValue::Tuple(values)) => {
            json!({"tupleT": fields.iter().zip(values).map(|(field, value)| cell_of(field, value)).collect::<Vec<_>>()})
        }
        (CqlType::Udt(fields), CqlValue::Udt(values)) => {
            let fields = fields
                .iter()
                .zip(values)
                .map(|((name, field), (_, value))| (name.clone(), cell_of(field, value)));
            json!({"udtT": fields.collect::<serde_json::Map<_, _>>()})
        }
        (CqlType::Boolean, CqlValue::Boolean(flag)) => json!({"boolT": flag}),
        (CqlType::Boolean, _) => json!({"boolT": ""}),
        (CqlType::Blob, CqlValue::Blob(bytes)) => {
            use base64::Engine as _;
            json!({"blobT": base64::engine::general_purpose::STANDARD.encode(bytes)})
        }
        (scalar, value) => {
            let text = canonical_text(scalar, &value.encode(scalar).unwrap()).unwrap();
            json!({format!("{scalar}T"): text})
        }
    }
}

/// Whether the stream has a form for all values of the type, empty ones included.
fn is_in_stream(cql_type: &CqlType, value: &CqlValue) -> bool {
    match (cql_type, value) {
        (CqlType::Vector(..), _) => false,
        (
            CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Tuple(_) | CqlType::Udt(_),
            CqlValue::Empty,
        ) => false,
        (CqlType::List(element), CqlValue::List(values)) | (CqlType::Set(element), CqlValue::Set(values)) => {
            values.iter().all(|value| is_in_stream(element, value))
        }
        (CqlType::Map(key_type, value_type), CqlValue::Map(entries)) => {
            entries.iter().all(|(key, value)| is_in_stream(key_type, key) && is_in_stream(value_type, value))
        }
        (CqlType::Tuple(fields), CqlValue::Tuple(values)) => {
            fields.iter().zip(values).all(|(field, value)| is_in_stream(field, value))
        }
        (CqlType::Udt(fields), CqlValue::Udt(values)) => {
            fields.iter().zip(values).all(|((_, field), (_, value))| is_in_stream(field, value))
        }
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn random_values_have_one_key_and_come_back((cql_type, value) in values::typed_value(), in_partition: bool) {
        use keyvector_core::schema::{Column, ColumnKind};
        let column = |name: &str, cql_type, kind| Column { name: name.into(), cql_type, kind };
        let kind = if in_partition { ColumnKind::PartitionKey } else { ColumnKind::ClusteringKey };
        let columns = vec![column("other", CqlType::Int, ColumnKind::PartitionKey), column("k", cql_type.clone(), kind)];
        let schema = TableSchema::new("ks", "t", columns).unwrap();

        let bytes = value.encode(&cql_type).unwrap();
        let key = through_cql(&schema, Some(&bytes)).unwrap();
        let back = bytes_of_k(&schema, &key);
        prop_assert_eq!(through_cql(&schema, Some(&back)).unwrap(), key.clone());
        if in_partition {
            prop_assert_eq!(&back, &*sorted(&cql_type, &bytes).unwrap());
        }
        if is_in_stream(&cql_type, &value) {
            prop_assert_eq!(through_stream(&schema, in_partition, &in_stream(&cql_type, &value)).unwrap(), key);
        }
    }

    #[test]
    fn any_text_is_survived_as_a_key(cql_type in values::key_type(), text in prop_oneof![any::<String>(), "(k=[%0-9A-F\\[\\]\",a.E+-]{0,12})?(&other=7)?"]) {
        use keyvector_core::schema::{Column, ColumnKind};
        let column = |name: &str, cql_type| Column { name: name.into(), cql_type, kind: ColumnKind::PartitionKey };
        let schema = TableSchema::new("ks", "t", vec![column("other", CqlType::Int), column("k", cql_type)]).unwrap();
        let key = RowKey::from_stored(text);
        if let Ok(values) = key.decode(&schema) {
            let again = RowKey::encode(&schema, |column| values.get(column).map(|(_, bytes)| &bytes[..]), Door::Stream).unwrap();
            prop_assert_eq!(again, key.clone());
            prop_assert!(key.partition_part(&schema).is_ok());
        }
    }
}
