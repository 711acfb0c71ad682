//! Where changes come from: the records of one shard, in order.

use async_trait::async_trait;
use keyvector_core::change::SequenceNumber;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::record::{BadRecord, Record};

pub mod file;

/// One shard's reader. It stands at a position, and moves forward only.
#[async_trait]
pub trait ShardReader: Send {
    /// The next records, at most `records_max`; waits at most about a second for the first one.
    ///
    /// # Cancel safety
    /// A call that is dropped has moved nothing: the next one gives the same records.
    async fn next(&mut self, records_max: usize) -> port::Result<Batch>;
}

/// Records of one shard, in order.
#[derive(Debug)]
pub struct Batch {
    pub records: Vec<SourceRecord>,
    /// Where the shard stands after these records; what a checkpoint after them says.
    pub position: Checkpoint,
    /// Nothing more was there when this batch was read.
    pub at_tip: bool,
    /// Data between the last position and this batch is lost for ever, and why (trimmed, rotated away).
    pub gap: Option<String>,
}

/// One record, read or not.
#[derive(Debug)]
pub struct SourceRecord {
    pub sequence_number: SequenceNumber,
    /// The line in a file, from 1.
    pub line: Option<u64>,
    /// The record as it came, for the dead letter of a row that no table can give back.
    pub raw: Vec<u8>,
    pub parsed: Result<Record, BadRecord>,
}
