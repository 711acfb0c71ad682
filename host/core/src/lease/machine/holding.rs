//! One lease that this host holds, and the one serial writer of its row: each write is renewal, checkpoint and counter
//! in one, so that a renewal cannot fail its own checkpoint.

use std::time::Duration;

use super::{LeaseConfig, WriteId};
use crate::lease::{Checkpoint, Lease, LeaseWrite, Tenure};

/// Where a held lease stands; see the picture in [`super`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Working,
    Finishing {
        /// After this the worker has to leave off.
        by: Duration,
        to: Option<String>,
        told_to_leave_off: bool,
    },
    Ending {
        /// A listing has to be newer than this.
        drained: Duration,
    },
    GivingUp {
        to: Option<String>,
        /// With `SHARD_END`.
        ended: bool,
        unsettled: bool,
    },
    /// The row is not ours any more, or may not be; the worker is about to end.
    Lost,
}

#[derive(Debug)]
pub(super) struct Holding {
    pub(super) tenure: Tenure,
    pub(super) phase: Phase,
    /// Until when nobody else can have the lease, less the margin.
    pub(super) safe_until: Duration,
    /// What another host asked for is refused with the next write.
    pub(super) decline: bool,
    counter: u64,
    renew_at: Duration,
    /// What a worker asked for and no write has said yet.
    asked: Option<Checkpoint>,
    tip_at_ms: Option<i64>,
    writing: Option<Writing>,
}

#[derive(Debug)]
struct Writing {
    id: WriteId,
    /// When the first try was sent whose outcome is not known.
    first_sent: Duration,
    checkpoint: Option<Checkpoint>,
    gives_up: bool,
    state: State,
    /// Whether an earlier try may have gone through, its reply lost.
    uncertain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Sent,
    Unknown { read_at: Duration },
    Reading,
    Again,
}

/// What a row that was read says of an uncertain write.
pub(super) enum Reply {
    Landed,
    NotLanded,
    Lost,
}

/// What a write that landed brought about.
pub(super) struct Landed {
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) safe_until: Duration,
    pub(super) gave_up: bool,
}

impl Holding {
    /// A lease whose take was sent at `sent`.
    pub(super) fn new(tenure: Tenure, sent: Duration, config: &LeaseConfig) -> Self {
        Self {
            counter: tenure.taken_at,
            tenure,
            phase: Phase::Working,
            safe_until: sent + config.failover - config.margin,
            decline: false,
            renew_at: sent + config.renew_every,
            asked: None,
            tip_at_ms: None,
            writing: None,
        }
    }

    pub(super) fn ask(&mut self, checkpoint: Checkpoint, tip_at_ms: Option<i64>) {
        self.asked = Some(checkpoint);
        self.tip_at_ms = tip_at_ms.or(self.tip_at_ms);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// Whether a worker may be running.
    pub(super) fn has_worker(&self) -> bool {
        matches!(self.phase, Phase::Working | Phase::Finishing { .. })
    }

    /// Whether this host goes on with it.
    pub(super) fn stays(&self) -> bool {
        matches!(self.phase, Phase::Working)
    }

    pub(super) fn handed_to(&self) -> Option<&str> {
        match &self.phase {
            Phase::Finishing { to, .. } | Phase::GivingUp { to, .. } => to.as_deref(),
            Phase::Working | Phase::Ending { .. } | Phase::Lost => None,
        }
    }

    /// Whether the worker has used up its time to finish; says so once.
    pub(super) fn leaves_off_late(&mut self, now: Duration) -> bool {
        match &mut self.phase {
            Phase::Finishing { by, told_to_leave_off, .. } if *by <= now && !*told_to_leave_off => {
                *told_to_leave_off = true;
                true
            }
            _ => false,
        }
    }

    pub(super) fn next_wake(&self) -> Option<Duration> {
        if self.is_lost() {
            return None;
        }
        let finish_by = match &self.phase {
            Phase::Finishing { by, told_to_leave_off: false, .. } => Some(*by),
            _ => None,
        };
        let write_at = match &self.writing {
            None => Some(self.renew_at),
            Some(Writing { state: State::Unknown { read_at }, .. }) => Some(*read_at),
            Some(_) => None,
        };
        [Some(self.safe_until), finish_by, write_at].into_iter().flatten().min()
    }

    /// Whether something is to be done now.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        !self.is_lost() && (self.has_to_write(now) || self.next_wake().is_some_and(|wake| wake <= now))
    }

    pub(super) fn is_writing(&self, id: WriteId) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.id == id)
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.uncertain)
    }

    pub(super) fn has_to_write(&self, now: Duration) -> bool {
        match &self.writing {
            Some(writing) => writing.state == State::Again,
            None => {
                self.renew_at <= now
                    || self.asked.is_some()
                    || self.decline
                    || matches!(self.phase, Phase::GivingUp { .. })
            }
        }
    }

    /// The next write, with everything that is new in it.
    pub(super) fn begin_write(&mut self, now: Duration, id: WriteId) -> LeaseWrite {
        let before = self.writing.take();
        // What an uncertain try carried is asked for again, unless there is something newer.
        let carried = before.as_ref().and_then(|before| before.checkpoint.clone());
        let asked = self.asked.take().or(carried);
        let (tenure, counter) = (self.tenure.clone(), self.counter);
        let (write, gives_up) = match &self.phase {
            Phase::GivingUp { to, ended, unsettled } => {
                let checkpoint = if *ended { Some(Checkpoint::ShardEnd) } else { asked.clone() };
                let to = to.clone();
                (LeaseWrite::GiveUp { tenure, counter, checkpoint, to, unsettled: *unsettled }, true)
            }
            _ => {
                let renew = LeaseWrite::Renew {
                    tenure,
                    counter,
                    checkpoint: asked.clone(),
                    tip_at_ms: self.tip_at_ms,
                    decline: self.decline,
                };
                (renew, false)
            }
        };
        self.writing = Some(Writing {
            id,
            first_sent: before.as_ref().map_or(now, |before| before.first_sent),
            checkpoint: asked,
            gives_up,
            state: State::Sent,
            uncertain: before.is_some_and(|before| before.uncertain),
        });
        write
    }

    pub(super) fn unknown(&mut self, read_at: Duration) {
        if let Some(writing) = &mut self.writing {
            writing.uncertain = true;
            writing.state = State::Unknown { read_at };
        }
    }

    pub(super) fn reading(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.state = State::Reading;
        }
    }

    pub(super) fn write_again(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.state = State::Again;
        }
    }

    /// The uncertain write whose row is to be read now.
    pub(super) fn reads_back(&mut self, now: Duration) -> Option<WriteId> {
        let writing = self.writing.as_mut()?;
        match writing.state {
            State::Unknown { read_at } if read_at <= now => {
                writing.state = State::Reading;
                Some(writing.id)
            }
            _ => None,
        }
    }

    /// What a row says of the write whose outcome is not known. Nobody but this tenure writes the row under its owner's
    /// name and raises its counter.
    pub(super) fn judge(&self, row: Option<&Lease>, host: &str) -> Reply {
        let Some(row) = row else { return Reply::Lost };
        let ours = row.lease_owner.as_deref() == Some(host);
        let gives_up = self.writing.as_ref().is_some_and(|writing| writing.gives_up);
        if ours && row.lease_counter == self.counter {
            Reply::NotLanded
        } else if (ours || gives_up) && row.lease_counter == self.counter + 1 {
            // Given up or taken away: it is not ours either way.
            Reply::Landed
        } else {
            Reply::Lost
        }
    }

    /// `row` is the lease after the write.
    pub(super) fn landed(&mut self, row: &Lease, config: &LeaseConfig) -> Landed {
        let writing = self.writing.take();
        let sent = writing.as_ref().map_or(self.renew_at, |writing| writing.first_sent);
        let wrote = writing.as_ref().and_then(|writing| writing.checkpoint.clone());
        let still_ours = row.lease_owner.as_ref() == Some(&self.tenure.lease_owner);
        self.counter = row.lease_counter;
        self.safe_until = sent + config.failover - config.margin;
        self.renew_at = sent + config.renew_every;
        self.decline = false;
        let checkpoint = match wrote {
            Some(wrote) if row.checkpoint == wrote => Some(wrote),
            // An earlier try landed, which did not carry it.
            Some(wrote) => {
                self.asked.get_or_insert(wrote);
                None
            }
            None => None,
        };
        if checkpoint.is_some() || row.tip_at_ms == self.tip_at_ms {
            self.tip_at_ms = None;
        }
        Landed { checkpoint, safe_until: self.safe_until, gave_up: !still_ours }
    }
}
