//! Row keys: from cells to a text and back, and from any text.

use std::sync::LazyLock;

use keyvector_core::key::{Door, RowKey, encode_partition};
use keyvector_core::schema::{Column, ColumnKind, TableSchema};
use keyvector_cql::{Decimals, canonical_text_into, sorted};

use crate::Target;
use crate::input::Input;
use crate::value;

const NAMES: [&str; 6] = ["movie_id", "studio", "Order & co", "\u{e9}", "a=b", "z"];

/// A table of up to three partition and two clustering columns, with any types that a key can have.
fn schema(input: &mut Input<'_>) -> Option<TableSchema> {
    let partition = 1 + input.below(3);
    let clustering = input.below(3);
    // Where in the alphabet the names begin: the key sorts its columns by name.
    let first = input.below(NAMES.len());
    let columns = (0..partition + clustering)
        .map(|index| Column {
            name: NAMES[(first + index) % NAMES.len()].to_owned(),
            cql_type: value::cql_type(input, 2),
            kind: if index < partition { ColumnKind::PartitionKey } else { ColumnKind::ClusteringKey },
        })
        .collect();
    // A counter or a duration is no key.
    TableSchema::new("demo", "films", columns).ok()
}

/// A table and one or two rows of it.
pub const KEYS: Target = Target { name: "key", run: keys, samples: key_samples, words: &[] };

fn keys(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(schema) = schema(&mut input) else { return };
    let cells = |input: &mut Input<'_>| -> Vec<Option<Vec<u8>>> {
        let cell = |input: &mut Input<'_>, column: &Column| {
            (input.below(16) != 15).then(|| value::cell(input, &column.cql_type))
        };
        schema.key_columns().iter().map(|column| cell(input, column)).collect()
    };
    let one = cells(&mut input);
    let other = cells(&mut input);
    for door in [Door::Stream, Door::Cql] {
        let encode =
            |cells: &[Option<Vec<u8>>]| RowKey::encode(&schema, |column| cells[column].as_deref(), door);
        let keys = [&one, &other].map(|cells| encode(cells));
        for (cells, key) in [&one, &other].into_iter().zip(&keys) {
            match key {
                Ok(key) => comes_back(&schema, cells, door, key),
                Err(fault) => {
                    assert!(!fault.reason.is_empty());
                    let quoted = fault.to_string();
                    assert!(fault.column.is_none() || quoted.starts_with("key column \""), "{quoted}");
                }
            }
        }
        if let [Ok(first), Ok(second)] = &keys
            && first == second
        {
            for (index, column) in schema.key_columns().iter().enumerate() {
                let texts = [&one, &other].map(|cells| stripped_text(column, cells[index].as_deref()));
                assert_eq!(texts[0], texts[1], "one key for two values of {}", column.name);
            }
        }
    }
}

/// The key gives back the row it was made of.
fn comes_back(schema: &TableSchema, cells: &[Option<Vec<u8>>], door: Door, key: &RowKey) {
    let values = key.decode(schema).unwrap_or_else(|fault| panic!("{key}: {fault}"));
    assert!(values.iter().map(|(column, _)| *column).eq(0..schema.key_columns().len()), "{key}");
    let again = RowKey::encode(schema, |column| Some(values[column].1.as_slice()), door);
    assert_eq!(again.as_ref(), Ok(key), "typed values make the same key");
    let partition = encode_partition(schema, |column| cells[column].as_deref(), door);
    assert_eq!(key.partition_part(schema), partition, "the partition's part is the partition's text");
    for (index, column) in schema.key_columns().iter().enumerate() {
        let cell = cells[index].as_deref().expect("a row with a key has no null in it");
        if door == Door::Cql && index < schema.partition_key().len() {
            // The server compares these as bytes, so a key may stand for no others.
            let in_order = sorted(&column.cql_type, cell).unwrap();
            assert_eq!(values[index].1, &*in_order, "{key}: column {}", column.name);
        } else {
            assert_eq!(
                stripped_text(column, Some(&values[index].1)),
                stripped_text(column, Some(cell)),
                "{key}"
            );
        }
    }
    assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{key}");
}

/// What the server compares in a clustering column: equal numbers are one.
fn stripped_text(column: &Column, cell: Option<&[u8]>) -> Option<String> {
    let mut text = String::new();
    canonical_text_into(&column.cql_type, cell?, Decimals::Stripped, &mut text).ok()?;
    Some(text)
}

fn key_samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for cql_type in 0..32u8 {
        // One column of the type, then a text, as partition and as clustering key.
        samples.push(vec![0, 0, 0, cql_type, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3, 97, 98, 99]);
        samples.push(vec![1, 1, 3, cql_type, 1, 0, 0, 0, 0, 2, 97, 38, 0, 0, 0, 5, 5, 5]);
        samples.push(vec![0, 1, 5, 1, cql_type, 0, 0, 0, 2, 61, 37, 0, 0, 0, 1, 2, 0, 3, 4]);
    }
    samples
}

/// A table and any text for a key.
pub const TEXTS: Target = Target {
    name: "key_text",
    run: texts,
    samples: text_samples,
    words: &[
        "&",
        "=",
        "%",
        "%25",
        "%3D",
        "%C3%A9",
        "%c3",
        "movie_id=",
        "studio=",
        "-",
        "0",
        "~",
        "[\"1\"]",
        "null",
    ],
};

static KNOWN: LazyLock<[TableSchema; 3]> = LazyLock::new(|| {
    let nested = "CREATE TABLE k.t (a frozen<map<text, frozen<list<int>>>>, \"\u{e9}&\" decimal, b inet,
        PRIMARY KEY (a, \"\u{e9}&\", b))";
    [crate::record::FILMS_SCHEMA, crate::record::READING_SCHEMA, nested]
        .map(|cql| TableSchema::parse_cql(cql).unwrap())
});

fn texts(data: &[u8]) {
    let mut input = Input::new(data);
    let made;
    let schema = match input.below(4) {
        3 => match schema(&mut input) {
            Some(schema) => {
                made = schema;
                &made
            }
            None => return,
        },
        known => &KNOWN[known],
    };
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    let key = RowKey::from_stored(text);
    let part = key.partition_part(schema);
    match key.decode(schema) {
        Ok(values) => {
            let again = RowKey::encode(schema, |column| Some(values[column].1.as_slice()), Door::Stream);
            assert_eq!(again.as_ref().map(RowKey::as_str), Ok(text), "what is ours comes out as it went in");
            assert!(text.starts_with(&part.unwrap()) || !schema.clustering_key().is_empty());
        }
        Err(fault) => assert!(!fault.reason.is_empty()),
    }
}

fn text_samples() -> Vec<Vec<u8>> {
    [
        (0, "movie_id=12&studio=Redwood%3DRidge"),
        (0, "movie_id=-2147483648&studio="),
        (1, "at=1772600767089&sensor=2f0c6a52-9a3e-4d7c-8a51-0c9d1e7b4f10&site=oslo-3"),
        (2, "%C3%A9%26=1.0&a=%5B%5B%22a%22%2C%5B%221%22%5D%5D%5D&b=%3A%3A1"),
    ]
    .map(|(table, text)| [&[table], text.as_bytes()].concat())
    .into()
}
