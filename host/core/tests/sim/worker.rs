//! A worker on one shard as the host's is: read, plan, put, look again at what is not settled, checkpoint.

use std::collections::BTreeMap;
use std::time::Duration;

use keyvector_core::lease::Checkpoint;
use keyvector_core::lease::settle::Settling;

use crate::stream::{Key, Version};

pub(crate) struct Worker {
    /// Records of the shard that were read.
    pub(crate) position: usize,
    pub(crate) at: At,
    pub(crate) safe_until: Duration,
    pub(crate) settling: Settling<Key>,
    /// The last state of each row that was planned here.
    pub(crate) planned: BTreeMap<Key, Version>,
    pub(crate) finishing: bool,
    /// Steps that were scheduled for an earlier state are passed over.
    pub(crate) step: u64,
}

/// Where a worker is.
#[derive(Clone, Debug)]
pub(crate) enum At {
    /// About to read, or to look again at what was not settled.
    Reading,
    /// Waiting for a put of these to be answered; then the batch ends at `end`, or the look is over.
    Putting { rows: Vec<(Key, Version)>, keys: Vec<Key>, end: Option<usize>, unknown: bool },
    /// Waiting for the checkpoint to be durable.
    Checkpointing(Checkpoint),
}

pub(crate) fn position_of(checkpoint: &Checkpoint) -> usize {
    match checkpoint {
        Checkpoint::TrimHorizon => 0,
        Checkpoint::At(position) => position.parse().expect("a position of this stream"),
        Checkpoint::ShardEnd => usize::MAX,
    }
}
