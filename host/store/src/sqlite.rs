//! The store over one SQLite file.

mod connections;
mod leases;
mod letters;
mod open;
mod rows;
mod state;
mod vectors;

use std::path::Path;
use std::sync::Arc;

use keyvector_core::port::Result;
use keyvector_core::schema::TableSchema;

use crate::StoreConfig;
use connections::Connections;

pub use leases::SqliteLeases;
pub use letters::SqliteLetters;
pub use open::STORE_FORMAT;
pub use rows::SqliteRows;
pub use state::SqliteState;
pub use vectors::SqliteIndex;

/// The embedded store, open. Clones share it.
#[derive(Clone)]
pub struct Store {
    connections: Arc<Connections>,
}

impl Store {
    /// Opens the store at `path`, making it where it is missing and the configuration says so. The file and the two
    /// that SQLite keeps beside it (`-wal`, `-shm`) may be read and written by their owner only.
    ///
    /// It blocks for some milliseconds.
    ///
    /// # Errors
    /// `Fatal`, in one line with the path and what to do: a folder, a place that cannot be written, a file that is no
    /// SQLite file or another application's, a store of another format (with both numbers), a damaged file.
    pub fn open(path: impl AsRef<Path>, config: StoreConfig) -> Result<Self> {
        Ok(Self { connections: Arc::new(open::open(path.as_ref(), config)?) })
    }

    /// Deletes the store at `path` with the files beside it. That it is not there is fine. No process may have it
    /// open.
    ///
    /// # Errors
    /// `Fatal` where there is something that is no store of ours, or that cannot be deleted.
    pub fn delete(path: impl AsRef<Path>) -> Result<()> {
        open::delete(path.as_ref())
    }

    /// The handles of one followed table. Its leases, and so the tenures that its writes carry, are told apart from
    /// other scopes' by `name`.
    pub fn table_scope(&self, name: &str) -> TableScope {
        TableScope { connections: Arc::clone(&self.connections), name: name.into() }
    }

    pub fn path(&self) -> &Path {
        &self.connections.path
    }
}

/// One followed table in the store: handles whose writes are fenced by the same leases. Handles are cheap to clone.
#[derive(Clone)]
pub struct TableScope {
    connections: Arc<Connections>,
    name: Arc<str>,
}

impl TableScope {
    pub fn leases(&self) -> SqliteLeases {
        SqliteLeases::new(self.clone())
    }

    /// The index `name`; indexes are the store's, whichever scope writes to them.
    pub fn index(&self, name: &str) -> SqliteIndex {
        SqliteIndex::new(self.clone(), name)
    }

    /// The rows of `table`; they are the store's, whichever scope writes to them.
    pub fn rows(&self, table: &str, schema: Arc<TableSchema>) -> SqliteRows {
        SqliteRows::new(self.clone(), table, schema)
    }

    /// All dead letters of the store; each names its table.
    pub fn letters(&self) -> SqliteLetters {
        SqliteLetters::new(self.clone())
    }

    /// This scope's items.
    pub fn state(&self) -> SqliteState {
        SqliteState::new(self.clone())
    }
}
