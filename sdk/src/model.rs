//! The roles `local-model` and `remote-model`: texts to vectors.

use serde::de::DeserializeOwned;

use crate::bindings::table::keyvector::plugin::types::Packed;

pub use crate::bindings::remote_model::exports::keyvector::plugin::remote_model::{
    Failure, FailureKind, Header, Response, Route, Routes,
};
pub use crate::bindings::table::keyvector::plugin::types::{Embeddings, Limits, Metric, ModelInfo, Purpose};

/// A model that computes inside the plugin.
pub trait LocalModel: Sized {
    /// The configuration, from a JSON object. Unknown keys are refused.
    type Config: DeserializeOwned;

    /// # Errors
    /// A sentence for the operator: this configuration cannot be served.
    fn open(config: Self::Config) -> Result<Self, String>;

    /// What the host must know: identity, dimension, metric, limits.
    fn info(&self) -> ModelInfo;

    /// A vector for each text, in order, end to end. Where a text has none, NaNs (or zeros) stand in its place: that
    /// row alone is set aside.
    fn embed(&self, texts: Texts<'_>, purpose: Purpose) -> Embeddings;
}

/// A model behind HTTP. The plugin writes and reads bodies; the host sends, signs, times out, paces and retries.
pub trait RemoteModel: Sized {
    /// The configuration, from a JSON object. Unknown keys are refused. Addresses and credentials are the host's.
    type Config: DeserializeOwned;

    /// The two paths that the plugin uses, fixed before any text is seen.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn routes(config: &Self::Config) -> Result<Routes, String>;

    /// `info` is the answer of the `info` route, whatever its status, where there is such a route.
    ///
    /// # Errors
    /// A sentence for the operator: no such model, or one that cannot embed.
    fn open(config: Self::Config, info: Option<Response>) -> Result<Self, String>;

    /// What the host must know: identity, dimension, metric, limits.
    fn info(&self) -> ModelInfo;

    /// The body of the one request that embeds these texts: 1 to `texts_per_request` of them, none blank. With `cut` the
    /// server may cut what is too long; without it, it must refuse.
    fn encode(&self, texts: Texts<'_>, purpose: Purpose, cut: bool) -> Vec<u8>;

    /// Reads any complete answer, errors included, to a request of `count` texts.
    ///
    /// # Errors
    /// What the host is to do next; [`failure_from_status`](crate::failure_from_status) knows the usual servers.
    fn decode(&self, count: usize, response: &Response) -> Result<Embeddings, Failure>;
}

/// The texts of one call, in order.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    data: &'a str,
    ends: &'a [u32],
}

impl<'a> Texts<'a> {
    /// # Panics
    /// Where the host breaks its side of the contract: text that is not UTF-8, or ends that do not fit it.
    #[doc(hidden)]
    pub fn new(packed: &'a Packed) -> Self {
        let Ok(data) = std::str::from_utf8(&packed.data) else {
            panic!("the host sent text that is not UTF-8")
        };
        let mut start = 0;
        for &end in &packed.ends {
            let end = end as usize;
            assert!(
                end >= start && data.is_char_boundary(end),
                "the host sent ends that do not fit the texts"
            );
            start = end;
        }
        assert!(start == data.len(), "the host sent text after the last end");
        Self { data, ends: &packed.ends }
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let Self { data, ends } = *self;
        let mut start = 0;
        ends.iter().map(move |&end| {
            let text = &data[start..end as usize];
            start = end as usize;
            text
        })
    }
}

#[doc(hidden)]
pub fn open_local<M: LocalModel>(config: &str) -> Result<(M, ModelInfo), String> {
    crate::log::panics_to_log();
    let model = M::open(crate::config::parse(config)?)?;
    let info = model.info();
    Ok((model, info))
}

#[doc(hidden)]
pub fn describe_remote<M: RemoteModel>(config: &str) -> Result<Routes, String> {
    crate::log::panics_to_log();
    M::routes(&crate::config::parse(config)?)
}

#[doc(hidden)]
pub fn open_remote<M: RemoteModel>(config: &str, info: Option<Response>) -> Result<(M, ModelInfo), String> {
    crate::log::panics_to_log();
    let model = M::open(crate::config::parse(config)?, info)?;
    let info = model.info();
    Ok((model, info))
}
