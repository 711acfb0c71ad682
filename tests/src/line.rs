//! The line in one process: the shipped `movies` plugin and the `fake` model over a store in memory, with a source whose
//! cuts and faults a seed decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::document::{FailureClass, MetadataValue};
use keyvector_core::index::{FINGERPRINT_KEY, IndexDescription, IndexLimits};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Checkpoint, Fenced};
use keyvector_core::letter::{Letter, LetterFilter};
use keyvector_core::port::{self, DeadLetters, LeaseTable, State, VectorIndex};
use keyvector_core::record;
use keyvector_core::schema::TableSchema;
use keyvector_host::config::TooLong;
use keyvector_host::counters::{Counted, Counters};
use keyvector_host::embed::local::LocalModel;
use keyvector_host::embed::{Embedder, Model, Purpose};
use keyvector_host::lease_keeper::{KeeperRuntime, LeaseKeeper, LeaseTimes, TakenLease};
use keyvector_host::source::{Batch, ShardReader, SourceRecord};
use keyvector_host::state::Rendering;
use keyvector_host::table::{DeadLetterPolicy, KeyNames, OnGap, OnPoison, Policy, Table};
use keyvector_host::worker::{Outcome, Stop, Worker};
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, Plugin, TablePlugin};
use keyvector_store::MemoryStore;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::changes::SCHEMA;
pub use crate::faulty::Faults;
use crate::faulty::{Faulty, FaultyModel};

/// Where `cargo xtask plugins` puts the built plugins.
pub fn plugin_file(name: &str) -> PathBuf {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist"), PathBuf::from);
    folder.join(name).with_extension("wasm")
}

/// Compiled once, opened for each line.
pub struct Plugins {
    pub movies: Plugin,
    pub columns: Plugin,
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
        Self { movies: load("movies"), columns: load("columns"), fake: load("fake") }
    }
}

/// What outlives a host; clones are of the same one: the store, the history, and how much of it has been written so far.
#[derive(Clone)]
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
    /// For every host that comes.
    pub policy: Policy,
    /// What every host that comes believes to render the table.
    pub rendering: Rendering,
    /// Until a lease may be taken away, by its owner's count.
    pub failover: Duration,
    /// Lines are appended, and batches cut, as the test says: by [`Self::append`] and by the policy.
    pub by_hand: bool,
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
            policy: Policy {
                batch: 256,
                poison_run_max: 50,
                on_poison: OnPoison::Keep,
                dead_letters: DeadLetterPolicy::Store,
                on_gap: OnGap::Stop,
            },
            rendering: Rendering {
                revision: 1,
                render_id: "movies".into(),
                plugin: "movies".into(),
                rerender: None,
            },
            failover: HOUR,
            by_hand: false,
            model: Arc::new(
                LocalModel::open(&plugins.fake, &format!("{{\"dimension\":{dimension}}}")).unwrap(),
            ),
        }
    }

    /// As [`Self::new`], by hand.
    pub fn by_hand(plugins: &Plugins) -> Self {
        Self { by_hand: true, ..Self::new(plugins, Vec::new(), 8) }
    }

    /// These lines are there from now on, for hosts that come. Those that run see lines that were there from their start
    /// and become [`Self::visible`].
    pub fn append(&mut self, lines: &[String]) {
        self.lines = Arc::new(self.lines.iter().chain(lines).cloned().collect());
        self.visible.store(self.lines.len() as u64, Ordering::SeqCst);
    }

    /// One life of a host, from taking the lease on. `seed` decides the cuts, where they are not by hand.
    pub async fn life(&self, plugins: &Plugins, owner: &str, faults: &Arc<Faults>, seed: u64) -> Life {
        let plugin = open_movies(&plugins.movies, &self.schema);
        let table = self.table(plugin, plugins.movies.digest(), faults).await;
        let keepers = KeeperRuntime::start().unwrap();
        let taken = self.take_lease(owner).await;
        let reader = self.reader(&taken.checkpoint, seed);
        let times = LeaseTimes { failover: self.failover };
        let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
        let (counters, stop) = (Arc::new(Counters::default()), Stop::default());
        let worker = Worker::new(table, lease, counters.clone(), &stop);
        Life { worker, reader, counters, stop, keepers }
    }

    /// A host's table, behind faults.
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
            rendering: self.rendering.clone(),
            reads,
            embedder,
            index: Arc::new(Faulty { inner: index, faults: faults.clone(), puts: self.puts.clone() }),
            description,
            index_limits: IndexLimits::default(),
            rows: Arc::new(Faulty::new(scope.rows("films", self.schema.clone()), faults)),
            letters: Arc::new(Faulty::new(scope.letters(), faults)),
            state: Arc::new(Faulty::new(scope.state(), faults)),
            leases: Arc::new(Faulty::new(scope.leases(), faults)),
            policy: self.policy.clone(),
            key_names: KeyNames::Plain,
        })
    }

    /// Takes the shard's lease at once, as if it had just expired.
    pub async fn take_lease(&self, owner: &str) -> TakenLease {
        let leases = self.store.table_scope("films").leases();
        leases.create("shard", &[], &Checkpoint::TrimHorizon).await.unwrap();
        let seen = leases.list().await.unwrap().into_iter().find(|lease| lease.lease_key == "shard").unwrap();
        let sent = Instant::now();
        let tenure = leases.take(&seen, owner).await.unwrap().unwrap();
        TakenLease { tenure, checkpoint: seen.checkpoint, sent }
    }

    /// How far the shard is done, as its lease says; nothing is taken.
    pub async fn checkpoint(&self) -> Checkpoint {
        let leases = self.store.table_scope("films").leases().list().await.unwrap();
        leases
            .into_iter()
            .find(|lease| lease.lease_key == "shard")
            .map_or(Checkpoint::TrimHorizon, |l| l.checkpoint)
    }

    /// All letters, without their images.
    pub async fn letters(&self) -> Vec<Letter> {
        let letters = self.store.table_scope("films").letters().list(&LetterFilter::default()).await.unwrap();
        letters.into_iter().map(|stored| stored.letter).collect()
    }

    /// State items by key.
    pub async fn state(&self, prefix: &str) -> BTreeMap<String, serde_json::Value> {
        let items = self.store.table_scope("films").state().list(prefix).await.unwrap();
        items.into_iter().map(|(key, item)| (key, serde_json::from_str(&item).unwrap())).collect()
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
            by_hand: self.by_hand,
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
                let metadata = metadata.map(|(name, value)| (name.to_string(), json(value))).collect();
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
    open_plugin(plugin, "{}", schema)
}

/// Opens a plugin for the histories' table.
pub fn open_plugin(plugin: &Plugin, config: &str, schema: &TableSchema) -> TablePlugin {
    let info = TablePlugin::describe(plugin, config).unwrap();
    let columns: Vec<ColumnInfo> = info
        .reads
        .iter()
        .map(|name| {
            let column = &schema.columns[schema.column_index(name).unwrap()];
            ColumnInfo { name: name.clone(), cql_type: column.cql_type.to_string(), kind: column.kind }
        })
        .collect();
    TablePlugin::open(plugin, config, &columns).unwrap()
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
    by_hand: bool,
}

#[async_trait]
impl ShardReader for LinesReader {
    async fn next(&mut self, records_max: usize) -> port::Result<Batch> {
        let visible = self.visible.load(Ordering::SeqCst) as usize;
        let most =
            if self.by_hand { records_max } else { records_max.min(1 + self.random.random_range(0..12)) };
        let range = self.next..visible.min(self.next + most);
        self.next = range.end;
        let at_tip = range.end == visible;
        // Empty at the tip with nothing to come means that the history is over: `until_drained` ends there.
        if at_tip && visible < self.lines.len() && !self.by_hand {
            let more = self.random.random_range(1..40);
            self.visible.store((visible + more).min(self.lines.len()) as u64, Ordering::SeqCst);
            if range.is_empty() {
                return self.next(records_max).await;
            }
        }
        if range.is_empty() {
            // Let whoever waits at the tip have the processor.
            match self.by_hand {
                true => tokio::time::sleep(Duration::from_millis(2)).await,
                false => tokio::task::yield_now().await,
            }
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
    let mut life = world.life(plugins, "host", &Faults::none(), 1).await;
    life.worker = set(life.worker);
    let counters = life.counters.clone();
    assert_eq!(life.run(true).await.unwrap(), Outcome::Drained);
    counters.read()
}

/// One life of a host, about to begin.
pub struct Life {
    pub worker: Worker,
    pub reader: LinesReader,
    pub counters: Arc<Counters>,
    pub stop: Stop,
    keepers: KeeperRuntime,
}

impl Life {
    pub async fn run(self, until_drained: bool) -> port::Result<Outcome> {
        let Self { worker, reader, keepers, .. } = self;
        let outcome = worker.run(reader, until_drained).await;
        drop(keepers);
        outcome
    }

    /// The same, reading what `reader` makes of the lines.
    pub async fn run_with<R: ShardReader + 'static>(
        self,
        reader: impl FnOnce(LinesReader) -> R,
    ) -> port::Result<Outcome> {
        let outcome = self.worker.run(reader(self.reader), true).await;
        drop(self.keepers);
        outcome
    }
}

/// No lease expires in a test that has no clock of its own.
pub const HOUR: Duration = Duration::from_secs(3600);

/// The classes of a store's letters, by row key where they name one.
pub async fn letters(world: &World) -> Vec<(Option<String>, FailureClass)> {
    let letters = world.letters().await;
    letters.into_iter().map(|letter| (letter.key.map(|key| key.to_string()), letter.class)).collect()
}
