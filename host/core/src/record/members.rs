//! A record's members: its keys, images and what else it says, read in one pass into one buffer.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::change::{Origin, SequenceNumber};
use crate::document::FailureClass;
use crate::row::Cell;
use crate::schema::{ColumnKind, TableSchema, quote_identifier};

use super::value::{CellSeed, Outcome, ValueSeed};
use super::words::{MetadataSeed, Words, instant_ms};

/// Where a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// In `partitionKeys` or `clusteringKeys`.
    Key,
    Old,
    New,
}

/// One column's place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Not named.
    Absent,
    Null,
    Bytes {
        start: usize,
        end: usize,
    },
    Fault {
        start: usize,
        end: usize,
    },
}

/// Why the record as a whole cannot be used.
pub(super) struct Problem {
    pub(super) class: FailureClass,
    pub(super) reason: String,
}

pub(super) struct Members<'s> {
    pub(super) schema: &'s TableSchema,
    /// All cells' contents.
    data: Vec<u8>,
    /// Three times the table's columns: [`Image::Key`], [`Image::Old`], [`Image::New`].
    slots: Vec<Slot>,
    old: Option<ImageFacts>,
    new: Option<ImageFacts>,
    sequence_number: Option<String>,
    pub(super) created_at_ms: Option<i64>,
    pub(super) origin: Option<Origin>,
    pub(super) has_partition_keys: bool,
    /// What other form the record seems to be of.
    pub(super) envelope: Option<&'static str>,
    /// The first one.
    pub(super) problem: Option<Problem>,
}

#[derive(Clone, Copy, Default)]
struct ImageFacts {
    expires_at_ms: Option<i64>,
}

impl<'s> Members<'s> {
    pub(super) fn new(schema: &'s TableSchema) -> Self {
        Self {
            schema,
            data: Vec::with_capacity(512),
            slots: vec![Slot::Absent; schema.columns.len() * 3],
            old: None,
            new: None,
            sequence_number: None,
            created_at_ms: None,
            origin: None,
            has_partition_keys: false,
            envelope: None,
            problem: None,
        }
    }

    pub(super) fn slot(&self, image: Image, column: usize) -> Slot {
        self.slots[image as usize * self.schema.columns.len() + column]
    }

    pub(super) fn cell(&self, image: Image, column: usize) -> Cell<'_> {
        match self.slot(image, column) {
            Slot::Absent | Slot::Null => Cell::Null,
            Slot::Bytes { start, end } => Cell::Bytes(&self.data[start..end]),
            Slot::Fault { start, end } => {
                Cell::Fault(std::str::from_utf8(&self.data[start..end]).unwrap_or("unreadable cell"))
            }
        }
    }

    pub(super) fn bytes(&self, image: Image, column: usize) -> Option<&[u8]> {
        match self.cell(image, column) {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::Null | Cell::Fault(_) => None,
        }
    }

    pub(super) fn has_image(&self, image: Image) -> bool {
        self.facts(image).is_some()
    }

    pub(super) fn expires_at_ms(&self, image: Image) -> Option<i64> {
        self.facts(image)?.expires_at_ms
    }

    /// The record's own number.
    pub(super) fn sequence_number(&self) -> Result<SequenceNumber, String> {
        let digits = self.sequence_number.as_deref().ok_or("it has no sequenceNumber")?;
        SequenceNumber::new(digits).ok_or_else(|| "its sequenceNumber is not made of digits".to_owned())
    }

    fn facts(&self, image: Image) -> Option<ImageFacts> {
        match image {
            Image::Key => None,
            Image::Old => self.old,
            Image::New => self.new,
        }
    }

    fn blame(&mut self, class: FailureClass, reason: String) {
        self.problem.get_or_insert(Problem { class, reason });
    }

    /// Takes what was read into the buffer from `start` on as the column's cell.
    fn set(&mut self, image: Image, column: usize, start: usize, outcome: Outcome) {
        let slot = match outcome {
            Outcome::Null => {
                self.data.truncate(start);
                Slot::Null
            }
            Outcome::Value => Slot::Bytes { start, end: self.data.len() },
            Outcome::Fault(reason) => {
                self.data.truncate(start);
                self.data.extend_from_slice(reason.as_bytes());
                Slot::Fault { start, end: self.data.len() }
            }
        };
        let index = image as usize * self.schema.columns.len() + column;
        if self.slots[index] != Slot::Absent {
            let name = quote_identifier(&self.schema.columns[column].name);
            self.blame(FailureClass::BadRecord, format!("it names column {name} twice in one place"));
        }
        self.slots[index] = slot;
    }
}

/// Reads the whole record into its members.
pub(super) struct RecordSeed<'m, 's> {
    pub(super) members: &'m mut Members<'s>,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one record, a JSON object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("an array is not a record; each record goes on a line of its own"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { members } = self;
        let mut seen = [false; Member::COUNT];
        while let Some(member) = map.next_key_seed(MemberSeed)? {
            if let Some(place) = member.place() {
                if seen[place] {
                    return Err(A::Error::custom("a member comes twice"));
                }
                seen[place] = true;
            }
            match member {
                Member::PartitionKeys => {
                    members.has_partition_keys = true;
                    map.next_value_seed(KeysSeed { members, kind: ColumnKind::PartitionKey })?;
                }
                Member::ClusteringKeys => {
                    map.next_value_seed(KeysSeed { members, kind: ColumnKind::ClusteringKey })?;
                }
                Member::OldImage => {
                    members.old = map.next_value_seed(ImageSeed { members, image: Image::Old })?
                }
                Member::NewImage => {
                    members.new = map.next_value_seed(ImageSeed { members, image: Image::New })?
                }
                Member::SequenceNumber => members.sequence_number = map.next_value_seed(Words)?,
                Member::Origin => {
                    members.origin = map.next_value_seed(Words)?.map(|origin| match origin.as_str() {
                        "USER" => Origin::User,
                        "TTL" => Origin::Ttl,
                        _ => Origin::Replication,
                    });
                }
                Member::CreatedAt => {
                    members.created_at_ms = map.next_value_seed(Words)?.and_then(|at| instant_ms(&at));
                }
                Member::Other(envelope) => {
                    map.next_value::<IgnoredAny>()?;
                    members.envelope = members.envelope.or(envelope);
                }
            }
        }
        Ok(())
    }
}

enum Member {
    PartitionKeys,
    ClusteringKeys,
    OldImage,
    NewImage,
    SequenceNumber,
    Origin,
    CreatedAt,
    /// With the form of records that has such a member.
    Other(Option<&'static str>),
}

impl Member {
    const COUNT: usize = 7;

    fn place(&self) -> Option<usize> {
        Some(match self {
            Self::PartitionKeys => 0,
            Self::ClusteringKeys => 1,
            Self::OldImage => 2,
            Self::NewImage => 3,
            Self::SequenceNumber => 4,
            Self::Origin => 5,
            Self::CreatedAt => 6,
            Self::Other(_) => return None,
        })
    }
}

struct MemberSeed;

impl<'de> DeserializeSeed<'de> for MemberSeed {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Member, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberSeed {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Member, E> {
        Ok(match name {
            "partitionKeys" => Member::PartitionKeys,
            "clusteringKeys" => Member::ClusteringKeys,
            "oldImage" => Member::OldImage,
            "newImage" => Member::NewImage,
            "sequenceNumber" => Member::SequenceNumber,
            "origin" => Member::Origin,
            "createdAt" => Member::CreatedAt,
            "dynamodb" | "Dynamodb" | "dynamodbStreamRecord" => {
                Member::Other(Some("a DynamoDB change record"))
            }
            "payload" | "op" | "before" | "after" => Member::Other(Some("a Debezium envelope")),
            "image" | "oldImageJson" => Member::Other(Some("the sample connector's {metadata, image} form")),
            "changeRecords" => {
                Member::Other(Some("a whole GetRecords answer (its changeRecords are the records)"))
            }
            "Records" | "kinesis" => Member::Other(Some("an AWS Lambda event")),
            "detail" | "detail-type" => Member::Other(Some("an EventBridge event")),
            "__type" => Member::Other(Some("an error answer of the service")),
            "shards" | "streamArn" => Member::Other(Some("a GetStream answer")),
            _ => Member::Other(None),
        })
    }
}

/// `partitionKeys` or `clusteringKeys`: values by column name, without cells around them.
struct KeysSeed<'m, 's> {
    members: &'m mut Members<'s>,
    kind: ColumnKind,
}

impl<'de> DeserializeSeed<'de> for KeysSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeysSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("key values by column name")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { members, kind } = self;
        let mut next = 0;
        loop {
            let mut unknown = None;
            let seed = ColumnSeed { schema: members.schema, next, unknown: Some(&mut unknown) };
            let Some(column) = map.next_key_seed(seed)? else { return Ok(()) };
            match column.filter(|&index| members.schema.columns[index].kind == kind) {
                Some(index) => {
                    next = index + 1;
                    let start = members.data.len();
                    let cql_type = &members.schema.columns[index].cql_type;
                    let outcome = map.next_value_seed(ValueSeed { cql_type, out: &mut members.data })?;
                    let outcome = outcome.finished(cql_type, &mut members.data, start);
                    members.set(Image::Key, index, start, outcome);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                    let name = match column {
                        Some(index) => members.schema.columns[index].name.clone(),
                        None => unknown.unwrap_or_default(),
                    };
                    let role = if kind == ColumnKind::PartitionKey { "partition" } else { "clustering" };
                    let reason = format!(
                        "its {role} key has column {}, which is not in the {role} key of {}",
                        quote_identifier(&name),
                        members.schema.describe_key()
                    );
                    members.blame(FailureClass::BadKey, reason);
                }
            }
        }
    }
}

/// One image of a row; `null` is no image.
struct ImageSeed<'m, 's> {
    members: &'m mut Members<'s>,
    image: Image,
}

impl<'de> DeserializeSeed<'de> for ImageSeed<'_, '_> {
    type Value = Option<ImageFacts>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ImageSeed<'_, '_> {
    type Value = Option<ImageFacts>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row image")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { members, image } = self;
        let mut facts = ImageFacts::default();
        while let Some(part) = map.next_key_seed(ImagePartSeed)? {
            let kind = match part {
                ImagePart::ValueCells => ColumnKind::Regular,
                ImagePart::StaticCells => ColumnKind::Static,
                ImagePart::RowMetadata => {
                    facts.expires_at_ms = map.next_value_seed(MetadataSeed)?;
                    continue;
                }
                ImagePart::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(CellsSeed { members, image, kind })?;
        }
        Ok(Some(facts))
    }
}

enum ImagePart {
    ValueCells,
    StaticCells,
    RowMetadata,
    Other,
}

struct ImagePartSeed;

impl<'de> DeserializeSeed<'de> for ImagePartSeed {
    type Value = ImagePart;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ImagePart, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ImagePartSeed {
    type Value = ImagePart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a row image")
    }

    fn visit_str<E>(self, name: &str) -> Result<ImagePart, E> {
        Ok(match name {
            "valueCells" => ImagePart::ValueCells,
            "staticCells" => ImagePart::StaticCells,
            "rowMetadata" => ImagePart::RowMetadata,
            _ => ImagePart::Other,
        })
    }
}

/// Cells by column name. Those of other kinds are passed over: key columns come from the key maps.
struct CellsSeed<'m, 's> {
    members: &'m mut Members<'s>,
    image: Image,
    kind: ColumnKind,
}

impl<'de> DeserializeSeed<'de> for CellsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CellsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cells by column name")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { members, image, kind } = self;
        let mut next = 0;
        while let Some(column) =
            map.next_key_seed(ColumnSeed { schema: members.schema, next, unknown: None })?
        {
            let Some(index) = column.filter(|&index| members.schema.columns[index].kind == kind) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            next = index + 1;
            let start = members.data.len();
            let cql_type = &members.schema.columns[index].cql_type;
            let outcome = map.next_value_seed(CellSeed { cql_type, out: &mut members.data })?;
            let outcome = outcome
                .finished(cql_type, &mut members.data, start)
                .null_if_empty(cql_type, &members.data[start..]);
            members.set(image, index, start, outcome);
        }
        Ok(())
    }
}

/// A column by its name; tried first is the one after the last, since records keep an order.
struct ColumnSeed<'a> {
    schema: &'a TableSchema,
    next: usize,
    /// Gets the name that no column has, where the caller wants it.
    unknown: Option<&'a mut Option<String>>,
}

impl<'de> DeserializeSeed<'de> for ColumnSeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ColumnSeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a column's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let columns = &self.schema.columns;
        let next = self.next.min(columns.len());
        let found = (next..columns.len()).chain(0..next).find(|&index| columns[index].name == name);
        if let (None, Some(unknown)) = (found, self.unknown) {
            *unknown = Some(name.to_owned());
        }
        Ok(found)
    }
}
