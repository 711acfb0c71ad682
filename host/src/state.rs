//! Small durable items beside the leases. Each is JSON that carries the number of its format.

use keyvector_core::change::PartitionChange;
use keyvector_core::fingerprint::hash_name;
use keyvector_core::port::{self, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::table::Table;
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
    /// Another one lifts it.
    #[serde(default)]
    pub revision: u32,
    pub plugin_digest: String,
    pub model_identity: String,
    pub reason: String,
    pub at_ms: i64,
}

/// What renders a table's rows: one revision number stands for one plugin and configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendering {
    pub revision: u32,
    /// Hash of the plugin's digest and its configuration.
    pub render_id: String,
    /// For people.
    pub plugin: String,
    /// The table was taken over by this revision, and not all of it has been rendered again: a gap over the whole table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerender: Option<Rerender>,
}

/// A whole table that is to be rendered again, row by row in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerender {
    /// Every row up to this key is done.
    pub done_to: Option<String>,
    /// When the table was taken over.
    pub since_ms: i64,
}

impl Rendering {
    pub fn is_same(&self, other: &Self) -> bool {
        self.revision == other.revision && self.render_id == other.render_id
    }
}

/// Changes that are lost for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    pub shard_id: String,
    pub reason: String,
    pub at_ms: i64,
}

/// A partition that changed by records which name no row of it; one item a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingPartition {
    pub shard_id: String,
    pub partition: String,
    /// Of the latest such record.
    pub sequence_number: String,
    /// Whether all of them were of static cells alone; otherwise rows may be gone.
    pub static_only: bool,
}

impl WaitingPartition {
    /// What waits after one more record.
    pub fn after(before: Option<Self>, shard_id: &str, change: &PartitionChange) -> Self {
        Self {
            shard_id: shard_id.to_owned(),
            partition: change.partition.clone(),
            sequence_number: change.sequence_number.to_string(),
            static_only: change.static_only && before.is_none_or(|before| before.static_only),
        }
    }
}

impl Halt {
    /// Of this table under its present plugin and model.
    pub fn of(table: &Table, reason: &str) -> Self {
        Self {
            revision: table.rendering.revision,
            plugin_digest: table.plugin_digest.clone(),
            model_identity: table.embedder.info().identity.clone(),
            reason: reason.to_owned(),
            at_ms: clock::now_ms(),
        }
    }

    /// Whether it holds for this revision, plugin and model: another one lifts it.
    pub fn holds_for(&self, revision: u32, plugin_digest: &str, model_identity: &str) -> bool {
        self.revision == revision
            && self.plugin_digest == plugin_digest
            && self.model_identity == model_identity
    }
}

/// Halts the table, unless a halt of a higher revision stands there: that one is of whoever took the table over, and is
/// not this host's to replace.
///
/// # Errors
/// What the state says. Passing errors are not tried again here.
pub async fn halt(items: &dyn State, table: &str, halt: &Halt) -> port::Result<()> {
    let key = halt_key(table);
    loop {
        let (stored, text) = read_with_text::<Halt>(items, &key).await?.unzip();
        if stored.is_some_and(|stored| stored.revision > halt.revision) {
            return Ok(());
        }
        // Whoever lost a race looks again.
        if items.put_if(&key, text.as_deref(), &to_json(halt)).await? {
            return Ok(());
        }
    }
}

pub fn halt_key(table: &str) -> String {
    format!("halt/{table}")
}

pub fn rendering_key(table: &str) -> String {
    format!("rendering/{table}")
}

pub fn gap_key(table: &str, gap: &Gap) -> String {
    // The same gap found again after a restart is one gap.
    format!("{}{}/{:016x}", gap_prefix(table), gap.shard_id, hash_name(&gap.reason))
}

pub fn gap_prefix(table: &str) -> String {
    format!("gap/{table}/")
}

pub fn waiting_key(table: &str, shard_id: &str, partition: &str) -> String {
    format!("waiting/{table}/{shard_id}/{}", partition_hash(partition))
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
    Ok(read_with_text(state, key).await?.map(|(item, _)| item))
}

/// The same with the item as it stands there, for a conditional write.
///
/// # Errors
/// As [`read`].
pub async fn read_with_text<T: DeserializeOwned>(
    state: &dyn State,
    key: &str,
) -> port::Result<Option<(T, String)>> {
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
    let numbered = serde_json::from_value::<Numbered<T>>(value).map_err(unreadable)?;
    Ok(Some((numbered.item, text)))
}

#[cfg(test)]
mod tests {
    use keyvector_store::{Store, StoreConfig};

    use super::*;

    fn of(revision: u32, reason: &str) -> Halt {
        Halt {
            revision,
            plugin_digest: "d".into(),
            model_identity: "m".into(),
            reason: reason.into(),
            at_ms: 1,
        }
    }

    #[test]
    fn a_halt_holds_for_one_revision_plugin_and_model() {
        let halt = of(2, "broken");
        assert!(halt.holds_for(2, "d", "m"));
        assert!(!halt.holds_for(3, "d", "m"));
        assert!(!halt.holds_for(2, "other", "m"));
        assert!(!halt.holds_for(2, "d", "other"));
    }

    #[tokio::test]
    async fn a_halt_of_a_higher_revision_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { create: true, ..StoreConfig::default() };
        let items = Store::open(folder.path().join("x.db"), config).unwrap().table_scope("t").state();
        for (revision, stands) in [(1, 1), (3, 3), (2, 3), (3, 3), (4, 4)] {
            halt(&items, "t", &of(revision, "broken")).await.unwrap();
            let stored = read::<Halt>(&items, &halt_key("t")).await.unwrap();
            assert_eq!(stored, Some(of(stands, "broken")));
        }
    }
}
