//! What workers say.

use std::time::Duration;

use super::holding::Phase;
use super::{Command, LeaseMachine};
use crate::lease::Tenure;

impl LeaseMachine {
    pub(super) fn on_drained(&mut self, now: Duration, tenure: &Tenure) {
        let shutting_down = self.shutting_down;
        let Some(holding) = self.holding(tenure) else { return };
        match holding.phase {
            Phase::Working | Phase::Finishing { .. } if shutting_down => {
                holding.phase = Phase::GivingUp { to: None, ended: false, unsettled: false };
            }
            Phase::Working | Phase::Finishing { .. } => {
                holding.phase = Phase::Ending { drained: now };
                self.list.due = self.list.due.min(now);
            }
            Phase::Lost => drop(self.held.remove(&tenure.lease_key)),
            Phase::GivingUp { .. } | Phase::Ending { .. } => {}
        }
    }

    /// `SHARD_END` is written once all children have a lease: else nobody would know of them if this host died.
    pub(super) fn end_drained_shards(&mut self) {
        let Some(listing) = &self.listing else { return };
        for (lease_key, holding) in &mut self.held {
            let Phase::Ending { drained } = holding.phase else { continue };
            if listing.sent < drained {
                continue;
            }
            let children: Vec<_> = listing.children(lease_key).collect();
            if children.is_empty() && listing.enabled {
                // They are not listed yet.
                self.list.due = self.list.due.min(listing.sent + Duration::from_secs(1));
            } else if children.iter().all(|child| self.table.contains_key(&child.shard_id)) {
                holding.phase = Phase::GivingUp { to: None, ended: true, unsettled: false };
            }
        }
    }

    pub(super) fn on_stopped(&mut self, now: Duration, tenure: &Tenure, unsettled: bool) {
        let rest_until = now + self.config.failover;
        let Some(holding) = self.holding(tenure) else { return };
        match &mut holding.phase {
            Phase::Working => {
                // It ended by itself: another host may have more luck with it.
                holding.phase = Phase::GivingUp { to: None, ended: false, unsettled };
                self.resting.insert(tenure.lease_key.clone(), rest_until);
            }
            Phase::Finishing { to, .. } => {
                let to = to.take();
                holding.phase = Phase::GivingUp { to, ended: false, unsettled };
            }
            Phase::Lost => {
                self.held.remove(&tenure.lease_key);
                self.scan_at_once(now);
            }
            Phase::GivingUp { .. } | Phase::Ending { .. } => {}
        }
    }

    pub(super) fn on_shutdown(&mut self, now: Duration) {
        self.shutting_down = true;
        self.free.clear();
        let by = now + self.config.finish_within;
        for holding in self.held.values_mut() {
            match &mut holding.phase {
                Phase::Working => {
                    holding.phase = Phase::Finishing { by, to: None, told_to_leave_off: false };
                    self.commands.push(Command::Finish { tenure: holding.tenure.clone() });
                }
                // Whoever takes it drains it again, which is quick.
                Phase::Ending { .. } => {
                    holding.phase = Phase::GivingUp { to: None, ended: false, unsettled: false };
                }
                Phase::Finishing { .. } | Phase::GivingUp { .. } | Phase::Lost => {}
            }
        }
    }
}
