//! The few traits behind which a service or the embedded store stands. Each has one conformance suite that every
//! implementation passes.

use std::time::Duration;

use async_trait::async_trait;

use crate::change::SequenceNumber;
use crate::index::{Hit, IndexDescription, IndexQuery, StoredVector, Vector};
use crate::key::RowKey;
use crate::lease::{Applied, Checkpoint, Fenced, Lease, LeaseWrite, Tenure};
use crate::letter::{Letter, LetterFilter, StoredLetter};
use crate::row::Row;

/// What went wrong behind a port, by what the host does next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The same call may succeed later: it is retried while the lease holds.
    #[error("{message}")]
    Transient { message: String, retry_after: Option<Duration> },
    /// The call can never succeed as it is: a wrong filter, a vector over the limits.
    #[error("{0}")]
    Rejected(String),
    /// Nothing can succeed: the wrong store, a newer format, a broken file.
    #[error("{0}")]
    Fatal(String),
}

impl Error {
    pub fn transient(message: impl Into<String>) -> Self {
        Self::Transient { message: message.into(), retry_after: None }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// The lease table. All writes are conditional; a failed condition is an answer, not an error.
#[async_trait]
pub trait LeaseTable: Send + Sync {
    /// All rows. They may be behind by a moment.
    async fn list(&self) -> Result<Vec<Lease>>;

    /// One row as it is now.
    async fn get(&self, lease_key: &str) -> Result<Option<Lease>>;

    /// Does what [`LeaseWrite::apply`] says, in one step; `None`: the row did not meet the condition.
    async fn write(&self, write: &LeaseWrite) -> Result<Option<Applied>>;

    /// Creates a lease without owner, counter 0. One that exists is left as it is.
    async fn create(
        &self,
        lease_key: &str,
        parent_shard_ids: &[String],
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let lease = Lease::new(lease_key, parent_shard_ids, checkpoint.clone());
        self.write(&LeaseWrite::Create(lease)).await.map(drop)
    }

    /// Takes the lease if owner and counter are still as `seen`; raises the counter. `None`: somebody was faster.
    async fn take(&self, seen: &Lease, owner: &str) -> Result<Option<Tenure>> {
        let take = LeaseWrite::Take {
            lease_key: seen.lease_key.clone(),
            seen_owner: seen.lease_owner.clone(),
            seen_counter: seen.lease_counter,
            by: owner.to_owned(),
        };
        Ok(self.write(&take).await?.map(|_| Tenure {
            lease_key: seen.lease_key.clone(),
            lease_owner: owner.to_owned(),
            taken_at: seen.lease_counter + 1,
        }))
    }

    /// Renews, and with it writes the checkpoint if there is one, if the tenure holds and the counter is still
    /// `counter`. Gives the raised counter; `None`: the lease is lost.
    async fn renew(
        &self,
        tenure: &Tenure,
        counter: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<u64>> {
        let renew = LeaseWrite::Renew {
            tenure: tenure.clone(),
            counter,
            checkpoint: checkpoint.cloned(),
            tip_at_ms: None,
            decline: false,
        };
        Ok(self.write(&renew).await?.map(|_| counter + 1))
    }

    /// Gives the lease up, with a last checkpoint if there is one.
    async fn release(&self, tenure: &Tenure, checkpoint: Option<&Checkpoint>) -> Result<Fenced> {
        while let Some(lease) = self.get(&tenure.lease_key).await?.filter(|lease| lease.holds(tenure)) {
            let give_up = LeaseWrite::GiveUp {
                tenure: tenure.clone(),
                counter: lease.lease_counter,
                checkpoint: checkpoint.cloned(),
                to: None,
                unsettled: false,
            };
            // Refused: the owner's own renewal came between.
            if self.write(&give_up).await?.is_some() {
                return Ok(Fenced::Written);
            }
        }
        Ok(Fenced::Lost)
    }
}

/// A vector index. Keys are whole row keys; puts and deletes are idempotent.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// What the index was made for; `None` before [`VectorIndex::create`].
    async fn describe(&self) -> Result<Option<IndexDescription>>;

    /// Makes the index. One that exists with the same description is left as it is; another is `Rejected`.
    async fn create(&self, description: &IndexDescription) -> Result<()>;

    /// The vectors under these keys, in their order, `None` where there is none. Any number of keys.
    async fn get(&self, keys: &[&RowKey], with_data: bool) -> Result<Vec<Option<StoredVector>>>;

    /// Puts any number of vectors. On `Lost` and on an error some of them may have been written.
    async fn put(&self, tenure: &Tenure, vectors: &[Vector]) -> Result<Fenced>;

    /// Deletes any number of keys; those that are not there are fine.
    async fn delete(&self, tenure: &Tenure, keys: &[RowKey]) -> Result<Fenced>;

    /// The nearest vectors that pass the filter, nearest first, ties by key.
    ///
    /// # Errors
    /// `Rejected` for a filter that is not of the language, that names a non-filterable key, or a top-k over the limit.
    async fn query(&self, query: &IndexQuery) -> Result<Vec<Hit>>;

    /// A page of at most `limit` vectors in key order after the key `after_exclusive`. An empty page is the end.
    async fn list(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        with_data: bool,
    ) -> Result<Vec<StoredVector>>;
}

/// A row to keep.
#[derive(Clone, Copy, Debug)]
pub struct RowWrite<'a> {
    pub key: &'a RowKey,
    pub sequence_number: &'a SequenceNumber,
    /// `None`: the row is gone.
    pub row: Option<&'a Row>,
}

/// A row that is kept, and the change that brought its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPlace {
    pub key: RowKey,
    pub shard_id: String,
    pub sequence_number: SequenceNumber,
}

/// Rows by key: the table itself, or the embedded store that stands in for it.
#[async_trait]
pub trait Rows: Send + Sync {
    /// The rows under these keys, in their order, `None` where there is none. Rows whose expiry is not after `now_ms`
    /// count as gone.
    async fn read(&self, keys: &[&str], now_ms: i64) -> Result<Vec<Option<Row>>>;

    /// A page of at most `limit` rows in key order after the key `after_exclusive`. An empty page is the end.
    async fn scan(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        now_ms: i64,
    ) -> Result<Vec<(String, Row)>>;
}

/// The embedded row store's writing side.
#[async_trait]
pub trait RowStore: Rows {
    /// Keeps what these changes left, never going back: a write whose sequence number is not above the stored one of
    /// the same shard is ignored. A row that is gone is remembered as gone, with its sequence number.
    async fn keep(&self, tenure: &Tenure, writes: &[RowWrite<'_>]) -> Result<Fenced>;

    /// Keeps a partition's static cells under the same rule. `partition` is the canonical partition part of its row
    /// keys; `None`: no static cell is left.
    async fn keep_statics(
        &self,
        tenure: &Tenure,
        partition: &str,
        sequence_number: &SequenceNumber,
        statics: Option<&Row>,
    ) -> Result<Fenced>;

    /// Where the rows that [`Rows::scan`] would give came from, in the same order and pages.
    async fn places(&self, after_exclusive: Option<&str>, limit: usize, now_ms: i64)
    -> Result<Vec<RowPlace>>;

    /// A partition's static cells; `None` where there are none.
    async fn read_statics(&self, partition: &str) -> Result<Option<Row>>;
}

/// Dead letters.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Makes letters durable. A letter of the same table, shard, sequence number and class replaces the earlier one, so
    /// that a batch done twice leaves one letter.
    async fn write(&self, tenure: &Tenure, letters: &[Letter]) -> Result<Fenced>;

    /// The letters that pass, oldest first, without their images: those are heavy, and [`DeadLetters::get`] gives them.
    async fn list(&self, filter: &LetterFilter) -> Result<Vec<StoredLetter>>;

    async fn get(&self, id: u64) -> Result<Option<StoredLetter>>;

    /// Removes letters; says how many there were.
    async fn remove(&self, ids: &[u64]) -> Result<usize>;
}

/// Small durable items beside the leases: render ids, halts, gaps, partitions that wait.
#[async_trait]
pub trait State: Send + Sync {
    async fn get(&self, key: &str) -> Result<Option<String>>;

    /// All items whose key begins with `prefix`, in key order.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, String)>>;

    async fn put(&self, key: &str, value: &str) -> Result<()>;

    /// Puts only if the item is still `expected` (`None`: absent); says whether it was.
    async fn put_if(&self, key: &str, expected: Option<&str>, value: &str) -> Result<bool>;

    async fn remove(&self, key: &str) -> Result<()>;
}
