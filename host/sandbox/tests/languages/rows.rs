//! Rows for the film plugins: the film table itself, and worked cases with what is to become of them.

use std::path::{Path, PathBuf};

use keyvector_core::change::{Before, SequenceNumber, ViewType};
use keyvector_core::record::{self, Record};
use keyvector_core::row::{Cell, Row};
use keyvector_core::schema::TableSchema;

fn films(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/movies/data").join(name)
}

pub(crate) fn schema() -> TableSchema {
    TableSchema::parse_cql(&std::fs::read_to_string(films("table.cql")).unwrap()).unwrap()
}

/// Every row image of the film table's stream, each as its cells: the 302 rows, then those of the changes.
pub(crate) fn film_rows(schema: &TableSchema) -> Vec<Vec<(String, Vec<u8>)>> {
    let stream = std::fs::read_to_string(films("films.jsonl")).unwrap();
    let mut rows = Vec::new();
    for (line, json) in stream.lines().enumerate() {
        let place = SequenceNumber::new(&format!("{line:020}")).unwrap();
        let record = record::parse(schema, ViewType::NewAndOldImages, json.as_bytes(), Some(place));
        let Ok(Record::Row(change)) = record else { panic!("line {}: {record:?}", line + 1) };
        if let Before::Row(before) = &change.before {
            rows.push(cells(schema, before));
        }
        rows.extend(change.after.as_ref().map(|after| cells(schema, after)));
    }
    rows
}

fn cells(schema: &TableSchema, row: &Row) -> Vec<(String, Vec<u8>)> {
    let named = schema.columns.iter().zip(row.cells());
    named
        .filter_map(|(column, cell)| match cell {
            Cell::Bytes(bytes) => Some((column.name.clone(), bytes.to_vec())),
            Cell::Null => None,
            Cell::Fault(reason) => panic!("{reason}"),
        })
        .collect()
}

/// What is to become of a worked row.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Document { text: &'static str, metadata: &'static str },
    Skipped,
    Blank,
    Failed(&'static str),
}
use Expected::{Blank, Document, Failed, Skipped};

pub(crate) type Case = (Vec<(&'static str, Vec<u8>)>, Expected);

pub(crate) fn worked_cases() -> Vec<Case> {
    let text = |text: &str| text.as_bytes().to_vec();
    let int = |number: i32| number.to_be_bytes().to_vec();
    let raw = |bytes: &[u8]| bytes.to_vec();
    let plot = |plot: &[u8]| vec![("title", b"T".to_vec()), ("plot", plot.to_vec())];
    vec![
        (
            vec![
                ("studio", text("Redwood=Ridge")),
                ("title", text("The Long Vault")),
                ("year", int(1994)),
                ("genre", text("crime")),
                ("plot", text("A lock outlives its maker.")),
                ("runtime_min", int(117)),
                ("tags", list(&[Some(b"heist"), Some(b"night \"shift\"")])),
            ],
            Document {
                text: "The Long Vault (1994)\nA lock outlives its maker.",
                metadata: r#"{"genre":"crime","runtime":117.0,"studio":"Redwood=Ridge","tags":["heist","night \"shift\""],"title":"The Long Vault","year":1994.0}"#,
            },
        ),
        // Filtered out before anything else is looked at.
        (vec![("title", text("x")), ("year", int(-1)), ("unlisted", raw(&[1]))], Skipped),
        (vec![("title", text("x")), ("unlisted", raw(&[7]))], Skipped),
        (vec![("title", text("Told")), ("unlisted", raw(&[0]))], document("Told", r#"{"title":"Told"}"#)),
        // Refused, and the first reason counts.
        (vec![("title", text("A")), ("year", int(-7))], Failed("column `year` is -7; it cannot be negative")),
        (
            vec![("runtime_min", int(i32::MIN)), ("year", int(-2))],
            Failed("column `year` is -2; it cannot be negative"),
        ),
        (
            vec![("runtime_min", int(i32::MIN))],
            Failed("column `runtime_min` is -2147483648; it cannot be negative"),
        ),
        // Blank: nothing to search by.
        (vec![], Blank),
        (vec![("year", int(2001)), ("plot", text(" \n"))], Blank),
        (vec![("title", text("\u{85}\u{2028}")), ("plot", text("\u{3000}\u{a0}\u{1680}"))], Blank),
        // Without a title, a year, a plot.
        (vec![("year", int(0)), ("plot", text("No name."))], document("(0)\nNo name.", r#"{"year":0.0}"#)),
        (vec![("plot", text("No name."))], document("No name.", "{}")),
        (
            vec![("title", text("")), ("plot", text("x")), ("year", raw(b""))],
            document("x", r#"{"title":""}"#),
        ),
        (
            vec![("title", text("Big")), ("year", int(i32::MAX))],
            document("Big (2147483647)", r#"{"title":"Big","year":2147483647.0}"#),
        ),
        // White space at the ends goes; what only looks like it stays, and in the metadata all of it.
        (
            vec![("title", text("\u{2003}A\u{a0}b\t")), ("plot", text("\u{85}p\u{202f}\r\n"))],
            document("A\u{a0}b\np", r#"{"title":"\u2003A\u00a0b\t"}"#),
        ),
        (
            vec![("title", text("\u{feff}A\u{200b}")), ("plot", text("\u{1c}p\u{1f}"))],
            document("\u{feff}A\u{200b}\n\u{1c}p\u{1f}", r#"{"title":"\ufeffA\u200b"}"#),
        ),
        // Characters of every length, and what JSON has to escape.
        (
            vec![("title", text("é語🎬\u{10ffff}")), ("genre", text("a\"b\\c/\u{0}\u{7f}\u{2028}"))],
            document(
                "é語🎬\u{10ffff}",
                r#"{"genre":"a\"b\\c/\u0000\u007f\u2028","title":"é語🎬\udbff\udfff"}"#,
            ),
        ),
        // Collections.
        (vec![("title", text("T")), ("tags", list(&[]))], document("T", r#"{"title":"T"}"#)),
        (vec![("title", text("T")), ("tags", raw(b""))], document("T", r#"{"title":"T"}"#)),
        (
            vec![("title", text("T")), ("tags", list(&[Some(b"b"), None, Some(b""), Some("é".as_bytes())]))],
            document("T", r#"{"tags":["b","","é"],"title":"T"}"#),
        ),
        (plot_with("tags", &[0, 0, 0]), Failed("column `tags`: a set<text> ends too early")),
        (plot_with("tags", &[0xff; 4]), Failed("column `tags`: a set<text> has a negative count")),
        (plot_with("tags", &[0, 0, 0, 2, 0, 0, 0, 1, b'a']), Failed("column `tags`: a text ends too early")),
        (plot_with("tags", &[0, 0, 0, 1, 0, 0, 0, 9, b'a']), Failed("column `tags`: a text ends too early")),
        (plot_with("tags", &[0x7f, 0xff, 0xff, 0xff]), Failed("column `tags`: a text ends too early")),
        (
            plot_with("tags", &[0, 0, 0, 0, b'a']),
            Failed("column `tags`: bytes are left over after the last element"),
        ),
        (
            plot_with("tags", &[0, 0, 0, 1, 0, 0, 0, 1, 0xff]),
            Failed("column `tags`: its text is not UTF-8 from byte 0"),
        ),
        // Bytes that are no value of their type.
        (plot_with("year", &[0; 8]), Failed("column `year`: 8 bytes are no int")),
        (plot_with("unlisted", &[1, 1]), Failed("column `unlisted`: 2 bytes are no boolean")),
        (plot(b"ab\xff"), Failed("column `plot`: its text is not UTF-8 from byte 2")),
        (plot(b"\xe2\x82"), Failed("column `plot`: its text is not UTF-8 from byte 0")),
        (plot(b"a\xc0\x80"), Failed("column `plot`: its text is not UTF-8 from byte 1")),
        (plot(b"a\xed\xa0\x80"), Failed("column `plot`: its text is not UTF-8 from byte 1")),
        (plot("é\u{800}".as_bytes()), document("T\né\u{800}", r#"{"title":"T"}"#)),
        (plot(b"\xc3\xa9\xf4\x90\x80\x80"), Failed("column `plot`: its text is not UTF-8 from byte 2")),
        (plot(b"\xf0\x9f\x8e"), Failed("column `plot`: its text is not UTF-8 from byte 0")),
        (plot(b"\x80"), Failed("column `plot`: its text is not UTF-8 from byte 0")),
    ]
}

fn document(text: &'static str, metadata: &'static str) -> Expected {
    Document { text, metadata }
}

fn plot_with(column: &'static str, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![("plot", b"p".to_vec()), (column, bytes.to_vec())]
}

/// A list's or set's bytes.
fn list(elements: &[Option<&[u8]>]) -> Vec<u8> {
    let mut bytes = i32::try_from(elements.len()).unwrap().to_be_bytes().to_vec();
    elements.iter().for_each(|element| keyvector_sandbox::push_cell(&mut bytes, *element));
    bytes
}
