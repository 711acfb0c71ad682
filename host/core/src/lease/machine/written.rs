//! What became of writes.

use std::time::Duration;

use super::holding::{Holding, Phase, Reply};
use super::{Command, LeaseMachine, Write, WriteId};
use crate::lease::{Applied, Lease, Tenure};

impl LeaseMachine {
    pub(super) fn on_written(&mut self, now: Duration, id: WriteId, applied: Option<Applied>) {
        let Some(write) = self.writes.remove(&id) else { return };
        let row = match applied {
            Some(Applied::Row(row)) => Some(row),
            Some(Applied::Removed) | None => None,
        };
        match write {
            Write::Held { lease_key } => self.on_held_written(now, &lease_key, id, row),
            Write::Take { lease_key, sent, unsettled } => {
                self.taking.remove(&lease_key);
                if let Some(row) = row {
                    self.on_taken(sent, row, unsettled);
                }
            }
            Write::Create { lease_key } => {
                self.creating.insert(lease_key.clone(), Some(now + Duration::from_secs(1)));
                if let Some(row) = row {
                    self.table.insert(lease_key, row);
                }
                // What may be taken now, or what another host made.
                self.scan_at_once(now);
            }
            Write::Other => {}
        }
    }

    pub(super) fn on_taken(&mut self, sent: Duration, row: Lease, unsettled: bool) {
        let tenure = Tenure {
            lease_key: row.lease_key.clone(),
            lease_owner: self.host.clone(),
            taken_at: row.lease_counter,
        };
        let mut holding = Holding::new(tenure.clone(), sent, &self.config);
        if self.shutting_down {
            holding.phase = Phase::GivingUp { to: None, ended: false, unsettled };
        } else {
            self.commands.push(Command::Start {
                tenure: tenure.clone(),
                checkpoint: row.checkpoint.clone(),
                skip_before_ms: row.skip_before_ms,
                unsettled,
            });
            self.commands.push(Command::SafeUntil { tenure, until: holding.safe_until });
        }
        self.held.insert(row.lease_key.clone(), holding);
        self.table.insert(row.lease_key.clone(), row);
    }

    pub(super) fn on_held_written(
        &mut self,
        now: Duration,
        lease_key: &str,
        id: WriteId,
        row: Option<Lease>,
    ) {
        let Some(holding) = self.held.get_mut(lease_key).filter(|holding| holding.is_writing(id)) else {
            return;
        };
        match row {
            Some(row) => self.on_landed(now, lease_key, row),
            // An earlier try may have gone through.
            None if holding.is_uncertain() => {
                holding.reading();
                self.writes.insert(id, Write::Held { lease_key: lease_key.to_owned() });
                self.commands.push(Command::ReadBack { id, lease_key: lease_key.to_owned() });
            }
            None => self.lose(now, lease_key),
        }
    }

    pub(super) fn on_unknown(&mut self, now: Duration, id: WriteId) {
        let again = self.config.retry_after();
        let again = now + self.jittered(again);
        match self.writes.remove(&id) {
            Some(Write::Held { lease_key }) => {
                if let Some(holding) = self.held.get_mut(&lease_key).filter(|holding| holding.is_writing(id))
                {
                    holding.unknown(again);
                    self.writes.insert(id, Write::Held { lease_key });
                }
            }
            // The next scan shows what became of it.
            Some(Write::Take { lease_key, .. }) => drop(self.taking.remove(&lease_key)),
            Some(Write::Create { lease_key }) => drop(self.creating.remove(&lease_key)),
            Some(Write::Other) | None => {}
        }
    }

    pub(super) fn on_read_back(&mut self, now: Duration, id: WriteId, row: Option<Lease>) {
        let Some(Write::Held { lease_key }) = self.writes.remove(&id) else { return };
        let Some(holding) = self.held.get_mut(&lease_key).filter(|holding| holding.is_writing(id)) else {
            return;
        };
        match holding.judge(row.as_ref(), &self.host) {
            Reply::Landed => {
                let row = row.expect("a row that is gone is no landed write");
                self.on_landed(now, &lease_key, row);
            }
            Reply::NotLanded => holding.write_again(),
            Reply::Lost => self.lose(now, &lease_key),
        }
    }

    pub(super) fn on_landed(&mut self, now: Duration, lease_key: &str, row: Lease) {
        let Some(holding) = self.held.get_mut(lease_key) else { return };
        let landed = holding.landed(&row, &self.config);
        let tenure = holding.tenure.clone();
        if let Some(checkpoint) = landed.checkpoint {
            self.commands.push(Command::Checkpointed { tenure: tenure.clone(), checkpoint });
        }
        let wanted_by = row.wanted_by.clone();
        self.table.insert(lease_key.to_owned(), row);
        if landed.gave_up {
            self.held.remove(lease_key);
            // A finished shard's children may start.
            self.scan_at_once(now);
            return;
        }
        self.commands.push(Command::SafeUntil { tenure, until: landed.safe_until });
        if let Some(by) = wanted_by {
            self.on_wanted(now, lease_key, by);
        }
    }

    /// The row is another's, or may be at any moment.
    pub(super) fn lose(&mut self, now: Duration, lease_key: &str) {
        let Some(holding) = self.held.get_mut(lease_key) else { return };
        if holding.has_worker() {
            self.commands.push(Command::LeaveOff { tenure: holding.tenure.clone() });
            holding.phase = Phase::Lost;
        } else if !holding.is_lost() {
            self.held.remove(lease_key);
        }
        self.scan_at_once(now);
    }
}
