//! The embedded store: leases, state, vector index, rows and dead letters in one SQLite file, and the same ports over
//! plain memory.
//!
//! # Why SQLite, why rusqlite
//! Everything of a host stands in one file, so that a checkpoint and the vectors before it are lost or kept together,
//! several processes may share it, and a user can look into it with a tool that is everywhere. `rusqlite` is the
//! long-kept binding, and its `bundled` feature compiles SQLite in: a bare machine needs no system library, and every
//! host of one release runs one version of it.
//!
//! # Parts
//! [`Store`] opens the file. [`Store::table_scope`] gives the handles of one followed table, which share a set of
//! leases: every fenced write checks its tenure against these, in its own transaction. [`MemoryStore`] is the same
//! without a file, for benchmarks and fault tests. One conformance suite runs on both.
//!
//! # Calls and cancellation
//! SQLite's calls block, so each runs on tokio's blocking threads. A future that is dropped does not take its
//! statement back: what was begun ends, and is then either committed whole or rolled back.

mod letters;
mod memory;
mod nearest;
mod sqlite;
mod vectors;

use std::time::Duration;

use keyvector_core::index::IndexLimits;

pub use memory::{
    MemoryIndex, MemoryLeases, MemoryLetters, MemoryRows, MemoryScope, MemoryState, MemoryStore,
};
pub use sqlite::{
    STORE_FORMAT, SqliteIndex, SqliteLeases, SqliteLetters, SqliteRows, SqliteState, Store, TableScope,
};

/// Above this the exact search is slower than it promises (at 256 dimensions), and the store warns.
pub const VECTORS_PROMISED_MAX: u64 = 200_000;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Whether a file that is not there is made; otherwise it is refused.
    pub create: bool,
    /// How long a write waits for another process's transaction before it is a transient error.
    pub busy_timeout: Duration,
    /// The same limits that the service has, so that what works here works there.
    pub limits: IndexLimits,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { create: true, busy_timeout: Duration::from_secs(5), limits: IndexLimits::default() }
    }
}
