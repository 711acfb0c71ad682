//! Records into what becomes of them: changes of rows, partitions that changed, and records to set aside.

use keyvector_core::change::{Change, PartitionChange, SequenceNumber};
use keyvector_core::document::{FailureClass, RowFailure};
use keyvector_core::key::{KEY_BYTES_MAX, RowKey};
use keyvector_core::letter::{IMAGE_BYTES_MAX, Letter, scrub_reason};
use keyvector_core::record::Record;

use crate::clock;
use crate::source::SourceRecord;
use crate::table::Table;

#[derive(Default)]
pub(super) struct Sorted {
    pub(super) changes: Vec<Change>,
    /// Where each change came from.
    pub(super) places: Places,
    /// Letters for records that cannot be read.
    pub(super) unreadable: Vec<Letter>,
    /// Letters for rows whose key no index can ever hold: counted, never held, never waited for.
    pub(super) too_long: Vec<Letter>,
    pub(super) partitions: Vec<PartitionChange>,
}

/// Lines of a file, one a change; none from a stream.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Option<u64>>);

impl Places {
    /// In words: the line, or else the place in the stream.
    pub(super) fn name(&self, position: usize, shard_id: &str, sequence_number: &SequenceNumber) -> String {
        place(self.0.get(position).copied().flatten(), shard_id, sequence_number)
    }
}

fn place(line: Option<u64>, shard_id: &str, sequence_number: &SequenceNumber) -> String {
    match line {
        Some(line) => format!("line {line}"),
        None => format!("{shard_id} {sequence_number}"),
    }
}

pub(super) fn sort(table: &Table, shard_id: &str, records: Vec<SourceRecord>) -> Sorted {
    let mut sorted = Sorted { changes: Vec::with_capacity(records.len()), ..Sorted::default() };
    for record in records {
        let SourceRecord { sequence_number, line, mut raw, parsed } = record;
        match parsed {
            Ok(Record::Row(change)) if change.key.is_too_long() => {
                // A key that could never be stored has nothing to delete.
                if change.after.is_some() {
                    sorted.too_long.push(too_long(table, shard_id, line, change));
                }
            }
            Ok(Record::Row(change)) => {
                sorted.places.0.push(line);
                sorted.changes.push(change);
            }
            Ok(Record::Partition(partition)) => sorted.partitions.push(partition),
            Err(bad) => {
                let failure = RowFailure { class: bad.class, reason: bad.reason, attempts: 1 };
                let place = place(line, shard_id, &sequence_number);
                let mut letter = letter(table, shard_id, place, bad.key, sequence_number, failure);
                letter.image_cut = raw.len() > IMAGE_BYTES_MAX;
                raw.truncate(IMAGE_BYTES_MAX);
                letter.image = Some(raw);
                sorted.unreadable.push(letter);
            }
        }
    }
    sorted
}

fn too_long(table: &Table, shard_id: &str, line: Option<u64>, change: Change) -> Letter {
    let bytes = change.key.as_str().len();
    tracing::warn!(
        key = table.key_names.of(&change.key),
        bytes,
        "a row's key is too long for any index: skipped"
    );
    let failure = RowFailure {
        class: FailureClass::KeyTooLong,
        reason: format!("the row key has {bytes} bytes, an index takes at most {KEY_BYTES_MAX}"),
        attempts: 1,
    };
    let place = place(line, shard_id, &change.sequence_number);
    letter(table, shard_id, place, Some(change.key), change.sequence_number, failure)
}

/// A letter without an image: the row itself can be read back.
pub(crate) fn letter(
    table: &Table,
    shard_id: &str,
    place: String,
    key: Option<RowKey>,
    sequence_number: SequenceNumber,
    failure: RowFailure,
) -> Letter {
    Letter {
        table: table.name.clone(),
        key,
        shard_id: shard_id.to_owned(),
        place,
        sequence_number,
        class: failure.class,
        reason: scrub_reason(&failure.reason),
        attempts: failure.attempts,
        created_at_ms: clock::now_ms(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
        plugin_digest: table.plugin_digest.clone(),
        image: None,
        image_cut: false,
    }
}
