//! Texts in, checked vectors out.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use keyvector_core::document::{FailureClass, RowFailure};
use keyvector_core::fingerprint::hash_name;
use keyvector_core::index::DistanceMetric;
use tokio_util::sync::CancellationToken;

mod cut;
pub mod local;
#[cfg(test)]
mod tests;

pub use cut::estimate_tokens;
pub use keyvector_sandbox::{ModelInfo, ModelLimits, Purpose};

use crate::config::TooLong;
use cut::{cut_requests, cut_text};

/// One request's answer.
#[derive(Clone, Debug, Default)]
pub struct Embeddings {
    /// Row-major, a vector a text, in the order of the texts.
    pub vectors: Vec<f32>,
    /// Texts that the model itself singled out as failed; their vectors are meaningless.
    pub failed: Vec<(usize, RowFailure)>,
    /// As the server counted or billed them.
    pub tokens: Option<u64>,
}

/// Why a whole request failed.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelFailure {
    /// Not now: all calls to the provider pause; nobody's attempts are used up.
    Throttled { retry_after: Option<Duration>, message: String },
    /// A passing fault: the same request is sent again.
    Transient { message: String },
    /// A text is over the model's limit.
    TooLong { message: String },
    /// This request can never succeed.
    Rejected { message: String },
    /// No request can succeed for now (credentials, quota): paused and tried again slowly, loudly.
    Unusable { message: String },
    /// The model cannot be run any more.
    Broken { message: String },
}

/// A model: a component that computes, or a server behind a component that speaks its protocol.
#[async_trait]
pub trait Model: Send + Sync {
    fn info(&self) -> &ModelInfo;

    /// Embeds 1 to `limits.texts` texts, none blank.
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Embeddings, ModelFailure>;
}

/// The text that tells a model's dimension, and later whether it is still the same model.
pub const PROBE_TEXT: &str = "keyvector-host probe: the quick brown fox jumps over the lazy dog";

/// A `Retry-After` above this is cut to it, so that one header cannot stop a host for a day.
const PAUSE_MAX: Duration = Duration::from_secs(300);
const PAUSE_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });
/// A request that fails as passing is sent this often before it is halved to find out whether one text is to blame.
const SAME_REQUEST_MAX: u32 = 3;

/// Embedding stopped before it was done.
#[derive(Clone, Debug, PartialEq)]
pub enum Interrupted {
    /// The host is stopping, or the lease is lost.
    Stopped,
    /// The model is broken: no row is to blame.
    Broken(String),
}

/// One text's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    pub data: Vec<f32>,
    /// The whole text's length in characters, where only its beginning was embedded.
    pub cut_from: Option<usize>,
}

/// One text's outcome.
pub type Embedded = Result<Embedding, RowFailure>;

type Checked = Result<Vec<f32>, RowFailure>;

/// Drives one model: cuts texts into requests, isolates the text that fails, pauses for a provider that is down, and
/// lets no vector through that an index would refuse. Clones drive the same model.
#[derive(Clone)]
pub struct Embedder {
    model: Arc<dyn Model>,
    pub dimension: u32,
    pub identity_hash: u64,
    max_attempts: u32,
    too_long: TooLong,
}

impl Embedder {
    /// Learns the model's dimension, by a probe text where the model does not say.
    ///
    /// # Errors
    /// In words, when the probe cannot be embedded or contradicts what the model says.
    pub async fn new(model: Arc<dyn Model>, max_attempts: u32, too_long: TooLong) -> Result<Self, String> {
        let probe = model
            .embed(&[PROBE_TEXT], Purpose::Document)
            .await
            .map_err(|failure| format!("the model cannot embed a probe text: {}", message_of(&failure)))?;
        if let Some((_, failure)) = probe.failed.first() {
            return Err(format!("the model cannot embed a probe text: {}", failure.reason));
        }
        let counted = u32::try_from(probe.vectors.len()).unwrap_or(u32::MAX);
        let dimension = model.info().dimension.unwrap_or(counted);
        if counted == 0 || counted != dimension {
            return Err(format!(
                "the model says that its vectors have {dimension} dimensions, but gave {counted} for a probe text"
            ));
        }
        let embedder = Self::of_known(model, dimension, max_attempts, too_long);
        match embedder.check(&probe.vectors) {
            Ok(()) => Ok(embedder),
            Err(reason) => Err(format!("the model gave no usable vector for a probe text: {reason}")),
        }
    }

    /// For a model whose dimension was learned before: sends no probe.
    pub fn of_known(model: Arc<dyn Model>, dimension: u32, max_attempts: u32, too_long: TooLong) -> Self {
        let identity_hash = hash_name(&model.info().identity);
        Self { model, dimension, identity_hash, max_attempts, too_long }
    }

    pub fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    /// Embeds texts, none blank, in their order. Waits for as long as the provider is down.
    ///
    /// # Errors
    /// [`Interrupted`]; nothing of this call may be used then.
    pub async fn embed(
        &self,
        texts: &[&str],
        purpose: Purpose,
        stop: &CancellationToken,
    ) -> Result<Vec<Embedded>, Interrupted> {
        let mut out: Vec<Option<Embedded>> = vec![None; texts.len()];
        let mut sent = Vec::with_capacity(texts.len());
        let mut positions = Vec::with_capacity(texts.len());
        for (position, &text) in texts.iter().enumerate() {
            match self.fit(text) {
                Ok((text, cut_from)) => {
                    sent.push(text);
                    positions.push((position, cut_from));
                }
                Err(failure) => out[position] = Some(Err(failure)),
            }
        }
        for request in cut_requests(&sent, &self.model.info().limits) {
            let checked = self.embed_request(&sent[request.clone()], purpose, stop).await?;
            for (&(position, cut_from), checked) in positions[request].iter().zip(checked) {
                out[position] = Some(checked.map(|data| Embedding { data, cut_from }));
            }
        }
        Ok(out.into_iter().map(|outcome| outcome.expect("each text is sent or refused")).collect())
    }

    /// The part of a text that the model takes, and the whole length in characters where that is not all of it.
    fn fit<'t>(&self, text: &'t str) -> Result<(&'t str, Option<usize>), RowFailure> {
        let Some(limit) = self.model.info().limits.characters_per_text else { return Ok((text, None)) };
        let beginning = cut_text(text, limit as usize);
        if beginning.len() == text.len() {
            return Ok((text, None));
        }
        let characters = text.chars().count();
        match self.too_long {
            TooLong::Cut => Ok((beginning, Some(characters))),
            TooLong::DeadLetter => Err(RowFailure {
                class: FailureClass::TextTooLong,
                reason: format!("the text has {characters} characters, the model takes {limit}"),
                attempts: 1,
            }),
        }
    }

    /// One request, halved down to the text as far as it takes.
    async fn embed_request(
        &self,
        texts: &[&str],
        purpose: Purpose,
        stop: &CancellationToken,
    ) -> Result<Vec<Checked>, Interrupted> {
        let mut out: Vec<Option<Checked>> = vec![None; texts.len()];
        // Ranges still to send; halves go to the front so that the order of calls is the order of texts.
        let mut todo: Vec<_> = iter::once(0..texts.len()).collect();
        while let Some(range) = todo.pop() {
            let alone = range.len() == 1;
            match self.send(&texts[range.clone()], purpose, stop).await? {
                Answer::Vectors(embedded) => {
                    for (slot, outcome) in out[range].iter_mut().zip(embedded) {
                        *slot = Some(outcome);
                    }
                }
                Answer::Failed(failure) if alone => out[range.start] = Some(Err(failure)),
                Answer::Failed(_) => {
                    let middle = range.start + range.len() / 2;
                    todo.push(middle..range.end);
                    todo.push(range.start..middle);
                }
            }
        }
        // Bad vectors are tried once more, each alone.
        let mut embedded = Vec::with_capacity(out.len());
        for (index, outcome) in out.into_iter().enumerate() {
            embedded.push(match outcome.expect("the ranges that were sent cover all texts") {
                Err(failure) if failure.class == FailureClass::BadVector && failure.attempts == 1 => {
                    self.once_more(texts[index], purpose, failure, stop).await?
                }
                outcome => outcome,
            });
        }
        Ok(embedded)
    }

    async fn once_more(
        &self,
        text: &str,
        purpose: Purpose,
        first: RowFailure,
        stop: &CancellationToken,
    ) -> Result<Checked, Interrupted> {
        Ok(match self.send(&[text], purpose, stop).await? {
            Answer::Vectors(mut embedded) => match embedded.pop() {
                Some(Ok(vector)) => Ok(vector),
                Some(Err(failure)) => Err(RowFailure { attempts: first.attempts + 1, ..failure }),
                None => Err(first),
            },
            Answer::Failed(failure) => Err(RowFailure { attempts: first.attempts + 1, ..failure }),
        })
    }

    /// Sends one request until it is answered for good. A provider that is down is waited for; a passing fault is
    /// tried a few times before the texts come under suspicion.
    async fn send(
        &self,
        texts: &[&str],
        purpose: Purpose,
        stop: &CancellationToken,
    ) -> Result<Answer, Interrupted> {
        let mut pause = PAUSE_FIRST;
        let mut attempts = 0;
        loop {
            let result = tokio::select! {
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                result = self.model.embed(texts, purpose) => result,
            };
            let failure = match result {
                Ok(embeddings) => match self.split(texts.len(), embeddings) {
                    Ok(embedded) => return Ok(Answer::Vectors(embedded)),
                    Err(message) => ModelFailure::Transient { message },
                },
                Err(failure) => failure,
            };
            let wait = match failure {
                ModelFailure::Broken { message } => return Err(Interrupted::Broken(message)),
                ModelFailure::Rejected { message } => {
                    return Ok(Answer::failed(FailureClass::ModelRejected, message, attempts + 1));
                }
                ModelFailure::TooLong { message } => {
                    return Ok(Answer::failed(FailureClass::TextTooLong, message, attempts + 1));
                }
                ModelFailure::Transient { message } => {
                    attempts += 1;
                    let limit = if texts.len() > 1 { SAME_REQUEST_MAX } else { self.max_attempts };
                    // A text alone is to blame only if the model still takes another one.
                    if attempts >= limit && (texts.len() > 1 || self.answers(stop).await?) {
                        return Ok(Answer::failed(FailureClass::ModelFailed, message, attempts));
                    }
                    tracing::warn!(attempt = attempts, texts = texts.len(), "the model failed, trying again");
                    None
                }
                ModelFailure::Throttled { retry_after, .. } => {
                    tracing::warn!(texts = texts.len(), "the model asks for a pause");
                    retry_after
                }
                ModelFailure::Unusable { .. } => {
                    tracing::error!("the model refuses every request: check its credentials and quota");
                    None
                }
            };
            let wait = wait.unwrap_or(pause).min(PAUSE_MAX);
            pause = (pause * 2).min(PAUSE_MAX);
            tokio::select! {
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Whether the model embeds a text that is known to be harmless: then a text that keeps failing is to blame itself.
    async fn answers(&self, stop: &CancellationToken) -> Result<bool, Interrupted> {
        let probe = tokio::select! {
            () = stop.cancelled() => return Err(Interrupted::Stopped),
            probe = self.model.embed(&[PROBE_TEXT], Purpose::Document) => probe,
        };
        Ok(probe.is_ok_and(|embeddings| self.split(1, embeddings).is_ok_and(|checked| checked[0].is_ok())))
    }

    /// One vector a text, each checked. An answer of the wrong size fails whole: nothing says whose vectors those are.
    fn split(&self, texts: usize, embeddings: Embeddings) -> Result<Vec<Checked>, String> {
        let dimension = self.dimension as usize;
        if embeddings.vectors.len() != texts * dimension {
            return Err(format!(
                "{texts} texts were sent, but {} numbers came back: {dimension} for each were due",
                embeddings.vectors.len()
            ));
        }
        let mut out: Vec<Checked> = embeddings
            .vectors
            .chunks_exact(dimension)
            .map(|vector| match self.check(vector) {
                Ok(()) => Ok(vector.to_vec()),
                Err(reason) => {
                    Err(RowFailure { class: FailureClass::BadVector, reason: reason.to_owned(), attempts: 1 })
                }
            })
            .collect();
        for (index, failure) in embeddings.failed {
            if let Some(slot) = out.get_mut(index) {
                *slot = Err(failure);
            }
        }
        Ok(out)
    }

    /// Finite and, under cosine, not all zero: what an index takes.
    fn check(&self, vector: &[f32]) -> Result<(), &'static str> {
        // One pass: a NaN or an infinity anywhere makes the sum of squares NaN or infinite, and f64 holds the square of
        // any finite f32.
        let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        if !squares.is_finite() {
            return Err("the model's vector holds a number that is not finite");
        }
        if squares == 0.0 && self.model.info().metric == DistanceMetric::Cosine {
            return Err("the model's vector is all zero: it knows no word of the text");
        }
        Ok(())
    }
}

enum Answer {
    Vectors(Vec<Checked>),
    Failed(RowFailure),
}

impl Answer {
    fn failed(class: FailureClass, reason: String, attempts: u32) -> Self {
        Self::Failed(RowFailure { class, reason, attempts })
    }
}

fn message_of(failure: &ModelFailure) -> &str {
    match failure {
        ModelFailure::Throttled { message, .. }
        | ModelFailure::Transient { message }
        | ModelFailure::TooLong { message }
        | ModelFailure::Rejected { message }
        | ModelFailure::Unusable { message }
        | ModelFailure::Broken { message } => message,
    }
}
