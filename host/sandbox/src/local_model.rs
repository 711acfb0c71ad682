//! Models that compute inside a plugin.

use std::ops::Range;
use std::sync::Arc;

use keyvector_core::document::RowFailure;

use crate::bindings::types::Packed;
use crate::bindings::{self, LocalModelPre};
use crate::engine::one_line;
use crate::guest::{Bounds, Guest, Stop, on_own_thread};
use crate::isolate::{self, Batch, Broken, Failed, RunMax, Try};
use crate::load::Role;
use crate::model::{ModelInfo, Purpose, check_shape, read_info};
use crate::packed;
use crate::plugin::Plugin;
use crate::slot::{self, NotOpened, OpenError, Slot};
use crate::stats::{Counters, Stats};
use crate::workers::{Reply, Workers};

/// An open local model. It lives on threads of its own.
pub struct LocalModel {
    workers: Workers<Texts, Embedded>,
    counters: Arc<Counters>,
}

/// What a batch of texts became.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// A vector a text, row-major. Where a text failed, its vector is NaN throughout. Whether the others are finite and
    /// not zero is for the host to check.
    pub vectors: Vec<f32>,
    pub dimension: usize,
    /// The texts that stopped the model alone, by index, rising.
    pub failures: Vec<(usize, RowFailure)>,
    /// As the plugin counted them.
    pub tokens: Option<u64>,
}

impl Embedded {
    /// The vector of one text.
    pub fn vector(&self, index: usize) -> &[f32] {
        &self.vectors[index * self.dimension..][..self.dimension]
    }
}

struct Texts {
    texts: Packed,
    purpose: Purpose,
}

/// Embedded once by a model that does not say its dimension.
const PROBE: &str = "probe";

impl LocalModel {
    /// Opens the model under `config`, a JSON object, and starts its threads. Blocks for at most a few times the longer
    /// deadline.
    pub fn open(plugin: &Plugin, config: &str) -> Result<(Self, ModelInfo), OpenError> {
        slot::require_role(plugin, Role::LocalModel)?;
        let declaration = |reason| OpenError::Declaration { plugin: plugin.name().to_owned(), reason };
        let counters = Arc::new(Counters::default());
        let pre = LocalModelPre::new(plugin.wit_version, plugin.instance_pre.clone())
            .map_err(|error| declaration(one_line(&error)))?;
        let open = {
            let (plugin, config, counters) = (plugin.clone(), config.to_owned(), Arc::clone(&counters));
            move |patience| {
                let mut guest =
                    Guest::instantiate(&plugin, &counters, patience, |store| pre.instantiate(store))?;
                let info = guest
                    .call(Bounds::of_setup(&plugin, patience), |model, store| model.open(store, &config))?
                    .map_err(NotOpened::Refused)?;
                Ok::<_, NotOpened>((guest.opened(), info))
            }
        };
        let (first, info) = on_own_thread(|| {
            slot::open_twice(plugin, &counters, |patience| {
                let (mut guest, mut info) = open(patience)?;
                if info.dimension.is_none() {
                    let probe = packed::pack([PROBE].into_iter());
                    let bounds = Bounds::of_rows(plugin, 1, PROBE.len(), patience);
                    let answer = guest.call(bounds, |model, store| {
                        model.embed(store, &probe, Purpose::Document.to_wit())
                    })?;
                    info.dimension = Some(check_shape(answer.vectors.len(), 1, None)?);
                }
                Ok((guest, info))
            })
        })
        .and_then(|(guest, info)| Ok((guest, read_info(info).map_err(declaration)?)))?;
        let dimension = info.dimension.expect("counted where the model does not say it");

        let open = move |patience| open(patience).map(|(guest, _)| guest);
        let workers = slot::slots(plugin, &counters, open, first)
            .into_iter()
            .map(|slot| Embedder { slot, dimension })
            .collect();
        let workers = Workers::start(plugin, workers, Embedder::embed).map_err(|error| Broken {
            plugin: plugin.name().to_owned(),
            reason: format!("its threads cannot be started: {error}"),
        })?;
        Ok((Self { workers, counters }, info))
    }

    /// Embeds texts, none of them blank. A text that stops the model fails alone.
    ///
    /// # Errors
    /// [`Broken`] says nothing about any text.
    ///
    /// # Cancel safety
    /// Safe: the work is given up at the next try.
    pub async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Embedded, Broken> {
        let texts = packed::pack(texts.iter().copied());
        self.workers.ask(Texts { texts, purpose }).await
    }

    /// What the plugin has done so far.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }
}

/// One thread's side of an open model.
struct Embedder {
    slot: Slot<bindings::LocalModel>,
    dimension: u32,
}

impl Embedder {
    fn embed(&mut self, question: Texts, reply: Reply<Embedded>) {
        let count = question.texts.ends.len();
        let dimension = self.dimension as usize;
        let embedded = Embedded { vectors: Vec::new(), dimension, failures: Vec::new(), tokens: None };
        if count == 0 {
            return reply.send(Ok(embedded));
        }
        self.slot.counters().begin_batch(count);
        let run_max = RunMax::of(self.slot.plugin().limits());
        let mut batch = Embedding { embedder: self, question: &question, reply: &reply, embedded };
        let result = isolate::isolate(&mut batch, count, run_max);
        let embedded = batch.embedded;
        reply.send(result.map(|()| embedded));
        self.slot.rest();
    }
}

/// A batch under way.
struct Embedding<'a> {
    embedder: &'a mut Embedder,
    question: &'a Texts,
    reply: &'a Reply<Embedded>,
    embedded: Embedded,
}

impl Batch for Embedding<'_> {
    fn attempt(&mut self, rows: Range<usize>, this: Try) -> Result<(), Failed> {
        let slot = &mut self.embedder.slot;
        if self.reply.is_abandoned() {
            let plugin = slot.plugin().name().to_owned();
            return Err(Failed::Ended(Broken { plugin, reason: "nobody waits for this batch".to_owned() }));
        }
        let part;
        let texts = if this.is_first() {
            &self.question.texts
        } else {
            part = packed::slice(&self.question.texts, rows.clone());
            &part
        };
        let bounds =
            Bounds::of_rows(slot.plugin(), rows.len(), texts.data.len(), slot::patience(slot.plugin(), this));
        let dimension = self.embedder.dimension;
        let answer = slot.call(
            this,
            bounds,
            |model, store| model.embed(store, texts, self.question.purpose.to_wit()),
            |answer| check_shape(answer.vectors.len(), rows.len(), Some(dimension)).map(|_| answer),
        )?;
        if let Some(tokens) = answer.tokens {
            *self.embedded.tokens.get_or_insert(0) += u64::from(tokens);
        }
        if self.embedded.vectors.is_empty() {
            self.embedded.vectors = answer.vectors;
        } else {
            self.embedded.vectors.extend(answer.vectors);
        }
        Ok(())
    }

    fn convict(&mut self, row: usize, stop: Stop, last: Try) {
        let filled = self.embedded.vectors.len() + self.embedded.dimension;
        self.embedded.vectors.resize(filled, f32::NAN);
        let failure = RowFailure { class: stop.class, reason: stop.reason, attempts: last.0 };
        self.embedded.failures.push((row, failure));
    }

    fn broken(&self, rows: usize, last: &Stop) -> Broken {
        Broken {
            plugin: self.embedder.slot.plugin().name().to_owned(),
            reason: format!("{rows} texts in a row stopped it, the last one by {}", last.class.as_str()),
        }
    }
}
