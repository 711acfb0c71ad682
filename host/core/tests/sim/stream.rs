//! A change stream whose shards split and merge, and the table behind it.

use std::collections::BTreeMap;

use keyvector_core::lease::lineage::Shard;

use crate::random::Random;

/// A row of the table: its key, and how often it has been written.
pub(crate) type Key = u32;
pub(crate) type Version = u64;

pub(crate) struct SimShard {
    pub(crate) parents: Vec<String>,
    pub(crate) records: Vec<(Key, Version)>,
    pub(crate) closed: bool,
    /// The keys that it takes, the end excluded.
    low: Key,
    high: Key,
}

pub(crate) struct Stream {
    pub(crate) shards: BTreeMap<String, SimShard>,
    /// The table: what the index has to equal in the end.
    pub(crate) table: BTreeMap<Key, Version>,
    keys: Key,
    made: u32,
}

impl Stream {
    pub(crate) fn new(roots: u32, keys: Key) -> Self {
        let mut stream = Self { shards: BTreeMap::new(), table: BTreeMap::new(), keys, made: 0 };
        for root in 0..roots {
            stream.add(vec![], keys * root / roots, keys * (root + 1) / roots);
        }
        stream
    }

    fn add(&mut self, parents: Vec<String>, low: Key, high: Key) {
        let shard = SimShard { parents, records: vec![], closed: false, low, high };
        self.shards.insert(format!("shard-{:05}", self.made), shard);
        self.made += 1;
    }

    pub(crate) fn produce(&mut self, random: &mut Random) {
        let key = random.between(0, u64::from(self.keys)) as Key;
        let version = self.table.entry(key).or_default();
        *version += 1;
        let shard =
            self.shards.values_mut().find(|shard| !shard.closed && (shard.low..shard.high).contains(&key));
        shard.expect("every key has an open shard").records.push((key, *version));
    }

    fn open(&self) -> Vec<String> {
        self.shards.iter().filter(|(_, shard)| !shard.closed).map(|(shard_id, _)| shard_id.clone()).collect()
    }

    pub(crate) fn split(&mut self, random: &mut Random) {
        let open = self.open();
        let Some(parent) = random.one_of(&open) else { return };
        let (low, high) = (self.shards[parent].low, self.shards[parent].high);
        if high - low < 2 {
            return;
        }
        let middle = random.between(u64::from(low) + 1, u64::from(high)) as Key;
        self.close(parent);
        self.add(vec![parent.clone()], low, middle);
        self.add(vec![parent.clone()], middle, high);
    }

    pub(crate) fn merge(&mut self, random: &mut Random) {
        let mut open = self.open();
        open.sort_by_key(|shard_id| self.shards[shard_id].low);
        if open.len() < 2 {
            return;
        }
        let at = random.between(0, open.len() as u64 - 1) as usize;
        let (left, right) = (open[at].clone(), open[at + 1].clone());
        let (low, high) = (self.shards[&left].low, self.shards[&right].high);
        self.close(&left);
        self.close(&right);
        self.add(vec![left, right], low, high);
    }

    fn close(&mut self, shard_id: &str) {
        self.shards.get_mut(shard_id).expect("it is open").closed = true;
    }

    pub(crate) fn listing(&self) -> Vec<Shard> {
        let shard = |(shard_id, shard): (&String, &SimShard)| Shard {
            shard_id: shard_id.clone(),
            parent_shard_ids: shard.parents.clone(),
            closed: shard.closed,
        };
        self.shards.iter().map(shard).collect()
    }
}
