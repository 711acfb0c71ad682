//! Every kind of cell, read through a table plugin by the way the host takes.
#![allow(clippy::unwrap_used, reason = "a test")]

use keyvector_sdk::testing::{Rendered, TestTable, test};
use keyvector_sdk::{
    Blob, Boolean, Canonical, Column, Columns, CqlValue, Document, Integer, Kind, Metadata, MetadataKey,
    MetadataType, Number, NumberList, Row, Table, Text, TextList, Timestamp, Uuid, Value,
};
use proptest::prelude::*;

#[derive(serde::Deserialize)]
struct NoConfig {}

/// Reads the one column `c` as `K` and writes what it read.
struct Reader<K>(Column<K>);

impl<K: Kind> Table for Reader<K>
where
    for<'a> K::Value<'a>: std::fmt::Debug,
{
    type Config = NoConfig;
    const READS: &'static [&'static str] = &["c"];

    fn metadata(_: &NoConfig) -> Vec<MetadataKey> {
        vec![]
    }
    fn open(_: NoConfig, columns: &Columns) -> Result<Self, String> {
        Ok(Self(columns.column("c")?))
    }
    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        Ok(Some(Document { text: format!("{:?}", row.get(&self.0)?), metadata: Metadata::new() }))
    }
}

/// What `K` reads from a cell of that type with that canonical text.
fn read<K: Kind>(cql_type: &str, text: &str) -> String
where
    for<'a> K::Value<'a>: std::fmt::Debug,
{
    let table = TestTable::<Reader<K>>::open("{}", &[("c", cql_type)]).unwrap();
    match table.render(&[&[("c", text)]]).remove(0) {
        Rendered::Document { text, .. } => text,
        other => format!("{other:?}"),
    }
}

fn read_bytes<K: Kind>(cql_type: &str, bytes: &[u8]) -> Rendered
where
    for<'a> K::Value<'a>: std::fmt::Debug,
{
    let mut cells = i32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    cells.extend(bytes);
    let table = TestTable::<Reader<K>>::open("{}", &[("c", cql_type)]).unwrap();
    table.render_cells(1, &cells).remove(0)
}

#[test]
fn cells_are_read_as_their_kind() {
    assert_eq!(read::<Text>("text", "é\n"), r#"Some("é\n")"#);
    assert_eq!(read::<Text>("ascii", ""), r#"Some("")"#);
    for cql_type in ["tinyint", "smallint", "int", "bigint", "counter"] {
        assert_eq!(read::<Integer>(cql_type, "-7"), "Some(-7)");
        assert_eq!(read::<Number>(cql_type, "-7"), "Some(-7.0)");
    }
    assert_eq!(read::<Integer>("bigint", "-9223372036854775808"), "Some(-9223372036854775808)");
    assert_eq!(read::<Number>("float", "0.1"), format!("Some({:?})", f64::from(0.1f32)));
    assert_eq!(read::<Number>("double", "0.1"), "Some(0.1)");
    assert_eq!(read::<Number>("double", "-Infinity"), "Some(-inf)");
    assert_eq!(read::<Number>("varint", "-100000000000000000000"), "Some(-1e20)");
    assert_eq!(read::<Number>("decimal", "12.50"), "Some(12.5)");
    assert_eq!(read::<Boolean>("boolean", "true"), "Some(true)");
    assert_eq!(read::<Timestamp>("timestamp", "-1"), "Some(-1)");
    let uuid = "0bad0bad-0bad-1bad-8bad-0bad0bad0bad";
    assert_eq!(read::<Uuid>("timeuuid", uuid), format!("Some({uuid:?})"));
    assert_eq!(read::<Blob>("blob", "00ff"), "Some([0, 255])");
    assert_eq!(read::<TextList>("set<text>", r#"["a","b"]"#), r#"Some(["a", "b"])"#);
    assert_eq!(read::<TextList>("list<int>", r#"["2","1","2"]"#), r#"Some(["2", "1", "2"])"#);
    assert_eq!(read::<TextList>("vector<float,2>", r#"["1.0","0.5"]"#), r#"Some(["1.0", "0.5"])"#);
    assert_eq!(read::<NumberList>("list<smallint>", r#"["2","-1"]"#), "Some([2.0, -1.0])");
    assert_eq!(read::<NumberList>("vector<float,2>", r#"["1.0","0.5"]"#), "Some([1.0, 0.5])");
    assert_eq!(read::<Canonical>("date", "2026-11-30"), r#"Some("2026-11-30")"#);
    assert_eq!(read::<Canonical>("map<text,int>", r#"[["a","1"]]"#), r#"Some("[[\"a\",\"1\"]]")"#);
    assert_eq!(read::<Value>("int", "5"), format!("{:?}", Some(CqlValue::Int(5))));
    assert!(read::<Value>("udt<street:text,\"Zip\":int>", r#"["High St",null]"#).contains("High St"));
}

#[test]
fn null_and_empty_values_read_as_none() {
    let none = Rendered::document("None", "{}");
    test::<Reader<Text>>("{}", &[("c", "text")], &[(&[], none.clone())]);
    test::<Reader<TextList>>("{}", &[("c", "set<text>")], &[(&[], none.clone())]);
    assert_eq!(read_bytes::<Integer>("int", b""), none);
    assert_eq!(read_bytes::<Number>("decimal", b""), none);
    assert_eq!(read_bytes::<Boolean>("boolean", b""), none);
    assert_eq!(read_bytes::<Timestamp>("timestamp", b""), none);
    assert_eq!(read_bytes::<Uuid>("uuid", b""), none);
    assert_eq!(read_bytes::<Canonical>("inet", b""), none);
    assert_eq!(read_bytes::<TextList>("list<text>", &0i32.to_be_bytes()), none);
}

#[test]
fn bytes_that_are_no_value_fail_their_row_and_name_the_column() {
    let failed = |rendered: Rendered, words: &str| {
        let Rendered::Failed(reason) = &rendered else { panic!("{rendered:?}") };
        assert!(reason.starts_with("column `c`: ") && reason.contains(words), "{reason}");
    };
    failed(read_bytes::<Text>("text", b"ab\xff"), "not UTF-8 from byte 2");
    failed(read_bytes::<Integer>("int", &[0; 8]), "8 bytes are no int");
    failed(read_bytes::<Integer>("bigint", &[0; 3]), "3 bytes are no bigint");
    failed(read_bytes::<Number>("float", &[0; 8]), "8 bytes are no float");
    failed(read_bytes::<Boolean>("boolean", &[1, 1]), "2 bytes are no boolean");
    failed(read_bytes::<Timestamp>("timestamp", &[1]), "1 bytes are no timestamp");
    failed(read_bytes::<Uuid>("uuid", &[1]), "");
    failed(read_bytes::<TextList>("list<text>", &[0, 0, 0, 9]), "");
    failed(read_bytes::<TextList>("list<text>", &[0xff; 4]), "");
}

#[test]
fn a_type_that_does_not_fit_is_refused_with_those_that_would() {
    let refusal = TestTable::<Reader<Boolean>>::open("{}", &[("c", "list<int>")]).err().unwrap();
    assert_eq!(refusal, "column `c` is of type list<int>; boolean is needed");
    let refusal =
        TestTable::<Reader<TextList>>::open("{}", &[("c", "list<frozen<list<int>>>")]).err().unwrap();
    assert_eq!(
        refusal,
        "column `c` is of type list<list<int>>; a list, set or vector of a scalar type is needed"
    );
    for json in ["[]", "", "null", r#"{"a":1}"#] {
        assert!(TestTable::<Reader<Text>>::open(json, &[("c", "text")]).is_err(), "{json}");
    }
}

/// Asks for a column that it does not declare, and declares metadata as its configuration says.
struct Careless;

#[derive(serde::Deserialize)]
struct Declared {
    metadata: Vec<String>,
    #[serde(default)]
    reads: Vec<String>,
}

impl Table for Careless {
    type Config = Declared;
    fn reads(config: &Declared) -> Vec<String> {
        config.reads.clone()
    }
    fn metadata(config: &Declared) -> Vec<MetadataKey> {
        config
            .metadata
            .iter()
            .map(|name| MetadataKey::new(name, MetadataType::Text).not_filterable())
            .collect()
    }
    fn open(_: Declared, columns: &Columns) -> Result<Self, String> {
        columns.column::<Text>("other").map(|_| Self)
    }
    fn document(&self, _: &Row<'_>) -> Result<Option<Document>, String> {
        Ok(None)
    }
}

#[test]
fn what_no_host_takes_is_refused_before_a_row_is_seen() {
    let many = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!(r#""k{number}""#)).collect();
        format!(r#"{{"metadata":[{}]}}"#, names.join(","))
    };
    for (config, words) in [
        ("[]".to_owned(), "a JSON object is needed"),
        (r#"{"metadata":[],"metdata":1}"#.to_owned(), "`metdata` is no key of this plugin"),
        (r#"{"metadata":["_a"]}"#.to_owned(), "metadata `_a`: names that begin with `_`"),
        (r#"{"metadata":[""]}"#.to_owned(), "a name is empty"),
        (r#"{"metadata":["a","b","a"]}"#.to_owned(), "metadata `a`: declared twice"),
        (many(10), "10 keys are not filterable, of 9 at most"),
        (many(48), "48 keys, of 47 at most"),
        (r#"{"metadata":[],"reads":["c","c"]}"#.to_owned(), "column `c` is read twice"),
        (many(9), "column `other`: the plugin does not declare that it reads it"),
    ] {
        let refusal = TestTable::<Careless>::open(&config, &[("c", "text")]).err().unwrap();
        assert!(refusal.contains(words), "{config}: {refusal}");
    }
}

#[test]
#[should_panic(expected = "the host sent broken cells: row 1 of 2: cells end at byte 6")]
fn cells_that_end_early_are_the_hosts_fault() {
    let table = TestTable::<Reader<Text>>::open("{}", &[("c", "text")]).unwrap();
    table.render_cells(2, b"\0\0\0\x02ab");
}

#[test]
#[should_panic(expected = "the host sent 1 bytes more than 1 rows")]
fn cells_left_over_are_the_hosts_fault() {
    let table = TestTable::<Reader<Text>>::open("{}", &[("c", "text")]).unwrap();
    table.render_cells(1, b"\0\0\0\x02abc");
}

/// Metadata of every sort from the text in `c`.
struct Sorts(Column<Text>);

impl Table for Sorts {
    type Config = NoConfig;
    const READS: &'static [&'static str] = &["c"];

    fn metadata(_: &NoConfig) -> Vec<MetadataKey> {
        use MetadataType as T;
        [
            ("t", T::Text),
            ("i", T::Number),
            ("n", T::Number),
            ("b", T::Boolean),
            ("ts", T::TextList),
            ("ns", T::NumberList),
        ]
        .map(|(name, value_type)| MetadataKey::new(name, value_type))
        .into()
    }
    fn open(_: NoConfig, columns: &Columns) -> Result<Self, String> {
        Ok(Self(columns.column("c")?))
    }
    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        let text = row.get(&self.0)?.unwrap_or_default();
        let length = text.len() as i64;
        let metadata = Metadata::new()
            .text("t", text)
            .integer("i", length)
            .number("n", length as f64 / 8.0)
            .boolean("b", text.is_ascii())
            .texts("ts", &[text, text])
            .numbers("ns", &[length as f64, 1e300]);
        Ok((!text.starts_with('-')).then(|| Document { text: text.to_owned(), metadata }))
    }
}

proptest! {
    #[test]
    fn texts_and_metadata_survive_packing(texts in prop::collection::vec(any::<String>(), 0..20)) {
        let table = TestTable::<Sorts>::open("{}", &[("c", "text")]).unwrap();
        let rows: Vec<[(&str, &str); 1]> = texts.iter().map(|text| [("c", text.as_str())]).collect();
        let rows: Vec<&[(&str, &str)]> = rows.iter().map(|row| row.as_slice()).collect();
        for (rendered, expected) in table.render(&rows).into_iter().zip(&texts) {
            match rendered {
                Rendered::Skipped => prop_assert!(expected.starts_with('-')),
                Rendered::Document { text, metadata } => {
                    prop_assert_eq!(&text, expected);
                    prop_assert_eq!(&metadata["t"], expected.as_str());
                    prop_assert_eq!(&metadata["i"], expected.len());
                    prop_assert_eq!(metadata["n"].as_f64(), Some(expected.len() as f64 / 8.0));
                    prop_assert_eq!(&metadata["b"], expected.is_ascii());
                    prop_assert_eq!(&metadata["ts"][1], expected.as_str());
                    prop_assert_eq!(metadata["ns"][1].as_f64(), Some(1e300));
                }
                Rendered::Failed(reason) => prop_assert!(false, "{}", reason),
            }
        }
    }
}
