//! Small durable items beside the leases. Each is JSON that carries the number of its format.

use keyvector_core::change::PartitionChange;
use keyvector_core::port::{self, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::vector::partition_hash;

/// The number of these formats together.
pub const STATE_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Numbered<T> {
    format: u32,
    #[serde(flatten)]
    item: T,
}

/// A table that no host may work on until its plugin, its model or its revision changes, or `resume` lifts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Halt {
    pub plugin_digest: String,
    pub model_identity: String,
    pub reason: String,
    pub at_ms: i64,
}

/// What renders a table's rows: one revision number stands for one plugin and configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rendering {
    pub revision: u32,
    /// Hash of the plugin's digest and its configuration.
    pub render_id: String,
    /// For people.
    pub plugin: String,
}

/// Changes that are lost for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    pub shard_id: String,
    pub reason: String,
    pub at_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct WaitingPartition {
    shard_id: String,
    partition: String,
    sequence_number: String,
    static_only: bool,
}

pub fn halt_key(table: &str) -> String {
    format!("halt/{table}")
}

pub fn rendering_key(table: &str) -> String {
    format!("rendering/{table}")
}

pub fn gap_key(table: &str, gap: &Gap) -> String {
    format!("{}{}/{}", gap_prefix(table), gap.shard_id, gap.at_ms)
}

pub fn gap_prefix(table: &str) -> String {
    format!("gap/{table}/")
}

pub fn waiting_prefix(table: &str) -> String {
    format!("waiting/{table}/")
}

/// The item that says that a partition waits for the table to be read; one a partition, the latest counts.
pub fn waiting_partition(table: &str, shard_id: &str, change: &PartitionChange) -> (String, String) {
    let key = format!("{}{shard_id}/{}", waiting_prefix(table), partition_hash(&change.partition));
    let item = WaitingPartition {
        shard_id: shard_id.to_owned(),
        partition: change.partition.clone(),
        sequence_number: change.sequence_number.to_string(),
        static_only: change.static_only,
    };
    (key, to_json(&item))
}

/// # Panics
/// Never: these types have string keys and finite numbers.
pub fn to_json<T: Serialize>(item: &T) -> String {
    serde_json::to_string(&Numbered { format: STATE_FORMAT, item }).expect("state items are plain JSON")
}

/// Reads an item; `None` where there is none.
///
/// # Errors
/// `Fatal` for an item of another format, with both numbers, or one that is not ours.
pub async fn read<T: DeserializeOwned>(state: &dyn State, key: &str) -> port::Result<Option<T>> {
    let Some(text) = state.get(key).await? else { return Ok(None) };
    let unreadable = |error| port::Error::Fatal(format!("the state item {key} cannot be read: {error}"));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(unreadable)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if format != u64::from(STATE_FORMAT) {
        return Err(port::Error::Fatal(format!(
            "the state item {key} has format {format}, this host knows {STATE_FORMAT}: use the host that wrote it, or a \
             newer one"
        )));
    }
    serde_json::from_value::<Numbered<T>>(value).map(|numbered| Some(numbered.item)).map_err(unreadable)
}
