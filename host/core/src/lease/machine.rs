//! Which shards this host works on. A pure state machine: events and the time go in, commands come out.
//!
//! Time is the host's own monotonic clock, from any fixed start; no two hosts' clocks are ever compared. Every command
//! that asks for something is answered by exactly one event, a failure included.
//!
//! A lease that this host holds is in one of these phases:
//!
//! ```text
//! Take ─ written ─▶ Working ─ another host wants it, shutdown ─▶ Finishing ─ worker stopped ─▶ GivingUp ─ written ─▶ gone
//!                      ├─ worker drained a closed shard ─▶ Ending ─ children have leases ─────────┘ (with SHARD_END)
//!                      └─ write refused, or none succeeded in time ─▶ Lost ─ worker stopped ─▶ gone
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::lineage::{Listing, StartAt};
use super::{Applied, Checkpoint, Lease, LeaseWrite, Tenure};

mod holding;
mod seen;
mod take;
mod workers;
mod written;

use holding::Holding;

/// Times and bounds of one host.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// A lease may be taken once its counter has stood still this long.
    pub failover: Duration,
    /// A held lease is renewed this often.
    pub renew_every: Duration,
    /// The owner stops writing this long before anybody may take the lease. It covers the longest time that a write to
    /// the index takes.
    pub margin: Duration,
    /// How long a worker may finish its batch before a lease is handed over.
    pub finish_within: Duration,
    /// The stream's shards are listed this often, and whenever one ends.
    pub list_every: Duration,
    /// Leases that this host asks other hosts for after one scan.
    pub wants_max: usize,
    /// Takes under way at once.
    pub takes_max: usize,
    pub start: StartAt,
}

impl LeaseConfig {
    /// The defaults under a fail-over time.
    pub fn new(failover: Duration, start: StartAt) -> Self {
        Self {
            failover,
            renew_every: failover / 3,
            margin: failover / 4,
            finish_within: Duration::from_secs(30),
            list_every: Duration::from_secs(60),
            wants_max: 16,
            takes_max: 64,
            start,
        }
    }

    /// Up to this many leases a scan is cheap, and a lease that was given up is taken within a second.
    const FEW_LEASES: usize = 100;

    /// How often the lease table is scanned. A dead host's lease is unread for one fail-over time and two scans.
    pub fn scan_every(&self, leases: usize) -> Duration {
        if leases <= Self::FEW_LEASES {
            (self.failover / 4).min(Duration::from_millis(600))
        } else {
            self.failover * 2 / 5
        }
    }

    fn retry_after(&self) -> Duration {
        (self.failover / 20).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

/// Names a write until it is answered.
pub type WriteId = u64;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// All rows of the lease table; `sent`: when the scan began.
    Scanned {
        leases: Vec<Lease>,
        sent: Duration,
    },
    ScanFailed,
    /// All shards of the stream.
    Listed(Listing),
    ListFailed,
    /// The write is known to have happened, or (`None`) to have been refused by its condition.
    Written {
        id: WriteId,
        applied: Option<Applied>,
    },
    /// The write failed, and may have happened or happen yet.
    WriteUnknown {
        id: WriteId,
    },
    /// A row as it is now, read after the write of this id.
    ReadBack {
        id: WriteId,
        row: Option<Lease>,
    },
    ReadBackFailed {
        id: WriteId,
    },
    /// A worker's batch is in the index. `tip_at_ms`: now, in ms since 1970, where the shard's tip was reached.
    Checkpoint {
        tenure: Tenure,
        checkpoint: Checkpoint,
        tip_at_ms: Option<i64>,
    },
    /// A worker has done all of a closed shard, and has ended.
    Drained {
        tenure: Tenure,
    },
    /// A worker has ended. `unsettled`: writes of it may land yet.
    Stopped {
        tenure: Tenure,
        unsettled: bool,
    },
    /// Give up all leases.
    Shutdown,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Scan,
    List,
    Write {
        id: WriteId,
        write: LeaseWrite,
    },
    /// Read the row with certainty: what became of the write of this id?
    ReadBack {
        id: WriteId,
        lease_key: String,
    },
    /// Start a worker. `unsettled`: the owner before may still have writes under way, so what is planned now has to be
    /// looked at again once they must have landed.
    Start {
        tenure: Tenure,
        checkpoint: Checkpoint,
        skip_before_ms: Option<i64>,
        unsettled: bool,
    },
    /// Until then, and no longer, may the worker write to the index.
    SafeUntil {
        tenure: Tenure,
        until: Duration,
    },
    /// The checkpoint is durable.
    Checkpointed {
        tenure: Tenure,
        checkpoint: Checkpoint,
    },
    /// The worker may finish its batch and checkpoint it, then it has to end.
    Finish {
        tenure: Tenure,
    },
    /// The worker has to leave off where it is.
    LeaveOff {
        tenure: Tenure,
    },
}

#[derive(Debug)]
enum Write {
    Held {
        lease_key: String,
    },
    Take {
        lease_key: String,
        sent: Duration,
        unsettled: bool,
    },
    Create {
        lease_key: String,
    },
    /// Its outcome is seen at the next scan.
    Other,
}

/// A lease that was seen to stand still.
#[derive(Debug)]
struct Stood {
    owner: Option<String>,
    counter: u64,
    since: Duration,
}

/// Something that is done again and again, one at a time.
#[derive(Debug)]
struct Round {
    due: Duration,
    under_way: bool,
}

/// The leases of one stream and index, as one host works on them.
#[derive(Debug)]
pub struct LeaseMachine {
    host: String,
    config: LeaseConfig,
    /// State of a small generator (SplitMix64) for jitter.
    random: u64,
    /// The table as last scanned, with this host's own writes since.
    table: BTreeMap<String, Lease>,
    scanned: Option<Duration>,
    stood: BTreeMap<String, Stood>,
    /// Whether leases were seen that somebody has worked on.
    followed: bool,
    listing: Option<Listing>,
    /// Finished leases whose shard has left the stream, with the number of listings that lacked it.
    unlisted: BTreeMap<String, u32>,
    held: BTreeMap<String, Holding>,
    writes: BTreeMap<WriteId, Write>,
    next_id: WriteId,
    taking: BTreeSet<String>,
    /// Leases that are being made, or were a moment ago: a scan may not show them yet.
    creating: BTreeMap<String, Option<Duration>>,
    /// Leases that may be taken, best first, as of the last scan.
    free: VecDeque<Free>,
    share_max: usize,
    /// Leases that other hosts were asked for.
    wanted: BTreeSet<String>,
    /// Leases whose worker ended by itself, and until when others may try first.
    resting: BTreeMap<String, Duration>,
    scan: Round,
    list: Round,
    shutting_down: bool,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct Free {
    lease_key: String,
    unsettled: bool,
    /// Nobody took it for some time: it is taken whatever this host's share.
    neglected: bool,
}

impl LeaseMachine {
    /// `host` has to be another name at every start of a process. `seed` differs between hosts, for jitter.
    pub fn new(host: impl Into<String>, config: LeaseConfig, seed: u64) -> Self {
        let at_once = || Round { due: Duration::ZERO, under_way: false };
        Self {
            host: host.into(),
            config,
            random: seed,
            table: BTreeMap::new(),
            scanned: None,
            stood: BTreeMap::new(),
            followed: false,
            listing: None,
            unlisted: BTreeMap::new(),
            held: BTreeMap::new(),
            writes: BTreeMap::new(),
            next_id: 0,
            taking: BTreeSet::new(),
            creating: BTreeMap::new(),
            free: VecDeque::new(),
            share_max: 0,
            wanted: BTreeSet::new(),
            resting: BTreeMap::new(),
            scan: at_once(),
            list: at_once(),
            shutting_down: false,
            commands: Vec::new(),
        }
    }

    /// Takes an event in, and does what is due.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Command> {
        match event {
            Event::Scanned { leases, sent } => self.on_scan(now, leases, sent),
            Event::ScanFailed => self.scan_again(now),
            Event::Listed(listing) => self.on_listing(now, listing),
            Event::ListFailed => {
                self.list = Round { due: now + self.jittered(Duration::from_secs(1)), under_way: false }
            }
            Event::Written { id, applied } => self.on_written(now, id, applied),
            Event::WriteUnknown { id } => self.on_unknown(now, id),
            Event::ReadBack { id, row } => self.on_read_back(now, id, row),
            Event::ReadBackFailed { id } => self.on_unknown(now, id),
            Event::Checkpoint { tenure, checkpoint, tip_at_ms } => {
                if let Some(holding) = self.holding(&tenure) {
                    holding.ask(checkpoint, tip_at_ms);
                }
            }
            Event::Drained { tenure } => self.on_drained(now, &tenure),
            Event::Stopped { tenure, unsettled } => self.on_stopped(now, &tenure, unsettled),
            Event::Shutdown => self.on_shutdown(now),
        }
        self.wake(now)
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Duration) -> Vec<Command> {
        self.end_drained_shards();
        let due = self
            .held
            .iter()
            .filter(|(_, holding)| holding.is_due(now))
            .map(|(lease_key, _)| lease_key.clone());
        for lease_key in due.collect::<Vec<_>>() {
            self.wake_holding(now, &lease_key);
        }
        if !self.shutting_down {
            self.take_free(now);
            if !self.scan.under_way && self.scan.due <= now {
                self.scan.under_way = true;
                self.commands.push(Command::Scan);
            }
        }
        if !self.list.under_way && self.list.due <= now && !self.is_done() {
            self.list.under_way = true;
            self.commands.push(Command::List);
        }
        std::mem::take(&mut self.commands)
    }

    /// When [`LeaseMachine::wake`] has something to do, if no event comes before.
    pub fn next_wake(&self) -> Option<Duration> {
        let rounds = [(&self.scan, !self.shutting_down), (&self.list, !self.is_done())];
        let rounds = rounds
            .into_iter()
            .filter(|(round, wanted)| *wanted && !round.under_way)
            .map(|(round, _)| round.due);
        self.held.values().filter_map(Holding::next_wake).chain(rounds).min()
    }

    /// Whether a shutdown has ended: no lease is held any more.
    pub fn is_done(&self) -> bool {
        self.shutting_down && self.held.is_empty() && self.taking.is_empty()
    }

    /// The leases that this host works on, with the time until which its worker may write.
    pub fn held(&self) -> impl Iterator<Item = (&Tenure, Duration)> {
        self.held
            .values()
            .filter(|holding| holding.has_worker())
            .map(|holding| (&holding.tenure, holding.safe_until))
    }

    /// The lease table as this host last knew it.
    pub fn table(&self) -> &BTreeMap<String, Lease> {
        &self.table
    }

    fn holding(&mut self, tenure: &Tenure) -> Option<&mut Holding> {
        self.held.get_mut(&tenure.lease_key).filter(|holding| holding.tenure == *tenure)
    }

    /// Between three quarters and all of `duration`: hosts that failed together do not come back together.
    fn jittered(&mut self, duration: Duration) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let quarter = u32::try_from((mixed ^ (mixed >> 31)) >> 40).unwrap_or(0) % 251;
        duration - duration * quarter / 1000
    }

    fn write(&mut self, what: Write, write: LeaseWrite) -> WriteId {
        let id = self.next_id;
        self.next_id += 1;
        self.writes.insert(id, what);
        self.commands.push(Command::Write { id, write });
        id
    }

    fn wake_holding(&mut self, now: Duration, lease_key: &str) {
        let Some(holding) = self.held.get_mut(lease_key) else { return };
        if holding.is_lost() {
            return;
        }
        if holding.safe_until <= now {
            return self.lose(now, lease_key);
        }
        if holding.leaves_off_late(now) {
            self.commands.push(Command::LeaveOff { tenure: holding.tenure.clone() });
        }
        if let Some(id) = holding.reads_back(now) {
            self.commands.push(Command::ReadBack { id, lease_key: lease_key.to_owned() });
        } else if holding.has_to_write(now) {
            let id = self.next_id;
            let write = self.held.get_mut(lease_key).expect("it was there a line ago").begin_write(now, id);
            self.write(Write::Held { lease_key: lease_key.to_owned() }, write);
        }
    }
}
