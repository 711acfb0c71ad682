//! Keyspaces' records in their JSON form, read against a table's schema.
//!
//! # Source
//! Amazon Keyspaces Streams API, `Record`, `KeyspacesRow`, `KeyspacesCell` and `KeyspacesCellValue`. What it leaves open
//! (units, null, records that name no row) is read leniently, or as the cautious one of the possible meanings.

use serde::de::DeserializeSeed;

use crate::change::{Before, Change, Origin, PartitionChange, SequenceNumber, ViewType};
use crate::document::FailureClass;
use crate::key::{Door, KeyError, RowKey, encode_partition};
use crate::row::{Cell, Row};
use crate::schema::{ColumnKind, TableSchema};

mod content;
mod members;
mod value;
mod words;

use members::{Image, Members, RecordSeed, Slot};

/// One record of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// It names a row.
    Row(Change),
    /// It names a partition or a range of it.
    Partition(PartitionChange),
}

/// A record that cannot be used, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRecord {
    pub class: FailureClass,
    /// Where the record names a row all the same.
    pub key: Option<RowKey>,
    pub reason: String,
}

/// Reads one record: one JSON object. `sequence_number` is its place where the source gives one (a file's line);
/// otherwise the record's own is used.
///
/// - Row images hold the table's regular columns and the key, the latter from the record's key maps; static columns
///   are null in them. Sets and maps come sorted by canonical text. Empty lists, sets and maps that are not in the key,
///   and user-defined types of nothing but nulls, are null: a table cannot tell these apart where they are not frozen.
/// - A cell of an unknown type, or one that contradicts the schema, is a [`Cell::Fault`]. Cells of columns that the
///   schema does not have are passed over.
/// - Before and after, by view:
///
/// | view | before | after |
/// |---|---|---|
/// | `NEW_AND_OLD_IMAGES` | the old image; without one absent; unknown where there is no image at all | the new image, else gone |
/// | `NEW_IMAGE` | unknown | the new image, else gone |
/// | `OLD_IMAGE`, `KEYS_ONLY` | unknown | not told: `None`, which here does *not* mean that the row is gone. Callers refuse these views or read the row back |
///
/// - A table with a clustering key, and a record that does not name all of it: [`Record::Partition`].
/// - An origin that is not known counts as replication: nothing is taken for granted about the state before.
///
/// A key that is too long for an index is no error here: see [`RowKey::is_too_long`].
///
/// # Errors
/// `BadKey` and `KeyNotCanonical` where the key has no text, `BadRecord` for everything else that cannot be read.
pub fn parse(
    schema: &TableSchema,
    view: ViewType,
    json: &[u8],
    sequence_number: Option<SequenceNumber>,
) -> Result<Record, BadRecord> {
    let bad = |reason: String| BadRecord { class: FailureClass::BadRecord, key: None, reason };
    if json.starts_with(&KPL_MAGIC) {
        return Err(bad(
            "it is a KPL aggregate: this host reads single records, so turn aggregation off".to_owned()
        ));
    }
    let mut members = Members::new(schema);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    RecordSeed { members: &mut members }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|fault| bad(format!("it is not a JSON record: {fault}")))?;
    if let Some(problem) = members.problem.take() {
        return Err(BadRecord { class: problem.class, key: None, reason: problem.reason });
    }
    if !members.has_partition_keys {
        return Err(bad(match members.envelope {
            Some(envelope) => format!("it is {envelope}, not a record in Keyspaces' JSON form"),
            None => "it has no partitionKeys, so it is not a record in Keyspaces' JSON form".to_owned(),
        }));
    }
    let names_row = schema.clustering_key().is_empty()
        || (schema.partition_key().len()..schema.key_columns().len())
            .all(|column| members.slot(Image::Key, column) != Slot::Absent);
    if names_row {
        row_change(&members, view, sequence_number).map(Record::Row)
    } else {
        partition_change(&members, sequence_number).map(Record::Partition)
    }
}

/// How aggregates of the Kinesis Producer Library begin.
const KPL_MAGIC: [u8; 4] = [0xf3, 0x89, 0x9a, 0xc2];

fn row_change(
    members: &Members<'_>,
    view: ViewType,
    sequence_number: Option<SequenceNumber>,
) -> Result<Change, BadRecord> {
    check_key_cells(members, members.schema.key_columns().len())?;
    let key = RowKey::encode(members.schema, |column| members.bytes(Image::Key, column), Door::Stream)
        .map_err(bad_key)?;
    let sequence_number = match sequence_number.map_or_else(|| members.sequence_number(), Ok) {
        Ok(sequence_number) => sequence_number,
        Err(reason) => return Err(BadRecord { class: FailureClass::BadRecord, key: Some(key), reason }),
    };
    let image = |image| members.has_image(image).then(|| row_image(members, image));
    let (before, after) = match view {
        ViewType::NewAndOldImages => match (image(Image::Old), image(Image::New)) {
            (Some(before), after) => (Before::Row(before), after),
            (None, Some(after)) => (Before::Absent, Some(after)),
            (None, None) => (Before::Unknown, None),
        },
        ViewType::NewImage => (Before::Unknown, image(Image::New)),
        ViewType::OldImage | ViewType::KeysOnly => (Before::Unknown, None),
    };
    Ok(Change {
        key,
        sequence_number,
        created_at_ms: members.created_at_ms,
        origin: members.origin.unwrap_or(Origin::User),
        before,
        after,
    })
}

fn partition_change(
    members: &Members<'_>,
    sequence_number: Option<SequenceNumber>,
) -> Result<PartitionChange, BadRecord> {
    let schema = members.schema;
    check_key_cells(members, schema.partition_key().len())?;
    let partition = encode_partition(schema, |column| members.bytes(Image::Key, column), Door::Stream)
        .map_err(bad_key)?;
    let sequence_number = sequence_number
        .map_or_else(|| members.sequence_number(), Ok)
        .map_err(|reason| BadRecord { class: FailureClass::BadRecord, key: None, reason })?;
    let holds = |image: Image, kind: ColumnKind| {
        let of_kind = |(index, _): &(usize, _)| members.slot(image, *index) != Slot::Absent;
        schema.columns.iter().enumerate().filter(|(_, column)| column.kind == kind).any(|cell| of_kind(&cell))
    };
    let either = |kind| holds(Image::New, kind) || holds(Image::Old, kind);
    // Without a new image the statics may have gone together with all rows, so only one with it is taken at its word.
    let static_only =
        members.has_image(Image::New) && either(ColumnKind::Static) && !either(ColumnKind::Regular);
    let statics = holds(Image::New, ColumnKind::Static).then(|| {
        let cells = schema.columns.iter().enumerate().map(|(index, column)| match column.kind {
            ColumnKind::Static => members.cell(Image::New, index),
            _ => Cell::Null,
        });
        Row::new(cells)
    });
    Ok(PartitionChange {
        partition,
        sequence_number,
        created_at_ms: members.created_at_ms,
        static_only,
        statics,
    })
}

fn row_image(members: &Members<'_>, image: Image) -> Row {
    let cells = members.schema.columns.iter().enumerate().map(|(index, column)| match column.kind {
        ColumnKind::PartitionKey | ColumnKind::ClusteringKey => members.cell(Image::Key, index),
        ColumnKind::Regular => members.cell(image, index),
        ColumnKind::Static => Cell::Null,
    });
    let mut row = Row::new(cells);
    row.expires_at_ms = members.expires_at_ms(image);
    row
}

/// Key cells that could not be read, with their reason; missing ones are found when the key is made.
fn check_key_cells(members: &Members<'_>, columns: usize) -> Result<(), BadRecord> {
    for index in 0..columns {
        if let Cell::Fault(reason) = members.cell(Image::Key, index) {
            return Err(bad_key(KeyError::bad(Some(&members.schema.columns[index]), reason)));
        }
    }
    Ok(())
}

fn bad_key(fault: KeyError) -> BadRecord {
    BadRecord { class: fault.class, key: None, reason: fault.to_string() }
}
