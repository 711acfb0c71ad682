//! The line that every change of one shard travels. The only place that knows the order of the stages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use keyvector_core::collapse::{NetChange, collapse};
use keyvector_core::document::RowFailure;
use keyvector_core::fingerprint::hash_shard;
use keyvector_core::key::RowKey;
use keyvector_core::lease::Checkpoint;
use keyvector_core::letter::Letter;
use keyvector_core::plan::{Action, needs_stored, plan};
use keyvector_core::poison::PoisonGuard;
use keyvector_core::port;
use keyvector_sandbox::Broken;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::counters::Counters;
use crate::embed::{Embedded, Embedding, Interrupted, Purpose};
use crate::lease_keeper::LeaseKeeper;
use crate::render::{AfterDocument, Documents, render};
use crate::source::{Batch, ShardReader};
use crate::state::Rendering;
use crate::table::Table;
use crate::vector;

mod durable;
mod set_aside;
mod sort;

pub(crate) use durable::Backoff;
pub(crate) use sort::letter;
use sort::{Sorted, sort};

/// The pause before a source that failed is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// How a shard's work ended, when nothing failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Everything that was there is in the index or in a letter.
    Drained,
    /// The host was asked to stop. Everything up to the checkpoint is done.
    Stopped,
    /// Another host has the shard now.
    LeaseLost,
    /// The plugin or the model is broken, or no record can be read: the table is halted, and nothing of it was
    /// dead-lettered.
    Halted(String),
    /// Record after record could not be read: the source or its schema is wrong. Nothing of it was dead-lettered.
    Unreadable(String),
    /// Drained, but for rows that failed and of which nobody can tell whether they or the plugin are to blame. Their
    /// letters are not written and the checkpoint stands before them.
    Held(String),
    /// Another plugin or configuration has taken the table over.
    Superseded(Rendering),
}

/// Why the line left off in the middle of a batch.
enum Interrupt {
    Outcome(Outcome),
    /// The plugin or the model does not work, whatever the row.
    Broken(String),
    Error(port::Error),
}

impl From<port::Error> for Interrupt {
    fn from(error: port::Error) -> Self {
        Self::Error(error)
    }
}

impl From<Broken> for Interrupt {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.to_string())
    }
}

type Step<T> = Result<T, Interrupt>;

/// How a host asks its workers to end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Take no new batch; finish and checkpoint the one at work.
    pub soon: CancellationToken,
    /// Leave off where it is: the time for finishing is over, or the lease is lost.
    pub now: CancellationToken,
}

/// One shard's worker.
pub struct Worker {
    table: Arc<Table>,
    lease: LeaseKeeper,
    shard_id: String,
    /// Hash of the shard's id, as fingerprints carry it.
    shard: u32,
    counters: Arc<Counters>,
    stop: Stop,
    guard: PoisonGuard,
    /// Letters that wait until it is known whether the rows or the plugin are to blame, oldest first.
    held: Vec<Letter>,
    /// How far everything is done, held letters apart.
    done: Option<Checkpoint>,
    /// Whether the shard has been at its tip since the lease was taken. Until then a crash may have left later states
    /// in the index than the records say, so no before image is trusted.
    reached_tip: bool,
    /// Rows with a held letter that have been well since: their vectors are good.
    mended: BTreeSet<RowKey>,
    /// How many letters were held when known rows were last tried in vain.
    doubted: usize,
}

/// What became of one row of a batch.
struct RowOutcome {
    change: NetChange,
    failure: Option<RowFailure>,
    /// Whether plugin or model had a part in it.
    tried: bool,
}

impl Worker {
    pub fn new(table: Arc<Table>, lease: LeaseKeeper, counters: Arc<Counters>, stop: &Stop) -> Self {
        let shard_id = lease.tenure().lease_key.clone();
        Self {
            guard: PoisonGuard::new(table.policy.poison_run_max),
            shard: hash_shard(&shard_id),
            stop: stop.or_lost(lease.lost()),
            table,
            lease,
            shard_id,
            counters,
            held: Vec::new(),
            done: None,
            reached_tip: false,
            mended: BTreeSet::new(),
            doubted: 0,
        }
    }

    /// For a shard that is known to have been at its tip under this lease, as in a benchmark: before images are trusted
    /// from the first record on.
    pub fn at_tip(mut self) -> Self {
        self.reached_tip = true;
        self
    }

    /// Works until the host stops, the lease is lost, or, `until_drained`, until nothing is left. Then gives the lease
    /// up, for the next host to take at once.
    ///
    /// # Errors
    /// What a port says that trying again cannot mend. The checkpoint stays where it was and the lease expires.
    pub async fn run(
        mut self,
        reader: impl ShardReader + 'static,
        until_drained: bool,
    ) -> port::Result<Outcome> {
        let mut result = self.follow(reader, until_drained).await;
        if let Err(Interrupt::Broken(reason)) = result {
            result = self.halt(reason).await;
        }
        let lost = self.lease.lost().is_cancelled();
        self.stop.now.cancel();
        let outcome = match result {
            Ok(outcome) | Err(Interrupt::Outcome(outcome)) => outcome,
            Err(Interrupt::Broken(reason)) => Outcome::Halted(reason),
            Err(Interrupt::Error(error)) => return Err(error),
        };
        if lost {
            return Ok(if outcome == Outcome::Stopped { Outcome::LeaseLost } else { outcome });
        }
        self.lease.leave().await;
        Ok(outcome)
    }

    async fn follow(&mut self, reader: impl ShardReader + 'static, until_drained: bool) -> Step<Outcome> {
        tracing::info!(
            table = self.table.name,
            shard_id = self.shard_id,
            lease_counter = self.lease.tenure().taken_at,
            "following the shard"
        );
        // The next batch is read while this one is worked on.
        let mut batches = prefetch(reader, self.table.policy.batch);
        loop {
            let batch = tokio::select! {
                biased;
                () = self.stop.now.cancelled() => return Ok(Outcome::Stopped),
                () = self.stop.soon.cancelled() => return Ok(Outcome::Stopped),
                batch = batches.recv() => batch.expect("the reader goes on while its channel is open")?,
            };
            let (at_tip, empty) = (batch.at_tip, batch.records.is_empty());
            self.travel(batch).await?;
            if at_tip {
                if !self.reached_tip {
                    tracing::info!(
                        table = self.table.name,
                        shard_id = self.shard_id,
                        "at the tip of the shard"
                    );
                }
                self.reached_tip = true;
                self.counters.reached_tip();
                let drained = until_drained && empty;
                self.settle_held(drained).await?;
                if drained {
                    return Ok(Outcome::Drained);
                }
            }
        }
    }

    /// One batch, from its records to its checkpoint.
    async fn travel(&mut self, batch: Batch) -> Step<()> {
        self.record_gap(batch.gap).await?;
        if batch.records.is_empty() {
            return Ok(());
        }
        let records = batch.records.len();
        let Sorted { changes, places, unreadable, too_long, partitions } =
            sort(&self.table, &self.shard_id, batch.records);
        self.counters.partitions(partitions.len());
        self.counters.too_long(too_long.len());
        self.record_partitions(&partitions).await?;
        self.keep_rows(&changes).await?;
        let outcomes = self.apply(collapse(changes), !self.reached_tip).await?;
        let outcomes = self.wait_without_queue(outcomes, &places, &unreadable).await?;
        self.set_aside(outcomes, &places, unreadable, too_long).await?;
        self.checkpoint(batch.position).await?;
        self.counters.records(records);
        tracing::debug!(table = self.table.name, shard_id = self.shard_id, batch_len = records, "batch done");
        Ok(())
    }

    /// Render, plan, embed, put, delete. Says what became of each row, in the order of the changes.
    async fn apply(&self, changes: Vec<NetChange>, before_unknown: bool) -> Step<Vec<RowOutcome>> {
        let documents = self.unless_stopped(render(&self.table, &changes, before_unknown)).await??;
        let actions = self.plan(&changes, &documents).await?;
        let mut embedded = self.embed(&documents, &actions).await?.into_iter();

        let (mut puts, mut put_positions, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        let mut outcomes = Vec::with_capacity(changes.len());
        for ((change, documents), action) in changes.into_iter().zip(documents).zip(actions) {
            let tried = !matches!(documents.after, AfterDocument::Gone | AfterDocument::Unchanged);
            let mut failure = None;
            match (documents.after, action) {
                (AfterDocument::Failed(failed), _) => failure = Some(failed),
                (AfterDocument::Document(document), Action::Embed) => {
                    match embedded.next().expect("one outcome for each text") {
                        Ok(Embedding { data, cut_from }) => {
                            self.counters.embedded();
                            put_positions.push(outcomes.len());
                            puts.push(vector::build(
                                &self.table,
                                self.shard,
                                &change,
                                data,
                                cut_from,
                                document,
                            ));
                        }
                        Err(failed) => failure = Some(failed),
                    }
                }
                (AfterDocument::Document(document), Action::PutStored { data, cut_from }) => {
                    self.counters.metadata_only();
                    put_positions.push(outcomes.len());
                    puts.push(vector::build(&self.table, self.shard, &change, data, cut_from, document));
                }
                (after, Action::Delete) => {
                    self.counters.deleted(matches!(after, AfterDocument::Blank));
                    deletes.push(change.key.clone());
                }
                (after, _) => self.counters.nothing(matches!(after, AfterDocument::Blank)),
            }
            outcomes.push(RowOutcome { change, failure, tried });
        }
        for (position, failed) in self.put(puts).await? {
            outcomes[put_positions[position]].failure = Some(failed);
        }
        self.delete(&deletes).await?;
        Ok(outcomes)
    }

    /// Leaves work off when the host can wait no longer.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Step<T> {
        tokio::select! {
            () = self.stop.now.cancelled() => Err(Interrupt::Outcome(Outcome::Stopped)),
            result = work => Ok(result),
        }
    }

    /// One action a change. The index is asked only about rows whose before is unknown or whose vector is put again.
    async fn plan(&self, changes: &[NetChange], documents: &[Documents]) -> Step<Vec<Action>> {
        let states =
            || changes.iter().zip(documents).map(|(change, documents)| (change, documents.for_plan()));
        let wanted: Vec<_> = states()
            .filter_map(|(change, state)| {
                let (before, after) = state?;
                needs_stored(before, after, change.changes > 1).then_some(&change.key)
            })
            .collect();
        let mut stored = self.stored(&wanted).await?.into_iter();
        Ok(states()
            .map(|(change, state)| {
                let Some((before, after)) = state else { return Action::Nothing };
                let folded = change.changes > 1;
                let known = if needs_stored(before, after, folded) { stored.next().flatten() } else { None };
                plan(before, after, folded, known, self.table.embedder.identity_hash)
            })
            .collect())
    }

    /// Embeds the texts that were planned to be, in their order.
    async fn embed(&self, documents: &[Documents], actions: &[Action]) -> Step<Vec<Embedded>> {
        let texts: Vec<&str> = documents
            .iter()
            .zip(actions)
            .filter_map(|(documents, action)| match (&documents.after, action) {
                (AfterDocument::Document(document), Action::Embed) => Some(document.text.as_str()),
                _ => None,
            })
            .collect();
        let embedded = self.table.embedder.embed(&texts, Purpose::Document, &self.stop.now).await;
        embedded.map_err(|interrupted| match interrupted {
            Interrupted::Stopped => Interrupt::Outcome(Outcome::Stopped),
            Interrupted::Broken(reason) => Interrupt::Broken(reason),
        })
    }
}

impl Stop {
    /// Ends with this one, and can be ended without it.
    pub fn child(&self) -> Self {
        Self { soon: self.soon.child_token(), now: self.now.child_token() }
    }

    /// The same, and also now when the lease is lost. Cancelling it leaves the host's own alone.
    pub(crate) fn or_lost(&self, lost: &CancellationToken) -> Self {
        let own = Self { soon: self.soon.clone(), now: self.now.child_token() };
        let (lost, now) = (lost.clone(), own.now.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = lost.cancelled() => now.cancel(),
                () = now.cancelled() => {}
            }
        });
        own
    }
}

/// Reads batches ahead, one at a time, until the receiver is dropped or reading fails for good.
fn prefetch(
    mut reader: impl ShardReader + 'static,
    records_max: usize,
) -> mpsc::Receiver<port::Result<Batch>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let batch = match reader.next(records_max).await {
                Err(port::Error::Transient { message, retry_after }) => {
                    tracing::warn!(error = message, "reading the source failed, trying again");
                    let pause = retry_after.unwrap_or(READ_AGAIN);
                    tokio::select! {
                        () = sender.closed() => return,
                        () = tokio::time::sleep(pause) => continue,
                    }
                }
                batch => batch,
            };
            let failed = batch.is_err();
            if sender.send(batch).await.is_err() || failed {
                return;
            }
        }
    });
    receiver
}
