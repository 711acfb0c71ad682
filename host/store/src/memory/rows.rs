use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::change::SequenceNumber;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{Result, RowPlace, RowStore, RowWrite, Rows};
use keyvector_core::row::Row;

use super::MemoryScope;

/// One table's rows.
#[derive(Clone)]
pub struct MemoryRows {
    pub(super) scope: MemoryScope,
    pub(super) table: Arc<str>,
}

#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<String, Kept>,
    statics: BTreeMap<String, Kept>,
}

struct Kept {
    shard_id: Arc<str>,
    sequence_number: SequenceNumber,
    row: Option<Row>,
}

impl Kept {
    fn live(&self, now_ms: i64) -> Option<&Row> {
        self.row.as_ref().filter(|row| row.expires_at_ms.is_none_or(|expires_at_ms| expires_at_ms > now_ms))
    }
}

/// Within one shard never back; across shards the later write wins.
fn keep(
    rows: &mut BTreeMap<String, Kept>,
    key: &str,
    shard_id: &Arc<str>,
    sequence_number: &SequenceNumber,
    row: Option<&Row>,
) {
    let kept = || Kept {
        shard_id: Arc::clone(shard_id),
        sequence_number: sequence_number.clone(),
        row: row.cloned(),
    };
    match rows.get_mut(key) {
        None => {
            rows.insert(key.to_owned(), kept());
        }
        Some(stored) if stored.shard_id == *shard_id && *sequence_number <= stored.sequence_number => {}
        Some(stored) => *stored = kept(),
    }
}

#[async_trait]
impl Rows for MemoryRows {
    async fn read(&self, keys: &[&str], now_ms: i64) -> Result<Vec<Option<Row>>> {
        let contents = self.scope.lock();
        let table = contents.tables.get(&self.table);
        Ok(keys
            .iter()
            .map(|&key| {
                table.and_then(|table| table.rows.get(key)).and_then(|kept| kept.live(now_ms)).cloned()
            })
            .collect())
    }

    async fn scan(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<(String, Row)>> {
        let contents = self.scope.lock();
        let Some(table) = contents.tables.get(&self.table) else { return Ok(Vec::new()) };
        let from = after_exclusive.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(table
            .rows
            .range::<str, _>((from, Bound::Unbounded))
            .filter_map(|(key, kept)| kept.live(now_ms).map(|row| (key.clone(), row.clone())))
            .take(limit)
            .collect())
    }
}

#[async_trait]
impl RowStore for MemoryRows {
    async fn keep(&self, tenure: &Tenure, writes: &[RowWrite<'_>]) -> Result<Fenced> {
        let shard_id: Arc<str> = tenure.lease_key.as_str().into();
        Ok(self.scope.fenced(tenure, |contents| {
            let table = contents.tables.entry(Arc::clone(&self.table)).or_default();
            for write in writes {
                keep(&mut table.rows, write.key.as_str(), &shard_id, write.sequence_number, write.row);
            }
        }))
    }

    async fn keep_statics(
        &self,
        tenure: &Tenure,
        partition: &str,
        sequence_number: &SequenceNumber,
        statics: Option<&Row>,
    ) -> Result<Fenced> {
        let shard_id: Arc<str> = tenure.lease_key.as_str().into();
        Ok(self.scope.fenced(tenure, |contents| {
            let table = contents.tables.entry(Arc::clone(&self.table)).or_default();
            keep(&mut table.statics, partition, &shard_id, sequence_number, statics);
        }))
    }

    async fn places(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<RowPlace>> {
        let contents = self.scope.lock();
        let Some(table) = contents.tables.get(&self.table) else { return Ok(Vec::new()) };
        let from = after_exclusive.map_or(Bound::Unbounded, Bound::Excluded);
        let live = table
            .rows
            .range::<str, _>((from, Bound::Unbounded))
            .filter(|(_, kept)| kept.live(now_ms).is_some());
        Ok(live
            .map(|(key, kept)| RowPlace {
                key: RowKey::from_stored(key.clone()),
                shard_id: kept.shard_id.to_string(),
                sequence_number: kept.sequence_number.clone(),
            })
            .take(limit)
            .collect())
    }

    async fn read_statics(&self, partition: &str) -> Result<Option<Row>> {
        let contents = self.scope.lock();
        let table = contents.tables.get(&self.table);
        Ok(table.and_then(|table| table.statics.get(partition)).and_then(|kept| kept.row.clone()))
    }
}
