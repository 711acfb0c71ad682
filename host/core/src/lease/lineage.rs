//! Which shard may be read when: a child starts after all of its parents have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checkpoint, Lease};

/// A shard as the stream lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub shard_id: String,
    /// One after a split, several after a merge. They may have left the listing.
    pub parent_shard_ids: Vec<String>,
    /// Nothing is added to it any more.
    pub closed: bool,
}

/// All shards of a stream, read completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    pub shards: BTreeMap<String, Shard>,
    /// Whether the stream still grows: a closed shard then has children, if not listed yet.
    pub enabled: bool,
    /// When the reading began.
    pub sent: Duration,
}

impl Listing {
    pub fn new(shards: impl IntoIterator<Item = Shard>, enabled: bool, sent: Duration) -> Self {
        let shards = shards.into_iter().map(|shard| (shard.shard_id.clone(), shard)).collect();
        Self { shards, enabled, sent }
    }

    /// The shards that name this one as a parent.
    pub fn children<'a>(&'a self, shard_id: &'a str) -> impl Iterator<Item = &'a Shard> {
        self.shards
            .values()
            .filter(move |shard| shard.parent_shard_ids.iter().any(|parent| parent == shard_id))
    }
}

/// Where a table is read from when it is followed for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the oldest record there is.
    TrimHorizon,
    /// With what comes from now on. It is never stored as such: a host that dies at once would leave a lease that means
    /// another moment to the next one.
    Latest { now_ms: i64 },
    /// With what was created at this time or later.
    AtTimestamp { ms: i64 },
}

impl StartAt {
    fn skip_before_ms(self) -> Option<i64> {
        match self {
            Self::TrimHorizon => None,
            Self::Latest { now_ms } => Some(now_ms),
            Self::AtTimestamp { ms } => Some(ms),
        }
    }
}

/// Whether a lease's shard may be read: nothing that comes before it is left.
///
/// | a parent | counts as |
/// |---|---|
/// | has a lease at `SHARD_END` | ended |
/// | has another lease | not ended |
/// | has no lease, is listed | not ended: its lease is still to be made |
/// | has no lease, is not listed, while the child is | ended: it left the stream |
/// | has no lease, is not listed, nor is the child | not ended: the listing is older than both |
pub fn may_start(lease: &Lease, table: &BTreeMap<String, Lease>, listing: Option<&Listing>) -> bool {
    lease.parent_shard_ids.iter().all(|parent| match table.get(parent) {
        Some(parent) => parent.is_finished(),
        None => listing.is_some_and(|listing| {
            !listing.shards.contains_key(parent) && listing.shards.contains_key(&lease.lease_key)
        }),
    })
}

/// How the owner of a lease begins that was lost and made anew: nobody. Whoever had it may not know yet, so it is taken only once it
/// has expired.
pub const FORMER_OWNER: &str = "former-owner";

/// The leases that listed shards lack, parents first.
///
/// A shard whose descendants were begun has been read: it gets `SHARD_END`. Every other one is read from its oldest
/// record, and where the table is followed for the first time, from where the user wants to start. Leases of children are
/// made before their last parent ends, so one that is missing after that was lost. `followed`: this host has seen leases
/// that were worked on, even if there are none now.
pub fn missing_leases(
    listing: &Listing,
    table: &BTreeMap<String, Lease>,
    start: StartAt,
    followed: bool,
) -> Vec<Lease> {
    let first_time = !followed && table.values().all(|lease| lease.lease_counter == 0);
    // Hosts that start together agree on the time that the first of them wrote.
    let skip_before_ms = start
        .skip_before_ms()
        .map(|own| table.values().filter_map(|lease| lease.skip_before_ms).min().unwrap_or(own));
    let mut missing = Vec::new();
    for shard in parents_first(listing) {
        if table.contains_key(&shard.shard_id) {
            continue;
        }
        let ended = (first_time && shard.closed && matches!(start, StartAt::Latest { .. }))
            || descendant_begun(&shard.shard_id, listing, table);
        let checkpoint = if ended { Checkpoint::ShardEnd } else { Checkpoint::TrimHorizon };
        let lost = !first_time
            && !ended
            && shard.parent_shard_ids.iter().all(|parent| match table.get(parent) {
                Some(parent) => parent.is_finished(),
                None => !listing.shards.contains_key(parent),
            });
        missing.push(Lease {
            lease_owner: lost.then(|| FORMER_OWNER.to_owned()),
            skip_before_ms: if ended { None } else { skip_before_ms },
            ..Lease::new(&shard.shard_id, &shard.parent_shard_ids, checkpoint)
        });
    }
    missing
}

fn descendant_begun(shard_id: &str, listing: &Listing, table: &BTreeMap<String, Lease>) -> bool {
    let mut seen = BTreeSet::new();
    let mut todo = vec![shard_id.to_owned()];
    while let Some(ancestor) = todo.pop() {
        let listed = listing.children(&ancestor).map(|shard| &shard.shard_id);
        let leased = table
            .values()
            .filter(|lease| lease.parent_shard_ids.contains(&ancestor))
            .map(|lease| &lease.lease_key);
        for child in listed.chain(leased) {
            let begun = table.get(child).is_some_and(|lease| {
                lease.lease_owner.is_some() || lease.checkpoint != Checkpoint::TrimHorizon
            });
            if begun {
                return true;
            }
            if seen.insert(child.clone()) {
                todo.push(child.clone());
            }
        }
    }
    false
}

/// Every shard after the parents of it that are listed; shards of a circle, which no stream has, come last.
fn parents_first(listing: &Listing) -> Vec<&Shard> {
    let mut ordered = Vec::with_capacity(listing.shards.len());
    let mut placed = BTreeSet::new();
    let mut waiting: Vec<&Shard> = listing.shards.values().collect();
    loop {
        let (ready, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|shard| {
            let mut parents = shard.parent_shard_ids.iter();
            parents.all(|parent| placed.contains(parent.as_str()) || !listing.shards.contains_key(parent))
        });
        if ready.is_empty() {
            ordered.extend(later);
            return ordered;
        }
        placed.extend(ready.iter().map(|shard| shard.shard_id.as_str()));
        ordered.extend(ready);
        waiting = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(shard_id: &str, parents: &[&str], closed: bool) -> Shard {
        let parent_shard_ids = parents.iter().map(|&parent| parent.to_owned()).collect();
        Shard { shard_id: shard_id.to_owned(), parent_shard_ids, closed }
    }

    fn listing(shards: &[Shard]) -> Listing {
        Listing::new(shards.to_vec(), true, Duration::ZERO)
    }

    fn lease(shard: &Shard, checkpoint: Checkpoint) -> Lease {
        Lease::new(&shard.shard_id, &shard.parent_shard_ids, checkpoint)
    }

    fn table(leases: &[Lease]) -> BTreeMap<String, Lease> {
        leases.iter().map(|lease| (lease.lease_key.clone(), lease.clone())).collect()
    }

    /// `a` and `b` were merged into `c`, which was split into `d` and `e`.
    fn family() -> [Shard; 5] {
        [
            shard("a", &[], true),
            shard("b", &[], true),
            shard("c", &["a", "b"], true),
            shard("d", &["c"], false),
            shard("e", &["c"], false),
        ]
    }

    #[test]
    fn a_merged_shard_waits_for_both_parents() {
        let [a, b, c, ..] = family();
        let listing = listing(&family());
        let child = lease(&c, Checkpoint::TrimHorizon);
        let one =
            table(&[lease(&a, Checkpoint::ShardEnd), lease(&b, Checkpoint::At("5".into())), child.clone()]);
        assert!(!may_start(&child, &one, Some(&listing)));
        let both = table(&[lease(&a, Checkpoint::ShardEnd), lease(&b, Checkpoint::ShardEnd), child.clone()]);
        assert!(may_start(&child, &both, Some(&listing)));
        assert!(may_start(&child, &both, None), "leases say it all");
        let unmade = table(&[lease(&a, Checkpoint::ShardEnd), child.clone()]);
        assert!(!may_start(&child, &unmade, Some(&listing)), "b's lease is still to be made");
        assert!(!may_start(&child, &unmade, None));
    }

    #[test]
    fn a_parent_that_left_the_stream_has_ended_but_not_by_an_old_listing() {
        let [_, _, c, ..] = family();
        let child = lease(&c, Checkpoint::TrimHorizon);
        let alone = table(std::slice::from_ref(&child));
        assert!(may_start(&child, &alone, Some(&listing(std::slice::from_ref(&c)))));
        let older = listing(&[shard("z", &[], false)]);
        assert!(!may_start(&child, &alone, Some(&older)));
    }

    #[test]
    fn missing_leases_begin_at_the_oldest_record_parents_first() {
        let missing = missing_leases(&listing(&family()), &BTreeMap::new(), StartAt::TrimHorizon, false);
        let keys: Vec<_> = missing.iter().map(|lease| lease.lease_key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c", "d", "e"]);
        assert!(missing.iter().all(|lease| lease.checkpoint == Checkpoint::TrimHorizon));
    }

    #[test]
    fn a_lost_lease_of_a_read_shard_comes_back_as_read() {
        let [_, _, c, d, e] = family();
        let grandchild_begun = table(&[
            lease(&c, Checkpoint::TrimHorizon),
            lease(&d, Checkpoint::At("9".into())),
            lease(&e, Checkpoint::TrimHorizon),
        ]);
        let missing = missing_leases(&listing(&family()), &grandchild_begun, StartAt::TrimHorizon, false);
        assert!(missing.iter().all(Lease::is_finished), "{missing:?}");
        let nothing_begun = table(&[lease(&c, Checkpoint::TrimHorizon), lease(&d, Checkpoint::TrimHorizon)]);
        let missing = missing_leases(&listing(&family()), &nothing_begun, StartAt::TrimHorizon, false);
        assert!(missing.iter().all(|lease| !lease.is_finished()), "{missing:?}");
    }

    #[test]
    fn a_lost_lease_has_to_expire_and_a_new_childs_has_not() {
        let [a, b, _, d, e] = family();
        let begun = Lease { lease_counter: 3, ..lease(&a, Checkpoint::At("5".into())) };
        let owners = |rows: &[Lease]| {
            let missing = missing_leases(&listing(&family()), &table(rows), StartAt::TrimHorizon, false);
            missing
                .into_iter()
                .map(|lease| (lease.lease_key, lease.lease_owner.is_some()))
                .collect::<Vec<_>>()
        };
        let named = |name: &str, lost| (name.to_owned(), lost);
        let rest = [named("c", false), named("d", false), named("e", false)];
        assert_eq!(owners(&[begun.clone(), lease(&b, Checkpoint::TrimHorizon)]), rest);
        assert_eq!(owners(&[begun])[0], named("b", true));
        let ended = |shard| Lease { lease_counter: 9, ..lease(shard, Checkpoint::ShardEnd) };
        let [d, e] = [lease(&d, Checkpoint::TrimHorizon), lease(&e, Checkpoint::TrimHorizon)];
        assert_eq!(owners(&[ended(&a), ended(&b), d, e]), [named("c", true)]);
    }

    #[test]
    fn latest_is_stored_as_a_moment() {
        let latest = StartAt::Latest { now_ms: 1000 };
        let first = missing_leases(&listing(&family()), &BTreeMap::new(), latest, false);
        for lease in &first {
            let closed = lease.lease_key.as_str() < "d";
            assert_eq!(lease.is_finished(), closed, "{lease:?}");
            assert_eq!(lease.skip_before_ms, (!closed).then_some(1000));
        }
        // Another host, a moment later, that sees half of them.
        let half = table(&first[..4]);
        let rest = missing_leases(&listing(&family()), &half, StartAt::Latest { now_ms: 1007 }, false);
        assert_eq!(rest[0].skip_before_ms, Some(1000));
    }
}
