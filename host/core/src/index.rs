//! Vectors as the index holds them.

use crate::document::{Metadata, MetadataValue};
use crate::fingerprint::Fingerprint;
use crate::key::RowKey;

/// The one non-filterable key of ours: a vector's [`Fingerprint`] as text.
pub const FINGERPRINT_KEY: &str = "_keyvector";
/// Filterable: hash of the canonical partition part of the row key.
pub const PARTITION_KEY: &str = "_keyvector_pk";
/// Filterable, only on vectors whose text was cut: the text's whole length in characters.
pub const CUT_KEY: &str = "_keyvector_cut";

/// A vector to write. Putting it replaces whatever the key had.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    pub key: RowKey,
    /// As many as the index's dimension, finite, not all zero under cosine.
    pub data: Vec<f32>,
    /// The plugin's metadata and the host's own keys.
    pub metadata: Metadata,
}

/// A vector as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredVector {
    pub key: String,
    /// Only where it was asked for.
    pub data: Option<Vec<f32>>,
    pub metadata: Metadata,
}

impl StoredVector {
    /// The fingerprint in the metadata; `None` where there is none of ours.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self.metadata.0.get(FINGERPRINT_KEY) {
            Some(MetadataValue::Text(text)) => Fingerprint::parse(text),
            _ => None,
        }
    }
}

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceMetric {
    /// 1 − cosine similarity.
    Cosine,
    Euclidean,
}

impl DistanceMetric {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Euclidean => "euclidean",
        }
    }
}

/// What an index is made for. A start compares it and refuses what does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDescription {
    pub name: String,
    pub dimension: u32,
    pub metric: DistanceMetric,
    /// At most 10, [`FINGERPRINT_KEY`] among them.
    pub non_filterable_keys: Vec<String>,
    /// `keyspace.table(partition columns; clustering columns)` with types.
    pub table: String,
    pub model_identity: String,
}

/// A nearest-neighbour question.
#[derive(Clone, Debug)]
pub struct IndexQuery {
    pub vector: Vec<f32>,
    pub top_k: u32,
    /// In S3 Vectors' filter language.
    pub filter: Option<serde_json::Value>,
}

/// One answer, nearest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub key: String,
    pub distance: f32,
    pub metadata: Metadata,
}

/// The service's limits; today's values are the defaults.
///
/// # Source
/// Amazon S3 Vectors user guide, "Limitations and restrictions".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    pub key_bytes_max: usize,
    /// Filterable metadata of one vector, in UTF-8 bytes of its JSON.
    pub filterable_bytes_max: usize,
    /// All metadata of one vector, in UTF-8 bytes of its JSON.
    pub metadata_bytes_max: usize,
    pub metadata_keys_max: usize,
    pub non_filterable_keys_max: usize,
    pub put_vectors_max: usize,
    pub get_keys_max: usize,
    pub top_k_max: u32,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            key_bytes_max: 1024,
            filterable_bytes_max: 2048,
            metadata_bytes_max: 40 * 1024,
            metadata_keys_max: 50,
            non_filterable_keys_max: 10,
            put_vectors_max: 500,
            get_keys_max: 100,
            top_k_max: 100,
        }
    }
}
