//! What scans and listings show.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LeaseMachine, Round, Stood, Write};
use crate::lease::lineage::{Listing, missing_leases};
use crate::lease::{Lease, LeaseWrite};

impl LeaseMachine {
    pub(super) fn on_scan(&mut self, now: Duration, leases: Vec<Lease>, sent: Duration) {
        self.table = leases.into_iter().map(|lease| (lease.lease_key.clone(), lease)).collect();
        self.scanned = Some(sent);
        self.followed |= self.table.values().any(|lease| lease.lease_counter > 0);
        self.stood.retain(|lease_key, _| self.table.contains_key(lease_key));
        for lease in self.table.values() {
            let seen = self.stood.get(&lease.lease_key);
            if seen
                .is_none_or(|stood| stood.owner != lease.lease_owner || stood.counter != lease.lease_counter)
            {
                // Since when it stands is known from when it was seen, not from when it was asked for.
                let stood =
                    Stood { owner: lease.lease_owner.clone(), counter: lease.lease_counter, since: now };
                self.stood.insert(lease.lease_key.clone(), stood);
            }
        }
        self.resting.retain(|_, until| *until > now);
        self.wanted.retain(|lease_key| {
            self.table.get(lease_key).is_some_and(|lease| {
                [&lease.lease_owner, &lease.wanted_by]
                    .into_iter()
                    .any(|host| host.as_deref() == Some(&self.host))
            })
        });
        self.scan_again(now);
        if self.shutting_down {
            return;
        }
        self.create_missing(now);
        self.find_free(now);
        if self.free.is_empty() && self.taking.is_empty() {
            self.want();
        }
    }

    pub(super) fn scan_again(&mut self, now: Duration) {
        let unfinished = self.table.values().filter(|lease| !lease.is_finished()).count();
        let every = self.config.scan_every(unfinished);
        self.scan = Round { due: now + self.jittered(every), under_way: false };
    }

    pub(super) fn scan_at_once(&mut self, now: Duration) {
        self.scan.due = self.scan.due.min(now);
    }

    pub(super) fn on_listing(&mut self, now: Duration, listing: Listing) {
        let every = self.config.list_every;
        self.list = Round { due: now + self.jittered(every), under_way: false };
        let finished: Vec<_> = self
            .table
            .values()
            .filter(|lease| lease.is_finished() && !listing.shards.contains_key(&lease.lease_key))
            .map(|lease| (lease.lease_key.clone(), lease.lease_counter))
            .collect();
        let times =
            |unlisted: &BTreeMap<_, u32>, lease_key| unlisted.get(lease_key).copied().unwrap_or(0) + 1;
        self.unlisted = finished
            .iter()
            .map(|(lease_key, _)| (lease_key.clone(), times(&self.unlisted, lease_key)))
            .collect();
        self.listing = Some(listing);
        if self.shutting_down {
            return;
        }
        self.create_missing(now);
        for (lease_key, counter) in finished {
            // Once could be a listing that was behind.
            if self.unlisted[&lease_key] >= 2 && !self.held.contains_key(&lease_key) {
                self.write(Write::Other, LeaseWrite::Remove { lease_key, counter });
            }
        }
        // What may start now is found with fresh rows.
        self.scan_at_once(now);
    }

    pub(super) fn create_missing(&mut self, now: Duration) {
        let (Some(listing), Some(scanned)) = (&self.listing, self.scanned) else { return };
        let mut missing = missing_leases(listing, &self.table, self.config.start, self.followed);
        // A row that is made anew is read again from its oldest record: only what a scan after the listing lacks, too.
        self.creating.retain(|_, until| until.is_none_or(|until| until > now));
        missing.retain(|lease| !self.creating.contains_key(&lease.lease_key));
        if missing.is_empty() {
            return;
        }
        if scanned < listing.sent {
            self.scan_at_once(now);
            return;
        }
        for mut lease in missing {
            // Another name each time: a row that is lost and made anew twice does not seem to have stood still.
            lease.lease_owner =
                lease.lease_owner.map(|nobody| format!("{nobody}/{}/{}", self.host, self.next_id));
            self.creating.insert(lease.lease_key.clone(), None);
            self.write(Write::Create { lease_key: lease.lease_key.clone() }, LeaseWrite::Create(lease));
        }
    }
}
