//! The file source against files that grow, are rotated, truncated and damaged under it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::lease::Checkpoint;
use keyvector_core::port::Error;
use keyvector_core::schema::TableSchema;
use keyvector_host::source::file::{FileReader, FileSource, Limits, refuse_view};
use keyvector_host::source::{Batch, ShardReader};

#[path = "file_source/events.rs"]
mod events;
#[path = "file_source/rotation.rs"]
mod rotation;

fn schema() -> TableSchema {
    TableSchema::parse_cql("CREATE TABLE lab.notes (room text, at int, body text, PRIMARY KEY (room, at));")
        .unwrap()
}

/// Looks once a call and waits for nothing.
fn source(path: &Path) -> FileSource {
    let mut source = FileSource::new(path, Arc::new(schema()), ViewType::NewAndOldImages);
    source.limits = Limits {
        wait: Duration::ZERO,
        poll: (Duration::from_millis(1), Duration::from_millis(4)),
        unfinished_quiet: Duration::ZERO,
        ..Limits::default()
    };
    source
}

/// A folder with a file of records, and its rotated files.
struct Folder {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// Times of change are set by hand: some file systems count them in steps of several milliseconds.
    time: SystemTime,
}

impl Folder {
    fn new(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("films.jsonl");
        let time = SystemTime::now() - Duration::from_secs(1_000_000);
        let mut folder = Self { _folder: folder, path, time };
        folder.append(content);
        folder
    }

    fn append(&mut self, bytes: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
        self.touch(&file);
    }

    fn touch(&mut self, file: &File) {
        self.time += Duration::from_secs(1);
        file.set_modified(self.time).unwrap();
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.path.with_file_name(format!("films.jsonl{suffix}"))
    }

    /// Makes room for a new `films.jsonl.1`.
    fn shift(&self) {
        let count = (1..).take_while(|n| self.beside(&format!(".{n}")).exists()).count();
        for n in (1..=count).rev() {
            fs::rename(self.beside(&format!(".{n}")), self.beside(&format!(".{}", n + 1))).unwrap();
        }
    }

    fn rotate(&self) {
        self.shift();
        fs::rename(&self.path, self.beside(".1")).unwrap();
    }

    fn copy_and_truncate(&mut self) {
        self.shift();
        fs::copy(&self.path, self.beside(".1")).unwrap();
        let copy = OpenOptions::new().append(true).open(self.beside(".1")).unwrap();
        self.touch(&copy);
        self.truncate();
    }

    fn truncate(&mut self) {
        let file = OpenOptions::new().write(true).truncate(true).open(&self.path).unwrap();
        self.touch(&file);
    }

    fn open(&self, checkpoint: &Checkpoint) -> FileReader {
        source(&self.path).open(checkpoint).unwrap()
    }
}

/// What was read, up to the tip.
#[derive(Debug, Default)]
struct Seen {
    lines: Vec<String>,
    numbers: Vec<u64>,
    sequence_numbers: Vec<SequenceNumber>,
    gaps: Vec<String>,
    position: Option<Checkpoint>,
}

impl Seen {
    fn add(&mut self, batch: Batch) {
        for record in batch.records {
            self.lines.push(String::from_utf8_lossy(&record.raw).into_owned());
            self.numbers.push(record.line.unwrap());
            self.sequence_numbers.push(record.sequence_number);
        }
        self.gaps.extend(batch.gap);
        self.position = Some(batch.position);
    }
}

async fn read_to_tip(reader: &mut FileReader) -> Seen {
    let mut seen = Seen::default();
    for _ in 0..10_000 {
        let batch = reader.next(3).await.unwrap();
        assert!(batch.records.len() <= 3);
        let done = batch.at_tip && batch.records.is_empty();
        seen.add(batch);
        if done {
            return seen;
        }
    }
    panic!("never reached the tip");
}

#[tokio::test]
async fn lines_are_read_in_order_and_followed_as_they_are_appended() {
    let mut folder = Folder::new("a\nb\nc\nd\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let first = reader.next(2).await.unwrap();
    assert_eq!(first.records.len(), 2);
    assert!(!first.at_tip);
    let second = reader.next(2).await.unwrap();
    assert!(second.at_tip, "all is read");
    assert_eq!(second.records[0].sequence_number, SequenceNumber::from(6));
    assert_eq!(second.records[0].line, Some(3));
    folder.append("e\n");
    let seen = read_to_tip(&mut reader).await;
    assert_eq!((seen.lines, seen.numbers), (vec!["e".to_owned()], vec![5]));
    assert!(seen.gaps.is_empty());
    assert_eq!(reader.progress().bytes_read(), 10);
    assert_eq!(reader.progress().bytes_total(), 10);
}

#[tokio::test]
async fn a_waiting_reader_gives_a_line_soon_after_it_is_there() {
    let mut folder = Folder::new("a\n");
    let mut source = source(&folder.path);
    source.limits.wait = Duration::from_secs(60);
    let mut reader = source.open(&Checkpoint::TrimHorizon).unwrap();
    reader.next(10).await.unwrap();
    let writer = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(30));
        folder.append("b\n");
        folder
    });
    let batch = tokio::time::timeout(Duration::from_secs(30), reader.next(10)).await.unwrap().unwrap();
    assert_eq!(batch.records[0].raw, b"b");
    writer.await.unwrap();
}

#[tokio::test]
async fn a_torn_last_line_waits_also_across_a_restart() {
    let mut folder = Folder::new("a\nhalf");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["a"]);
    assert_eq!(reader.progress().bytes_unfinished(), 4);
    assert_eq!(reader.progress().bytes_read(), 2);

    let mut reader = folder.open(&seen.position.unwrap());
    assert!(read_to_tip(&mut reader).await.lines.is_empty());
    folder.append(" and");
    assert!(read_to_tip(&mut reader).await.lines.is_empty());
    folder.append(" whole\nb\n");
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["half and whole", "b"]);
    assert_eq!(seen.numbers, [2, 3]);
    assert_eq!(reader.progress().bytes_unfinished(), 0);
}

#[tokio::test]
async fn a_growing_torn_line_is_not_the_tip_and_a_quiet_one_is() {
    let folder = Folder::new("a\nhalf");
    let mut source = source(&folder.path);
    source.limits.unfinished_quiet = Duration::from_millis(200);
    let mut reader = source.open(&Checkpoint::TrimHorizon).unwrap();
    assert!(!reader.next(10).await.unwrap().at_tip);
    assert!(!reader.next(10).await.unwrap().at_tip);
    tokio::time::sleep(Duration::from_millis(210)).await;
    assert!(reader.next(10).await.unwrap().at_tip);
}

#[tokio::test]
async fn a_torn_line_that_its_writer_takes_back_is_no_loss() {
    let mut folder = Folder::new("a\nhalf");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    read_to_tip(&mut reader).await;
    OpenOptions::new().write(true).open(&folder.path).unwrap().set_len(2).unwrap();
    assert!(read_to_tip(&mut reader).await.gaps.is_empty());
    folder.append("b\n");
    let seen = read_to_tip(&mut reader).await;
    assert_eq!((seen.lines, seen.gaps.len()), (vec!["b".to_owned()], 0));
}

#[tokio::test]
async fn marks_and_blank_lines_are_no_records() {
    let mut folder = Folder::new("\u{feff}a\r\n\r\n  \t\n\nb\r\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["a", "b"]);
    assert_eq!(seen.numbers, [1, 5]);
    // Blank lines alone move the position too.
    folder.append("\n\n");
    let moved = read_to_tip(&mut reader).await.position;
    assert_ne!(moved, seen.position);
    folder.append("\u{feff}c\n");
    let seen = read_to_tip(&mut folder.open(&moved.unwrap())).await;
    assert_eq!(seen.lines, ["\u{feff}c"], "only the file's start has a byte order mark");
    assert_eq!(seen.numbers, [8]);
}

#[tokio::test]
async fn a_line_over_the_limit_is_a_bad_record_and_is_never_held() {
    let giant = "x".repeat(3_000_000);
    let mut folder = Folder::new(&format!("a\n{giant}\nb\n{}\r\nc\n{giant}", "y".repeat(1001)));
    let mut source = source(&folder.path);
    source.limits.line_bytes_max = 1000;
    source.limits.batch_bytes_max = 2_000_000;
    let mut reader = source.open(&Checkpoint::TrimHorizon).unwrap();
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(reader.next(100).await.unwrap().records);
    }
    let lines: Vec<_> = records.iter().map(|record| (record.line.unwrap(), record.raw.len())).collect();
    assert_eq!(lines, [(1, 1), (2, 4096), (3, 1), (4, 1001), (5, 1)]);
    let reason = &records[1].parsed.as_ref().unwrap_err().reason;
    assert!(reason.contains("3000000 bytes"), "{reason}");
    assert!(records[3].parsed.as_ref().unwrap_err().reason.contains("1001 bytes"));
    assert_eq!(records[1].sequence_number, SequenceNumber::from(3_000_003));
    assert_eq!(reader.progress().bytes_unfinished(), 3_000_000);

    // One that grows waits as any torn line does, and ends as any other.
    folder.append("zzz");
    assert!(read_to_tip(&mut reader).await.lines.is_empty());
    folder.append("\nd\n");
    let seen = read_to_tip(&mut reader).await;
    assert_eq!((seen.numbers, seen.lines[1].as_str()), (vec![6, 7], "d"));
}

#[tokio::test]
async fn a_line_at_the_limit_is_whole() {
    let whole = "x".repeat(1000);
    let folder = Folder::new(&format!("{whole}\n{whole}\r\n"));
    let mut source = source(&folder.path);
    source.limits.line_bytes_max = 1000;
    let batch = source.open(&Checkpoint::TrimHorizon).unwrap().next(10).await.unwrap();
    assert!(batch.records.iter().all(|record| record.raw == whole.as_bytes()));
    assert_eq!(batch.records.len(), 2);
}

#[tokio::test]
async fn batches_are_cut_by_bytes() {
    let folder = Folder::new(&format!("{}\n", "x".repeat(99)).repeat(100));
    let mut source = source(&folder.path);
    source.limits.batch_bytes_max = 1000;
    let mut reader = source.open(&Checkpoint::TrimHorizon).unwrap();
    assert_eq!(reader.next(1000).await.unwrap().records.len(), 10);
    assert_eq!(reader.next(3).await.unwrap().records.len(), 3);
}

#[tokio::test]
async fn binary_junk_is_bad_records_with_their_lines() {
    let key = r#""partitionKeys":{"room":{"textT":"a"}},"clusteringKeys":{"at":{"intT":"7"}}"#;
    let image = r#"{"valueCells":{"body":{"value":{"textT":"hello"}}},"staticCells":{}}"#;
    let good = format!(
        r#"{{"eventVersion":"1.0","createdAt":1786000000.125,"origin":"USER",{key},"sequenceNumber":"0001","newImage":{image}}}"#
    );
    let mut folder = Folder::new("");
    folder.append(b"\x80\xff\n{\"a\":\"b\0\"}\n\x1f\x8b\x08\0\0\xed\n");
    folder.append(format!("{good}\nnot json\n"));
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let batch = reader.next(10).await.unwrap();
    let good: Vec<bool> = batch.records.iter().map(|record| record.parsed.is_ok()).collect();
    assert_eq!(good, [false, false, false, true, false]);
    let reason = |index: usize| batch.records[index].parsed.as_ref().unwrap_err().reason.clone();
    assert!(reason(0).contains("not UTF-8"), "{}", reason(0));
    assert!(reason(1).contains("NUL"), "{}", reason(1));
    let lines: Vec<u64> = batch.records.iter().filter_map(|record| record.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_missing_or_unfit_file_and_a_foreign_checkpoint_are_refused_in_words() {
    let folder = Folder::new("a\n");
    let refused = |path: &Path, checkpoint: &Checkpoint| match source(path).open(checkpoint) {
        Err(Error::Fatal(message)) => message,
        other => panic!("{other:?}"),
    };
    let missing = folder.path.with_file_name("other.jsonl");
    let message = refused(&missing, &Checkpoint::TrimHorizon);
    assert!(message.contains("other.jsonl"), "{message}");
    let position = folder.open(&Checkpoint::TrimHorizon).position();
    assert!(refused(&missing, &position).contains("other.jsonl"));
    let message = refused(folder.path.parent().unwrap(), &Checkpoint::TrimHorizon);
    assert!(message.contains("not a regular file"), "{message}");
    let message = refused(&folder.path, &Checkpoint::At("file:7:0".into()));
    assert!(message.contains("format 7") && message.contains("format 1"), "{message}");
    refused(&folder.path, &Checkpoint::At("000123".into()));
    refused(&folder.path, &Checkpoint::ShardEnd);
    assert_eq!(source(&folder.path).shard_id(), "file:films.jsonl");
}

#[tokio::test]
async fn a_dropped_call_has_moved_nothing() {
    let folder = Folder::new("a\nb\nc\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let mut seen = Seen::default();
    for _ in 0..100 {
        let before = reader.position();
        // The file is read on another thread, which is rarely done by the first poll.
        let done = tokio::select! {
            biased;
            batch = reader.next(1) => Some(batch.unwrap()),
            () = std::future::ready(()) => None,
        };
        match done {
            Some(batch) => seen.add(batch),
            None => assert_eq!(reader.position(), before),
        }
    }
    seen.lines.extend(read_to_tip(&mut reader).await.lines);
    assert_eq!(seen.lines, ["a", "b", "c"]);
}

#[test]
fn views_without_new_images_are_refused() {
    use ViewType::{KeysOnly, NewAndOldImages, NewImage, OldImage};

    let key = r#""partitionKeys":{"room":{"textT":"a"}},"clusteringKeys":{"at":{"intT":"7"}}"#;
    let image = r#"{"valueCells":{"body":{"value":{"textT":"x"}}},"staticCells":{}}"#;
    let keys_only = format!("{{{key}}}\n");
    let null_images = format!("{{{key},\"newImage\":null,\"oldImage\":null}}\n");
    let new = format!("{{{key},\"newImage\":{image}}}\n");
    let old = format!("{{{key},\"oldImage\":{image}}}\n");
    let both = format!("{{{key},\"newImage\":{image},\"oldImage\":{image}}}\n");
    let partition = "{\"partitionKeys\":{\"room\":{\"textT\":\"a\"}},\"clusteringKeys\":{}}\n".to_owned();
    let view = |lines: &[&String], configured| {
        let folder = Folder::new(&lines.iter().map(|line| line.as_str()).collect::<String>());
        refuse_view(&folder.path, &schema(), configured)
    };

    assert_eq!(view(&[], None), Ok(NewAndOldImages));
    assert_eq!(view(&[&new, &both, &old], None), Ok(NewAndOldImages));
    assert_eq!(view(&[&new, &new], None), Ok(NewAndOldImages));
    assert_eq!(view(&[&new, &keys_only], None), Ok(NewImage));
    assert_eq!(view(&[&new, &keys_only], Some(NewAndOldImages)), Ok(NewAndOldImages));
    assert_eq!(view(&[&old, &old], None), Ok(NewAndOldImages), "deletes");
    assert_eq!(view(&[&partition], None), Ok(NewAndOldImages), "names no row");
    assert_eq!(view(&[&"{}\n[]\nnot json\n".to_owned()], None), Ok(NewAndOldImages), "bad lines say nothing");
    assert_eq!(view(&[&keys_only], Some(NewImage)), Ok(NewImage), "deletes");
    for lines in [[&keys_only, &keys_only], [&old, &keys_only], [&partition, &null_images]] {
        for configured in [None, Some(NewAndOldImages)] {
            let message = view(&lines, configured).unwrap_err();
            assert!(
                message.contains("KEYS_ONLY or OLD_IMAGE") && message.contains("films.jsonl"),
                "{message}"
            );
        }
    }
    for configured in [KeysOnly, OldImage] {
        let message = view(&[&both], Some(configured)).unwrap_err();
        assert!(message.contains(configured.as_str()), "{message}");
    }
    assert!(refuse_view(Path::new("no-such.jsonl"), &schema(), None).unwrap_err().contains("no-such.jsonl"));
    let far = format!("{}{new}", keys_only.repeat(1000));
    assert!(view(&[&far], None).is_err(), "only the first 1,000 records count");
}
