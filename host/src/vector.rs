//! A row's vector as it goes to the index: the model's numbers, the plugin's metadata, and the host's own keys.

use keyvector_core::collapse::NetChange;
use keyvector_core::document::{Document, MetadataValue};
use keyvector_core::fingerprint::{Fingerprint, hash_metadata, hash_name, hash_text};
use keyvector_core::index::{CUT_KEY, FINGERPRINT_KEY, PARTITION_KEY, Vector};

use crate::table::Table;

/// Puts together what the index gets for one row. `shard`: hash of the shard's id.
///
/// `cut_from`: the text's whole length in characters, where only its beginning was embedded.
pub fn build(
    table: &Table,
    shard: u32,
    change: &NetChange,
    data: Vec<f32>,
    cut_from: Option<usize>,
    document: Document,
) -> Vector {
    let fingerprint = Fingerprint {
        model: table.embedder.identity_hash,
        text: hash_text(&document.text),
        metadata: hash_metadata(&document.metadata),
        shard,
        sequence_number: change.sequence_number.clone(),
    };
    let mut metadata = document.metadata;
    metadata.0.insert(FINGERPRINT_KEY.into(), MetadataValue::Text(fingerprint.to_text()));
    if let Ok(partition) = change.key.partition_part(&table.schema) {
        metadata.0.insert(PARTITION_KEY.into(), MetadataValue::Text(partition_hash(&partition)));
    }
    if let Some(characters) = cut_from {
        metadata.0.insert(CUT_KEY.into(), MetadataValue::Number(characters as f64));
    }
    Vector { key: change.key.clone(), data, metadata }
}

/// How a partition is named in metadata, so that one partition's vectors can be asked for.
pub fn partition_hash(partition: &str) -> String {
    format!("{:016x}", hash_name(partition))
}
