//! Opening the file: what it must be, who may read it, which format it has.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use keyvector_core::fingerprint::FINGERPRINT_FORMAT;
use keyvector_core::key::KEY_FORMAT;
use keyvector_core::port::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::connections::{Connections, classify};
use crate::StoreConfig;

/// The number of the file's format, SQLite's `user_version`. An older one is brought up to it, a newer one refused.
pub const STORE_FORMAT: i32 = 2;

// What stands in the file has formats of its own: if one of them changes, so does the file's.
const _: () = assert!(
    STORE_FORMAT == 2 && KEY_FORMAT == 1 && FINGERPRINT_FORMAT == 1,
    "raise STORE_FORMAT with the format of keys or fingerprints"
);

/// SQLite's `application_id`: "KVec".
const APPLICATION_ID: i32 = 0x4b56_6563;

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Vectors stand in one table an index, `vectors_<id>`, made with the index, so that a search reads its own only.
const SCHEMA: &str = "
CREATE TABLE lease (
    scope TEXT NOT NULL,
    lease_key TEXT NOT NULL,
    lease_owner TEXT,
    lease_counter INTEGER NOT NULL,
    -- The counter that the owner's take wrote; with the owner it is the tenure that fences writes.
    taken_at INTEGER,
    checkpoint TEXT NOT NULL,
    parent_shard_ids TEXT NOT NULL,
    wanted_by TEXT,
    skip_before_ms INTEGER,
    unsettled INTEGER NOT NULL DEFAULT 0,
    tip_at_ms INTEGER,
    PRIMARY KEY (scope, lease_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE vector_index (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    dimension INTEGER NOT NULL,
    metric TEXT NOT NULL,
    non_filterable_keys TEXT NOT NULL,
    table_identity TEXT NOT NULL,
    model_identity TEXT NOT NULL
) STRICT;

CREATE TABLE kept_row (
    table_name TEXT NOT NULL,
    key TEXT NOT NULL,
    shard_id TEXT NOT NULL,
    sequence_number TEXT NOT NULL,
    expires_at_ms INTEGER,
    -- NULL: the row is gone.
    cells BLOB,
    PRIMARY KEY (table_name, key)
) STRICT;

CREATE TABLE kept_statics (
    table_name TEXT NOT NULL,
    key TEXT NOT NULL,
    shard_id TEXT NOT NULL,
    sequence_number TEXT NOT NULL,
    expires_at_ms INTEGER,
    cells BLOB,
    PRIMARY KEY (table_name, key)
) STRICT;

CREATE TABLE letter (
    -- Never given twice, so that a number once shown stays one letter's.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL,
    row_key TEXT,
    shard_id TEXT NOT NULL,
    sequence_number TEXT NOT NULL,
    place TEXT NOT NULL,
    class TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    host_version TEXT NOT NULL,
    plugin_digest TEXT NOT NULL,
    image BLOB,
    image_cut INTEGER NOT NULL,
    UNIQUE (table_name, shard_id, sequence_number, class)
) STRICT;
";

/// From format 1, whose leases had fewer columns.
const FROM_FORMAT_1: &str = "
ALTER TABLE lease ADD COLUMN wanted_by TEXT;
ALTER TABLE lease ADD COLUMN skip_before_ms INTEGER;
ALTER TABLE lease ADD COLUMN unsettled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN tip_at_ms INTEGER;
";

pub(super) fn open(path: &Path, config: StoreConfig) -> Result<Connections> {
    let shown = path.display();
    // An absolute path cannot be taken for a `file:` URI, and survives a change of the working folder.
    let path =
        std::path::absolute(path).map_err(|error| Error::Fatal(format!("the store {shown}: {error}")))?;
    make_file(&path, config.create)?;
    let named = |outcome: rusqlite::Result<Connection>| {
        outcome.map_err(|error| classify(&path.display().to_string(), "open the store", &error))
    };
    let mut writer = named(connect(&path, &config))?;
    // Looked at before anything is changed: it may be somebody else's.
    let found = found_format(&path, &mut writer)?;
    make_private(&path)?;
    let made = |outcome: rusqlite::Result<()>| {
        outcome.map_err(|error| classify(&path.display().to_string(), "make the store", &error))
    };
    match found {
        Some(STORE_FORMAT) => {}
        Some(_) => made(bring_up(&mut writer))?,
        None => {
            made(initialise(&mut writer, config.busy_timeout))?;
            // Two processes may have begun at once; only one has made the tables, and it may be of another release.
            found_format(&path, &mut writer)?;
        }
    }
    let lease_writer = named(connect(&path, &config))?;
    // A checkpoint of the log is left to the ordinary writer, unless nothing but renewals happens for long.
    named(lease_writer.pragma_update(None, "wal_autocheckpoint", 10_000).map(|()| lease_writer))
        .map(|lease_writer| Connections::new(path.clone(), config, writer, lease_writer))
}

/// One more connection to a file that is there.
pub(super) fn connect(path: &Path, config: &StoreConfig) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(config.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    // NORMAL: a power cut may take the last transactions, but always the latest first, and checkpoint and vectors are
    // in the same file: what is left is a state that once was.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // KiB when negative.
    connection.pragma_update(None, "cache_size", -16_384)?;
    // After a burst the log shrinks to this many bytes.
    connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    Ok(connection)
}

/// Makes the file where it is missing, and refuses at once what cannot be a store.
fn make_file(path: &Path, create: bool) -> Result<()> {
    let shown = path.display();
    match File::open(path) {
        Ok(mut file) => {
            let is_dir = file.metadata().map(|metadata| metadata.is_dir()).unwrap_or(false);
            if is_dir {
                return Err(Error::Fatal(format!(
                    "the store {shown} is a folder: name a file in it, for example {}",
                    path.join("keyvector.db").display()
                )));
            }
            let mut head = Vec::with_capacity(SQLITE_MAGIC.len());
            file.by_ref()
                .take(SQLITE_MAGIC.len() as u64)
                .read_to_end(&mut head)
                .map_err(|error| Error::Fatal(format!("the store {shown} cannot be read: {error}")))?;
            // An empty file is what a start that was cut short leaves.
            if !head.is_empty() && head != SQLITE_MAGIC {
                return Err(Error::Fatal(format!(
                    "the store {shown} is not an SQLite file: name another file, it is left as it is"
                )));
            }
            writable(path, OpenOptions::new().read(true).write(true).open(path))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && create => {
            if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
                return Err(Error::Fatal(format!(
                    "the store {shown} cannot be made: there is no folder {}: make it, or name another store",
                    folder.display()
                )));
            }
            match private_file(path) {
                // Another process was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                outcome => writable(path, outcome),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::Fatal(format!(
            "there is no store {shown}: run the host once, or name the store that it writes"
        ))),
        Err(error) => Err(Error::Fatal(format!(
            "the store {shown} cannot be opened ({error}): change its owner or mode, or name another store"
        ))),
    }
}

fn writable(path: &Path, outcome: std::io::Result<File>) -> Result<()> {
    outcome.map(|_| ()).map_err(|error| {
        Error::Fatal(format!(
            "the store {} cannot be written ({error}): change its owner or mode, or name another store",
            path.display()
        ))
    })
}

#[cfg(unix)]
fn private_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // SQLite gives `-wal` and `-shm` the mode of the file itself.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(unix)]
fn make_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for path in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        let open_to_others =
            fs::metadata(&path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
        if open_to_others {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(|error| {
                Error::Fatal(format!(
                    "the store {} may be read by others, and its mode cannot be changed ({error}): chmod 600 it",
                    path.display()
                ))
            })?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_path: &Path) -> Result<()> {
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The format of what is in the file; `None`: nothing yet. Refuses a file that is not ours, or of an unknown format.
fn found_format(path: &Path, connection: &mut Connection) -> Result<Option<i32>> {
    let shown = path.display();
    let read = |connection: &mut Connection| -> rusqlite::Result<(i32, i32, i64)> {
        // One transaction: another process may be making the tables right now.
        let tx = connection.transaction()?;
        let application_id = tx.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let format = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let items = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        tx.commit()?;
        Ok((application_id, format, items))
    };
    let (application_id, format, items) =
        read(connection).map_err(|error| classify(&shown.to_string(), "open the store", &error))?;
    if (application_id, format, items) == (0, 0, 0) {
        return Ok(None);
    }
    if application_id != APPLICATION_ID {
        return Err(Error::Fatal(format!(
            "the store {shown} is another application's SQLite file: name another file, it is left as it is"
        )));
    }
    if !(1..=STORE_FORMAT).contains(&format) {
        return Err(Error::Fatal(format!(
            "the store {shown} has format {format}, this host knows format {STORE_FORMAT}: use the release that wrote \
             it, or name another store"
        )));
    }
    Ok(Some(format))
}

/// Brings an older file up to this format.
fn bring_up(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    let format: i32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format == 1 {
        tx.execute_batch(FROM_FORMAT_1)?;
        tx.pragma_update(None, "user_version", STORE_FORMAT)?;
    }
    tx.commit()
}

fn initialise(connection: &mut Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    // A search reads fewer pages than with SQLite's own 4,096 bytes; with still larger ones each small commit would
    // write more.
    connection.pragma_update(None, "page_size", 8192)?;
    // The busy handler is not asked when the journal mode changes.
    let began = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(rusqlite::Error::SqliteFailure(failure, _))
                if failure.code == ErrorCode::DatabaseBusy && began.elapsed() < busy_timeout =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            outcome => break outcome?,
        }
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let items: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if items == 0 {
        tx.execute_batch(SCHEMA)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", STORE_FORMAT)?;
    }
    tx.commit()
}

pub(super) fn delete(path: &Path) -> Result<()> {
    let shown = path.display();
    let path =
        std::path::absolute(path).map_err(|error| Error::Fatal(format!("the store {shown}: {error}")))?;
    if !path.exists() {
        return Ok(());
    }
    make_file(&path, false)?;
    let named = |error| classify(&shown.to_string(), "open the store", &error);
    let mut connection = connect(&path, &StoreConfig::default()).map_err(named)?;
    found_format(&path, &mut connection)?;
    // Closing the last connection empties the log into the file and removes it.
    drop(connection);
    for path in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::Fatal(format!("{} cannot be deleted: {error}", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}
