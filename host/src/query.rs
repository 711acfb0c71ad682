//! A question into rows of the table: embed it, find the nearest keys, read those rows back.

use std::time::{Duration, Instant};

use keyvector_core::document::Metadata;
use keyvector_core::index::IndexQuery;
use keyvector_core::key::RowKey;
use keyvector_core::port;
use keyvector_core::row::Row;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::embed::{Interrupted, Purpose};
use crate::table::Table;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub text: &'a str,
    /// In S3 Vectors' filter language.
    pub filter: Option<serde_json::Value>,
    /// How many rows, at least 1.
    pub top: u32,
}

/// One row, nearest first.
#[derive(Clone, Debug)]
pub struct Found {
    pub key: RowKey,
    pub distance: f32,
    pub metadata: Metadata,
    pub row: Row,
}

/// What was found, and how complete it is.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub found: Vec<Found>,
    /// Hits whose row is gone or expired: dropped.
    pub stale: usize,
    /// Why there are fewer rows than asked for.
    pub exhausted: Option<Exhausted>,
    pub timings: Timings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// No further vector passes the filter.
    Index,
    /// The service gives no more hits to one question.
    TopK,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    pub embed: Duration,
    pub search: Duration,
    pub read: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Port(#[from] port::Error),
    #[error("the question holds no word: ask with words")]
    Blank,
    #[error("the model cannot embed the question: {0}")]
    Model(String),
    #[error("{0}")]
    Broken(String),
    #[error("stopped")]
    Stopped,
}

/// Answers a question. Hits whose row is gone are dropped and made up for by further ones, until `top` rows are found,
/// the index has no more, or the service's limit on hits is reached.
///
/// # Errors
/// [`Error`]; a filter that is not of the language comes as `Port(Rejected)`.
pub async fn query(
    table: &Table,
    question: &Question<'_>,
    stop: &CancellationToken,
) -> Result<Answer, Error> {
    if question.text.chars().all(char::is_whitespace) {
        return Err(Error::Blank);
    }
    let mut answer = Answer::default();
    let started = Instant::now();
    let embedded = table.embedder.embed(&[question.text], Purpose::Query, stop).await;
    let embedded = embedded.map_err(|interrupted| match interrupted {
        Interrupted::Stopped => Error::Stopped,
        Interrupted::Broken(reason) => Error::Broken(reason),
    })?;
    let vector = embedded
        .into_iter()
        .next()
        .expect("one outcome for each text")
        .map_err(|failure| Error::Model(failure.reason))?
        .data;
    answer.timings.embed = started.elapsed();

    let limit = table.index_limits.top_k_max;
    let mut top_k = question.top.clamp(1, limit);
    let mut seen = 0;
    loop {
        let started = Instant::now();
        let asked = IndexQuery { vector: vector.clone(), top_k, filter: question.filter.clone() };
        let hits = table.index.query(&asked).await?;
        answer.timings.search += started.elapsed();
        let index_exhausted = hits.len() < top_k as usize;

        let started = Instant::now();
        // A larger question gives the same hits first: only the further ones are read.
        let further = hits.get(seen..).unwrap_or_default();
        let keys: Vec<&str> = further.iter().map(|hit| hit.key.as_str()).collect();
        let rows = table.rows.read(&keys, clock::now_ms()).await?;
        seen = hits.len().max(seen);
        for (hit, row) in further.iter().zip(rows) {
            match row {
                Some(_) if answer.found.len() == question.top as usize => break,
                Some(row) => answer.found.push(Found {
                    key: RowKey::from_stored(hit.key.clone()),
                    distance: hit.distance,
                    metadata: hit.metadata.clone(),
                    row,
                }),
                None => answer.stale += 1,
            }
        }
        answer.timings.read += started.elapsed();

        if answer.found.len() >= question.top as usize {
            return Ok(answer);
        }
        if index_exhausted || top_k == limit {
            answer.exhausted = Some(if index_exhausted { Exhausted::Index } else { Exhausted::TopK });
            return Ok(answer);
        }
        let missing = question.top - u32::try_from(answer.found.len()).unwrap_or(question.top);
        top_k = (top_k + 2 * missing.max(5)).min(limit);
    }
}
