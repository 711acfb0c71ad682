//! Writes that may yet be undone by a late one.
//!
//! A vector index takes no condition, so a write of a host that lost its lease, or one whose reply never came, can land
//! late. `settle` is the longest time that a write can be under way. Until then whatever was planned in its reach is not
//! final: it is looked at again afterwards, and no checkpoint passes it before. That holds for what needed no write, too:
//! the index may have been right only until the late write landed.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::Checkpoint;

/// The batches of one tenure that are done but not final.
#[derive(Clone, Debug)]
pub struct Settling<K> {
    settle: Duration,
    /// Until when writes of the owner before may land.
    reach: Duration,
    waiting: VecDeque<Waiting<K>>,
}

#[derive(Clone, Debug)]
struct Waiting<K> {
    due: Duration,
    checkpoint: Checkpoint,
    keys: BTreeSet<K>,
}

impl<K: Ord> Settling<K> {
    /// For a tenure that starts `now`; `unsettled`: after an owner who may have had writes under way.
    pub fn new(settle: Duration, now: Duration, unsettled: bool) -> Self {
        let reach = if unsettled { now + settle } else { Duration::ZERO };
        Self { settle, reach, waiting: VecDeque::new() }
    }

    /// Whether nothing is waiting.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A batch is done up to `checkpoint`: `keys` are all rows that were planned in it, `unknown` says whether the reply
    /// to a write never came. Gives the checkpoint back if it is final.
    pub fn done(
        &mut self,
        now: Duration,
        checkpoint: Checkpoint,
        keys: impl IntoIterator<Item = K>,
        unknown: bool,
    ) -> Option<Checkpoint> {
        let due = [(unknown, now + self.settle), (now < self.reach, self.reach)];
        let due = due.into_iter().filter(|(waits, _)| *waits).map(|(_, due)| due).max();
        match due {
            None if self.waiting.is_empty() => return Some(checkpoint),
            None => self.waiting.push_back(Waiting { due: now, checkpoint, keys: BTreeSet::new() }),
            Some(due) => {
                self.waiting.push_back(Waiting { due, checkpoint, keys: keys.into_iter().collect() })
            }
        }
        None
    }

    /// When [`Settling::due`] has something.
    pub fn next_due(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.due)
    }

    /// The rows that are to be looked at again now, oldest batch first.
    pub fn due(&self, now: Duration) -> Option<&BTreeSet<K>> {
        self.waiting.front().filter(|waiting| waiting.due <= now).map(|waiting| &waiting.keys)
    }

    /// The rows of [`Settling::due`] are right now. `unknown`: one was written again, and the reply never came. Gives the
    /// checkpoint that is final by this.
    pub fn looked_at(&mut self, now: Duration, unknown: bool) -> Option<Checkpoint> {
        if unknown {
            if let Some(front) = self.waiting.front_mut() {
                front.due = now + self.settle;
            }
            return None;
        }
        let mut checkpoint = self.waiting.pop_front()?.checkpoint;
        while let Some(next) = self.waiting.pop_front_if(|next| next.keys.is_empty()) {
            checkpoint = next.checkpoint;
        }
        Some(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(60);

    fn at(position: u32) -> Checkpoint {
        Checkpoint::At(position.to_string())
    }

    #[test]
    fn nothing_waits_after_a_clean_start() {
        let mut settling = Settling::new(SETTLE, Duration::ZERO, false);
        assert_eq!(settling.done(Duration::ZERO, at(1), ["a"], false), Some(at(1)));
        assert!(settling.is_settled());
    }

    #[test]
    fn batches_in_the_reach_of_the_owner_before_wait_for_its_end() {
        let second = Duration::from_secs;
        let mut settling = Settling::new(SETTLE, second(10), true);
        assert_eq!(settling.done(second(11), at(1), ["a"], false), None);
        assert_eq!(settling.done(second(69), at(2), ["b"], false), None);
        assert_eq!(settling.done(second(75), at(3), ["c"], false), None, "none passes those before");
        assert_eq!(settling.due(second(69)), None);
        assert_eq!(settling.due(second(70)), Some(&BTreeSet::from(["a"])));
        assert_eq!(settling.looked_at(second(75), false), Some(at(1)));
        assert_eq!(settling.looked_at(second(75), false), Some(at(3)), "c was out of reach");
        assert!(settling.is_settled());
    }

    #[test]
    fn an_unknown_outcome_waits_its_own_time_again_and_again() {
        let second = Duration::from_secs;
        let mut settling = Settling::new(SETTLE, Duration::ZERO, false);
        assert_eq!(settling.done(second(5), at(1), ["a"], true), None);
        assert_eq!(settling.next_due(), Some(second(65)));
        assert_eq!(settling.looked_at(second(65), true), None);
        assert_eq!(settling.next_due(), Some(second(125)));
        assert_eq!(settling.looked_at(second(125), false), Some(at(1)));
    }
}
