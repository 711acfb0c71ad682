//! Record lines.

use std::sync::LazyLock;

use keyvector_core::change::{Before, SequenceNumber, ViewType};
use keyvector_core::key::{Door, RowKey};
use keyvector_core::letter::scrub_reason;
use keyvector_core::record::{self, Record};
use keyvector_core::row::{Cell, Row};
use keyvector_core::schema::{ColumnKind, TableSchema};
use keyvector_cql::CqlValue;

use crate::Target;
use crate::input::Input;

/// The shipped film table.
pub const FILMS_SCHEMA: &str = include_str!("../../../plugins/movies/data/table.cql");

/// A table with a column of every type, statics, and types in types.
pub const READING_SCHEMA: &str = r#"
    CREATE TYPE obs.address (street text, no int);
    CREATE TYPE obs.leaf (z boolean);
    CREATE TYPE obs.inner (leaf frozen<map<int, frozen<leaf>>>);
    CREATE TYPE obs.outer ("inner" frozen<inner>);
    CREATE TABLE obs.reading (
        site text, sensor uuid, at timestamp, owner text STATIC, temp decimal, body text,
        c_ascii ascii, c_bigint bigint, c_blob blob, c_bool boolean, c_date date, c_decimal decimal, c_double double,
        c_duration duration, c_float float, c_inet inet, c_int int, c_smallint smallint, c_text text, c_time time,
        c_timestamp timestamp, c_timeuuid timeuuid, c_tinyint tinyint, c_uuid uuid, c_varchar varchar, c_varint varint,
        tags set<text>, steps list<int>, labels map<text, text>, addr address, pt tuple<double, double, text>,
        m map<frozen<tuple<int, text>>, frozen<list<frozen<set<uuid>>>>>, u frozen<outer>, v vector<float, 2>,
        PRIMARY KEY ((site, sensor), at)) WITH CLUSTERING ORDER BY (at DESC);"#;

/// Keys of types whose texts have more than one spelling.
const ODD_KEYS_SCHEMA: &str =
    "CREATE TABLE k.odd (p decimal, f frozen<map<double, frozen<set<inet>>>>, c decimal,
    n varint, s text STATIC, v text, PRIMARY KEY ((p, f), c, n));";

const VIEWS: [ViewType; 4] =
    [ViewType::NewAndOldImages, ViewType::NewImage, ViewType::OldImage, ViewType::KeysOnly];

const WORDS: &[&str] = &[
    "\"partitionKeys\":{",
    "\"clusteringKeys\":{",
    "\"newImage\":{",
    "\"oldImage\":{",
    "\"valueCells\":{",
    "\"staticCells\":{",
    "\"rowMetadata\":{",
    "\"expirationTime\":",
    "\"metadata\":",
    "\"value\":",
    "\"key\":",
    "\"origin\":\"TTL\",",
    "\"origin\":\"REPLICATION\",",
    "\"sequenceNumber\":\"1\",",
    "\"createdAt\":",
    "\"textT\":",
    "\"intT\":",
    "\"setT\":[",
    "\"listT\":[",
    "\"mapT\":[",
    "\"udtT\":{",
    "\"tupleT\":[",
    "\"decimalT\":",
    "\"doubleT\":",
    "\"inetT\":",
    "\"blobT\":",
    "\"durationT\":",
    "\"varintT\":",
    "\"uuidT\":",
    "null",
    "true",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-0",
    "\u{feff}",
];

/// A record of one of several tables, under any view. The first byte picks both.
pub const RECORDS: Target = Target { name: "record", run: records, samples: record_samples, words: WORDS };

/// A record of the film table, whose shape is what most users' are.
pub const FILMS: Target = Target { name: "record_film", run: films, samples: film_samples, words: WORDS };

static SCHEMAS: LazyLock<[TableSchema; 3]> = LazyLock::new(|| {
    [READING_SCHEMA, FILMS_SCHEMA, ODD_KEYS_SCHEMA].map(|cql| TableSchema::parse_cql(cql).unwrap())
});

fn records(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = usize::from(input.byte());
    let schema = &SCHEMAS[(choice / VIEWS.len()) % SCHEMAS.len()];
    check(schema, VIEWS[choice % VIEWS.len()], input.rest());
}

fn films(data: &[u8]) {
    check(&SCHEMAS[1], ViewType::NewAndOldImages, data);
}

fn check(schema: &TableSchema, view: ViewType, json: &[u8]) {
    let parsed = record::parse(schema, view, json, None);
    assert_eq!(record::parse(schema, view, json, None), parsed, "the same line again is the same record");

    // A line's own number is used whatever the record says; all else stays.
    let numbered = record::parse(schema, view, json, Some(SequenceNumber::from(7)));
    match (&parsed, &numbered) {
        (Ok(_), Err(_)) => panic!("a number of its own spoils no record"),
        (Err(bad), Ok(_)) => assert!(bad.reason.contains("sequenceNumber"), "{}", bad.reason),
        _ => {}
    }
    match numbered {
        Ok(Record::Row(change)) => {
            assert_eq!(change.sequence_number, SequenceNumber::from(7));
            let values = change.key.decode(schema).unwrap_or_else(|fault| panic!("{}: {fault}", change.key));
            let again = RowKey::encode(schema, |column| Some(values[column].1.as_slice()), Door::Stream);
            assert_eq!(again.as_ref(), Ok(&change.key));
            match (view, &change.before) {
                (ViewType::NewAndOldImages, _) | (_, Before::Unknown) => {}
                (view, before) => panic!("{view:?} tells nothing of what was before: {before:?}"),
            }
            assert!(matches!(view, ViewType::NewAndOldImages | ViewType::NewImage) || change.after.is_none());
            if let Before::Row(row) = &change.before {
                check_row(schema, row, &values);
            }
            if let Some(row) = &change.after {
                check_row(schema, row, &values);
            }
        }
        Ok(Record::Partition(change)) => {
            assert!(!schema.clustering_key().is_empty(), "a table without a clustering key has rows only");
            assert!(!change.partition.is_empty());
            if let Some(statics) = &change.statics {
                for (column, cell) in schema.columns.iter().zip(statics.cells()) {
                    assert!(column.kind == ColumnKind::Static || cell == Cell::Null, "{}", column.name);
                }
                check_cells(schema, statics);
            }
        }
        Err(bad) => {
            assert!(!bad.reason.is_empty());
            crate::stored::check_reason(&scrub_reason(&bad.reason));
        }
    }
}

/// An image has all columns, the key's own values, and nothing that cannot be read.
fn check_row(schema: &TableSchema, row: &Row, key: &[(usize, Vec<u8>)]) {
    check_cells(schema, row);
    for (index, column) in schema.columns.iter().enumerate() {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::ClusteringKey => {
                let Cell::Bytes(bytes) = row.cell(index) else {
                    panic!("key column {} is not there", column.name)
                };
                let texts = [bytes, &key[index].1].map(|bytes| {
                    RowKey::encode(
                        schema,
                        |at| Some(if at == index { bytes } else { &key[at].1 }),
                        Door::Stream,
                    )
                });
                assert_eq!(texts[0], texts[1], "{}: the image is of another row", column.name);
            }
            ColumnKind::Static => assert_eq!(row.cell(index), Cell::Null, "static {} in a row", column.name),
            ColumnKind::Regular => {}
        }
    }
}

fn check_cells(schema: &TableSchema, row: &Row) {
    assert_eq!(row.cells().len(), schema.columns.len());
    for (column, cell) in schema.columns.iter().zip(row.cells()) {
        match cell {
            Cell::Null => {}
            Cell::Fault(reason) => assert!(!reason.is_empty() && reason != "unreadable cell"),
            Cell::Bytes(bytes) => {
                if let Err(fault) = CqlValue::decode(&column.cql_type, bytes) {
                    panic!("{} is no {}: {fault}", column.name, column.cql_type);
                }
            }
        }
    }
    let stored = Row::from_stored(schema, &row.to_stored(schema));
    assert_eq!(stored.as_ref(), Ok(row), "a stored row reads back");
}

/// The sample records, each under each view.
fn record_samples() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host/core/tests/records");
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the sample records are in the checkout") {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let records = match serde_json::from_slice(&text) {
            Ok(serde_json::Value::Array(records)) => records,
            Ok(record) => vec![record],
            Err(fault) => panic!("a sample is no JSON: {fault}"),
        };
        for record in records {
            let view = samples.len() % VIEWS.len();
            samples.push([&[u8::try_from(view).unwrap()], record.to_string().as_bytes()].concat());
        }
    }
    let odd = r#"{"partitionKeys":{"p":{"decimalT":"1.50"},"f":{"mapT":[{"key":{"doubleT":"1"},"value":{"setT":[{"value":{"inetT":"::1"}}]}}]}},"clusteringKeys":{"c":{"decimalT":"1E+2"},"n":{"varintT":"-7"}},"sequenceNumber":"9","origin":"USER","newImage":{"valueCells":{"v":{"value":{"textT":"x"}}}}}"#;
    samples.push([&[8], odd.as_bytes()].concat());
    samples.sort();
    samples
}

fn film_samples() -> Vec<Vec<u8>> {
    let lines = include_str!("../../../plugins/movies/data/films.jsonl");
    lines.lines().step_by(10).map(|line| line.as_bytes().to_vec()).collect()
}
