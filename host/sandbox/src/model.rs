//! What both roles of models share.

use keyvector_core::index::DistanceMetric;
use keyvector_core::text::acts;

use crate::bindings::types as wit;
use crate::guest::Stop;

/// What a text is embedded for. Models with prompts or input types treat the two differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    Document,
    Query,
}

impl Purpose {
    pub(crate) fn to_wit(self) -> wit::Purpose {
        match self {
            Self::Document => wit::Purpose::Document,
            Self::Query => wit::Purpose::Query,
        }
    }
}

/// What a model says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// One line naming all that changes a vector. Vectors share an index only under equal identities.
    pub identity: String,
    /// A remote model may not know before its first answer. A local model's is always known: counted if need be.
    pub dimension: Option<u32>,
    pub metric: DistanceMetric,
    pub limits: ModelLimits,
}

/// What one request may hold. `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// At least 1.
    pub texts_per_request: u32,
    pub bytes_per_request: Option<u32>,
    pub tokens_per_request: Option<u32>,
    pub tokens_per_text: Option<u32>,
    pub characters_per_text: Option<u32>,
}

/// It is stored with each index, and shown.
const IDENTITY_BYTES_MAX: usize = 1024;

/// # Errors
/// Says what a model may not say of itself.
pub(crate) fn read_info(info: wit::ModelInfo) -> Result<ModelInfo, String> {
    let identity = info.identity;
    if identity.trim().is_empty() || identity.len() > IDENTITY_BYTES_MAX || identity.chars().any(acts) {
        return Err(format!(
            "its identity has to be one line of at most {IDENTITY_BYTES_MAX} bytes: {identity:?}"
        ));
    }
    if info.dimension == Some(0) {
        return Err("vectors of dimension 0".to_owned());
    }
    let limits = info.limits;
    for (name, limit) in [
        ("texts-per-request", Some(limits.texts_per_request)),
        ("bytes-per-request", limits.bytes_per_request),
        ("tokens-per-request", limits.tokens_per_request),
        ("tokens-per-text", limits.tokens_per_text),
        ("characters-per-text", limits.characters_per_text),
    ] {
        if limit == Some(0) {
            return Err(format!("a limit of 0 for {name}"));
        }
    }
    Ok(ModelInfo {
        identity,
        dimension: info.dimension,
        metric: match info.metric {
            wit::Metric::Cosine => DistanceMetric::Cosine,
            wit::Metric::Euclidean => DistanceMetric::Euclidean,
        },
        limits: ModelLimits {
            texts_per_request: limits.texts_per_request,
            bytes_per_request: limits.bytes_per_request,
            tokens_per_request: limits.tokens_per_request,
            tokens_per_text: limits.tokens_per_text,
            characters_per_text: limits.characters_per_text,
        },
    })
}

/// Checks that `floats` make up `count` vectors of one dimension, of `dimension` where that is known, and gives it.
///
/// # Errors
/// The answer as a whole is none; it counts as a trap.
pub(crate) fn check_shape(floats: usize, count: usize, dimension: Option<u32>) -> Result<u32, Stop> {
    let counted =
        floats.checked_div(count).and_then(|each| u32::try_from(each).ok()).filter(|&each| each > 0);
    match counted {
        Some(each) if each as usize * count == floats && dimension.is_none_or(|known| known == each) => {
            Ok(each)
        }
        _ => {
            let of =
                dimension.map_or_else(|| "one dimension".to_owned(), |known| format!("dimension {known}"));
            Err(Stop::output(format!("answered {floats} floats for {count} vectors of {of}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(check_shape(12, 3, None).unwrap(), 4);
        assert_eq!(check_shape(12, 3, Some(4)).unwrap(), 4);
        for (floats, count, dimension) in [(12, 3, Some(3)), (13, 3, None), (0, 3, None), (4, 0, None)] {
            assert!(check_shape(floats, count, dimension).is_err(), "{floats} {count} {dimension:?}");
        }
    }
}
