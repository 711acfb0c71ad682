//! Small durable items.

use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::port::{Result, State};
use rusqlite::{OptionalExtension, params};

use super::TableScope;

/// The items of one scope.
#[derive(Clone)]
pub struct SqliteState {
    scope: TableScope,
}

impl SqliteState {
    pub(super) fn new(scope: TableScope) -> Self {
        Self { scope }
    }
}

const PUT: &str = "INSERT INTO state (scope, key, value) VALUES (?1, ?2, ?3)
                   ON CONFLICT DO UPDATE SET value = excluded.value";

#[async_trait]
impl State for SqliteState {
    async fn get(&self, key: &str) -> Result<Option<String>> {
        let (scope, key) = (Arc::clone(&self.scope.name), key.to_owned());
        self.scope
            .connections
            .read("read a state item", move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT value FROM state WHERE scope = ?1 AND key = ?2")?;
                Ok(statement.query_row(params![&*scope, key], |row| row.get(0)).optional()?)
            })
            .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let (scope, prefix) = (Arc::clone(&self.scope.name), prefix.to_owned());
        self.scope
            .connections
            .read("list state items", move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT key, value FROM state WHERE scope = ?1 AND key >= ?2 ORDER BY key",
                )?;
                let mut rows = statement.query(params![&*scope, prefix])?;
                let mut items = Vec::new();
                while let Some(row) = rows.next()? {
                    let key: String = row.get(0)?;
                    // Keys are in order of their bytes, so the first without the prefix ends it.
                    if !key.starts_with(&prefix) {
                        break;
                    }
                    items.push((key, row.get(1)?));
                }
                Ok(items)
            })
            .await
    }

    async fn put(&self, key: &str, value: &str) -> Result<()> {
        let (scope, key, value) = (Arc::clone(&self.scope.name), key.to_owned(), value.to_owned());
        self.scope
            .connections
            .write("put a state item", move |tx| {
                tx.prepare_cached(PUT)?.execute(params![&*scope, key, value])?;
                Ok(())
            })
            .await
    }

    async fn put_if(&self, key: &str, expected: Option<&str>, value: &str) -> Result<bool> {
        let (scope, key, value) = (Arc::clone(&self.scope.name), key.to_owned(), value.to_owned());
        let expected = expected.map(str::to_owned);
        self.scope
            .connections
            .write("put a state item", move |tx| {
                let stored: Option<String> = tx
                    .prepare_cached("SELECT value FROM state WHERE scope = ?1 AND key = ?2")?
                    .query_row(params![&*scope, key], |row| row.get(0))
                    .optional()?;
                if stored != expected {
                    return Ok(false);
                }
                tx.prepare_cached(PUT)?.execute(params![&*scope, key, value])?;
                Ok(true)
            })
            .await
    }

    async fn remove(&self, key: &str) -> Result<()> {
        let (scope, key) = (Arc::clone(&self.scope.name), key.to_owned());
        self.scope
            .connections
            .write("remove a state item", move |tx| {
                tx.prepare_cached("DELETE FROM state WHERE scope = ?1 AND key = ?2")?
                    .execute(params![&*scope, key])?;
                Ok(())
            })
            .await
    }
}
