//! The stages that touch the world: each is tried again through passing faults, and stops when the lease is lost.

use std::iter;
use std::time::Duration;

use keyvector_core::change::{Change, PartitionChange};
use keyvector_core::document::{FailureClass, RowFailure};
use keyvector_core::index::{StoredVector, Vector, check_vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Checkpoint, Fenced};
use keyvector_core::letter::Letter;
use keyvector_core::port::{self, RowWrite};
use keyvector_core::row::Row;

use super::{Interrupt, Outcome, Step, Worker};
use crate::clock;
use crate::state::{self, Gap, Halt, WaitingPartition};
use crate::table::OnGap;

/// The growing pause between tries of one call.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(Duration::from_millis(50))
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(Duration::from_secs(10));
        pause
    }
}

impl Worker {
    pub(super) async fn keep_rows(&self, changes: &[Change]) -> Step<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let writes: Vec<RowWrite<'_>> = changes
            .iter()
            .map(|change| RowWrite {
                key: &change.key,
                sequence_number: &change.sequence_number,
                row: change.after.as_ref(),
            })
            .collect();
        let mut backoff = Backoff::new();
        loop {
            match self.table.rows.keep(self.lease.tenure(), &writes).await {
                Ok(fenced) => return still_ours(fenced),
                Err(error) => self.again("keeping rows", error, &mut backoff).await?,
            }
        }
    }

    pub(super) async fn stored(&self, keys: &[&RowKey]) -> Step<Vec<Option<StoredVector>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut backoff = Backoff::new();
        loop {
            match self.table.index.get(keys, true).await {
                Ok(stored) => return Ok(stored),
                Err(error) => self.again("reading vectors", error, &mut backoff).await?,
            }
        }
    }

    /// Puts vectors; gives back those that the index can never take, by their position.
    pub(super) async fn put(&self, vectors: Vec<Vector>) -> Step<Vec<(usize, RowFailure)>> {
        let mut refused = Vec::new();
        let mut accepted = Vec::with_capacity(vectors.len());
        let mut positions = Vec::with_capacity(vectors.len());
        for (position, vector) in vectors.into_iter().enumerate() {
            match check_vector(&self.table.description, &self.table.index_limits, &vector) {
                Ok(()) => {
                    accepted.push(vector);
                    positions.push(position);
                }
                Err(reason) => refused.push((position, index_refused(reason))),
            }
        }
        // The whole, and where the index refuses it, its halves down to the one vector.
        let mut todo: Vec<_> = iter::once(0..accepted.len()).collect();
        let mut backoff = Backoff::new();
        while let Some(range) = todo.pop() {
            if range.is_empty() {
                continue;
            }
            self.ensure_ours()?;
            match self.table.index.put(self.lease.tenure(), &accepted[range.clone()]).await {
                Ok(fenced) => still_ours(fenced)?,
                Err(port::Error::Rejected(reason)) if range.len() == 1 => {
                    refused.push((positions[range.start], index_refused(reason)));
                }
                Err(port::Error::Rejected(_)) => {
                    let middle = range.start + range.len() / 2;
                    todo.push(middle..range.end);
                    todo.push(range.start..middle);
                }
                Err(error) => {
                    self.again("putting vectors", error, &mut backoff).await?;
                    todo.push(range);
                }
            }
        }
        Ok(refused)
    }

    pub(super) async fn delete(&self, keys: &[RowKey]) -> Step<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut backoff = Backoff::new();
        loop {
            self.ensure_ours()?;
            match self.table.index.delete(self.lease.tenure(), keys).await {
                Ok(fenced) => return still_ours(fenced),
                Err(error) => self.again("deleting vectors", error, &mut backoff).await?,
            }
        }
    }

    pub(super) async fn write_letters(&self, letters: &[Letter]) -> Step<()> {
        if letters.is_empty() {
            return Ok(());
        }
        let mut backoff = Backoff::new();
        loop {
            match self.table.letters.write(self.lease.tenure(), letters).await {
                Ok(fenced) => {
                    still_ours(fenced)?;
                    break;
                }
                Err(error) => self.again("writing dead letters", error, &mut backoff).await?,
            }
        }
        self.counters.dead_letters(letters);
        for letter in letters {
            tracing::warn!(
                table = letter.table,
                class = letter.class.as_str(),
                place = letter.place,
                attempts = letter.attempts,
                "a row was dead-lettered"
            );
        }
        Ok(())
    }

    /// Moves the checkpoint, unless letters are held: then it waits with them.
    pub(super) async fn checkpoint(&mut self, position: Checkpoint) -> Step<()> {
        self.done = Some(position);
        self.checkpoint_done().await
    }

    pub(super) async fn checkpoint_done(&mut self) -> Step<()> {
        if !self.held.is_empty() {
            return Ok(());
        }
        match self.done.take() {
            Some(position) => still_ours(self.unless_stopped(self.lease.checkpoint(position)).await?),
            None => Ok(()),
        }
    }

    /// Data that is lost for ever is recorded before anything after it is worked on.
    pub(super) async fn record_gap(&self, reason: Option<String>) -> Step<()> {
        let Some(reason) = reason else { return Ok(()) };
        tracing::error!(shard_id = self.shard_id, reason, "changes are lost: a gap was recorded");
        let gap = Gap { shard_id: self.shard_id.clone(), reason: reason.clone(), at_ms: clock::now_ms() };
        self.put_state(&state::gap_key(&self.table.name, &gap), &state::to_json(&gap)).await?;
        if self.table.policy.on_gap == OnGap::Stop {
            return Err(Interrupt::Error(port::Error::Fatal(format!(
                "changes of table {} are lost: {reason}. Rows that changed meanwhile may be stale; to go on all the same \
                 set on_gap = \"continue\"",
                self.table.name
            ))));
        }
        Ok(())
    }

    /// A record that names no row waits, recorded, until the table itself can be read.
    pub(super) async fn record_partitions(&self, partitions: &[PartitionChange]) -> Step<()> {
        for change in partitions {
            let key = state::waiting_key(&self.table.name, &self.shard_id, &change.partition);
            let before = self.waiting_partition(&key).await?;
            let waiting = WaitingPartition::after(before, &self.shard_id, change);
            self.put_state(&key, &state::to_json(&waiting)).await?;
            self.keep_statics(change).await?;
        }
        if !partitions.is_empty() {
            tracing::warn!(
                table = self.table.name,
                records = partitions.len(),
                "records name a partition, but no row: recorded, and waiting until this version can read the table"
            );
        }
        Ok(())
    }

    async fn waiting_partition(&self, key: &str) -> Step<Option<WaitingPartition>> {
        let mut backoff = Backoff::new();
        loop {
            match state::read(self.table.state.as_ref(), key).await {
                Ok(waiting) => return Ok(waiting),
                Err(error) => self.again("reading state", error, &mut backoff).await?,
            }
        }
    }

    /// The first rows that are kept, in key order.
    pub(super) async fn first_rows(&self, limit: usize) -> Step<Vec<(String, Row)>> {
        let mut backoff = Backoff::new();
        loop {
            match self.table.rows.scan(None, limit, clock::now_ms()).await {
                Ok(rows) => return Ok(rows),
                Err(error) => self.again("reading rows", error, &mut backoff).await?,
            }
        }
    }

    async fn keep_statics(&self, change: &PartitionChange) -> Step<()> {
        if !change.static_only {
            return Ok(());
        }
        let mut backoff = Backoff::new();
        loop {
            let kept = self.table.rows.keep_statics(
                self.lease.tenure(),
                &change.partition,
                &change.sequence_number,
                change.statics.as_ref(),
            );
            match kept.await {
                Ok(fenced) => return still_ours(fenced),
                Err(error) => self.again("keeping static cells", error, &mut backoff).await?,
            }
        }
    }

    pub(super) async fn put_state(&self, key: &str, item: &str) -> Step<()> {
        let mut backoff = Backoff::new();
        loop {
            match self.table.state.put(key, item).await {
                Ok(()) => return Ok(()),
                Err(error) => self.again("writing state", error, &mut backoff).await?,
            }
        }
    }

    pub(super) async fn write_halt(&self, halt: &Halt) -> Step<()> {
        let mut backoff = Backoff::new();
        loop {
            match state::halt(self.table.state.as_ref(), &self.table.name, halt).await {
                Ok(()) => return Ok(()),
                Err(error) => self.again("writing the halt", error, &mut backoff).await?,
            }
        }
    }

    /// The last look before a write leaves: a lease that may have expired writes nothing more.
    fn ensure_ours(&self) -> Step<()> {
        if self.lease.may_write() { Ok(()) } else { Err(Interrupt::Outcome(Outcome::LeaseLost)) }
    }

    /// Waits before the next try of a call that failed, if another try can help.
    async fn again(&self, doing: &'static str, error: port::Error, backoff: &mut Backoff) -> Step<()> {
        let port::Error::Transient { message, retry_after } = error else { return Err(error.into()) };
        let pause = retry_after.unwrap_or_else(|| backoff.next());
        tracing::warn!(shard_id = self.shard_id, error = message, "{doing} failed, trying again");
        tokio::select! {
            () = self.stop.now.cancelled() => Err(Interrupt::Outcome(Outcome::Stopped)),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

fn still_ours(fenced: Fenced) -> Step<()> {
    match fenced {
        Fenced::Written => Ok(()),
        Fenced::Lost => Err(Interrupt::Outcome(Outcome::LeaseLost)),
    }
}

fn index_refused(reason: String) -> RowFailure {
    RowFailure { class: FailureClass::IndexRejected, reason, attempts: 1 }
}
