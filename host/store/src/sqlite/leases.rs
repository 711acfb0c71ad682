//! The lease table.

use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::lease::{Applied, Checkpoint, Lease, LeaseWrite};
use keyvector_core::port::{Error, LeaseTable, Result};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

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

const SELECT: &str =
    "SELECT lease_key, lease_owner, lease_counter, taken_at, checkpoint, parent_shard_ids, wanted_by,
    skip_before_ms, unsettled, tip_at_ms FROM lease WHERE scope = ?1";

#[async_trait]
impl LeaseTable for SqliteLeases {
    async fn list(&self) -> Result<Vec<Lease>> {
        let scope = Arc::clone(&self.scope.name);
        self.scope
            .connections
            .read("list leases", move |connection| {
                let mut statement = connection.prepare_cached(&format!("{SELECT} ORDER BY lease_key"))?;
                let mut rows = statement.query([&*scope])?;
                let mut leases = Vec::new();
                while let Some(row) = rows.next()? {
                    leases.push(read(row)?);
                }
                Ok(leases)
            })
            .await
    }

    async fn get(&self, lease_key: &str) -> Result<Option<Lease>> {
        let (scope, lease_key) = (Arc::clone(&self.scope.name), lease_key.to_owned());
        self.scope
            .connections
            .read("read a lease", move |connection| find(connection, &scope, &lease_key))
            .await
    }

    async fn write(&self, write: &LeaseWrite) -> Result<Option<Applied>> {
        let (scope, write) = (Arc::clone(&self.scope.name), write.clone());
        self.scope
            .connections
            .write_lease("write a lease", move |tx| {
                let applied = write.apply(find(tx, &scope, write.lease_key())?.as_ref());
                match &applied {
                    Some(Applied::Row(lease)) => put(tx, &scope, lease)?,
                    Some(Applied::Removed) => {
                        tx.prepare_cached("DELETE FROM lease WHERE scope = ?1 AND lease_key = ?2")?
                            .execute(params![&*scope, write.lease_key()])?;
                    }
                    None => {}
                }
                Ok(applied)
            })
            .await
    }
}

fn find(
    connection: &Connection,
    scope: &str,
    lease_key: &str,
) -> std::result::Result<Option<Lease>, Failure> {
    connection
        .prepare_cached(&format!("{SELECT} AND lease_key = ?2"))?
        .query_row([scope, lease_key], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

fn read(row: &Row<'_>) -> std::result::Result<Lease, Failure> {
    let parents: String = row.get(5)?;
    Ok(Lease {
        lease_key: row.get(0)?,
        lease_owner: row.get(1)?,
        lease_counter: counter_from(row.get(2)?)?,
        taken_at: row.get::<_, Option<i64>>(3)?.map(counter_from).transpose()?,
        checkpoint: Checkpoint::parse(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?),
        parent_shard_ids: serde_json::from_str(&parents)
            .map_err(|error| damaged(&format!("parent shard ids: {error}")))?,
        wanted_by: row.get(6)?,
        skip_before_ms: row.get(7)?,
        unsettled: row.get(8)?,
        tip_at_ms: row.get(9)?,
    })
}

fn put(tx: &Transaction<'_>, scope: &str, lease: &Lease) -> std::result::Result<(), Failure> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO lease (scope, lease_key, lease_owner, lease_counter, taken_at, checkpoint,
         parent_shard_ids, wanted_by, skip_before_ms, unsettled, tip_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        scope,
        lease.lease_key,
        lease.lease_owner,
        counter_to(lease.lease_counter)?,
        lease.taken_at.map(counter_to).transpose()?,
        lease.checkpoint.as_str(),
        serde_json::Value::from(lease.parent_shard_ids.as_slice()).to_string(),
        lease.wanted_by,
        lease.skip_before_ms,
        lease.unsettled,
        lease.tip_at_ms,
    ])?;
    Ok(())
}

fn counter_from(stored: i64) -> std::result::Result<u64, Failure> {
    u64::try_from(stored).map_err(|_| damaged("a lease counter below 0"))
}

/// [`LeaseWrite::apply`] raises no counter beyond what fits.
fn counter_to(counter: u64) -> std::result::Result<i64, Failure> {
    i64::try_from(counter).map_err(|_| damaged("a lease counter over 2^63"))
}

pub(super) fn damaged(what: &str) -> Failure {
    Failure::Port(Error::Fatal(format!(
        "the store holds what no host writes ({what}): put a copy back, or delete it and start anew"
    )))
}
