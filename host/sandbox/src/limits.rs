//! What a guest may use. Every bound is configuration; these are the defaults.

use std::time::Duration;

/// Bounds on every entry into a guest, instantiation included.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Memory and tables of one instance, in bytes.
    pub memory_bytes: usize,
    /// The same where the component imports WASI or is larger than [`Limits::large_component_bytes`]: language
    /// runtimes need it.
    pub memory_bytes_large: usize,
    /// Components above this size get [`Limits::memory_bytes_large`].
    pub large_component_bytes: usize,
    /// Time for any call, before the time for its rows.
    pub deadline: Duration,
    /// Further time for each row or text of a call.
    pub deadline_per_row: Duration,
    /// After a trap the deadline is this many times longer: a busy machine invents no poison.
    pub second_chance_factor: u32,
    /// A call's answer may hold this many bytes for each byte that it was given,
    pub output_factor: usize,
    /// and this many more for each row.
    pub output_bytes_per_row: usize,
    /// A plugin file above this size is refused.
    pub component_bytes_max: usize,
    /// Every how many batches one is rendered again, in halves and in fresh instances, and compared. 0: never.
    pub determinism_every: u64,
    /// When this many rows of one batch have failed in an unbroken run, the plugin counts as broken and the batch has no
    /// result. Twice the line's `poison_run_max`, since a changed row may come as two images.
    pub failed_run_max: usize,
    /// The same when an unbroken run has taken this long, whatever its rows: more time than a few rows that loop need,
    /// each with its second chance.
    pub failed_run_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memory_bytes_large: 128 << 20,
            large_component_bytes: 4 << 20,
            deadline: Duration::from_millis(250),
            deadline_per_row: Duration::from_millis(5),
            second_chance_factor: 10,
            output_factor: 8,
            output_bytes_per_row: 64 << 10,
            component_bytes_max: 128 << 20,
            determinism_every: 1000,
            failed_run_max: 100,
            failed_run_time_max: Duration::from_secs(120),
        }
    }
}

impl Limits {
    /// The most that a call over `rows` rows and `input_bytes` may answer.
    pub(crate) fn output_bytes(&self, rows: usize, input_bytes: usize) -> usize {
        let for_input = self.output_factor.saturating_mul(input_bytes);
        for_input.saturating_add(self.output_bytes_per_row.saturating_mul(rows.max(1)))
    }

    /// The time that a call over `rows` rows may take, `patience` times as long as usual.
    pub(crate) fn deadline(&self, rows: usize, patience: u32) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        (self.deadline + self.deadline_per_row.saturating_mul(rows)).saturating_mul(patience)
    }
}
