//! Which leases this host takes, asks for, and hands over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::holding::Phase;
use super::{Command, Free, LeaseMachine, Write};
use crate::lease::balance::{Load, preference};
use crate::lease::lineage::may_start;
use crate::lease::{Lease, LeaseWrite};

impl LeaseMachine {
    pub(super) fn has_expired(&self, lease: &Lease) -> bool {
        let (Some(stood), Some(scanned)) = (self.stood.get(&lease.lease_key), self.scanned) else {
            return false;
        };
        lease.lease_owner.is_some() && scanned.saturating_sub(stood.since) >= self.config.failover
    }

    /// Who works on a lease, and who will: `None` where nobody is alive who does.
    pub(super) fn owner_and_next<'a>(&'a self, lease: &'a Lease) -> (Option<&'a str>, Option<&'a str>) {
        if let Some(holding) = self.held.get(&lease.lease_key) {
            let wanted_by = holding.handed_to().or(lease.wanted_by.as_deref());
            return if holding.is_lost() { (None, None) } else { (Some(&self.host), wanted_by) };
        }
        if self.taking.contains(&lease.lease_key) {
            return (Some(&self.host), None);
        }
        match &lease.lease_owner {
            Some(owner) if *owner != self.host && !self.has_expired(lease) => {
                (Some(owner), lease.wanted_by.as_deref())
            }
            _ => (None, None),
        }
    }

    /// Leases that can be worked on now.
    pub(super) fn live_leases(&self) -> impl Iterator<Item = &Lease> {
        let startable = |lease: &&Lease| {
            !lease.is_finished()
                && (lease.lease_owner.is_some() || may_start(lease, &self.table, self.listing.as_ref()))
        };
        self.table.values().filter(startable)
    }

    pub(super) fn load(&self) -> Load {
        Load::new(&self.host, self.live_leases().map(|lease| self.owner_and_next(lease)))
    }

    pub(super) fn find_free(&mut self, now: Duration) {
        self.share_max = self.load().share_max();
        let neglected_after = self.config.scan_every(self.table.len()) * 4;
        let mut free: Vec<_> = self
            .live_leases()
            .filter(|lease| {
                !self.held.contains_key(&lease.lease_key) && self.owner_and_next(lease).0.is_none()
            })
            .filter(|lease| !self.resting.contains_key(&lease.lease_key))
            .filter(|lease| may_start(lease, &self.table, self.listing.as_ref()))
            .map(|lease| {
                let stands =
                    self.stood.get(&lease.lease_key).map_or(Duration::ZERO, |stood| now - stood.since);
                let asked_for =
                    lease.lease_owner.as_ref() == Some(&self.host) && self.wanted.contains(&lease.lease_key);
                let neglected_after = neglected_after
                    + if lease.lease_owner.is_some() { self.config.failover } else { Duration::ZERO };
                Free {
                    lease_key: lease.lease_key.clone(),
                    unsettled: lease.unsettled || (lease.lease_owner.is_some() && !asked_for),
                    // What was handed to this host is its own.
                    neglected: lease.lease_owner.as_ref() == Some(&self.host) || stands >= neglected_after,
                }
            })
            .collect();
        free.sort_by_cached_key(|free| preference(&self.host, &free.lease_key));
        self.free = free.into();
    }

    pub(super) fn take_free(&mut self, now: Duration) {
        while self.taking.len() < self.config.takes_max
            && let Some(free) = self.free.pop_front()
        {
            let mine = self.held.values().filter(|holding| holding.stays()).count() + self.taking.len();
            if mine >= self.share_max && !free.neglected {
                continue;
            }
            let Some(lease) = self.table.get(&free.lease_key) else { continue };
            if self.held.contains_key(&free.lease_key) || self.taking.contains(&free.lease_key) {
                continue;
            }
            let take = LeaseWrite::Take {
                lease_key: free.lease_key.clone(),
                seen_owner: lease.lease_owner.clone(),
                seen_counter: lease.lease_counter,
                by: self.host.clone(),
            };
            // Should the reply be lost, the next scan shows a lease of which it is not known how it came to this host.
            self.wanted.remove(&free.lease_key);
            self.taking.insert(free.lease_key.clone());
            self.write(Write::Take { lease_key: free.lease_key, sent: now, unsettled: free.unsettled }, take);
        }
    }

    /// Asks the richest hosts for what is missing to this host's share.
    pub(super) fn want(&mut self) {
        let mut load = self.load();
        let mut wanted = BTreeSet::new();
        while wanted.len() < self.config.wants_max
            && let Some(richest) = load.richest(&self.host).map(str::to_owned)
        {
            let lease_key = self
                .live_leases()
                .filter(|lease| lease.wanted_by.is_none() && !wanted.contains(&lease.lease_key))
                .filter(|lease| self.owner_and_next(lease).0 == Some(&richest))
                .map(|lease| &lease.lease_key)
                .min_by_key(|lease_key| preference(&self.host, lease_key));
            let Some(lease_key) = lease_key.cloned() else { break };
            load.moved(&richest, &self.host);
            wanted.insert(lease_key.clone());
            let want = LeaseWrite::Want { lease_key, seen_owner: richest, by: self.host.clone() };
            self.write(Write::Other, want);
        }
        self.wanted.append(&mut wanted);
    }

    /// Another host asks for a lease of this one: it gets it unless this host would fall below its share.
    pub(super) fn on_wanted(&mut self, now: Duration, lease_key: &str, by: String) {
        let load = self.load();
        let grant = load.of(&self.host) >= load.share_min() && !self.shutting_down;
        let by_then = now + self.config.finish_within;
        let Some(holding) = self.held.get_mut(lease_key) else { return };
        if !matches!(holding.phase, Phase::Working) {
            return;
        }
        if grant {
            holding.phase = Phase::Finishing { by: by_then, to: Some(by), told_to_leave_off: false };
            self.commands.push(Command::Finish { tenure: holding.tenure.clone() });
        } else {
            holding.decline = true;
        }
    }
}
