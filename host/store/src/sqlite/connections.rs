//! The connections to one file, and who may write when.
//!
//! SQLite lets one connection write at a time. Transactions here are short, and leases are written by a connection of
//! their own: a renewal gets in between the transactions of a long call, whichever process makes it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{Error, Result};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::open::connect;
use crate::StoreConfig;

/// Idle reading connections that are kept open.
const READERS_KEPT_MAX: usize = 4;

pub(super) struct Connections {
    pub(super) path: PathBuf,
    pub(super) config: StoreConfig,
    writer: Mutex<Connection>,
    lease_writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

/// What ended the work on a connection.
pub(super) enum Failure {
    Sql(rusqlite::Error),
    Port(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Port(error)
    }
}

pub(super) type Work<T> = std::result::Result<T, Failure>;

impl Connections {
    pub(super) fn new(
        path: PathBuf,
        config: StoreConfig,
        writer: Connection,
        lease_writer: Connection,
    ) -> Self {
        Self {
            path,
            config,
            writer: Mutex::new(writer),
            lease_writer: Mutex::new(lease_writer),
            readers: Mutex::new(Vec::new()),
        }
    }

    /// Runs `work` on one snapshot of the file.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let connections = Arc::clone(self);
        blocking(move || {
            let kept = lock(&connections.readers).pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => connections
                    .named(what, connect(&connections.path, &connections.config).map_err(Failure::Sql))?,
            };
            let outcome = in_transaction(&mut connection, TransactionBehavior::Deferred, |tx| work(tx));
            let outcome = connections.named(what, outcome);
            let mut readers = lock(&connections.readers);
            if readers.len() < READERS_KEPT_MAX {
                readers.push(connection);
            }
            outcome
        })
        .await
    }

    /// Runs `work` as one transaction: all of it or nothing.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.write_by(|connections| &connections.writer, what, work).await
    }

    /// The same for a lease, which does not queue behind this process's other writes.
    pub(super) async fn write_lease<T: Send + 'static>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.write_by(|connections| &connections.lease_writer, what, work).await
    }

    async fn write_by<T: Send + 'static>(
        self: &Arc<Self>,
        writer: fn(&Self) -> &Mutex<Connection>,
        what: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let connections = Arc::clone(self);
        blocking(move || {
            let mut writer = lock(writer(&connections));
            connections.named(what, in_transaction(&mut writer, TransactionBehavior::Immediate, work))
        })
        .await
    }

    /// Runs `work` as one transaction if the tenure holds in it.
    pub(super) async fn write_fenced(
        self: &Arc<Self>,
        what: &'static str,
        scope: &Arc<str>,
        tenure: &Tenure,
        work: impl FnOnce(&Transaction<'_>) -> Work<()> + Send + 'static,
    ) -> Result<Fenced> {
        let (scope, tenure) = (Arc::clone(scope), tenure.clone());
        self.write(what, move |tx| {
            if !holds(tx, &scope, &tenure)? {
                return Ok(Fenced::Lost);
            }
            work(tx)?;
            Ok(Fenced::Written)
        })
        .await
    }

    /// Cuts one call's writes into transactions of at most `count` items, each of them fenced.
    pub(super) async fn write_fenced_in_parts<I: Send + 'static>(
        self: &Arc<Self>,
        what: &'static str,
        scope: &Arc<str>,
        tenure: &Tenure,
        items: Vec<I>,
        count: usize,
        work: impl Fn(&Transaction<'_>, I) -> Work<()> + Clone + Send + 'static,
    ) -> Result<Fenced> {
        let mut items = items.into_iter();
        // A call without items still says whether the tenure holds.
        loop {
            let part: Vec<I> = items.by_ref().take(count).collect();
            let work = work.clone();
            let fenced = self
                .write_fenced(what, scope, tenure, move |tx| {
                    part.into_iter().try_for_each(|item| work(tx, item))
                })
                .await?;
            if fenced == Fenced::Lost || items.len() == 0 {
                return Ok(fenced);
            }
        }
    }

    fn named<T>(&self, what: &str, outcome: Work<T>) -> Result<T> {
        outcome.map_err(|failure| match failure {
            Failure::Port(error) => error,
            Failure::Sql(error) => classify(&self.path.display().to_string(), what, &error),
        })
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> Work<T>,
) -> Work<T> {
    let tx = connection.transaction_with_behavior(behavior)?;
    let done = work(&tx)?;
    tx.commit()?;
    Ok(done)
}

/// Whether the lease is still held by this tenure.
fn holds(tx: &Transaction<'_>, scope: &str, tenure: &Tenure) -> Work<bool> {
    let Ok(taken_at) = i64::try_from(tenure.taken_at) else { return Ok(false) };
    let found = tx
        .prepare_cached(
            "SELECT 1 FROM lease WHERE scope = ?1 AND lease_key = ?2 AND lease_owner = ?3 AND taken_at = ?4",
        )?
        .query_row(params![scope, tenure.lease_key, tenure.lease_owner, taken_at], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

/// A panic rolls its transaction back, so what the lock guards is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::transient("the store is shutting down")),
    }
}

/// What the host does next about an error of SQLite's.
pub(super) fn classify(path: &str, what: &str, error: &rusqlite::Error) -> Error {
    let code = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.code,
        _ => ErrorCode::Unknown,
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Error::transient(format!("{path}: {what}: another process is writing to the store"))
        }
        ErrorCode::DiskFull => Error::transient(format!("{path}: {what}: the disk is full: make room")),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Fatal(format!(
            "{path}: {what}: the file is damaged ({error}): put a copy back, or delete it and start anew"
        )),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => Error::Fatal(format!(
            "{path}: {what}: the file or its folder cannot be written ({error}): change their owner or mode, or name \
             another store"
        )),
        _ => Error::Fatal(format!("{path}: {what}: {error}")),
    }
}
