//! Files of records: how they come apart into lines, and the positions that leases remember.

use std::cell::RefCell;
use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use keyvector_core::change::ViewType;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::schema::TableSchema;
use keyvector_fuzz::input::Input;
use keyvector_fuzz::{Target, record};
use keyvector_host::source::file::{FileSource, Limits};
use keyvector_host::source::{ShardReader, SourceRecord};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Small, so that small inputs meet it.
const LINE_BYTES_MAX: usize = 64;

/// How many records are asked for at once, when the reader is opened anew, then the file.
pub(crate) const LINES: Target = Target {
    name: "lines",
    run: lines,
    samples: || {
        let long =
            [&b"\x03\x02\xef\xbb\xbf{}\r\n\n  \n"[..], &[b'x'; 70], b"\nlast\nwithout an end"].concat();
        vec![
            long,
            b"\x01\x01a\nb\r\nc\r\r\n\0\n\xff\n".to_vec(),
            b"\x05\x00\n\n\n".to_vec(),
            b"\x02\x01a".to_vec(),
        ]
    },
    words: &[
        "\n",
        "\r\n",
        "\n\n",
        "\u{feff}",
        "{}",
        " ",
        "01234567890123456789012345678901234567890123456789",
    ],
};

/// A lease's text.
pub(crate) const POSITIONS: Target = Target {
    name: "position",
    run: positions,
    samples: || {
        let there = "file:1:3:12:17:65025-18446744073709551615:0123456789abcdef";
        ["TRIM_HORIZON", "SHARD_END", there, "file:2:what:ever"].map(|text| text.as_bytes().to_vec()).into()
    },
    words: &[":", "-", "file:1:", "0", "18446744073709551615", "0123456789abcdef"],
};

struct Place {
    folder: TempDir,
    runtime: Runtime,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

static FILMS: LazyLock<Arc<TableSchema>> =
    LazyLock::new(|| Arc::new(TableSchema::parse_cql(record::FILMS_SCHEMA).unwrap()));

/// A source of a file with this content.
fn with_source(content: &[u8], run: impl FnOnce(&FileSource, &Runtime)) {
    PLACE.with_borrow_mut(|place| {
        let place = place.get_or_insert_with(|| Place {
            folder: tempfile::tempdir().unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        });
        let path = place.folder.path().join("films.jsonl");
        fs::write(&path, content).unwrap();
        let mut source = FileSource::new(path, Arc::clone(&FILMS), ViewType::NewAndOldImages);
        source.limits =
            Limits { line_bytes_max: LINE_BYTES_MAX as u64, wait: Duration::ZERO, ..Limits::default() };
        run(&source, &place.runtime);
    });
}

fn lines(data: &[u8]) {
    let mut input = Input::new(data);
    let at_once = 1 + input.below(16);
    let reopen_after = input.below(8);
    let content = input.rest();
    with_source(content, |source, runtime| {
        let mut reader = source.open(&Checkpoint::TrimHorizon).unwrap();
        let mut read: Vec<SourceRecord> = Vec::new();
        for number in 1.. {
            let batch = runtime.block_on(reader.next(at_once)).unwrap();
            assert!(batch.records.len() <= at_once);
            assert_eq!(batch.gap, None);
            let done = batch.records.is_empty();
            read.extend(batch.records);
            if number == reopen_after {
                // As after a restart: the durable text is all that is left.
                let position = Checkpoint::parse(batch.position.as_str());
                assert_eq!(position, batch.position);
                reader = source.open(&position).unwrap();
            } else if done {
                break;
            }
        }
        let found: Vec<_> = read.iter().map(|record| (record.line.unwrap(), record.raw.as_slice())).collect();
        assert_eq!(found, expected_lines(content));
        assert!(read.is_sorted_by(|one, next| one.sequence_number < next.sequence_number));
        for record in &read {
            let over = record.raw.len() > LINE_BYTES_MAX;
            assert!(!over || record.parsed.is_err(), "line {:?} is over the limit", record.line);
        }
    });
}

/// Number and bytes of the lines that have an end and are not blank.
fn expected_lines(content: &[u8]) -> Vec<(u64, &[u8])> {
    let mut lines: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
    // What stands after the last end is not a line yet.
    lines.pop();
    let mut expected = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            expected.push((number, &line[..line.len().min(4096)]));
            continue;
        }
        let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if !line.iter().all(u8::is_ascii_whitespace) {
            expected.push((number, line));
        }
    }
    expected
}

fn positions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let checkpoint = Checkpoint::parse(text);
    assert_eq!(checkpoint.as_str(), text, "a lease's text stays as it is");
    with_source(b"{}\n{}\n{}\n", |source, runtime| match source.open(&checkpoint) {
        Err(port::Error::Fatal(reason)) => assert!(!reason.is_empty()),
        Err(other) => panic!("a text is no passing trouble: {other}"),
        Ok(mut reader) => {
            let batch = runtime.block_on(reader.next(10)).unwrap();
            // A place in a file that is gone is a gap, never silence.
            let from_start = checkpoint == Checkpoint::TrimHorizon;
            assert!(from_start || batch.gap.is_some(), "{text}: {:?}", batch.position);
        }
    });
}
