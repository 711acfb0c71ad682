//! The embedded row store: each row's last image, with where in the stream it came from.

use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::change::SequenceNumber;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{Error, Result, RowPlace, RowStore, RowWrite, Rows};
use keyvector_core::row::Row;
use keyvector_core::schema::TableSchema;
use rusqlite::{OptionalExtension, Transaction, params};

use super::TableScope;
use super::connections::Work;
use super::leases::damaged;

/// One table's rows.
#[derive(Clone)]
pub struct SqliteRows {
    scope: TableScope,
    table: Arc<str>,
    schema: Arc<TableSchema>,
}

const ROWS_PER_TRANSACTION: usize = 500;

/// What is kept under a key, as it is stored.
struct Kept {
    key: String,
    sequence_number: SequenceNumber,
    expires_at_ms: Option<i64>,
    cells: Option<Vec<u8>>,
}

impl SqliteRows {
    pub(super) fn new(scope: TableScope, table: &str, schema: Arc<TableSchema>) -> Self {
        Self { scope, table: table.into(), schema }
    }

    fn kept(&self, key: &str, sequence_number: &SequenceNumber, row: Option<&Row>) -> Kept {
        Kept {
            key: key.to_owned(),
            sequence_number: sequence_number.clone(),
            expires_at_ms: row.and_then(|row| row.expires_at_ms),
            cells: row.map(|row| row.to_stored(&self.schema)),
        }
    }

    async fn keep_all(
        &self,
        what: &'static str,
        statements: &'static Statements,
        tenure: &Tenure,
        writes: Vec<Kept>,
    ) -> Result<Fenced> {
        let table = Arc::clone(&self.table);
        let shard_id = tenure.lease_key.clone();
        self.scope
            .connections
            .write_fenced_in_parts(
                what,
                &self.scope.name,
                tenure,
                writes,
                ROWS_PER_TRANSACTION,
                move |tx, write| keep(tx, statements, &table, &shard_id, &write),
            )
            .await
    }
}

struct Statements {
    stored: &'static str,
    put: &'static str,
}

static ROW: Statements = Statements {
    stored: "SELECT shard_id, sequence_number FROM kept_row WHERE table_name = ?1 AND key = ?2",
    put: "INSERT OR REPLACE INTO kept_row (table_name, key, shard_id, sequence_number, expires_at_ms, cells)
          VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
};

static STATICS: Statements = Statements {
    stored: "SELECT shard_id, sequence_number FROM kept_statics WHERE table_name = ?1 AND key = ?2",
    put: "INSERT OR REPLACE INTO kept_statics (table_name, key, shard_id, sequence_number, expires_at_ms, cells)
          VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
};

/// Sequence numbers are compared as numbers, and within one shard only: across shards the later write wins, since a
/// child shard begins after its parents have ended.
fn keep(
    tx: &Transaction<'_>,
    statements: &Statements,
    table: &str,
    shard_id: &str,
    write: &Kept,
) -> Work<()> {
    let stored: Option<(String, String)> = tx
        .prepare_cached(statements.stored)?
        .query_row(params![table, write.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((stored_shard_id, stored)) = stored
        && stored_shard_id == shard_id
    {
        let stored = SequenceNumber::new(&stored).ok_or_else(|| damaged("a row's sequence number"))?;
        if write.sequence_number <= stored {
            return Ok(());
        }
    }
    tx.prepare_cached(statements.put)?.execute(params![
        table,
        write.key,
        shard_id,
        write.sequence_number.as_str(),
        write.expires_at_ms,
        write.cells
    ])?;
    Ok(())
}

fn read_cells(schema: &TableSchema, cells: &[u8]) -> Work<Row> {
    // A newer host may have written rows of another format into a store whose own format is the same.
    Row::from_stored(schema, cells).map_err(|error| Error::Fatal(error.to_string()).into())
}

#[async_trait]
impl Rows for SqliteRows {
    async fn read(&self, keys: &[&str], now_ms: i64) -> Result<Vec<Option<Row>>> {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        self.scope
            .connections
            .read("read rows", move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT cells FROM kept_row WHERE table_name = ?1 AND key = ?2 AND cells IS NOT NULL
                     AND (expires_at_ms IS NULL OR expires_at_ms > ?3)",
                )?;
                let mut found = Vec::with_capacity(keys.len());
                for key in &keys {
                    let mut rows = statement.query(params![&*table, key, now_ms])?;
                    found.push(match rows.next()? {
                        None => None,
                        Some(row) => Some(read_cells(
                            &schema,
                            row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?,
                        )?),
                    });
                }
                Ok(found)
            })
            .await
    }

    async fn scan(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<(String, Row)>> {
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let after = after_exclusive.map(str::to_owned);
        self.scope
            .connections
            .read("scan rows", move |connection| {
                // Two texts, so that SQLite searches the key in both.
                let mut statement = connection.prepare_cached(if after.is_some() {
                    "SELECT key, cells FROM kept_row WHERE table_name = ?1 AND key > ?2 AND cells IS NOT NULL
                     AND (expires_at_ms IS NULL OR expires_at_ms > ?3) ORDER BY key LIMIT ?4"
                } else {
                    "SELECT key, cells FROM kept_row WHERE table_name = ?1 AND key >= ?2 AND cells IS NOT NULL
                     AND (expires_at_ms IS NULL OR expires_at_ms > ?3) ORDER BY key LIMIT ?4"
                })?;
                let mut rows = statement.query(params![&*table, after.unwrap_or_default(), now_ms, limit])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let cells = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                    found.push((row.get(0)?, read_cells(&schema, cells)?));
                }
                Ok(found)
            })
            .await
    }
}

#[async_trait]
impl RowStore for SqliteRows {
    async fn keep(&self, tenure: &Tenure, writes: &[RowWrite<'_>]) -> Result<Fenced> {
        let writes = writes
            .iter()
            .map(|write| self.kept(write.key.as_str(), write.sequence_number, write.row))
            .collect();
        self.keep_all("keep rows", &ROW, tenure, writes).await
    }

    async fn keep_statics(
        &self,
        tenure: &Tenure,
        partition: &str,
        sequence_number: &SequenceNumber,
        statics: Option<&Row>,
    ) -> Result<Fenced> {
        let write = self.kept(partition, sequence_number, statics);
        self.keep_all("keep static cells", &STATICS, tenure, vec![write]).await
    }

    async fn places(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<RowPlace>> {
        let table = Arc::clone(&self.table);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let after = after_exclusive.map(str::to_owned);
        self.scope
            .connections
            .read("scan row places", move |connection| {
                let mut statement = connection.prepare_cached(if after.is_some() {
                    "SELECT key, shard_id, sequence_number FROM kept_row WHERE table_name = ?1 AND key > ?2
                     AND cells IS NOT NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?3) ORDER BY key LIMIT ?4"
                } else {
                    "SELECT key, shard_id, sequence_number FROM kept_row WHERE table_name = ?1 AND key >= ?2
                     AND cells IS NOT NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?3) ORDER BY key LIMIT ?4"
                })?;
                let mut rows = statement.query(params![&*table, after.unwrap_or_default(), now_ms, limit])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let number: String = row.get(2)?;
                    found.push(RowPlace {
                        key: RowKey::from_stored(row.get::<_, String>(0)?),
                        shard_id: row.get(1)?,
                        sequence_number: SequenceNumber::new(&number)
                            .ok_or_else(|| damaged("a row's sequence number"))?,
                    });
                }
                Ok(found)
            })
            .await
    }

    async fn read_statics(&self, partition: &str) -> Result<Option<Row>> {
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        let partition = partition.to_owned();
        self.scope
            .connections
            .read("read static cells", move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT cells FROM kept_statics WHERE table_name = ?1 AND key = ?2 AND cells IS NOT NULL",
                )?;
                let mut rows = statement.query(params![&*table, partition])?;
                match rows.next()? {
                    None => Ok(None),
                    Some(row) => {
                        let cells = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                        Ok(Some(read_cells(&schema, cells)?))
                    }
                }
            })
            .await
    }
}
