//! Tells bad rows from a broken plugin or model: letters are held while rows fail in an unbroken run, or while most of
//! the latest rows fail; a long enough run halts the table, having dead-lettered nothing.

use std::collections::{BTreeMap, VecDeque};

/// How many of the latest rows are looked at together.
const WINDOW_ROWS: usize = 200;
/// The window says nothing until it holds this many different keys: one hot bad row is not a broken plugin.
const WINDOW_KEYS_MIN: usize = 50;

/// Watches one table's rows under one plugin and model.
#[derive(Debug)]
pub struct PoisonGuard {
    run_max: u32,
    /// Failures since the last success.
    run: u32,
    /// Failures whose letters are held.
    held: u32,
    window: VecDeque<(u64, bool)>,
    window_keys: BTreeMap<u64, u32>,
    window_failures: usize,
}

/// What may happen to the letters, and to the checkpoint behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Single bad rows: their letters may be written.
    Release,
    /// It may be the plugin: the `latest` letters wait, and with them the checkpoint. Earlier ones may be written.
    Hold { latest: u32 },
    /// It is the plugin: the table stops.
    Halt,
}

impl PoisonGuard {
    pub fn new(run_max: u32) -> Self {
        Self {
            run_max,
            run: 0,
            held: 0,
            window: VecDeque::with_capacity(WINDOW_ROWS),
            window_keys: BTreeMap::new(),
            window_failures: 0,
        }
    }

    /// Takes one row's outcome, in the shard's order. Rows that needed neither plugin nor model say nothing.
    pub fn saw(&mut self, key_hash: u64, failed: bool) {
        if self.window.len() == WINDOW_ROWS
            && let Some((oldest, oldest_failed)) = self.window.pop_front()
        {
            self.window_failures -= usize::from(oldest_failed);
            if let Some(count) = self.window_keys.get_mut(&oldest) {
                *count -= 1;
                if *count == 0 {
                    self.window_keys.remove(&oldest);
                }
            }
        }
        self.window.push_back((key_hash, failed));
        *self.window_keys.entry(key_hash).or_default() += 1;
        self.window_failures += usize::from(failed);
        if failed {
            self.run += 1;
            self.held += 1;
        } else {
            self.run = 0;
        }
    }

    pub fn verdict(&self) -> Verdict {
        let mostly_failing =
            self.window_keys.len() >= WINDOW_KEYS_MIN && self.window_failures * 2 > self.window.len();
        if self.run >= self.run_max || (mostly_failing && self.held >= self.run_max) {
            Verdict::Halt
        } else if mostly_failing {
            Verdict::Hold { latest: self.held }
        } else if self.run > 0 {
            Verdict::Hold { latest: self.run }
        } else {
            Verdict::Release
        }
    }

    /// The length of the unbroken run of failures.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// All letters but the `held` latest were written.
    pub fn released(&mut self, held: u32) {
        self.held = held;
    }

    /// A row known to be good still works under this plugin and model: what failed so far was the rows'.
    pub fn proved_sound(&mut self) {
        let run_max = self.run_max;
        *self = Self { held: self.held, ..Self::new(run_max) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: impl IntoIterator<Item = (u64, bool)>) -> PoisonGuard {
        let mut guard = PoisonGuard::new(50);
        outcomes.into_iter().for_each(|(key, failed)| guard.saw(key, failed));
        guard
    }

    #[test]
    fn one_bad_row_between_good_ones_is_released() {
        assert_eq!(after([(1, false), (2, true), (3, false)]).verdict(), Verdict::Release);
    }

    #[test]
    fn a_run_is_held_until_a_success_and_halts_at_its_limit() {
        let mut guard = after((0..49).map(|key| (key, true)));
        assert_eq!(guard.verdict(), Verdict::Hold { latest: 49 });
        guard.saw(100, false);
        assert_eq!(guard.verdict(), Verdict::Hold { latest: 49 }, "most of 50 different rows failed");
        assert_eq!(after((0..50).map(|key| (key, true))).verdict(), Verdict::Halt);
    }

    #[test]
    fn every_other_row_failing_is_held_only_above_half() {
        assert_eq!(after((0..200).map(|key| (key, key % 2 == 0))).verdict(), Verdict::Release);
        let two_of_three = after((0..60).map(|key| (key, key % 3 != 2)));
        assert_eq!(two_of_three.verdict(), Verdict::Hold { latest: 40 });
        assert_eq!(after((0..90).map(|key| (key, key % 3 != 2))).verdict(), Verdict::Halt);
    }

    #[test]
    fn one_hot_bad_row_is_no_broken_plugin() {
        let hot = after((0..400).map(|n| if n % 4 == 3 { (n % 40, false) } else { (7, true) }));
        assert_eq!(hot.verdict(), Verdict::Release);
    }

    #[test]
    fn a_proof_of_soundness_releases_a_run() {
        let mut guard = after([(0, true), (1, false), (2, true)]);
        assert_eq!(guard.verdict(), Verdict::Hold { latest: 1 });
        guard.proved_sound();
        assert_eq!(guard.verdict(), Verdict::Release);
    }
}
