//! What both stores check alike about an index, its vectors and its questions.

use keyvector_core::filter::Filter;
use keyvector_core::fingerprint::hash_name;
use keyvector_core::index::{
    FINGERPRINT_KEY, IndexDescription, IndexLimits, IndexQuery, Vector, check_data, checked_metadata_json,
};
use keyvector_core::port::{Error, Result};

/// The service's bound.
const DIMENSION_MAX: u32 = 4096;

pub(crate) fn no_index(name: &str) -> Error {
    Error::Rejected(format!("there is no index {name:?} in this store: create it first"))
}

/// Whether the index `name` can be made so.
pub(crate) fn check_description(
    name: &str,
    description: &IndexDescription,
    limits: &IndexLimits,
) -> Result<()> {
    let refuse = |reason: String| Err(Error::Rejected(format!("index {name:?} cannot be made: {reason}")));
    if description.name != name {
        return refuse(format!("its description is of an index {:?}", description.name));
    }
    if !(1..=DIMENSION_MAX).contains(&description.dimension) {
        return refuse(format!(
            "the dimension is {}, it must be 1 to {DIMENSION_MAX}",
            description.dimension
        ));
    }
    let keys = &description.non_filterable_keys;
    if keys.len() > limits.non_filterable_keys_max {
        return refuse(format!(
            "{} non-filterable metadata keys, at most {} are allowed (the host's own among them)",
            keys.len(),
            limits.non_filterable_keys_max
        ));
    }
    if !keys.iter().any(|key| key == FINGERPRINT_KEY) {
        return refuse(format!("{FINGERPRINT_KEY} is missing among the non-filterable metadata keys"));
    }
    if let Some(key) = keys.iter().find(|key| !(1..=63).contains(&key.chars().count())) {
        return refuse(format!("the non-filterable metadata key {key:?} must have 1 to 63 characters"));
    }
    Ok(())
}

/// Accepts what exists if it was made for the same; the order of the keys does not matter.
pub(crate) fn check_same(stored: &IndexDescription, wanted: &IndexDescription) -> Result<()> {
    let sorted = |keys: &[String]| {
        let mut keys = keys.to_vec();
        keys.sort();
        keys.join(", ")
    };
    let parts = [
        ("dimension", stored.dimension.to_string(), wanted.dimension.to_string()),
        ("distance metric", stored.metric.as_str().to_owned(), wanted.metric.as_str().to_owned()),
        ("non-filterable keys", sorted(&stored.non_filterable_keys), sorted(&wanted.non_filterable_keys)),
        ("table", stored.table.clone(), wanted.table.clone()),
        ("model", stored.model_identity.clone(), wanted.model_identity.clone()),
    ];
    let differences: Vec<String> = parts
        .iter()
        .filter(|(_, stored, wanted)| stored != wanted)
        .map(|(part, stored, wanted)| format!("its {part} is {stored:?}, wanted is {wanted:?}"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "index {:?} exists and was made for something else: {}; name another index or restore what was",
        wanted.name,
        differences.join("; ")
    )))
}

/// Checks one vector of a put, and gives its metadata's JSON. As at the service, one vector that offends refuses the
/// whole call; the error names it by its place and its key's hash, since keys are the user's data.
pub(crate) fn check_for_put(
    description: &IndexDescription,
    limits: &IndexLimits,
    position: usize,
    vector: &Vector,
) -> Result<String> {
    checked_metadata_json(description, limits, vector).map_err(|reason| {
        let hash = hash_name(vector.key.as_str());
        Error::Rejected(format!(
            "index {:?} refuses vector {position} (key hash {hash:016x}): {reason}",
            description.name
        ))
    })
}

/// Checks a question, and reads its filter.
pub(crate) fn check_query(
    description: &IndexDescription,
    limits: &IndexLimits,
    query: &IndexQuery,
) -> Result<Option<Filter>> {
    if !(1..=limits.top_k_max).contains(&query.top_k) {
        return Err(Error::Rejected(format!(
            "top-k is {}, it must be 1 to {}",
            query.top_k, limits.top_k_max
        )));
    }
    check_data(description, &query.vector).map_err(Error::Rejected)?;
    query
        .filter
        .as_ref()
        .map(|filter| Filter::parse(filter, &description.non_filterable_keys))
        .transpose()
        .map_err(|error| Error::Rejected(error.to_string()))
}
