//! The sample records, one by one, and what the line makes of each member of a record.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use keyvector_core::change::{Before, Change, Origin, SequenceNumber, ViewType};
use keyvector_core::document::FailureClass;
use keyvector_core::record::{self, BadRecord, Record};
use keyvector_core::row::{Cell, ROW_FORMAT, Row, StoredRowError};
use keyvector_core::schema::TableSchema;
use keyvector_cql::{CqlType, CqlValue, canonical_text};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The tables that the samples are of.
const READING: &str = r#"
    CREATE TYPE obs.address (street text, no int);
    CREATE TYPE obs.leaf (z boolean);
    CREATE TYPE obs.inner (leaf frozen<map<int, frozen<leaf>>>);
    CREATE TYPE obs.outer ("inner" frozen<inner>);
    CREATE TABLE obs.reading (
        site text, sensor uuid, at timestamp, owner text STATIC, temp decimal, body text,
        c_ascii ascii, c_bigint bigint, c_blob blob, c_bool boolean, c_date date, c_decimal decimal, c_double double,
        c_duration duration, c_float float, c_inet inet, c_int int, c_smallint smallint, c_text text, c_time time,
        c_timestamp timestamp, c_timeuuid timeuuid, c_tinyint tinyint, c_uuid uuid, c_varchar varchar, c_varint varint,
        f1 float, f2 double, f3 double, f4 float,
        tags set<text>, steps list<int>, labels map<text, text>, addr address, pt tuple<double, double, text>,
        a list<int>, b set<int>, d map<int, int>, e address, f tuple<int, int>,
        m map<frozen<tuple<int, text>>, frozen<list<frozen<set<uuid>>>>>, u frozen<outer>, v text, notes list<text>,
        PRIMARY KEY ((site, sensor), at));"#;
const PAGES: &str = "CREATE TABLE obs.pages (page text PRIMARY KEY, hits counter);";
const BOOKS: &str = "CREATE TABLE obs.books (isbn varchar PRIMARY KEY, blurb text);";

const PARTITION: &str = "sensor=2f0c6a52-9a3e-4d7c-8a51-0c9d1e7b4f10&site=oslo-3";

/// A record in short: `row` and its key, the sequence number's last digits, origin, images with their cells as canonical
/// text (key columns are checked apart), expiry.
fn shown(schema: &TableSchema, parsed: &Result<Record, BadRecord>) -> String {
    match parsed {
        Ok(Record::Row(change)) => {
            let before = match &change.before {
                Before::Unknown => "?".to_owned(),
                Before::Absent => "-".to_owned(),
                Before::Row(row) => cells(schema, row, true),
            };
            let after = change.after.as_ref().map_or("-".to_owned(), |row| cells(schema, row, true));
            let key = change.key.as_str();
            let key = match key.strip_suffix(&format!("&{PARTITION}")) {
                Some(at) => at.to_owned(),
                None => key.to_owned(),
            };
            format!("{key} #{} {:?}: {before} -> {after}", short(&change.sequence_number), change.origin)
        }
        Ok(Record::Partition(change)) => {
            assert_eq!(change.partition, PARTITION);
            let statics = change.statics.as_ref().map_or("-".to_owned(), |row| cells(schema, row, false));
            let what = if change.static_only { "statics" } else { "rows" };
            format!("partition #{} {what}: {statics}", short(&change.sequence_number))
        }
        Err(bad) => format!("{}: {}", bad.class.as_str(), bad.reason),
    }
}

fn short(sequence_number: &SequenceNumber) -> &str {
    sequence_number
        .as_str()
        .trim_start_matches('0')
        .strip_prefix("8100000000000000000000")
        .unwrap()
        .trim_start_matches('0')
}

fn cells(schema: &TableSchema, row: &Row, with_key: bool) -> String {
    let mut shown = Vec::new();
    for (index, (column, cell)) in schema.columns.iter().zip(row.cells()).enumerate() {
        let is_key = index < schema.key_columns().len();
        match cell {
            _ if is_key => assert_eq!(cell != Cell::Null, with_key, "key column {}", column.name),
            Cell::Null => {}
            Cell::Bytes(bytes) => {
                shown.push(format!("{}={}", column.name, canonical_text(&column.cql_type, bytes).unwrap()));
            }
            Cell::Fault(reason) => shown.push(format!("{}!{reason}", column.name)),
        }
    }
    let expiry = row.expires_at_ms.map_or(String::new(), |at| format!(" until {at}"));
    format!("[{}]{expiry}", shown.join(" "))
}

fn sample(name: &str) -> String {
    let path = format!("{}/tests/records/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// The records in a sample: itself, or those of its array.
fn records_in(name: &str) -> Vec<Value> {
    match serde_json::from_str(&sample(name)).unwrap() {
        Value::Array(records) => records,
        record => vec![record],
    }
}

/// Every sample: file, table, view, what each of its records is.
#[rustfmt::skip]
fn expectations() -> Vec<(&'static str, &'static str, ViewType, Vec<&'static str>)> {
    use ViewType::{KeysOnly, NewAndOldImages as Both, NewImage, OldImage};
    vec![
        ("counter_update", PAGES, Both, vec!["page=%2Fstart #28 User: [hits=17] -> [hits=18]"]),
        ("delete_ttl_row", READING, Both, vec!["at=1772600767089 #17 Ttl: [body=expired] until 1786086400000 -> -"]),
        ("delete_user", READING, Both, vec!["at=1772600767089 #16 User: [body=after temp=22.0] -> -"]),
        ("error_trimmed", READING, Both, vec!["bad-record: it is an error answer of the service, not a record in Keyspaces' JSON form"]),
        ("get_records_empty_behind_tip", READING, Both, vec!["bad-record: it is a whole GetRecords answer (its changeRecords are the records), not a record in Keyspaces' JSON form"]),
        ("get_records_shard_end", READING, Both, vec!["bad-record: it is a whole GetRecords answer (its changeRecords are the records), not a record in Keyspaces' JSON form"]),
        ("get_stream_response", READING, Both, vec!["bad-record: it is a GetStream answer, not a record in Keyspaces' JSON form"]),
        ("insert_all_scalars", READING, Both, vec!["at=1772600767089 #1 User: - -> [c_ascii=plain-7 c_bigint=-9007199254740993 c_blob=cafebabe000102 c_bool=false c_date=2026-02-28 c_decimal=-10.2500 c_double=2.5E-7 c_duration=1mo2d3h c_float=0.1 c_inet=2001:db8::17 c_int=41 c_smallint=-300 c_text=blåbær «syltetøy» 🫐 c_time=23:59:58.123456789 c_timestamp=1772600767089 c_timeuuid=7d3f0e80-1755-11f1-8de9-0242ac120002 c_tinyint=-128 c_uuid=b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d77 c_varchar= c_varint=123456789012345678901234567890]"]),
        ("insert_collections", READING, Both, vec![r#"at=1772600767089 #6 User: - -> [addr=["Havnegata 9","9"] labels=[["lang","nb"],["unit","kPa"]] pt=["59.91","10.75","WGS84"] steps=["3","1","3"] tags=["a","b"]]"#]),
        ("insert_date_as_epoch_days", READING, Both, vec!["at=1772600767089 #2 User: - -> [c_date=2026-02-28]"]),
        ("insert_duration_long_form", READING, Both, vec!["at=1772600767089 #4 User: - -> [c_duration=1mo2d3h]"]),
        ("insert_empty_collections", READING, Both, vec!["at=1772600767089 #7 User: - -> [f=[null,null]]"]),
        ("insert_keys_only_row", READING, Both, vec!["at=1772600767089 #35 User: - -> []"]),
        ("insert_nested_frozen", READING, Both, vec![r#"at=1772600767089 #8 User: - -> [m=[[["1","x"],[["00000000-0000-4000-8000-00000000000a"]]]] u=[[[["7",["true"]]]]]]"#]),
        ("insert_no_clustering_key", BOOKS, Both, vec!["isbn=978-3-16-148410-0 #34 User: - -> [blurb=kort tekst]"]),
        ("insert_special_floats", READING, Both, vec!["at=1772600767089 #5 User: - -> [f1=NaN f2=Infinity f3=-0.0 f4=3.4028235E38]"]),
        ("insert_timestamp_as_epoch_ms", READING, Both, vec!["at=1772600767089 #3 User: - -> [c_timestamp=1772600767089]"]),
        ("insert_ttl_cells_and_row", READING, Both, vec![r#"at=1772600767089 #10 User: - -> [labels=[["k","v"]] notes=["n1","n2"] temp=21.4] until 1786086400000"#]),
        ("partition_delete_three_rows", READING, Both, vec![
            "at=1772600760000 #24 User: [body=r0] -> -",
            "at=1772600761000 #25 User: [body=r1] -> -",
            "at=1772600762000 #26 User: [body=r2] -> -",
            "partition #27 rows: -",
        ]),
        ("partition_delete_unnamed", READING, Both, vec!["partition #31 rows: -"]),
        ("replicated_delete", READING, Both, vec!["at=1772600767089 #20 Replication: [body=x] -> -"]),
        ("replicated_insert", READING, Both, vec!["at=1772600767089 #19 Replication: - -> [body=from other Region]"]),
        ("row_update_with_static_pair", READING, Both, vec!["partition #22 statics: [owner=team-c]", "at=1772600767089 #23 User: [temp=0] -> [temp=1]"]),
        ("static_only_update", READING, Both, vec!["partition #21 statics: [owner=team-b]"]),
        ("tolerance_null_as_empty_value", READING, Both, vec!["at=1772600767089 #13 User: [body=gone] -> []"]),
        ("tolerance_udt_null_field", READING, Both, vec![r#"at=1772600767089 #9 User: - -> [addr=["Torget",null] pt=["1.0",null,"q"]]"#]),
        ("ttl_cell_expired_row_lives", READING, Both, vec!["at=1772600767089 #18 Ttl: [body=gone by ttl temp=21.4] -> [temp=21.4]"]),
        ("update_column_to_null_absent", READING, Both, vec!["at=1772600767089 #12 User: [body=gone temp=22.0] -> [temp=22.0]"]),
        ("update_new_and_old", READING, Both, vec!["at=1772600767089 #11 User: [body=before temp=21.4] -> [body=after temp=22.0]"]),
        ("update_no_op_same_images", READING, Both, vec!["at=1772600767089 #15 User: [body=same] -> [body=same]"]),
        ("update_unknown_union_member", READING, Both, vec![r#"at=1772600767089 #14 User: [] -> [v!the value type "vectorT" is not known to this host]"#]),
        ("view_keys_only", READING, KeysOnly, vec!["at=1772600767089 #29 User: ? -> -"]),
        ("view_new_image_delete", READING, NewImage, vec!["at=1772600767089 #30 User: ? -> -"]),
        ("view_new_image_update", READING, NewImage, vec!["at=1772600767089 #31 User: ? -> [body=after]"]),
        ("view_old_image_insert", READING, OldImage, vec!["at=1772600767089 #33 User: ? -> -"]),
        ("view_old_image_update", READING, OldImage, vec!["at=1772600767089 #32 User: ? -> -"]),
    ]
}

#[test]
fn every_sample_is_read_as_it_should_be() {
    for (name, table, view, expected) in expectations() {
        let schema = TableSchema::parse_cql(table).unwrap();
        let found: Vec<String> = records_in(name)
            .iter()
            .map(|record| shown(&schema, &record::parse(&schema, view, record.to_string().as_bytes(), None)))
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_sample_has_an_expectation() {
    let folder = format!("{}/tests/records", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let expected: Vec<&str> = expectations().iter().map(|(name, ..)| *name).collect();
    assert_eq!(files, expected);
}

/// A sample as it stands in its file, spread over lines, is one JSON object too; an array is no record.
#[test]
fn a_record_is_one_object() {
    let schema = TableSchema::parse_cql(READING).unwrap();
    let view = ViewType::NewAndOldImages;
    assert!(record::parse(&schema, view, sample("delete_user").as_bytes(), None).is_ok());
    let array =
        record::parse(&schema, view, sample("partition_delete_unnamed").as_bytes(), None).unwrap_err();
    assert!(array.reason.contains("an array is not a record"), "{}", array.reason);
    let two = sample("delete_user").repeat(2);
    assert!(record::parse(&schema, view, two.as_bytes(), None).is_err());
}

/// `CREATE TABLE ks.movies (id text PRIMARY KEY, title text, tags set<text>)`, and one record of it.
fn movies() -> TableSchema {
    TableSchema::parse_cql(
        "CREATE TABLE ks.movies (id text PRIMARY KEY, title text, year int, tags set<text>);",
    )
    .unwrap()
}

fn parse(schema: &TableSchema, record: &Value) -> Result<Record, BadRecord> {
    record::parse(schema, ViewType::NewAndOldImages, record.to_string().as_bytes(), None)
}

fn change(schema: &TableSchema, record: &Value) -> Change {
    match parse(schema, record) {
        Ok(Record::Row(change)) => change,
        other => panic!("{record}: {other:?}"),
    }
}

fn movie(members: Value) -> Value {
    let mut record = json!({"partitionKeys": {"id": {"textT": "m1"}}, "sequenceNumber": "7"});
    for (name, member) in members.as_object().unwrap() {
        record[name] = member.clone();
    }
    record
}

fn image(cells: Value) -> Value {
    let cells: serde_json::Map<String, Value> = cells
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), json!({"value": value})))
        .collect();
    json!({"valueCells": cells, "staticCells": {}})
}

#[test]
fn before_and_after_follow_the_view() {
    let schema = movies();
    let title = |text: &str| image(json!({"title": {"textT": text}}));
    let with = |view, members: Value| {
        let parsed = record::parse(&schema, view, movie(members).to_string().as_bytes(), None);
        let Ok(Record::Row(change)) = parsed else { panic!("{parsed:?}") };
        let before = match change.before {
            Before::Unknown => "unknown".to_owned(),
            Before::Absent => "absent".to_owned(),
            Before::Row(row) => cells(&schema, &row, true),
        };
        (before, change.after.map_or("gone".to_owned(), |row| cells(&schema, &row, true)))
    };
    let (old, new) = (title("a"), title("b"));
    for (view, members, before, after) in [
        (ViewType::NewAndOldImages, json!({"oldImage": old, "newImage": new}), "[title=a]", "[title=b]"),
        (ViewType::NewAndOldImages, json!({"newImage": new}), "absent", "[title=b]"),
        (ViewType::NewAndOldImages, json!({"oldImage": null, "newImage": new}), "absent", "[title=b]"),
        (ViewType::NewAndOldImages, json!({"oldImage": old}), "[title=a]", "gone"),
        (ViewType::NewAndOldImages, json!({"oldImage": old, "newImage": null}), "[title=a]", "gone"),
        (ViewType::NewAndOldImages, json!({}), "unknown", "gone"),
        (ViewType::NewImage, json!({"newImage": new}), "unknown", "[title=b]"),
        (ViewType::NewImage, json!({"oldImage": old, "newImage": new}), "unknown", "[title=b]"),
        (ViewType::NewImage, json!({}), "unknown", "gone"),
        (ViewType::OldImage, json!({"oldImage": old}), "unknown", "gone"),
        (ViewType::KeysOnly, json!({}), "unknown", "gone"),
    ] {
        assert_eq!(with(view, members.clone()), (before.to_owned(), after.to_owned()), "{view:?} {members}");
    }
}

#[test]
fn small_members_are_read_leniently() {
    let schema = movies();
    for (members, created_at_ms) in [
        (json!({}), None),
        (json!({"createdAt": 1786000000.125}), Some(1_786_000_000_125)),
        (json!({"createdAt": 1786000000}), Some(1_786_000_000_000)),
        (json!({"createdAt": 1786000000125u64}), Some(1_786_000_000_125)),
        (json!({"createdAt": "1786000000.125"}), Some(1_786_000_000_125)),
        (json!({"createdAt": "2026-08-06T07:06:40.125Z"}), Some(1_786_000_000_125)),
        (json!({"createdAt": {"odd": [1]}}), None),
        (json!({"createdAt": null}), None),
    ] {
        assert_eq!(change(&schema, &movie(members.clone())).created_at_ms, created_at_ms, "{members}");
    }
    for (origin, read) in [
        (json!("USER"), Origin::User),
        (json!("TTL"), Origin::Ttl),
        (json!("REPLICATION"), Origin::Replication),
        (json!("SOMETHING_NEW"), Origin::Replication),
        (json!(null), Origin::User),
    ] {
        assert_eq!(change(&schema, &movie(json!({"origin": origin}))).origin, read);
    }
    for (expiration, ms) in [
        (json!("1786086400"), Some(1_786_086_400_000)),
        (json!("1786086400000"), Some(1_786_086_400_000)),
        (json!("1786086400000000"), Some(1_786_086_400_000)),
        (json!("2026-08-07T07:06:40Z"), Some(1_786_086_400_000)),
        (json!("never"), None),
        (json!(null), None),
    ] {
        let mut new = image(json!({}));
        new["rowMetadata"] = json!({"writeTime": "1", "expirationTime": expiration});
        let after = change(&schema, &movie(json!({"newImage": new}))).after.unwrap();
        assert_eq!(after.expires_at_ms, ms, "{expiration}");
    }
    let unknown =
        movie(json!({"awsRegion": "eu-north-1", "nested": {"deep": [1, {"a": null}]}, "payload": {}}));
    assert_eq!(change(&schema, &unknown).key.as_str(), "id=m1");
}

#[test]
fn a_source_s_place_goes_before_the_record_s_own() {
    let schema = movies();
    let place = SequenceNumber::from(99);
    let view = ViewType::NewAndOldImages;
    let Ok(Record::Row(change)) =
        record::parse(&schema, view, movie(json!({})).to_string().as_bytes(), Some(place.clone()))
    else {
        panic!("not a row");
    };
    assert_eq!(change.sequence_number, place);
    for sequence_number in [json!(null), json!(""), json!("12a"), json!("-1"), json!([])] {
        let bad = parse(&schema, &movie(json!({"sequenceNumber": sequence_number}))).unwrap_err();
        assert_eq!(
            (bad.class, bad.key.unwrap().as_str()),
            (FailureClass::BadRecord, "id=m1"),
            "{sequence_number}"
        );
    }
}

/// A column of any type anywhere in the row, of a type nobody knows, or one that contradicts the schema hurts only who
/// reads it.
#[test]
fn a_cell_that_cannot_be_read_is_a_fault_of_its_own() {
    let schema = movies();
    for (value, reason) in [
        (json!({"intT": "1994"}), None),
        (json!({"textT": "1994"}), Some("the stream says textT, the schema int")),
        (json!({"intT": "19x"}), Some("\"19x\" is no int")),
        (json!({"intT": 1994}), Some("a JSON number (not a string) stands where a int is expected")),
        (json!({"yearT": "1994"}), Some("the value type \"yearT\" is not known to this host")),
        (json!({"intT": "1", "textT": "1"}), Some("a value has more than one type")),
        (json!("1994"), Some("a JSON string stands where a value with its type is expected")),
    ] {
        let new = image(json!({"year": value, "title": {"textT": "t"}}));
        let after = change(&schema, &movie(json!({"newImage": new}))).after.unwrap();
        assert_eq!(after.cell(schema.column_index("title").unwrap()), Cell::Bytes(b"t"));
        match (after.cell(schema.column_index("year").unwrap()), reason) {
            (Cell::Bytes(bytes), None) => assert_eq!(bytes, 1994i32.to_be_bytes()),
            (found, reason) => assert_eq!(found, Cell::Fault(reason.unwrap()), "{value}"),
        }
    }
    let odd_cell = json!({"valueCells": {"year": 7, "title": [], "tags": null, "gone_column": {"value": {"textT": "x"}}}});
    let after = change(&schema, &movie(json!({"newImage": odd_cell}))).after.unwrap();
    assert_eq!(
        cells(&schema, &after, true),
        "[title!a JSON array stands where a cell is expected year!a JSON number stands where a cell is expected]"
    );
}

/// Empty and null are one for collections that are not frozen, so that `[]` turning into null is no change.
#[test]
fn empty_and_null_collections_are_equal() {
    let schema = movies();
    let all = [
        image(json!({"tags": {"setT": []}})),
        image(json!({"tags": {}})),
        image(json!({"tags": null})),
        image(json!({})),
    ];
    for (old, new) in all.iter().flat_map(|old| all.iter().map(move |new| (old, new))) {
        let change = change(&schema, &movie(json!({"oldImage": old, "newImage": new})));
        assert_eq!(change.before, Before::Row(change.after.unwrap()));
    }
}

/// Sets and maps reach a plugin in one order, whatever order they came in; lists keep theirs.
#[test]
fn sets_come_sorted() {
    let schema = movies();
    let set = |tags: &[&str]| {
        let cells: Vec<Value> = tags.iter().map(|tag| json!({"value": {"textT": tag}})).collect();
        image(json!({"tags": {"setT": cells}}))
    };
    let change = change(
        &schema,
        &movie(json!({"oldImage": set(&["b", "c", "a"]), "newImage": set(&["a", "b", "c"])})),
    );
    let after = change.after.unwrap();
    assert_eq!(change.before, Before::Row(after.clone()));
    let column = schema.column_index("tags").unwrap();
    let Cell::Bytes(bytes) = after.cell(column) else { panic!("no tags") };
    let text = |text: &str| CqlValue::Text(text.to_owned());
    let value = CqlValue::decode(&schema.columns[column].cql_type, bytes).unwrap();
    assert_eq!(value, CqlValue::Set(vec![text("a"), text("b"), text("c")]));
}

#[test]
fn records_without_a_key_say_why() {
    let schema = TableSchema::parse_cql(
        "CREATE TABLE ks.t (p int, c text, s text STATIC, v text, PRIMARY KEY (p, c));",
    )
    .unwrap();
    let seen = |record: Value| match parse(&schema, &record) {
        Ok(Record::Row(change)) => format!("row {}", change.key),
        Ok(Record::Partition(change)) => {
            format!("partition {} static_only={}", change.partition, change.static_only)
        }
        Err(bad) => format!("{}: {}", bad.class.as_str(), bad.reason),
    };
    let record = |partition: Value, clustering: Value, more: Value| {
        let mut record =
            json!({"partitionKeys": partition, "clusteringKeys": clustering, "sequenceNumber": "1"});
        for (name, member) in more.as_object().unwrap() {
            record[name] = member.clone();
        }
        record
    };
    let (p, c) = (json!({"p": {"intT": "1"}}), json!({"c": {"textT": "x"}}));
    let statics = |owner: Value| json!({"valueCells": {}, "staticCells": {"s": {"value": owner}}});
    for (record, expected) in [
        (record(p.clone(), c.clone(), json!({})), "row c=x&p=1"),
        (record(p.clone(), json!({}), json!({})), "partition p=1 static_only=false"),
        (record(p.clone(), json!(null), json!({})), "partition p=1 static_only=false"),
        (
            record(p.clone(), json!({}), json!({"newImage": statics(json!({"textT": "a"}))})),
            "partition p=1 static_only=true",
        ),
        // Statics that went, told by an empty new image; without one all rows may have gone with them.
        (
            record(
                p.clone(),
                json!({}),
                json!({"oldImage": statics(json!({"textT": "a"})), "newImage": {"valueCells": {}}}),
            ),
            "partition p=1 static_only=true",
        ),
        (
            record(p.clone(), json!({}), json!({"oldImage": statics(json!({"textT": "a"}))})),
            "partition p=1 static_only=false",
        ),
        (
            record(
                p.clone(),
                json!({}),
                json!({"newImage": {"valueCells": {"v": {"value": {"textT": "a"}}}}}),
            ),
            "partition p=1 static_only=false",
        ),
        (record(p.clone(), json!({"c": {}}), json!({})), "bad-key: key column \"c\": it is null or missing"),
        (record(json!({}), c.clone(), json!({})), "bad-key: key column \"p\": it is null or missing"),
        (record(json!({}), json!({}), json!({})), "bad-key: key column \"p\": it is null or missing"),
        (
            record(json!({"p": {"textT": "1"}}), c.clone(), json!({})),
            "bad-key: key column \"p\": the stream says textT, the schema int",
        ),
        (
            record(json!({"p": {"intT": "1"}, "q": {"intT": "1"}}), c.clone(), json!({})),
            "bad-key: its partition key has column \"q\", which is not in the partition key of ks.t(p int; c text)",
        ),
        (
            record(json!({"p": {"intT": "1"}, "c": {"textT": "x"}}), json!({}), json!({})),
            "bad-key: its partition key has column \"c\", which is not in the partition key of ks.t(p int; c text)",
        ),
    ] {
        assert_eq!(seen(record.clone()), expected, "{record}");
    }
}

#[test]
fn other_forms_are_refused_by_name() {
    let schema = movies();
    for (record, name) in [
        (json!({"dynamodb": {"Keys": {}}, "eventName": "INSERT"}), "a DynamoDB change record"),
        (json!({"schema": {}, "payload": {"op": "c"}}), "a Debezium envelope"),
        (json!({"op": "c", "before": null, "after": {}}), "a Debezium envelope"),
        (
            json!({"metadata": {"stream_operation_type": "INSERT"}, "image": {}}),
            "the sample connector's {metadata, image} form",
        ),
        (json!({"Records": []}), "an AWS Lambda event"),
        (json!({"changeRecords": []}), "a whole GetRecords answer"),
        (json!({"id": "m1"}), "it has no partitionKeys"),
        (json!({}), "it has no partitionKeys"),
    ] {
        let bad = parse(&schema, &record).unwrap_err();
        assert_eq!(bad.class, FailureClass::BadRecord);
        assert!(bad.reason.contains(name), "{record}: {}", bad.reason);
    }
    let view = ViewType::NewAndOldImages;
    let aggregate = record::parse(&schema, view, b"\xf3\x89\x9a\xc2\x0a\x01", None).unwrap_err();
    assert!(aggregate.reason.contains("KPL aggregate"), "{}", aggregate.reason);
    for junk in [
        &b""[..],
        b" ",
        b"{",
        b"null",
        b"7",
        b"\"x\"",
        b"[]",
        b"{}{}",
        b"\xff\xfe",
        b"{\"partitionKeys\":7}",
        b"{\"partitionKeys\":{\"id\":{\"textT\":\"\xff\"}}}",
    ] {
        let bad = record::parse(&schema, view, junk, None).unwrap_err();
        assert_eq!(bad.class, FailureClass::BadRecord, "{junk:?}");
    }
    for twice in [
        r#"{"partitionKeys":{"id":{"textT":"a"}},"partitionKeys":{"id":{"textT":"b"}},"sequenceNumber":"1"}"#,
        r#"{"partitionKeys":{"id":{"textT":"a"},"id":{"textT":"b"}},"sequenceNumber":"1"}"#,
        r#"{"partitionKeys":{"id":{"textT":"a"}},"newImage":{"valueCells":{"year":{},"year":{}}},"sequenceNumber":"1"}"#,
    ] {
        let bad = record::parse(&schema, view, twice.as_bytes(), None).unwrap_err();
        assert!(bad.reason.contains("twice"), "{twice}: {}", bad.reason);
    }
}

/// Microseconds, milliseconds and seconds do not get mixed up, and instants before 1970 keep their milliseconds; a
/// negative varint and a date before 1970 keep their sign.
#[test]
fn numbers_and_instants_are_exact() {
    let schema = TableSchema::parse_cql(
        "CREATE TABLE ks.t (id int PRIMARY KEY, at timestamp, v varint, d date, b bigint, p decimal);",
    )
    .unwrap();
    let new = image(json!({
        "at": {"timestampT": "1969-12-31T23:59:59.999Z"}, "v": {"varintT": "-10000"}, "d": {"dateT": "1969-12-31"},
        "b": {"bigintT": "9007199254740993"}, "p": {"decimalT": "0.10000000000000000000000000000000001"},
    }));
    let record = json!({"partitionKeys": {"id": {"intT": "1"}}, "sequenceNumber": "1", "newImage": new});
    let after = change(&schema, &record).after.unwrap();
    let values: BTreeMap<&str, CqlValue> = schema
        .columns
        .iter()
        .zip(after.cells())
        .map(|(column, cell)| match cell {
            Cell::Bytes(bytes) => (column.name.as_str(), CqlValue::decode(&column.cql_type, bytes).unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values["at"], CqlValue::Timestamp(-1));
    assert_eq!(values["v"], CqlValue::Varint((-10_000).into()));
    assert_eq!(values["d"], CqlValue::Date(-1));
    assert_eq!(values["b"], CqlValue::Bigint(9_007_199_254_740_993));
    assert_eq!(
        cells(&schema, &after, true),
        "[at=-1 b=9007199254740993 d=1969-12-31 p=0.10000000000000000000000000000000001 v=-10000]"
    );
}

fn stored_sample() -> (TableSchema, Row) {
    let schema = TableSchema::parse_cql(READING).unwrap();
    let record = records_in("insert_ttl_cells_and_row").remove(0);
    let row = change(&schema, &record).after.unwrap();
    (schema, row)
}

#[test]
fn rows_are_stored_by_column_name() {
    let (schema, row) = stored_sample();
    let stored = row.to_stored(&schema);
    assert_eq!(stored[0], ROW_FORMAT);
    assert_eq!(Row::from_stored(&schema, &stored).unwrap(), row);

    let record = records_in("update_unknown_union_member").remove(0);
    let with_fault = change(&schema, &record).after.unwrap();
    assert_eq!(Row::from_stored(&schema, &with_fault.to_stored(&schema)).unwrap(), with_fault);

    // A table that lost a column and got another since.
    let altered = TableSchema::parse_cql(
        "CREATE TABLE obs.reading (site text, sensor uuid, at timestamp, temp decimal, later int, PRIMARY KEY ((site, sensor), at));",
    )
    .unwrap();
    assert_eq!(
        cells(&altered, &Row::from_stored(&altered, &stored).unwrap(), true),
        "[temp=21.4] until 1786086400000"
    );

    let mut newer = stored.clone();
    newer[0] = 9;
    let fault = Row::from_stored(&schema, &newer).unwrap_err();
    assert_eq!(fault, StoredRowError::Format { found: 9 });
    assert!(fault.to_string().contains('9') && fault.to_string().contains('1'), "{fault}");
}

/// The bytes of the durable form, pinned: a change of them needs a new number.
#[test]
fn stored_bytes_are_pinned() {
    let schema = TableSchema::parse_cql("CREATE TABLE ks.t (id int PRIMARY KEY, a text, b text);").unwrap();
    let mut row = Row::new([Cell::Bytes(&[0, 0, 0, 5]), Cell::Fault("no"), Cell::Null]);
    row.expires_at_ms = Some(258);
    assert_eq!(
        row.to_stored(&schema),
        [
            &[1, 1, 0, 0, 0, 0, 0, 0, 1, 2][..],
            &[1, 0, 0, 0, 2, b'i', b'd', 0, 0, 0, 4, 0, 0, 0, 5],
            &[2, 0, 0, 0, 1, b'a', 0, 0, 0, 2, b'n', b'o'],
        ]
        .concat()
    );
}

/// JSON that is nearly a record.
fn nearly_a_record() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "7",
        "-1.5e9",
        "\"\"",
        "\"value\"",
        "\"key\"",
        "\"textT\"",
        "\"setT\"",
        "\"mapT\"",
        "\"udtT\"",
        "\"listT\"",
        "\"tupleT\"",
        "\"intT\"",
        "\"decimalT\"",
        "\"partitionKeys\"",
        "\"clusteringKeys\"",
        "\"newImage\"",
        "\"oldImage\"",
        "\"valueCells\"",
        "\"staticCells\"",
        "\"rowMetadata\"",
        "\"expirationTime\"",
        "\"createdAt\"",
        "\"sequenceNumber\"",
        "\"site\"",
        "\"tags\"",
        "\"labels\"",
        "\"addr\"",
        "\"pt\"",
        "\"temp\"",
        "\"1E999999999\"",
        "\"\\u0000\"",
    ]);
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived_as_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200), nearly in nearly_a_record()) {
        let schema = TableSchema::parse_cql(READING).unwrap();
        for json in [&bytes[..], nearly.as_bytes()] {
            drop(record::parse(&schema, ViewType::NewAndOldImages, json, None));
        }
        drop(Row::from_stored(&schema, &bytes));
    }

    /// A sample with one piece of it cut out, doubled or replaced.
    #[test]
    fn damaged_records_are_survived(file in 0usize..36, at in any::<prop::sample::Index>(), length in 0usize..30, with in nearly_a_record()) {
        let schema = TableSchema::parse_cql(READING).unwrap();
        let names = expectations();
        let record = records_in(names[file % names.len()].0).remove(0).to_string();
        let start = at.index(record.len() + 1);
        let end = (start + length).min(record.len());
        if record.is_char_boundary(start) && record.is_char_boundary(end) {
            let damaged = format!("{}{with}{}", &record[..start], &record[end..]);
            drop(record::parse(&schema, ViewType::NewAndOldImages, damaged.as_bytes(), None));
        }
    }

    #[test]
    fn damaged_stored_rows_are_told_or_survived(at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let (schema, row) = stored_sample();
        let mut stored = row.to_stored(&schema);
        let at = at.index(stored.len());
        if cut { stored.truncate(at) } else { stored[at] = byte }
        drop(Row::from_stored(&schema, &stored));
    }

    /// What stands in a JSON cell of a deep type never nests deeper than the type, and unknown depth is refused.
    #[test]
    fn depth_is_bounded(depth in 0usize..400) {
        let schema = movies();
        let nested = format!("{}{}", "{\"listT\":[{\"value\":".repeat(depth), "}]}".repeat(depth));
        let record = format!("{{\"partitionKeys\":{{\"id\":{{\"textT\":\"a\"}}}},\"sequenceNumber\":\"1\",\"newImage\":{{\"valueCells\":{{\"tags\":{{\"value\":{nested}}}}}}}}}");
        drop(record::parse(&schema, ViewType::NewAndOldImages, record.as_bytes(), None));
    }
}

/// Type names of the stream and of CQL that mean one type read as one.
#[test]
fn varchar_and_ascii_keys_are_keys() {
    for (cql_type, member) in
        [("varchar", "varcharT"), ("varchar", "textT"), ("text", "varcharT"), ("ascii", "asciiT")]
    {
        let schema =
            TableSchema::parse_cql(&format!("CREATE TABLE ks.t (id {cql_type} PRIMARY KEY);")).unwrap();
        let record = json!({"partitionKeys": {"id": {member: "a b"}}, "sequenceNumber": "1", "newImage": {}});
        assert_eq!(change(&schema, &record).key.as_str(), "id=a%20b");
    }
    assert_eq!("varchar".parse(), Ok(CqlType::Text));
}
