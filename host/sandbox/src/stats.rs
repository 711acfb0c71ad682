//! What an open plugin has done so far.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use keyvector_core::document::FailureClass;

/// Why an instance was replaced. The text of each is the metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartReason {
    Trap,
    Deadline,
    /// An allocation was refused.
    Memory,
    /// The answer broke the contract.
    Output,
    /// Between batches, since memory had passed three quarters of the limit.
    MemoryHigh,
}

impl RestartReason {
    pub const ALL: [Self; 5] = [Self::Trap, Self::Deadline, Self::Memory, Self::Output, Self::MemoryHigh];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::MemoryHigh => "memory-high",
        }
    }

    pub(crate) fn of(class: FailureClass) -> Self {
        match class {
            FailureClass::PluginDeadline => Self::Deadline,
            FailureClass::PluginMemory => Self::Memory,
            FailureClass::PluginOutput => Self::Output,
            _ => Self::Trap,
        }
    }
}

/// Counters of one open plugin, all of its threads together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls from the host, however often they were tried again.
    pub batches: u64,
    pub rows: u64,
    /// Instances replaced, in the order of [`RestartReason::ALL`]; see [`Stats::restarts`].
    restarts: [u64; RestartReason::ALL.len()],
    /// Batches rendered a second time in a fresh instance, for comparison,
    pub determinism_checks: u64,
    /// and how many of them came out differently.
    pub determinism_differences: u64,
    /// Time inside guests.
    pub guest_time: Duration,
    /// The most memory that one instance has taken, in bytes.
    pub memory_bytes_peak: usize,
}

impl Stats {
    /// How many instances were replaced for `reason`.
    pub fn restarts(&self, reason: RestartReason) -> u64 {
        self.restarts[reason as usize]
    }

    /// How many instances were replaced.
    pub fn restarts_total(&self) -> u64 {
        self.restarts.iter().sum()
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    batches: AtomicU64,
    rows: AtomicU64,
    restarts: [AtomicU64; RestartReason::ALL.len()],
    determinism_checks: AtomicU64,
    determinism_differences: AtomicU64,
    guest_nanos: AtomicU64,
    memory_bytes_peak: AtomicUsize,
}

impl Counters {
    /// Counts a batch and gives its number, from 1.
    pub(crate) fn begin_batch(&self, rows: usize) -> u64 {
        self.rows.fetch_add(rows as u64, Relaxed);
        self.batches.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn restart(&self, reason: RestartReason) {
        self.restarts[reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn determinism_check(&self, same: bool) {
        self.determinism_checks.fetch_add(1, Relaxed);
        self.determinism_differences.fetch_add(u64::from(!same), Relaxed);
    }

    pub(crate) fn call(&self, time: Duration, memory_bytes: usize) {
        self.guest_nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.memory_bytes_peak.fetch_max(memory_bytes, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            batches: self.batches.load(Relaxed),
            rows: self.rows.load(Relaxed),
            restarts: std::array::from_fn(|reason| self.restarts[reason].load(Relaxed)),
            determinism_checks: self.determinism_checks.load(Relaxed),
            determinism_differences: self.determinism_differences.load(Relaxed),
            guest_time: Duration::from_nanos(self.guest_nanos.load(Relaxed)),
            memory_bytes_peak: self.memory_bytes_peak.load(Relaxed),
        }
    }
}
