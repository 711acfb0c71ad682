//! Leases: who may read a shard, and how far its changes are in the index.

use std::fmt;
use std::time::Duration;

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
    /// The compare-and-swap token: every write of the row raises it.
    pub lease_counter: u64,
    pub checkpoint: Checkpoint,
    pub parent_shard_ids: Vec<String>,
}

/// One ownership of one lease: from a take until it is released, handed over or taken away. Every write for a shard
/// carries its tenure, so that a host which lost the lease without noticing changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    fn lease(owner: Option<&str>, counter: u64) -> Lease {
        Lease {
            lease_key: "s".into(),
            lease_owner: owner.map(str::to_owned),
            lease_counter: counter,
            checkpoint: Checkpoint::TrimHorizon,
            parent_shard_ids: vec![],
        }
    }

    #[test]
    fn a_free_lease_may_be_taken_at_once() {
        assert!(ExpiryObserver::new().may_take(&lease(None, 7), Duration::ZERO, Duration::from_secs(10)));
    }

    #[test]
    fn an_owned_lease_expires_only_while_its_counter_stands_still() {
        let failover = Duration::from_secs(10);
        let mut observer = ExpiryObserver::new();
        let at = Duration::from_secs;
        assert!(!observer.may_take(&lease(Some("a"), 1), at(100), failover));
        assert!(!observer.may_take(&lease(Some("a"), 1), at(109), failover));
        assert!(
            !observer.may_take(&lease(Some("a"), 2), at(110), failover),
            "renewed: the clock starts again"
        );
        assert!(!observer.may_take(&lease(Some("a"), 2), at(119), failover));
        assert!(observer.may_take(&lease(Some("a"), 2), at(120), failover));
    }
}
