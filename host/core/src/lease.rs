//! Leases: who may read a shard, and how far its changes are in the index.
//!
//! [`LeaseWrite`] is the whole contract of a lease table: seven conditional writes of one row. [`LeaseMachine`] decides
//! which of them this host makes, and which shards it works on.
//!
//! [`LeaseMachine`]: machine::LeaseMachine

use std::fmt;
use std::time::Duration;

pub mod balance;
pub mod lineage;
pub mod machine;
pub mod settle;

/// A shard's position, durable in its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// Nothing read yet: start at the oldest record there is.
    TrimHorizon,
    /// Everything up to and including this position is in the index. The text belongs to the source.
    At(String),
    /// The shard is closed and everything in it is in the index.
    ShardEnd,
}

impl Checkpoint {
    /// The durable text, with the Kinesis Client Library's sentinels.
    pub fn as_str(&self) -> &str {
        match self {
            Self::TrimHorizon => "TRIM_HORIZON",
            Self::At(position) => position,
            Self::ShardEnd => "SHARD_END",
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "TRIM_HORIZON" => Self::TrimHorizon,
            "SHARD_END" => Self::ShardEnd,
            position => Self::At(position.to_owned()),
        }
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row of the lease table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The shard's id.
    pub lease_key: String,
    pub lease_owner: Option<String>,
    /// The compare-and-swap token: every write but [`LeaseWrite::Want`] raises it.
    pub lease_counter: u64,
    /// The counter that the owner's take wrote: with the owner it names the tenure. `None` while nobody has taken it, as
    /// after it was handed over.
    pub taken_at: Option<u64>,
    pub checkpoint: Checkpoint,
    pub parent_shard_ids: Vec<String>,
    /// A host with fewer leases that asks the owner for this one.
    pub wanted_by: Option<String>,
    /// Records created before this time, in ms since 1970, are passed over: `LATEST` at the moment of creation.
    pub skip_before_ms: Option<i64>,
    /// The last owner left with writes under way whose outcome it did not know: they may land yet, and the next owner
    /// looks at what it writes again, as after an expired lease. A take leaves it, since its reply may be lost.
    pub unsettled: bool,
    /// When the owner last was at the shard's tip, in ms since 1970; written at most hourly.
    pub tip_at_ms: Option<i64>,
}

impl Lease {
    /// A row as it is created: nobody's.
    pub fn new(lease_key: &str, parent_shard_ids: &[String], checkpoint: Checkpoint) -> Self {
        Self {
            lease_key: lease_key.to_owned(),
            lease_owner: None,
            lease_counter: 0,
            taken_at: None,
            checkpoint,
            parent_shard_ids: parent_shard_ids.to_vec(),
            wanted_by: None,
            skip_before_ms: None,
            unsettled: false,
            tip_at_ms: None,
        }
    }

    /// Whether this tenure goes on.
    pub fn holds(&self, tenure: &Tenure) -> bool {
        self.taken_at == Some(tenure.taken_at) && self.lease_owner.as_ref() == Some(&tenure.lease_owner)
    }

    /// Whether nothing is left to do in the shard.
    pub fn is_finished(&self) -> bool {
        self.checkpoint == Checkpoint::ShardEnd
    }
}

/// One ownership of one lease: from a take until it is released, handed over or taken away. Every write for a shard
/// carries its tenure, so that a host which lost the lease without noticing changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure {
    pub lease_key: String,
    pub lease_owner: String,
    /// The counter that the take wrote.
    pub taken_at: u64,
}

/// Whether a write went through. Losing a lease is an outcome, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fenced {
    Written,
    /// The tenure is over: nothing was written, and nothing more may be.
    Lost,
}

/// A conditional write of one row: all of it happens, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseWrite {
    /// Makes a row; refused where there is one.
    Create(Lease),
    /// Takes a lease whose owner and counter are still the same.
    Take { lease_key: String, seen_owner: Option<String>, seen_counter: u64, by: String },
    /// Keeps the lease, with whatever is new in the same write. `decline` takes away what a host asked for.
    Renew {
        tenure: Tenure,
        counter: u64,
        checkpoint: Option<Checkpoint>,
        tip_at_ms: Option<i64>,
        decline: bool,
    },
    /// Ends the tenure, with a last checkpoint. `to`: the next owner; `None`: whoever is first.
    GiveUp {
        tenure: Tenure,
        counter: u64,
        checkpoint: Option<Checkpoint>,
        to: Option<String>,
        unsettled: bool,
    },
    /// Asks the owner for a lease that nobody has asked for. The counter stays, so that the owner's renewal holds.
    Want { lease_key: String, seen_owner: String, by: String },
    /// Takes a finished shard's row away.
    Remove { lease_key: String, counter: u64 },
    /// Sets a row's checkpoint by an operator's hand. Whoever owned it has lost it and may not know yet, so that it has
    /// to expire.
    Reset { lease_key: String, seen_counter: u64, checkpoint: Checkpoint },
}

impl LeaseWrite {
    pub fn lease_key(&self) -> &str {
        match self {
            Self::Create(lease) => &lease.lease_key,
            Self::Renew { tenure, .. } | Self::GiveUp { tenure, .. } => &tenure.lease_key,
            Self::Take { lease_key, .. }
            | Self::Want { lease_key, .. }
            | Self::Remove { lease_key, .. }
            | Self::Reset { lease_key, .. } => lease_key,
        }
    }

    /// What this write makes of a row: the meaning that every lease table has to give it. `None`: the condition does not
    /// hold, and the row stays.
    pub fn apply(&self, row: Option<&Lease>) -> Option<Applied> {
        if let Self::Create(lease) = self {
            return row.is_none().then(|| Applied::Row(lease.clone()));
        }
        let mut row = row?.clone();
        let raised = row.lease_counter.checked_add(1).filter(|&raised| raised <= COUNTER_MAX)?;
        match self {
            Self::Create(_) => unreachable!("handled above"),
            Self::Take { seen_owner, seen_counter, by, .. } => {
                if row.lease_owner != *seen_owner || row.lease_counter != *seen_counter {
                    return None;
                }
                row.lease_owner = Some(by.clone());
                row.taken_at = Some(raised);
                row.wanted_by = None;
            }
            Self::Renew { tenure, counter, checkpoint, tip_at_ms, decline } => {
                if !row.holds(tenure) || row.lease_counter != *counter {
                    return None;
                }
                if let Some(checkpoint) = checkpoint {
                    row.checkpoint = checkpoint.clone();
                }
                row.tip_at_ms = tip_at_ms.or(row.tip_at_ms);
                if *decline {
                    row.wanted_by = None;
                }
            }
            Self::GiveUp { tenure, counter, checkpoint, to, unsettled } => {
                if !row.holds(tenure) || row.lease_counter != *counter {
                    return None;
                }
                if let Some(checkpoint) = checkpoint {
                    row.checkpoint = checkpoint.clone();
                }
                row.lease_owner = to.clone();
                row.taken_at = None;
                row.wanted_by = None;
                row.unsettled = *unsettled;
            }
            Self::Want { seen_owner, by, .. } => {
                if row.lease_owner.as_ref() != Some(seen_owner) || row.wanted_by.is_some() {
                    return None;
                }
                row.wanted_by = Some(by.clone());
                return Some(Applied::Row(row));
            }
            Self::Remove { counter, .. } => {
                return (row.lease_counter == *counter && row.is_finished()).then_some(Applied::Removed);
            }
            Self::Reset { seen_counter, checkpoint, .. } => {
                if row.lease_counter != *seen_counter {
                    return None;
                }
                row.lease_owner = row.lease_owner.map(|_| lineage::FORMER_OWNER.to_owned());
                row.taken_at = None;
                row.wanted_by = None;
                row.checkpoint = checkpoint.clone();
            }
        }
        row.lease_counter = raised;
        Some(Applied::Row(row))
    }
}

/// The highest counter that every lease table can keep.
const COUNTER_MAX: u64 = i64::MAX as u64;

/// What a [`LeaseWrite`] left.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// The row as it is now.
    Row(Lease),
    Removed,
}

/// Judges expiry of one lease by the observer's own monotonic clock: a counter that stood still for the fail-over
/// time. No two machines' clocks are ever compared.
#[derive(Clone, Debug)]
pub struct ExpiryObserver {
    seen: Option<(Option<String>, u64)>,
    since: Duration,
}

impl ExpiryObserver {
    pub fn new() -> Self {
        Self { seen: None, since: Duration::ZERO }
    }

    /// Takes a fresh read of the lease at `now` (monotonic, from any fixed start) and says whether it may be taken:
    /// unowned at once, owned once owner and counter have stood still for `failover`.
    pub fn may_take(&mut self, lease: &Lease, now: Duration, failover: Duration) -> bool {
        if lease.lease_owner.is_none() {
            return true;
        }
        let state = (lease.lease_owner.clone(), lease.lease_counter);
        if self.seen.as_ref() != Some(&state) {
            self.seen = Some(state);
            self.since = now;
            return false;
        }
        now.saturating_sub(self.since) >= failover
    }
}

impl Default for ExpiryObserver {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: Option<&str>, counter: u64) -> Lease {
        Lease {
            lease_owner: owner.map(str::to_owned),
            lease_counter: counter,
            taken_at: owner.map(|_| 5),
            ..Lease::new("s", &[], Checkpoint::TrimHorizon)
        }
    }

    fn applied(write: &LeaseWrite, row: &Lease) -> Option<Lease> {
        match write.apply(Some(row))? {
            Applied::Row(row) => Some(row),
            Applied::Removed => panic!("removed"),
        }
    }

    #[test]
    fn wanting_leaves_the_counter_and_declining_clears_it() {
        let want = LeaseWrite::Want { lease_key: "s".into(), seen_owner: "a".into(), by: "b".into() };
        let wanted = applied(&want, &row(Some("a"), 7)).unwrap();
        assert_eq!((wanted.lease_counter, wanted.wanted_by.as_deref()), (7, Some("b")));
        assert_eq!(want.apply(Some(&wanted)), None, "nobody is asked twice");
        assert_eq!(want.apply(Some(&row(None, 7))), None);
        let tenure = Tenure { lease_key: "s".into(), lease_owner: "a".into(), taken_at: 5 };
        let renew = |decline| LeaseWrite::Renew {
            tenure: tenure.clone(),
            counter: 7,
            checkpoint: None,
            tip_at_ms: None,
            decline,
        };
        assert_eq!(applied(&renew(false), &wanted).unwrap().wanted_by.as_deref(), Some("b"));
        assert_eq!(applied(&renew(true), &wanted).unwrap().wanted_by, None);
    }

    #[test]
    fn an_older_tenure_of_the_same_owner_writes_nothing() {
        let tenure = Tenure { lease_key: "s".into(), lease_owner: "a".into(), taken_at: 9 };
        let give_up = LeaseWrite::GiveUp { tenure, counter: 8, checkpoint: None, to: None, unsettled: false };
        assert_eq!(give_up.apply(Some(&row(Some("a"), 8))), None);
    }

    /// A take whose reply is lost is made again by the same host, which would otherwise believe that nothing is under way.
    #[test]
    fn what_is_unsettled_stays_so_until_an_owner_leaves_it_settled() {
        let take = |row: &Lease| {
            let (lease_key, seen_owner, seen_counter) =
                ("s".into(), row.lease_owner.clone(), row.lease_counter);
            applied(&LeaseWrite::Take { lease_key, seen_owner, seen_counter, by: "a".into() }, row).unwrap()
        };
        let taken = take(&take(&Lease { unsettled: true, ..row(None, 7) }));
        assert!(taken.unsettled);
        let tenure = Tenure { lease_key: "s".into(), lease_owner: "a".into(), taken_at: 9 };
        let give_up = LeaseWrite::GiveUp {
            tenure,
            counter: 9,
            checkpoint: None,
            to: Some("b".into()),
            unsettled: false,
        };
        let handed = applied(&give_up, &taken).unwrap();
        assert_eq!(
            (handed.lease_owner.as_deref(), handed.taken_at, handed.unsettled),
            (Some("b"), None, false)
        );
    }

    #[test]
    fn only_finished_rows_are_removed() {
        let remove = LeaseWrite::Remove { lease_key: "s".into(), counter: 3 };
        assert_eq!(remove.apply(Some(&row(None, 3))), None);
        let finished = Lease { checkpoint: Checkpoint::ShardEnd, ..row(None, 3) };
        assert_eq!(remove.apply(Some(&finished)), Some(Applied::Removed));
    }
}
