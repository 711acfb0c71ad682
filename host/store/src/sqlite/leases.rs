//! The lease table.

use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::lease::{Checkpoint, Fenced, Lease, Tenure};
use keyvector_core::port::{Error, LeaseTable, Result};
use rusqlite::params;

use super::TableScope;
use super::connections::Failure;

/// The leases of one scope.
#[derive(Clone)]
pub struct SqliteLeases {
    scope: TableScope,
}

impl SqliteLeases {
    pub(super) fn new(scope: TableScope) -> Self {
        Self { scope }
    }
}

#[async_trait]
impl LeaseTable for SqliteLeases {
    async fn list(&self) -> Result<Vec<Lease>> {
        let scope = Arc::clone(&self.scope.name);
        self.scope
            .connections
            .read("list leases", move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT lease_key, lease_owner, lease_counter, checkpoint, parent_shard_ids
                     FROM lease WHERE scope = ?1 ORDER BY lease_key",
                )?;
                let mut rows = statement.query([&*scope])?;
                let mut leases = Vec::new();
                while let Some(row) = rows.next()? {
                    let parents: String = row.get(4)?;
                    leases.push(Lease {
                        lease_key: row.get(0)?,
                        lease_owner: row.get(1)?,
                        lease_counter: counter_from(row.get(2)?)?,
                        checkpoint: Checkpoint::parse(
                            row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?,
                        ),
                        parent_shard_ids: serde_json::from_str(&parents)
                            .map_err(|error| damaged(&format!("parent shard ids: {error}")))?,
                    });
                }
                Ok(leases)
            })
            .await
    }

    async fn create(
        &self,
        lease_key: &str,
        parent_shard_ids: &[String],
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let scope = Arc::clone(&self.scope.name);
        let lease_key = lease_key.to_owned();
        let checkpoint = checkpoint.as_str().to_owned();
        let parents = serde_json::Value::from(parent_shard_ids).to_string();
        self.scope
            .connections
            .write_lease("create a lease", move |tx| {
                tx.prepare_cached(
                    "INSERT INTO lease (scope, lease_key, lease_counter, checkpoint, parent_shard_ids)
                     VALUES (?1, ?2, 0, ?3, ?4) ON CONFLICT DO NOTHING",
                )?
                .execute(params![&*scope, lease_key, checkpoint, parents])?;
                Ok(())
            })
            .await
    }

    async fn take(&self, seen: &Lease, owner: &str) -> Result<Option<Tenure>> {
        let Some(counter) = next_counter(seen.lease_counter) else { return Ok(None) };
        let scope = Arc::clone(&self.scope.name);
        let seen_owner = seen.lease_owner.clone();
        let tenure = Tenure {
            lease_key: seen.lease_key.clone(),
            lease_owner: owner.to_owned(),
            taken_at: seen.lease_counter + 1,
        };
        self.scope
            .connections
            .write_lease("take a lease", move |tx| {
                let taken = tx
                    .prepare_cached(
                        "UPDATE lease SET lease_owner = ?1, lease_counter = ?2, taken_at = ?2
                         WHERE scope = ?3 AND lease_key = ?4 AND lease_owner IS ?5 AND lease_counter = ?2 - 1",
                    )?
                    .execute(params![tenure.lease_owner, counter, &*scope, tenure.lease_key, seen_owner])?;
                Ok((taken == 1).then_some(tenure))
            })
            .await
    }

    async fn renew(
        &self,
        tenure: &Tenure,
        counter: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<u64>> {
        let (Some(raised), Ok(taken_at)) = (next_counter(counter), i64::try_from(tenure.taken_at)) else {
            return Ok(None);
        };
        let scope = Arc::clone(&self.scope.name);
        let tenure = tenure.clone();
        let checkpoint = checkpoint.map(|checkpoint| checkpoint.as_str().to_owned());
        self.scope
            .connections
            .write_lease("renew a lease", move |tx| {
                let renewed = tx
                    .prepare_cached(
                        "UPDATE lease SET lease_counter = ?1, checkpoint = coalesce(?2, checkpoint)
                         WHERE scope = ?3 AND lease_key = ?4 AND lease_owner = ?5 AND taken_at = ?6
                         AND lease_counter = ?1 - 1",
                    )?
                    .execute(params![
                        raised,
                        checkpoint,
                        &*scope,
                        tenure.lease_key,
                        tenure.lease_owner,
                        taken_at
                    ])?;
                Ok((renewed == 1).then_some(counter + 1))
            })
            .await
    }

    async fn release(&self, tenure: &Tenure, checkpoint: Option<&Checkpoint>) -> Result<Fenced> {
        let Ok(taken_at) = i64::try_from(tenure.taken_at) else { return Ok(Fenced::Lost) };
        let scope = Arc::clone(&self.scope.name);
        let tenure = tenure.clone();
        let checkpoint = checkpoint.map(|checkpoint| checkpoint.as_str().to_owned());
        self.scope
            .connections
            .write_lease("release a lease", move |tx| {
                let released = tx
                    .prepare_cached(
                        "UPDATE lease SET lease_owner = NULL, taken_at = NULL, lease_counter = lease_counter + 1,
                         checkpoint = coalesce(?1, checkpoint)
                         WHERE scope = ?2 AND lease_key = ?3 AND lease_owner = ?4 AND taken_at = ?5",
                    )?
                    .execute(params![checkpoint, &*scope, tenure.lease_key, tenure.lease_owner, taken_at])?;
                Ok(if released == 1 { Fenced::Written } else { Fenced::Lost })
            })
            .await
    }
}

/// The counter one higher, as SQLite keeps it; `None` where no stored counter can be the one seen.
fn next_counter(counter: u64) -> Option<i64> {
    i64::try_from(counter).ok()?.checked_add(1)
}

fn counter_from(stored: i64) -> std::result::Result<u64, Failure> {
    u64::try_from(stored).map_err(|_| damaged("a lease counter below 0"))
}

pub(super) fn damaged(what: &str) -> Failure {
    Failure::Port(Error::Fatal(format!(
        "the store holds what no host writes ({what}): put a copy back, or delete it and start anew"
    )))
}
