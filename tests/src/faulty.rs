//! Ports and a model whose calls go wrong where a seed, or a test, says so: the process dies, the reply is lost, the call
//! does not get through, or it is held up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use keyvector_core::change::SequenceNumber;
use keyvector_core::index::{Hit, IndexDescription, IndexQuery, StoredVector, Vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Applied, Fenced, Lease, LeaseWrite, Tenure};
use keyvector_core::letter::{Letter, LetterFilter, StoredLetter};
use keyvector_core::port::{
    self, DeadLetters, LeaseTable, RowPlace, RowStore, RowWrite, Rows, State, VectorIndex,
};
use keyvector_core::row::Row;
use keyvector_host::embed::local::LocalModel;
use keyvector_host::embed::{Embeddings, Model, ModelFailure, ModelInfo, Purpose};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

/// What the line calls, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    KeepRows,
    ScanRows,
    GetVectors,
    Embed,
    Put,
    Delete,
    Letters,
    /// A renewal that carries a checkpoint.
    Checkpoint,
    /// One that carries none.
    Renew,
    ListLeases,
    ReadState,
    WriteState,
}

/// A moment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Nothing of it has happened.
    Before,
    /// A put is done in part.
    Half,
    /// It has done its work, and nobody knows yet.
    After,
}

/// A moment of the line: its steps are counted each for itself.
pub type Moment = (Call, When);

#[derive(Clone, Copy)]
enum Then {
    Die,
    Wait,
    Fail,
}

/// Decides at each step of one life of a host what becomes of it. A death is a future that never ends: nothing of that
/// life happens afterwards, and whoever waits for it drops it.
pub struct Faults {
    random: Mutex<StdRng>,
    deaths: f64,
    errors: f64,
    /// At the n-th step of this name, from 1.
    at: Option<(Moment, u32, Then)>,
    steps: Mutex<BTreeMap<Moment, u32>>,
    dead: AtomicBool,
    died: Notify,
    reached: Notify,
    released: Notify,
}

impl Faults {
    /// Any step may be the last, with the chance `deaths`; any may fail as if passing, with the chance `errors`.
    pub fn random(seed: u64, deaths: f64, errors: f64) -> Arc<Self> {
        Self::of(seed, deaths, errors, None)
    }

    pub fn none() -> Arc<Self> {
        Self::random(0, 0.0, 0.0)
    }

    /// This life ends at the `nth` time, from 1, that it comes to this moment.
    pub fn death_at(moment: Moment, nth: u32) -> Arc<Self> {
        Self::of(0, 0.0, 0.0, Some((moment, nth, Then::Die)))
    }

    /// The first time that this life comes to this moment, it waits there for [`Self::go_on`].
    pub fn wait_at(moment: Moment) -> Arc<Self> {
        Self::of(0, 0.0, 0.0, Some((moment, 1, Then::Wait)))
    }

    /// The `nth` time, from 1, that this life comes to this moment, the call fails as if passing.
    pub fn failure_at(moment: Moment, nth: u32) -> Arc<Self> {
        Self::of(0, 0.0, 0.0, Some((moment, nth, Then::Fail)))
    }

    fn of(seed: u64, deaths: f64, errors: f64, at: Option<(Moment, u32, Then)>) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            deaths,
            errors,
            at,
            steps: Mutex::default(),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            reached: Notify::new(),
            released: Notify::new(),
        })
    }

    /// How often this life came to each moment.
    pub fn steps(&self) -> BTreeMap<Moment, u32> {
        self.steps.lock().unwrap().clone()
    }

    /// Resolves when this life has ended.
    pub async fn death(&self) {
        let died = self.died.notified();
        if !self.dead.load(Ordering::SeqCst) {
            died.await;
        }
    }

    /// Resolves when this life waits at its moment.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    pub fn go_on(&self) {
        self.released.notify_one();
    }

    /// One step; says whether the call fails there.
    async fn step(&self, moment: Moment) -> bool {
        let nth = {
            let mut steps = self.steps.lock().unwrap();
            let count = steps.entry(moment).or_default();
            *count += 1;
            *count
        };
        let chosen =
            self.at.filter(|&(at, at_nth, _)| (at, at_nth) == (moment, nth)).map(|(_, _, then)| then);
        if let Some(Then::Wait) = chosen {
            self.reached.notify_one();
            self.released.notified().await;
        }
        let dies = matches!(chosen, Some(Then::Die)) || self.random.lock().unwrap().random_bool(self.deaths);
        if dies || self.dead.load(Ordering::SeqCst) {
            self.dead.store(true, Ordering::SeqCst);
            self.died.notify_waiters();
            std::future::pending::<()>().await;
        }
        matches!(chosen, Some(Then::Fail)) || self.random.lock().unwrap().random_bool(self.errors)
    }

    /// One step of a call to a port.
    async fn port_step(&self, moment: Moment) -> port::Result<()> {
        match self.step(moment).await {
            true => Err(port::Error::transient(format!("a fault on purpose: {moment:?}"))),
            false => Ok(()),
        }
    }
}

/// A port with faults around its calls.
pub struct Faulty<T> {
    pub inner: T,
    pub faults: Arc<Faults>,
    /// Vectors put, for the check of what was paid.
    pub puts: Arc<AtomicU64>,
}

impl<T> Faulty<T> {
    pub fn new(inner: T, faults: &Arc<Faults>) -> Self {
        Self { inner, faults: faults.clone(), puts: Arc::default() }
    }

    async fn around<R>(&self, name: Call, call: impl Future<Output = port::Result<R>>) -> port::Result<R> {
        self.faults.port_step((name, When::Before)).await?;
        let result = call.await;
        self.faults.port_step((name, When::After)).await?;
        result
    }
}

#[async_trait]
impl<T: VectorIndex> VectorIndex for Faulty<T> {
    async fn describe(&self) -> port::Result<Option<IndexDescription>> {
        self.inner.describe().await
    }
    async fn create(&self, description: &IndexDescription) -> port::Result<()> {
        self.inner.create(description).await
    }
    async fn get(&self, keys: &[&RowKey], with_data: bool) -> port::Result<Vec<Option<StoredVector>>> {
        self.around(Call::GetVectors, self.inner.get(keys, with_data)).await
    }
    async fn put(&self, tenure: &Tenure, vectors: &[Vector]) -> port::Result<Fenced> {
        self.puts.fetch_add(vectors.len() as u64, Ordering::SeqCst);
        // A part of a put may land alone.
        let (first, second) = vectors.split_at(vectors.len().div_ceil(2));
        self.faults.port_step((Call::Put, When::Before)).await?;
        if self.inner.put(tenure, first).await? == Fenced::Lost {
            return Ok(Fenced::Lost);
        }
        self.faults.port_step((Call::Put, When::Half)).await?;
        let fenced = self.inner.put(tenure, second).await;
        self.faults.port_step((Call::Put, When::After)).await?;
        fenced
    }
    async fn delete(&self, tenure: &Tenure, keys: &[RowKey]) -> port::Result<Fenced> {
        self.around(Call::Delete, self.inner.delete(tenure, keys)).await
    }
    async fn query(&self, query: &IndexQuery) -> port::Result<Vec<Hit>> {
        self.inner.query(query).await
    }
    async fn list(
        &self,
        after: Option<&str>,
        limit: usize,
        with_data: bool,
    ) -> port::Result<Vec<StoredVector>> {
        self.inner.list(after, limit, with_data).await
    }
}

#[async_trait]
impl<T: LeaseTable> LeaseTable for Faulty<T> {
    async fn list(&self) -> port::Result<Vec<Lease>> {
        self.around(Call::ListLeases, self.inner.list()).await
    }
    async fn get(&self, lease_key: &str) -> port::Result<Option<Lease>> {
        self.around(Call::ListLeases, self.inner.get(lease_key)).await
    }
    async fn write(&self, write: &LeaseWrite) -> port::Result<Option<Applied>> {
        let call = match write {
            LeaseWrite::Renew { checkpoint: Some(_), .. } => Call::Checkpoint,
            LeaseWrite::Renew { .. } => Call::Renew,
            // What a test does itself, and what has its own tests.
            _ => return self.inner.write(write).await,
        };
        self.around(call, self.inner.write(write)).await
    }
}

#[async_trait]
impl<T: DeadLetters> DeadLetters for Faulty<T> {
    async fn write(&self, tenure: &Tenure, letters: &[Letter]) -> port::Result<Fenced> {
        self.around(Call::Letters, self.inner.write(tenure, letters)).await
    }
    async fn list(&self, filter: &LetterFilter) -> port::Result<Vec<StoredLetter>> {
        self.inner.list(filter).await
    }
    async fn get(&self, id: u64) -> port::Result<Option<StoredLetter>> {
        self.inner.get(id).await
    }
    async fn remove(&self, ids: &[u64]) -> port::Result<usize> {
        self.inner.remove(ids).await
    }
}

#[async_trait]
impl<T: RowStore> Rows for Faulty<T> {
    async fn read(&self, keys: &[&str], now_ms: i64) -> port::Result<Vec<Option<Row>>> {
        self.inner.read(keys, now_ms).await
    }
    async fn scan(&self, after: Option<&str>, limit: usize, now_ms: i64) -> port::Result<Vec<(String, Row)>> {
        self.around(Call::ScanRows, self.inner.scan(after, limit, now_ms)).await
    }
}

#[async_trait]
impl<T: RowStore> RowStore for Faulty<T> {
    async fn keep(&self, tenure: &Tenure, writes: &[RowWrite<'_>]) -> port::Result<Fenced> {
        self.around(Call::KeepRows, self.inner.keep(tenure, writes)).await
    }
    async fn keep_statics(
        &self,
        tenure: &Tenure,
        partition: &str,
        sequence_number: &SequenceNumber,
        statics: Option<&Row>,
    ) -> port::Result<Fenced> {
        let keep = self.inner.keep_statics(tenure, partition, sequence_number, statics);
        self.around(Call::KeepRows, keep).await
    }
    async fn places(&self, after: Option<&str>, limit: usize, now_ms: i64) -> port::Result<Vec<RowPlace>> {
        self.around(Call::ScanRows, self.inner.places(after, limit, now_ms)).await
    }
    async fn read_statics(&self, partition: &str) -> port::Result<Option<Row>> {
        self.inner.read_statics(partition).await
    }
}

#[async_trait]
impl<T: State> State for Faulty<T> {
    async fn get(&self, key: &str) -> port::Result<Option<String>> {
        self.around(Call::ReadState, self.inner.get(key)).await
    }
    async fn list(&self, prefix: &str) -> port::Result<Vec<(String, String)>> {
        self.around(Call::ReadState, self.inner.list(prefix)).await
    }
    async fn put(&self, key: &str, value: &str) -> port::Result<()> {
        self.around(Call::WriteState, self.inner.put(key, value)).await
    }
    async fn put_if(&self, key: &str, expected: Option<&str>, value: &str) -> port::Result<bool> {
        self.around(Call::WriteState, self.inner.put_if(key, expected, value)).await
    }
    async fn remove(&self, key: &str) -> port::Result<()> {
        self.around(Call::WriteState, self.inner.remove(key)).await
    }
}

/// The model with deaths around its calls, counting the texts that it was given.
pub struct FaultyModel {
    pub inner: Arc<LocalModel>,
    pub faults: Arc<Faults>,
    pub texts: Arc<AtomicU64>,
}

#[async_trait]
impl Model for FaultyModel {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Embeddings, ModelFailure> {
        self.texts.fetch_add(texts.len() as u64, Ordering::SeqCst);
        // A model's own faults have suites of their own.
        self.faults.step((Call::Embed, When::Before)).await;
        let result = self.inner.embed(texts, purpose).await;
        self.faults.step((Call::Embed, When::After)).await;
        result
    }
}
