//! From a batch that stopped the plugin to the rows that do it.
//!
//! A stop proves nothing about a row: a busy machine misses deadlines, and an honest plugin may leak until an
//! allocation fails. So the whole batch gets a second chance in a fresh instance with a longer deadline, and only what
//! fails there is halved, each part in a fresh instance, until single rows remain.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::guest::Stop;
use crate::limits::Limits;

/// How often the rows of an attempt have been tried, this time included. The first try is in the instance at hand within
/// the usual deadline, every later one in a fresh instance within the longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Try(pub(crate) u32);

impl Try {
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) fn is_first(self) -> bool {
        self == Self::FIRST
    }
}

/// Why a part has no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failed {
    /// The guest stopped on it.
    Stopped(Stop),
    /// There is no instance to try it in, or nobody left who wants the answer.
    Ended(Broken),
}

/// Nothing more can be had from this plugin under this configuration. It is no statement about any row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} is broken: {reason}")]
pub struct Broken {
    pub plugin: String,
    /// May hold what the plugin said, which may be row data.
    pub reason: String,
}

/// A batch whose rows can be tried apart.
pub(crate) trait Batch {
    /// Tries these rows together, and keeps their answers if there are any.
    fn attempt(&mut self, rows: Range<usize>, this: Try) -> Result<(), Failed>;

    /// Keeps that this row stopped the plugin alone.
    fn convict(&mut self, row: usize, stop: Stop, last: Try);

    /// What to say when `rows` rows failed in an unbroken run.
    fn broken(&self, rows: usize, last: &Stop) -> Broken;
}

/// How long an unbroken run of rows that stop the plugin may be: after that it is the plugin.
#[derive(Clone, Copy)]
pub(crate) struct RunMax {
    rows: usize,
    /// A plugin that loops on every row would else take minutes to be found out, since each row has its second chance.
    time: Duration,
}

impl RunMax {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { rows: limits.failed_run_max.max(1), time: limits.failed_run_time_max }
    }
}

/// Tries a batch of `rows` rows until every row has an answer or is convicted, from the first to the last.
pub(crate) fn isolate(batch: &mut impl Batch, rows: usize, run_max: RunMax) -> Result<(), Broken> {
    let settle = |result| match result {
        Ok(()) => Ok(None),
        Err(Failed::Stopped(stop)) => Ok(Some(stop)),
        Err(Failed::Ended(broken)) => Err(broken),
    };
    if settle(batch.attempt(0..rows, Try::FIRST))?.is_none() {
        return Ok(());
    }
    // Parts still to try, the leftmost on top, each with the number of its next try.
    let mut parts = vec![(0..rows, Try(2))];
    let mut failed_run = 0;
    let mut failing_since = Instant::now();
    while let Some((part, this)) = parts.pop() {
        match settle(batch.attempt(part.clone(), this))? {
            None => {
                failed_run = 0;
                failing_since = Instant::now();
            }
            Some(stop) if part.len() == 1 => {
                failed_run += 1;
                if failed_run >= run_max.rows || failing_since.elapsed() >= run_max.time {
                    return Err(batch.broken(failed_run, &stop));
                }
                batch.convict(part.start, stop, this);
            }
            Some(_) => {
                let middle = part.start + part.len() / 2;
                let next = Try(this.0 + 1);
                parts.push((middle..part.end, next));
                parts.push((part.start..middle, next));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use keyvector_core::document::FailureClass;
    use proptest::prelude::*;

    use super::*;

    /// Stops on any part that holds a bad row, and on its first try if `busy`.
    struct Fake {
        bad: BTreeSet<usize>,
        busy: bool,
        answered: Vec<usize>,
        convicted: Vec<(usize, u32)>,
        tries: usize,
    }

    impl Fake {
        fn new(bad: impl IntoIterator<Item = usize>, busy: bool) -> Self {
            Self { bad: bad.into_iter().collect(), busy, answered: vec![], convicted: vec![], tries: 0 }
        }
    }

    impl Batch for Fake {
        fn attempt(&mut self, rows: Range<usize>, this: Try) -> Result<(), Failed> {
            self.tries += 1;
            assert_eq!(this.is_first(), self.tries == 1);
            if (self.busy && this.is_first()) || self.bad.range(rows.clone()).next().is_some() {
                return Err(Failed::Stopped(Stop {
                    class: FailureClass::PluginTrapped,
                    reason: "no".into(),
                }));
            }
            self.answered.extend(rows);
            Ok(())
        }

        fn convict(&mut self, row: usize, _: Stop, last: Try) {
            self.convicted.push((row, last.0));
        }

        fn broken(&self, rows: usize, last: &Stop) -> Broken {
            Broken { plugin: "fake".into(), reason: format!("{rows} {}", last.reason) }
        }
    }

    fn at_most(rows: usize) -> RunMax {
        RunMax { rows, time: Duration::MAX }
    }

    #[test]
    fn a_run_that_takes_too_long_is_a_broken_plugin_too() {
        let run_max = RunMax { rows: 100, time: Duration::ZERO };
        let broken = isolate(&mut Fake::new(0..256, false), 256, run_max).unwrap_err();
        assert_eq!(broken.to_string(), "fake is broken: 1 no");
        isolate(&mut Fake::new([], true), 256, run_max).unwrap();
    }

    proptest! {
        #[test]
        fn every_row_is_answered_or_convicted_once_and_in_order(
            rows in 1_usize..300, bad in proptest::collection::btree_set(0_usize..300, 0..8), busy: bool,
        ) {
            let bad: BTreeSet<_> = bad.into_iter().filter(|&row| row < rows).collect();
            let mut fake = Fake::new(bad.clone(), busy);
            isolate(&mut fake, rows, at_most(usize::MAX)).unwrap();
            let good: Vec<_> = (0..rows).filter(|row| !bad.contains(row)).collect();
            prop_assert_eq!(&fake.answered, &good);
            let convicted: Vec<_> = fake.convicted.iter().map(|&(row, _)| row).collect();
            prop_assert_eq!(convicted, bad.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_busy_machine_convicts_nobody() {
        let mut fake = Fake::new([], true);
        isolate(&mut fake, 256, at_most(100)).unwrap();
        assert_eq!((fake.tries, fake.answered.len(), fake.convicted.len()), (2, 256, 0));
    }

    #[test]
    fn one_row_of_256_costs_two_tries_a_level() {
        let mut fake = Fake::new([137], false);
        isolate(&mut fake, 256, at_most(100)).unwrap();
        assert_eq!(fake.convicted, [(137, 10)]);
        assert_eq!(fake.tries, 2 + 2 * 8);
    }

    #[test]
    fn a_single_row_gets_its_second_chance_too() {
        let mut fake = Fake::new([0], false);
        isolate(&mut fake, 1, at_most(100)).unwrap();
        assert_eq!(fake.convicted, [(0, 2)]);
    }

    #[test]
    fn an_unbroken_run_of_failures_is_a_broken_plugin() {
        let broken = isolate(&mut Fake::new(0..256, false), 256, at_most(100)).unwrap_err();
        assert_eq!(broken.to_string(), "fake is broken: 100 no");
        // As many failures, but never in a run.
        let mut fake = Fake::new((0..256).step_by(2), false);
        isolate(&mut fake, 256, at_most(100)).unwrap();
        assert_eq!(fake.convicted.len(), 128);
    }
}
