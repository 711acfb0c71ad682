//! One table as the line works on it: its schema, its plugin, its model, and where everything is kept.

use std::sync::Arc;

use keyvector_core::fingerprint::hash_name;
use keyvector_core::index::{IndexDescription, IndexLimits};
use keyvector_core::key::RowKey;
use keyvector_core::port::{DeadLetters, LeaseTable, RowStore, State, VectorIndex};
use keyvector_core::schema::TableSchema;
use keyvector_sandbox::TablePlugin;

use crate::embed::Embedder;
use crate::state::Rendering;

/// A table, open and ready.
pub struct Table {
    pub name: String,
    pub schema: Arc<TableSchema>,
    pub plugin: TablePlugin,
    /// The plugin's digest, as letters and halts name it.
    pub plugin_digest: String,
    /// What the table's rows are rendered by, as this process knows it: another may have taken the table over since.
    pub rendering: Rendering,
    /// Positions in the schema of the columns that the plugin reads, in the plugin's order.
    pub reads: Vec<usize>,
    pub embedder: Embedder,
    pub index: Arc<dyn VectorIndex>,
    /// What the index was made for.
    pub description: IndexDescription,
    pub index_limits: IndexLimits,
    pub rows: Arc<dyn RowStore>,
    pub letters: Arc<dyn DeadLetters>,
    pub state: Arc<dyn State>,
    pub leases: Arc<dyn LeaseTable>,
    pub policy: Policy,
    pub key_names: KeyNames,
}

impl Table {
    /// The same table under another plugin.
    pub fn under(&self, plugin: TablePlugin, digest: &str, reads: Vec<usize>, rendering: Rendering) -> Self {
        Self {
            name: self.name.clone(),
            schema: self.schema.clone(),
            plugin,
            plugin_digest: digest.to_owned(),
            rendering,
            reads,
            embedder: self.embedder.clone(),
            index: self.index.clone(),
            description: self.description.clone(),
            index_limits: self.index_limits.clone(),
            rows: self.rows.clone(),
            letters: self.letters.clone(),
            state: self.state.clone(),
            leases: self.leases.clone(),
            policy: self.policy.clone(),
            key_names: self.key_names.clone(),
        }
    }
}

/// What the user decided for a table.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Records read and planned together, at most.
    pub batch: usize,
    /// Held letters or failures in a row at which the table halts.
    pub poison_run_max: u32,
    pub on_poison: OnPoison,
    pub dead_letters: DeadLetterPolicy,
    pub on_gap: OnGap,
}

/// What follows when changes are lost for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnGap {
    /// Record it and stop.
    Stop,
    /// Record it and go on.
    Continue,
}

/// What becomes of the vector that a dead-lettered row already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPoison {
    Keep,
    Delete,
}

/// What becomes of a row that cannot be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterPolicy {
    /// A letter is stored, and the shard goes on.
    Store,
    /// There is no queue: the shard waits until the row can be indexed.
    None,
}

/// How logs name rows: by a keyed hash, unless the user wants the keys themselves.
#[derive(Clone, Debug)]
pub enum KeyNames {
    Hashed { secret: String },
    Plain,
}

impl KeyNames {
    pub fn of(&self, key: &RowKey) -> String {
        match self {
            Self::Hashed { secret } => format!("{:016x}", hash_name(&format!("{secret}\n{key}"))),
            Self::Plain => key.to_string(),
        }
    }
}
