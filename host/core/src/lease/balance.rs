//! Every live host within one lease of its share.

use std::collections::BTreeMap;

use crate::fingerprint::hash_name;

/// How many leases each live host has, once all moves that are asked for have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    counts: BTreeMap<String, usize>,
    /// Leases that nobody has.
    free: usize,
}

impl Load {
    /// `leases`: the owner that is alive, if there is one, and the host that wants it.
    pub fn new<'a>(me: &str, leases: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>)>) -> Self {
        let mut load = Self { counts: BTreeMap::from([(me.to_owned(), 0)]), free: 0 };
        for (owner, wanted_by) in leases {
            if let Some(owner) = owner {
                // One that is asked for still is alive, with none left.
                load.counts.entry(owner.to_owned()).or_default();
            }
            match wanted_by.filter(|_| owner.is_some()).or(owner) {
                Some(host) => *load.counts.entry(host.to_owned()).or_default() += 1,
                None => load.free += 1,
            }
        }
        load
    }

    pub fn of(&self, host: &str) -> usize {
        self.counts.get(host).copied().unwrap_or(0)
    }

    pub fn hosts(&self) -> usize {
        self.counts.len()
    }

    fn leases(&self) -> usize {
        self.free + self.counts.values().sum::<usize>()
    }

    /// The fewest leases that a host may be left with.
    pub fn share_min(&self) -> usize {
        self.leases() / self.hosts()
    }

    /// The most leases that a host takes while others are alive.
    pub fn share_max(&self) -> usize {
        self.leases().div_ceil(self.hosts())
    }

    /// The host to ask for a lease, where one has at least two more than `me`: then both are better off.
    pub fn richest(&self, me: &str) -> Option<&str> {
        let (host, count) =
            self.counts.iter().filter(|(host, _)| *host != me).max_by_key(|&(host, count)| {
                (*count, std::cmp::Reverse(hash_name(&format!("{me} {host}"))))
            })?;
        (*count >= self.of(me) + 2).then_some(host)
    }

    /// One lease is on its way from one host to another.
    pub fn moved(&mut self, from: &str, to: &str) {
        if let Some(count) = self.counts.get_mut(from) {
            *count = count.saturating_sub(1);
        }
        *self.counts.entry(to.to_owned()).or_default() += 1;
    }

    /// A free lease is on its way to a host.
    pub fn taken(&mut self, by: &str) {
        self.free = self.free.saturating_sub(1);
        *self.counts.entry(by.to_owned()).or_default() += 1;
    }
}

/// The order in which a host goes for leases: another one for each host, so that hosts that look at the same moment
/// seldom go for the same.
pub fn preference(host: &str, lease_key: &str) -> u64 {
    hash_name(&format!("{host} {lease_key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_host_asks_the_richest_until_it_has_its_share() {
        let leases = [("a", 5), ("b", 3)];
        let leases = leases.iter().flat_map(|&(owner, count)| vec![(Some(owner), None); count]);
        let mut load = Load::new("c", leases);
        assert_eq!((load.hosts(), load.share_min(), load.share_max()), (3, 2, 3));
        let mut asked = Vec::new();
        while let Some(richest) = load.richest("c").map(str::to_owned) {
            load.moved(&richest, "c");
            asked.push(richest);
        }
        assert_eq!(asked, ["a", "a"]);
        assert_eq!((load.of("a"), load.of("b"), load.of("c")), (3, 3, 2));
    }

    #[test]
    fn asking_hosts_are_alive_and_what_they_asked_for_is_theirs() {
        let load =
            Load::new("a", [(Some("a"), Some("b")), (Some("a"), None), (None, Some("gone")), (None, None)]);
        assert_eq!((load.of("a"), load.of("b"), load.hosts(), load.share_max()), (1, 1, 2, 2));
        let all_asked_for = Load::new("b", [(Some("a"), Some("b"))]);
        assert_eq!(all_asked_for.hosts(), 2);
    }

    #[test]
    fn nobody_asks_for_less_than_both_gain() {
        let load = Load::new("a", [(Some("a"), None), (Some("b"), None), (Some("b"), None)]);
        assert_eq!(load.richest("a"), None);
        assert_eq!(Load::new("a", [(Some("b"), None)]).richest("a"), None, "two hosts, one lease");
    }
}
