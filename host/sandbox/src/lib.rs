//! Runs plugins: WebAssembly components, bounded in time, memory and output.
//!
//! [`Engine::load`] turns a file into a [`Plugin`]; [`TablePlugin`], [`LocalModel`] and [`RemoteModel`] open it in a role.
//! Guest code runs on threads of its own, one for each core, never on an async runtime's.
//!
//! A plugin can do nothing but compute. Every entry into it is bounded before it starts, instantiation included, and
//! whatever it does ends as a result for its rows or texts, or as [`Broken`], which says nothing about any row:
//!
//! | the guest | ends as |
//! |---|---|
//! | traps, exits, runs too long, wants too much memory, answers what cannot be read | the batch again in a fresh instance with ten times the deadline; then halves; then the row's failure |
//! | leaks | a fresh instance between batches, once three quarters of the limit are taken |
//! | sets a row aside | that row's failure, with the plugin's reason |
//! | answers bad UTF-8 or metadata for a row | that row's failure |
//! | cannot be opened any more, or stops on a long run of rows | [`Broken`] |

mod bindings;
mod blank;
mod cache;
mod engine;
mod guest;
mod isolate;
mod limits;
mod load;
mod local_model;
mod log;
mod metadata;
mod model;
mod packed;
mod plugin;
mod remote_model;
mod slot;
mod state;
mod stats;
mod table;
mod wasi;
mod workers;

pub use blank::is_blank;
pub use engine::{Engine, EngineConfig, EngineError};
pub use isolate::Broken;
pub use limits::Limits;
pub use load::{LoadError, Role};
pub use local_model::{Embedded, LocalModel};
pub use metadata::{METADATA_KEYS_MAX, NON_FILTERABLE_KEYS_MAX};
pub use model::{ModelInfo, ModelLimits, Purpose};
pub use plugin::{Plugin, sha256_hex};
pub use remote_model::{
    CallFailure, Embeddings, Failure, FailureKind, Header, RemoteModel, Response, Route, Routes,
};
pub use slot::OpenError;
pub use stats::{RestartReason, Stats};
#[doc(hidden)]
pub use table::OnThisThread;
pub use table::{ColumnInfo, TableInfo, TablePlugin, push_cell};

/// The newest version of `keyvector:plugin` that this host binds.
pub fn plugin_api_version() -> String {
    bindings::WitVersion::NEWEST.number().to_string()
}

/// All versions of `keyvector:plugin` that this host binds, oldest first. A release stands for all of its track: 0.1.2 for
/// every 0.1.x.
pub fn plugin_api_versions() -> Vec<String> {
    bindings::WitVersion::ALL.iter().map(|version| version.number().to_string()).collect()
}
