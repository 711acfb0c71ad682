//! The same ports without a file: maps behind one lock, so that a fenced write and its check are one step. For
//! benchmarks and fault tests; nothing outlives the process.

mod leases;
mod letters;
mod rows;
mod state;
mod vectors;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyvector_core::index::IndexLimits;
use keyvector_core::lease::{Fenced, Lease, Tenure};
use keyvector_core::letter::Letter;
use keyvector_core::schema::TableSchema;

pub use leases::MemoryLeases;
pub use letters::MemoryLetters;
pub use rows::MemoryRows;
pub use state::MemoryState;
pub use vectors::MemoryIndex;

/// A store in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    contents: Arc<Mutex<Contents>>,
    limits: Arc<IndexLimits>,
}

#[derive(Default)]
struct Contents {
    scopes: BTreeMap<Arc<str>, Scope>,
    indexes: BTreeMap<Arc<str>, vectors::Index>,
    tables: BTreeMap<Arc<str>, rows::Table>,
    letters: BTreeMap<u64, Letter>,
    letters_written: u64,
}

#[derive(Default)]
struct Scope {
    leases: BTreeMap<String, Lease>,
    items: BTreeMap<String, String>,
}

impl MemoryStore {
    pub fn new(limits: IndexLimits) -> Self {
        Self { contents: Arc::default(), limits: Arc::new(limits) }
    }

    /// The handles of one followed table, as [`crate::Store::table_scope`] gives them.
    pub fn table_scope(&self, name: &str) -> MemoryScope {
        MemoryScope { store: self.clone(), name: name.into() }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(IndexLimits::default())
    }
}

/// One followed table in the store: handles whose writes are fenced by the same leases. Handles are cheap to clone.
#[derive(Clone)]
pub struct MemoryScope {
    store: MemoryStore,
    name: Arc<str>,
}

impl MemoryScope {
    pub fn leases(&self) -> MemoryLeases {
        MemoryLeases { scope: self.clone() }
    }

    /// The index `name`; indexes are the store's, whichever scope writes to them.
    pub fn index(&self, name: &str) -> MemoryIndex {
        MemoryIndex { scope: self.clone(), name: name.into() }
    }

    /// The rows of `table`; they are the store's, whichever scope writes to them. The schema is taken so that both
    /// stores are made alike; rows in memory need none.
    pub fn rows(&self, table: &str, _schema: Arc<TableSchema>) -> MemoryRows {
        MemoryRows { scope: self.clone(), table: table.into() }
    }

    /// All dead letters of the store; each names its table.
    pub fn letters(&self) -> MemoryLetters {
        MemoryLetters { scope: self.clone() }
    }

    /// This scope's items.
    pub fn state(&self) -> MemoryState {
        MemoryState { scope: self.clone() }
    }

    /// A panic elsewhere leaves whole entries behind: each is put in one step.
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.store.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `write` if the tenure holds, under the same lock.
    fn fenced(&self, tenure: &Tenure, write: impl FnOnce(&mut Contents)) -> Fenced {
        let mut contents = self.lock();
        let holds = contents
            .scopes
            .get(&self.name)
            .and_then(|scope| scope.leases.get(&tenure.lease_key))
            .is_some_and(|lease| lease.holds(tenure));
        if !holds {
            return Fenced::Lost;
        }
        write(&mut contents);
        Fenced::Written
    }
}
