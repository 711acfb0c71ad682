//! The line in one process: the shipped `movies` plugin and the `fake` model over a store in memory, with a source whose
//! cuts and faults a seed decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::document::{FailureClass, MetadataValue};
use keyvector_core::index::{FINGERPRINT_KEY, IndexDescription, IndexLimits};
use keyvector_core::index::{Hit, IndexQuery, StoredVector, Vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Checkpoint, Fenced, Lease, Tenure};
use keyvector_core::letter::{Letter, LetterFilter, StoredLetter};
use keyvector_core::port::{self, DeadLetters, LeaseTable, VectorIndex};
use keyvector_core::record;
use keyvector_core::schema::TableSchema;
use keyvector_host::config::TooLong;
use keyvector_host::counters::{Counted, Counters};
use keyvector_host::embed::local::LocalModel;
use keyvector_host::embed::{Embedder, Embeddings, Model, ModelFailure, ModelInfo, Purpose};
use keyvector_host::lease_keeper::{KeeperRuntime, LeaseKeeper, LeaseTimes, TakenLease};
use keyvector_host::source::{Batch, ShardReader, SourceRecord};
use keyvector_host::table::{DeadLetterPolicy, KeyNames, OnGap, OnPoison, Policy, Table};
use keyvector_host::worker::{Outcome, Stop, Worker};
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, Plugin, TablePlugin};
use keyvector_store::MemoryStore;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

use crate::changes::SCHEMA;

/// Where `cargo xtask plugins` puts the built plugins.
pub fn plugin_file(name: &str) -> PathBuf {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist"), PathBuf::from);
    folder.join(name).with_extension("wasm")
}

/// Compiled once, opened for each line.
pub struct Plugins {
    pub movies: Plugin,
    pub fake: Plugin,
}

impl Plugins {
    pub fn load(threads: usize) -> Self {
        let engine = Engine::new(EngineConfig { threads, ..EngineConfig::default() }).unwrap();
        let load = |name: &str| {
            let path = plugin_file(name);
            let bytes = std::fs::read(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; run cargo xtask plugins", path.display()));
            engine.load(name, &bytes).unwrap()
        };
        Self { movies: load("movies"), fake: load("fake") }
    }
}

/// Decides at each step whether the process dies there. A death is a future that never ends: nothing of that life
/// happens afterwards, and whoever waits for it drops it.
pub struct Faults {
    random: Mutex<StdRng>,
    chance: f64,
    dead: AtomicBool,
    died: Notify,
}

impl Faults {
    pub fn new(seed: u64, chance: f64) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            chance,
            dead: AtomicBool::new(false),
            died: Notify::new(),
        })
    }

    pub fn none() -> Arc<Self> {
        Self::new(0, 0.0)
    }

    /// Resolves when this life has ended.
    pub async fn death(&self) {
        let died = self.died.notified();
        if !self.dead.load(Ordering::SeqCst) {
            died.await;
        }
    }

    async fn step(&self) {
        if !self.dead.load(Ordering::SeqCst) && !self.random.lock().unwrap().random_bool(self.chance) {
            return;
        }
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_waiters();
        std::future::pending::<()>().await;
    }
}

/// A port whose every call may be the last: before it, or after it has done its work.
pub struct Faulty<T> {
    inner: T,
    faults: Arc<Faults>,
    /// Vectors put, for the check of what was paid.
    puts: Arc<AtomicU64>,
}

impl<T> Faulty<T> {
    async fn around<R>(&self, call: impl Future<Output = R>) -> R {
        self.faults.step().await;
        let result = call.await;
        self.faults.step().await;
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
        self.around(self.inner.get(keys, with_data)).await
    }
    async fn put(&self, tenure: &Tenure, vectors: &[Vector]) -> port::Result<Fenced> {
        self.puts.fetch_add(vectors.len() as u64, Ordering::SeqCst);
        // A part of a put may land alone.
        let part = vectors.len() / 2;
        self.faults.step().await;
        if self.inner.put(tenure, &vectors[..part]).await? == Fenced::Lost {
            return Ok(Fenced::Lost);
        }
        self.around(self.inner.put(tenure, &vectors[part..])).await
    }
    async fn delete(&self, tenure: &Tenure, keys: &[RowKey]) -> port::Result<Fenced> {
        self.around(self.inner.delete(tenure, keys)).await
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
        self.inner.list().await
    }
    async fn create(&self, key: &str, parents: &[String], checkpoint: &Checkpoint) -> port::Result<()> {
        self.inner.create(key, parents, checkpoint).await
    }
    async fn take(&self, seen: &Lease, owner: &str) -> port::Result<Option<Tenure>> {
        self.inner.take(seen, owner).await
    }
    async fn renew(
        &self,
        tenure: &Tenure,
        counter: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> port::Result<Option<u64>> {
        self.around(self.inner.renew(tenure, counter, checkpoint)).await
    }
    async fn release(&self, tenure: &Tenure, checkpoint: Option<&Checkpoint>) -> port::Result<Fenced> {
        self.inner.release(tenure, checkpoint).await
    }
}

#[async_trait]
impl<T: DeadLetters> DeadLetters for Faulty<T> {
    async fn write(&self, tenure: &Tenure, letters: &[Letter]) -> port::Result<Fenced> {
        self.around(self.inner.write(tenure, letters)).await
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

/// The model with the same faults around it, counting the texts that it was given.
struct FaultyModel {
    inner: Arc<LocalModel>,
    faults: Arc<Faults>,
    texts: Arc<AtomicU64>,
}

#[async_trait]
impl Model for FaultyModel {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Embeddings, ModelFailure> {
        self.texts.fetch_add(texts.len() as u64, Ordering::SeqCst);
        self.faults.step().await;
        let result = self.inner.embed(texts, purpose).await;
        self.faults.step().await;
        result
    }
}

/// What outlives a host: the store, the history, and how much of it has been written so far.
pub struct World {
    pub store: MemoryStore,
    pub schema: Arc<TableSchema>,
    pub lines: Arc<Vec<String>>,
    /// Lines that have been appended; only grows.
    pub visible: Arc<AtomicU64>,
    pub texts: Arc<AtomicU64>,
    pub puts: Arc<AtomicU64>,
    /// The batches as they were read, by line.
    pub cuts: Arc<Mutex<Vec<std::ops::Range<usize>>>>,
    model: Arc<LocalModel>,
}

impl World {
    pub fn new(plugins: &Plugins, lines: Vec<String>, dimension: u32) -> Self {
        let schema = Arc::new(TableSchema::parse_cql(SCHEMA).unwrap());
        Self {
            store: MemoryStore::default(),
            schema,
            visible: Arc::new(AtomicU64::new(0)),
            lines: Arc::new(lines),
            texts: Arc::default(),
            puts: Arc::default(),
            cuts: Arc::default(),
            model: Arc::new(
                LocalModel::open(&plugins.fake, &format!("{{\"dimension\":{dimension}}}")).unwrap(),
            ),
        }
    }

    /// One life of a host: its table, behind faults.
    pub async fn table(&self, plugin: TablePlugin, digest: &str, faults: &Arc<Faults>) -> Arc<Table> {
        let reads: Vec<usize> =
            plugin.info().reads.iter().map(|name| self.schema.column_index(name).unwrap()).collect();
        let mut non_filterable_keys = vec![FINGERPRINT_KEY.to_owned()];
        non_filterable_keys
            .extend(plugin.info().metadata.iter().filter(|key| !key.filterable).map(|key| key.name.clone()));
        let model =
            FaultyModel { inner: self.model.clone(), faults: faults.clone(), texts: self.texts.clone() };
        let quiet = Faults::none();
        // The probe is no part of what is counted.
        let probe = FaultyModel { inner: self.model.clone(), faults: quiet, texts: Arc::default() };
        let dimension = Embedder::new(Arc::new(probe), 5, TooLong::Cut).await.unwrap().dimension;
        let embedder = Embedder::of_known(Arc::new(model), dimension, 5, TooLong::Cut);
        let scope = self.store.table_scope("films");
        let description = IndexDescription {
            name: "films".into(),
            dimension,
            metric: embedder.info().metric,
            non_filterable_keys,
            table: self.schema.describe_key(),
            model_identity: embedder.info().identity.clone(),
        };
        let index = scope.index("films");
        index.create(&description).await.unwrap();
        Arc::new(Table {
            name: "films".into(),
            schema: self.schema.clone(),
            plugin,
            plugin_digest: digest.to_owned(),
            reads,
            embedder,
            index: Arc::new(Faulty { inner: index, faults: faults.clone(), puts: self.puts.clone() }),
            description,
            index_limits: IndexLimits::default(),
            rows: Arc::new(scope.rows("films", self.schema.clone())),
            letters: Arc::new(Faulty {
                inner: scope.letters(),
                faults: faults.clone(),
                puts: Arc::default(),
            }),
            state: Arc::new(scope.state()),
            leases: Arc::new(Faulty { inner: scope.leases(), faults: faults.clone(), puts: Arc::default() }),
            policy: Policy {
                batch: 256,
                poison_run_max: 50,
                on_poison: OnPoison::Keep,
                dead_letters: DeadLetterPolicy::Store,
                on_gap: OnGap::Stop,
            },
            key_names: KeyNames::Plain,
        })
    }

    /// Takes the shard's lease at once, as if it had just expired.
    pub async fn take_lease(&self, owner: &str) -> TakenLease {
        let leases = self.store.table_scope("films").leases();
        leases.create("shard", &[], &Checkpoint::TrimHorizon).await.unwrap();
        let seen = leases.list().await.unwrap().into_iter().find(|lease| lease.lease_key == "shard").unwrap();
        let sent = std::time::Instant::now();
        let tenure = leases.take(&seen, owner).await.unwrap().unwrap();
        TakenLease { tenure, checkpoint: seen.checkpoint, sent }
    }

    /// Sets the shard back to its beginning, with everything that was written left in place.
    pub async fn reset_lease(&self) {
        let tenure = self.take_lease("reset").await.tenure;
        let leases = self.store.table_scope("films").leases();
        assert_eq!(leases.release(&tenure, Some(&Checkpoint::TrimHorizon)).await.unwrap(), Fenced::Written);
    }

    /// Takes all vectors away, as another writer might.
    pub async fn lose_vectors(&self) {
        let tenure = self.take_lease("loser").await.tenure;
        let keys: Vec<RowKey> = self.index().await.into_keys().map(RowKey::from_stored).collect();
        let index = self.store.table_scope("films").index("films");
        assert_eq!(index.delete(&tenure, &keys).await.unwrap(), Fenced::Written);
    }

    pub fn reader(&self, checkpoint: &Checkpoint, seed: u64) -> LinesReader {
        LinesReader {
            schema: self.schema.clone(),
            lines: self.lines.clone(),
            visible: self.visible.clone(),
            cuts: self.cuts.clone(),
            next: match checkpoint {
                Checkpoint::At(text) => text.parse().unwrap(),
                _ => 0,
            },
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// The whole index: by key, the vector's numbers and the plugin's metadata as JSON.
    pub async fn index(&self) -> BTreeMap<String, (Vec<f32>, BTreeMap<String, serde_json::Value>)> {
        let index = self.store.table_scope("films").index("films");
        let mut all = BTreeMap::new();
        let mut last: Option<String> = None;
        loop {
            let page = index.list(last.as_deref(), 50, true).await.unwrap();
            let Some(end) = page.last() else { return all };
            last = Some(end.key.clone());
            for stored in page {
                let metadata = stored.metadata.0.iter().filter(|(name, _)| !name.starts_with('_'));
                let metadata = metadata.map(|(name, value)| (name.clone(), json(value))).collect();
                all.insert(stored.key.clone(), (stored.data.unwrap(), metadata));
            }
        }
    }

    /// The model's vector for a text, past all faults and counters.
    pub async fn vector(&self, text: &str) -> Vec<f32> {
        self.model.embed(&[text], Purpose::Document).await.unwrap().vectors
    }
}

fn json(value: &MetadataValue) -> serde_json::Value {
    match value {
        MetadataValue::Text(text) => text.clone().into(),
        MetadataValue::Number(number) => (*number).into(),
        MetadataValue::Boolean(flag) => (*flag).into(),
        MetadataValue::TextList(texts) => texts.clone().into(),
        MetadataValue::NumberList(numbers) => numbers.clone().into(),
    }
}

/// Opens the `movies` plugin for the histories' table.
pub fn open_movies(plugin: &Plugin, schema: &TableSchema) -> TablePlugin {
    let info = TablePlugin::describe(plugin, "{}").unwrap();
    let columns: Vec<ColumnInfo> = info
        .reads
        .iter()
        .map(|name| {
            let column = &schema.columns[schema.column_index(name).unwrap()];
            ColumnInfo { name: name.clone(), cql_type: column.cql_type.to_string(), kind: column.kind }
        })
        .collect();
    TablePlugin::open(plugin, "{}", &columns).unwrap()
}

/// Reads a history in batches of random sizes, as far as it has been appended; each time it is at the tip, some more
/// is.
pub struct LinesReader {
    schema: Arc<TableSchema>,
    lines: Arc<Vec<String>>,
    visible: Arc<AtomicU64>,
    cuts: Arc<Mutex<Vec<std::ops::Range<usize>>>>,
    next: usize,
    random: StdRng,
}

#[async_trait]
impl ShardReader for LinesReader {
    async fn next(&mut self, records_max: usize) -> port::Result<Batch> {
        let visible = self.visible.load(Ordering::SeqCst) as usize;
        let most = records_max.min(1 + self.random.random_range(0..12));
        let range = self.next..visible.min(self.next + most);
        self.next = range.end;
        let at_tip = range.end == visible;
        // Empty at the tip with nothing to come means that the history is over: `until_drained` ends there.
        if at_tip && visible < self.lines.len() {
            let more = self.random.random_range(1..40);
            self.visible.store((visible + more).min(self.lines.len()) as u64, Ordering::SeqCst);
            if range.is_empty() {
                return self.next(records_max).await;
            }
        }
        if range.is_empty() {
            // Let whoever waits at the tip have the processor.
            tokio::task::yield_now().await;
        } else {
            self.cuts.lock().unwrap().push(range.clone());
        }
        let records = range
            .clone()
            .map(|index| {
                let raw = self.lines[index].clone().into_bytes();
                let sequence_number = SequenceNumber::from(index as u64 + 1);
                let parsed = record::parse(
                    &self.schema,
                    ViewType::NewAndOldImages,
                    &raw,
                    Some(sequence_number.clone()),
                );
                SourceRecord { sequence_number, line: Some(index as u64 + 1), raw, parsed }
            })
            .collect();
        Ok(Batch { records, position: Checkpoint::At(self.next.to_string()), at_tip, gap: None })
    }
}

/// Works these lines through without faults, from wherever the lease stands.
pub async fn work_through(plugins: &Plugins, world: &World) -> Counted {
    work_on(plugins, world, |worker| worker).await
}

/// The same, as a host does that has been at the tip before: it trusts before images.
pub async fn work_at_tip(plugins: &Plugins, world: &World) -> Counted {
    work_on(plugins, world, Worker::at_tip).await
}

async fn work_on(plugins: &Plugins, world: &World, set: impl FnOnce(Worker) -> Worker) -> Counted {
    let keepers = KeeperRuntime::start().unwrap();
    let table = world
        .table(open_movies(&plugins.movies, &world.schema), plugins.movies.digest(), &Faults::none())
        .await;
    let taken = world.take_lease("host").await;
    let reader = world.reader(&taken.checkpoint, 1);
    let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, LeaseTimes { failover: HOUR });
    let counters = Arc::new(Counters::default());
    let worker = set(Worker::new(table, lease, counters.clone(), &Stop::default()));
    assert_eq!(worker.run(reader, true).await.unwrap(), Outcome::Drained);
    counters.read()
}

/// No lease expires in a test that has no clock of its own.
pub const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// The classes of a store's letters, by row key where they name one.
pub async fn letters(world: &World) -> Vec<(Option<String>, FailureClass)> {
    let letters = world.store.table_scope("films").letters().list(&LetterFilter::default()).await.unwrap();
    letters
        .into_iter()
        .map(|stored| (stored.letter.key.map(|key| key.to_string()), stored.letter.class))
        .collect()
}
