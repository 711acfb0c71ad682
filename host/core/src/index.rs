//! Vectors as the index holds them.

mod metadata_json;

use crate::document::{Metadata, MetadataValue};
use crate::fingerprint::Fingerprint;
use crate::key::RowKey;

use metadata_json::write_entry;
pub use metadata_json::{metadata_json, parse_metadata, parse_metadata_keys};

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

/// Whether the index takes this vector: dimension, finite components, not all zero under cosine, key length, metadata
/// in UTF-8 bytes of its JSON (filterable and all), number and names of the metadata keys.
///
/// # Errors
/// What is over which limit, in one line that holds neither the key nor the values. The service refuses a whole call
/// for one such vector, so callers check each before they send.
pub fn check_vector(
    description: &IndexDescription,
    limits: &IndexLimits,
    vector: &Vector,
) -> Result<(), String> {
    checked_metadata_json(description, limits, vector).map(|_| ())
}

/// [`check_vector`], giving the metadata's JSON that was measured.
///
/// # Errors
/// As [`check_vector`].
pub fn checked_metadata_json(
    description: &IndexDescription,
    limits: &IndexLimits,
    vector: &Vector,
) -> Result<String, String> {
    let key_bytes = vector.key.as_str().len();
    if key_bytes == 0 {
        return Err("the vector key is empty".to_owned());
    }
    if key_bytes > limits.key_bytes_max {
        return Err(format!(
            "the vector key has {key_bytes} bytes, at most {} are allowed",
            limits.key_bytes_max
        ));
    }
    check_data(description, &vector.data)?;
    check_metadata(description, limits, &vector.metadata)
}

/// The part of [`check_vector`] that also holds for a query's vector.
///
/// # Errors
/// As [`check_vector`].
pub fn check_data(description: &IndexDescription, data: &[f32]) -> Result<(), String> {
    if data.len() != description.dimension as usize {
        return Err(format!("the vector has {} components, the index {}", data.len(), description.dimension));
    }
    if let Some(position) = data.iter().position(|component| !component.is_finite()) {
        return Err(format!("component {position} of the vector is {}", data[position]));
    }
    if description.metric == DistanceMetric::Cosine && data.iter().all(|&component| component == 0.0) {
        return Err("all components of the vector are zero, which has no direction under cosine".to_owned());
    }
    Ok(())
}

fn check_metadata(
    description: &IndexDescription,
    limits: &IndexLimits,
    metadata: &Metadata,
) -> Result<String, String> {
    let keys = metadata.0.len();
    if keys > limits.metadata_keys_max {
        return Err(format!(
            "the metadata has {keys} keys, at most {} are allowed",
            limits.metadata_keys_max
        ));
    }
    let mut json = String::with_capacity(256);
    // The braces count for the filterable part too; commas are counted where they are written.
    let mut filterable_bytes = 2;
    let mut filterable_keys = 0;
    json.push('{');
    for (name, value) in &metadata.0 {
        if name.is_empty() || name.starts_with('$') {
            return Err(format!("the metadata key {name:?} cannot be used: it is empty or begins with $"));
        }
        if !is_finite(value) {
            return Err(format!("the metadata value of {name:?} is not a finite number"));
        }
        if json.len() > 1 {
            json.push(',');
        }
        let start = json.len();
        write_entry(&mut json, name, value);
        if !description.non_filterable_keys.iter().any(|key| **key == **name) {
            filterable_bytes += json.len() - start + usize::from(filterable_keys > 0);
            filterable_keys += 1;
        }
    }
    json.push('}');
    if filterable_bytes > limits.filterable_bytes_max {
        return Err(format!(
            "the filterable metadata has {filterable_bytes} bytes as JSON, at most {} are allowed",
            limits.filterable_bytes_max
        ));
    }
    if json.len() > limits.metadata_bytes_max {
        return Err(format!(
            "the metadata has {} bytes as JSON, at most {} are allowed",
            json.len(),
            limits.metadata_bytes_max
        ));
    }
    Ok(json)
}

fn is_finite(value: &MetadataValue) -> bool {
    match value {
        MetadataValue::Number(number) => number.is_finite(),
        MetadataValue::NumberList(numbers) => numbers.iter().all(|number| number.is_finite()),
        MetadataValue::Text(_) | MetadataValue::Boolean(_) | MetadataValue::TextList(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(metric: DistanceMetric) -> IndexDescription {
        IndexDescription {
            name: "films".into(),
            dimension: 2,
            metric,
            non_filterable_keys: vec![FINGERPRINT_KEY.into(), "note".into()],
            table: "demo.films(movie_id int;)".into(),
            model_identity: "m".into(),
        }
    }

    fn vector(data: &[f32], metadata: &[(&str, MetadataValue)]) -> Vector {
        Vector {
            key: RowKey::from_stored("movie_id=12"),
            data: data.to_vec(),
            metadata: Metadata(
                metadata.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            ),
        }
    }

    fn check(vector: &Vector) -> Result<(), String> {
        check_vector(&description(DistanceMetric::Cosine), &IndexLimits::default(), vector)
    }

    fn text(length: usize) -> MetadataValue {
        MetadataValue::Text("x".repeat(length))
    }

    #[test]
    fn metadata_is_measured_in_utf8_bytes_of_its_json() {
        let tag = |count| vector(&[1.0, 0.0], &[("tag", MetadataValue::Text("日".repeat(count)))]);
        assert_eq!(check(&tag(600)), Ok(()), "1,800 bytes of text");
        let refused = check(&tag(700)).unwrap_err();
        assert_eq!(refused, "the filterable metadata has 2110 bytes as JSON, at most 2048 are allowed");
        // {"tag":"…"} is ten bytes around the text, and the escape of a quote counts as it is sent.
        assert_eq!(check(&vector(&[1.0, 0.0], &[("tag", text(2038))])), Ok(()));
        assert!(check(&vector(&[1.0, 0.0], &[("tag", text(2039))])).is_err());
        assert!(check(&vector(&[1.0, 0.0], &[("tag", MetadataValue::Text("\"".repeat(1020)))])).is_err());
    }

    #[test]
    fn filterable_and_other_metadata_have_limits_of_their_own() {
        let total = |length| vector(&[1.0, 0.0], &[("note", text(length)), ("tag", text(2038))]);
        let filled = r#"{"note":"","tag":""}"#.len() + 2038;
        assert_eq!(check(&total(40 * 1024 - filled)), Ok(()));
        let refused = check(&total(40 * 1024 - filled + 1)).unwrap_err();
        assert_eq!(refused, "the metadata has 40961 bytes as JSON, at most 40960 are allowed");
        let two = |a, b| vector(&[1.0, 0.0], &[("a", text(a)), ("b", text(b)), ("note", text(9000))]);
        let around = r#"{"a":"","b":""}"#.len();
        assert_eq!(check(&two(1000, 1048 - around)), Ok(()));
        assert!(check(&two(1000, 1049 - around)).is_err(), "the comma between filterable keys counts");
    }

    #[test]
    fn what_the_index_cannot_take_is_named() {
        let refuses = |vector: &Vector, part: &str| {
            let reason = check(vector).unwrap_err();
            assert!(reason.contains(part), "{reason}");
            assert!(!reason.contains("movie_id"), "row keys stay out of errors: {reason}");
        };
        refuses(&vector(&[1.0], &[]), "1 components, the index 2");
        refuses(&vector(&[1.0, f32::NAN], &[]), "component 1 of the vector is NaN");
        refuses(&vector(&[f32::NEG_INFINITY, 1.0], &[]), "component 0 of the vector is -inf");
        refuses(&vector(&[0.0, -0.0], &[]), "zero");
        refuses(&vector(&[1.0, 0.0], &[("", text(1))]), "\"\"");
        refuses(&vector(&[1.0, 0.0], &[("$or", text(1))]), "$or");
        refuses(&vector(&[1.0, 0.0], &[("n", MetadataValue::Number(f64::NAN))]), "\"n\"");
        refuses(&vector(&[1.0, 0.0], &[("n", MetadataValue::NumberList(vec![0.0, f64::INFINITY]))]), "\"n\"");
        let names: Vec<String> = (0..51).map(|number| format!("k{number}")).collect();
        let many: Vec<(&str, MetadataValue)> =
            names.iter().map(|name| (name.as_str(), MetadataValue::Boolean(true))).collect();
        assert_eq!(check(&vector(&[1.0, 0.0], &many[..50])), Ok(()));
        refuses(&vector(&[1.0, 0.0], &many), "51 keys, at most 50");
        let mut key = vector(&[1.0, 0.0], &[]);
        key.key = RowKey::from_stored("k".repeat(1024));
        assert_eq!(check(&key), Ok(()));
        key.key = RowKey::from_stored("k".repeat(1025));
        assert!(check(&key).unwrap_err().contains("1025 bytes, at most 1024"));
        key.key = RowKey::from_stored("");
        refuses(&key, "empty");
    }

    #[test]
    fn the_zero_vector_has_a_place_under_euclidean() {
        let zero = vector(&[0.0, 0.0], &[]);
        assert_eq!(
            check_vector(&description(DistanceMetric::Euclidean), &IndexLimits::default(), &zero),
            Ok(())
        );
    }
}
