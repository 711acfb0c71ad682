//! What a table's workers did so far, for progress bars, the closing line and tests.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keyvector_core::letter::Letter;
use keyvector_sandbox::{RestartReason, Stats};

use crate::source::file::Progress;

/// Counts up only, from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    records: AtomicU64,
    embedded: AtomicU64,
    metadata_only: AtomicU64,
    deleted: AtomicU64,
    nothing: AtomicU64,
    blank: AtomicU64,
    dead_letters: AtomicU64,
    partitions: AtomicU64,
    too_long: AtomicU64,
    waiting: AtomicBool,
    tip: AtomicBool,
    rerendering: Mutex<Option<(u64, u64)>>,
    reading: Mutex<Option<Arc<Progress>>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Records whose batch is done.
    pub records: u64,
    /// Rows embedded and put.
    pub embedded: u64,
    /// Rows put with the vector that was stored.
    pub metadata_only: u64,
    /// Rows whose vector was deleted.
    pub deleted: u64,
    /// Rows that needed nothing.
    pub nothing: u64,
    /// Rows without a vector because their text is blank; they are among the deleted or the nothing.
    pub blank: u64,
    pub dead_letters: u64,
    /// Records that name a partition, but no row.
    pub partitions: u64,
    /// Records of rows whose key no index can hold.
    pub too_long: u64,
    /// A row that cannot be indexed holds its shard, since there is no queue for dead letters.
    pub waiting: bool,
    pub reached_tip: bool,
    /// While the whole table is rendered again: rows done, and all of them.
    pub rerendering: Option<(u64, u64)>,
}

impl Counters {
    pub fn read(&self) -> Counted {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            records: of(&self.records),
            embedded: of(&self.embedded),
            metadata_only: of(&self.metadata_only),
            deleted: of(&self.deleted),
            nothing: of(&self.nothing),
            blank: of(&self.blank),
            dead_letters: of(&self.dead_letters),
            partitions: of(&self.partitions),
            too_long: of(&self.too_long),
            waiting: self.waiting.load(Ordering::Relaxed),
            reached_tip: self.tip.load(Ordering::Relaxed),
            rerendering: *self.rerendering.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }

    /// How far the source is read, once it is.
    pub fn source(&self) -> Option<Arc<Progress>> {
        self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn rerendering(&self, rows: Option<(u64, u64)>) {
        *self.rerendering.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = rows;
    }

    pub(crate) fn reading(&self, progress: Arc<Progress>) {
        *self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(progress);
    }

    pub(crate) fn records(&self, count: usize) {
        add(&self.records, count);
    }

    pub(crate) fn embedded(&self) {
        add(&self.embedded, 1);
    }

    pub(crate) fn metadata_only(&self) {
        add(&self.metadata_only, 1);
    }

    pub(crate) fn deleted(&self, blank: bool) {
        add(&self.deleted, 1);
        add(&self.blank, usize::from(blank));
    }

    pub(crate) fn nothing(&self, blank: bool) {
        add(&self.nothing, 1);
        add(&self.blank, usize::from(blank));
    }

    pub(crate) fn dead_letters(&self, letters: &[Letter]) {
        add(&self.dead_letters, letters.len());
    }

    pub(crate) fn partitions(&self, count: usize) {
        add(&self.partitions, count);
    }

    pub(crate) fn too_long(&self, count: usize) {
        add(&self.too_long, count);
    }

    pub(crate) fn waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub(crate) fn reached_tip(&self) {
        self.tip.store(true, Ordering::Relaxed);
    }
}

/// Instances of plugins that were replaced, by reason, over all plugins that a host has had for a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restarts([u64; RestartReason::ALL.len()]);

impl Restarts {
    pub fn add(&mut self, stats: &Stats) {
        for (count, reason) in self.0.iter_mut().zip(RestartReason::ALL) {
            *count += stats.restarts(reason);
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = RestartReason::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        for (position, (reason, count)) in counts.enumerate() {
            let between = if position == 0 { "" } else { " · " };
            write!(f, "{between}{} {count}", reason.as_str())?;
        }
        Ok(())
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
