//! The composition root: from a configuration to an open table, and to workers on its shards.
//!
//! A verb calls, in this order and as far as it needs: [`engine`], [`open_store`], [`open_table`], or [`open_to_follow`]
//! and [`follow`] to do the work. `query::query`, `drift::drift` and `verified::verified_write` take the open table.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keyvector_core::fingerprint::hash_name;
use keyvector_core::index::{FINGERPRINT_KEY, IndexDescription, IndexLimits};
use keyvector_core::lease::{Checkpoint, Fenced};
use keyvector_core::port::{self, State};
use keyvector_core::schema::{ColumnKind, TableSchema};
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, OpenError, Plugin, TableInfo, TablePlugin};
use keyvector_store::{Store, StoreConfig, TableScope};
use rand::RngExt;

use crate::clock;
use crate::config::{self, Config};
use crate::counters::Counters;
use crate::embed::Embedder;
use crate::embed::local::LocalModel;
use crate::exit::{Code, Failure};
use crate::lease_keeper::{self, KeeperRuntime, LeaseKeeper, LeaseTimes};
use crate::progress::say_above;
use crate::rerender::{Rerendered, rerender_if_due};
use crate::shipped::{self, PluginFile};
use crate::source::file::FileSource;
use crate::state::{self, Gap, Halt, Rendering};
use crate::table::{KeyNames, OnGap, Policy, Table};
use crate::take_over;
use crate::verified::WRITES_LEASE;
use crate::worker::{Outcome, Stop, Worker};

/// When the host stops, the batch at work gets this long to be finished and checkpointed.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// The engine for all plugins of this host.
pub fn engine(config: &Config) -> Result<Engine, Failure> {
    let defaults = EngineConfig::default();
    let threads = config.host.plugin_threads.map_or(defaults.threads, |threads| threads.get() as usize);
    Engine::new(EngineConfig {
        limits: config.plugin_limits.clone(),
        cache_folder: config.host.cache_dir.clone().or_else(default_cache_folder),
        threads,
        queue: 2 * threads,
        log_plugin_text: config.host.log_plugin_text,
    })
    .map_err(|error| Failure::new(Code::Failed, error))
}

fn default_cache_folder() -> Option<std::path::PathBuf> {
    Some(config::user_cache_folder()?.join("keyvector").join("compiled"))
}

/// Opens the embedded store; one that is not there is made only if `create`.
pub fn open_store(path: &Path, create: bool) -> Result<Store, Failure> {
    Store::open(path, StoreConfig { create, ..StoreConfig::default() })
        .map_err(|error| Failure::new(Code::Unreachable, error))
}

/// The store's part for this table and index: each index of a table has leases, and so positions, of its own.
pub fn scope(store: &Store, config: &Config) -> TableScope {
    store.table_scope(&format!("{}/{}", config.table.name, config.table.index.name))
}

/// Reads a `CREATE TABLE` statement.
pub fn read_schema(path: &Path) -> Result<TableSchema, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Code::BadConfig, format!("read the schema {}: {error}", path.display()))
            .next("put the table's CREATE TABLE statement there, or name its file with --schema")
    })?;
    TableSchema::parse_cql(&text).map_err(|error| {
        Failure::new(Code::BadConfig, format!("read the schema {}: {error}", path.display()))
    })
}

/// A table plugin that was loaded and asked what it does.
pub struct Described {
    pub plugin: Plugin,
    /// The plugin's configuration as the JSON text that it gets.
    pub config: String,
    pub info: TableInfo,
}

/// Finds, compiles and describes the table's plugin; needs no store.
pub fn describe_plugin(config: &Config, engine: &Engine) -> Result<Described, Failure> {
    let bytes_max = config.plugin_limits.component_bytes_max;
    describe_file(config, engine, &shipped::find_plugin(&config.table.plugin, bytes_max)?)
}

/// The same for bytes that were read.
pub fn describe_file(config: &Config, engine: &Engine, file: &PluginFile) -> Result<Described, Failure> {
    let plugin =
        engine.load(&file.name, &file.bytes).map_err(|error| Failure::new(Code::BadConfig, error))?;
    let text = serde_json::Value::Object(config.table.plugin_config.clone()).to_string();
    let info = TablePlugin::describe(&plugin, &text).map_err(open_failure)?;
    Ok(Described { plugin, config: text, info })
}

/// Opens the described plugin for a table. Also gives the positions of the columns that it reads.
pub fn open_plugin(
    described: &Described,
    schema: &TableSchema,
) -> Result<(TablePlugin, Vec<usize>), Failure> {
    let name = described.plugin.name();
    let mut reads = Vec::with_capacity(described.info.reads.len());
    for column in &described.info.reads {
        let index = schema.column_index(column).ok_or_else(|| {
            let names: Vec<_> = schema.columns.iter().map(|column| column.name.as_str()).collect();
            Failure::new(
                Code::BadConfig,
                format!(
                    "{name} reads a column {column:?} that table {}.{} does not have: it has {}",
                    schema.keyspace,
                    schema.table,
                    names.join(", ")
                ),
            )
        })?;
        if schema.columns[index].kind == ColumnKind::Static {
            return Err(Failure::new(
                Code::BadConfig,
                format!(
                    "{name} reads the static column {column:?}, which this version cannot follow: a static column changes \
                 whole partitions, and the table has to be read for that"
                ),
            ));
        }
        reads.push(index);
    }
    let columns: Vec<ColumnInfo> = reads
        .iter()
        .map(|&index| {
            let column = &schema.columns[index];
            ColumnInfo { name: column.name.clone(), cql_type: column.cql_type.to_string(), kind: column.kind }
        })
        .collect();
    let plugin = TablePlugin::open(&described.plugin, &described.config, &columns).map_err(open_failure)?;
    Ok((plugin, reads))
}

fn open_failure(error: OpenError) -> Failure {
    let code = match error {
        OpenError::Broken(_) => Code::PluginBroken,
        _ => Code::BadConfig,
    };
    Failure::new(code, error)
}

/// Loads the model's plugin and learns its dimension.
pub async fn open_model(config: &Config, engine: &Engine) -> Result<Embedder, Failure> {
    let file = shipped::find_plugin(&config.table.index.model, config.plugin_limits.component_bytes_max)?;
    let plugin =
        engine.load(&file.name, &file.bytes).map_err(|error| Failure::new(Code::BadConfig, error))?;
    let text = serde_json::Value::Object(config.table.index.model_config.clone()).to_string();
    let model = LocalModel::open(&plugin, &text).map_err(open_failure)?;
    Embedder::new(Arc::new(model), config.table.max_attempts.get(), config.table.too_long)
        .await
        .map_err(|reason| Failure::new(Code::PluginBroken, format!("model {}: {reason}", file.name)))
}

/// What the index of this table is made for.
pub fn index_description(
    config: &Config,
    schema: &TableSchema,
    info: &TableInfo,
    embedder: &Embedder,
) -> IndexDescription {
    let mut non_filterable_keys = vec![FINGERPRINT_KEY.to_owned()];
    non_filterable_keys
        .extend(info.metadata.iter().filter(|key| !key.filterable).map(|key| key.name.clone()));
    IndexDescription {
        name: config.table.index.name.clone(),
        dimension: embedder.dimension,
        metric: embedder.info().metric,
        non_filterable_keys,
        table: schema.describe_key(),
        model_identity: embedder.info().identity.clone(),
    }
}

/// Opens a table to ask or to repair: its index has to be there.
pub async fn open_table(config: &Config, engine: &Engine, store: &Store) -> Result<Arc<Table>, Failure> {
    let table = open_parts(config, engine, store).await?;
    let name = &table.description.name;
    match table.index.describe().await.map_err(port_failure)? {
        None => {
            let message = format!("the store {} has no index {name:?} yet", store.path().display());
            return Err(
                Failure::new(Code::BadConfig, message).next("keyvector-host --until-drained fills it")
            );
        }
        Some(stored) if stored != table.description => {
            table.index.create(&table.description).await.map_err(|error| other_index(&error))?;
        }
        Some(_) => {}
    }
    Ok(Arc::new(table))
}

/// Opens a table and its source to follow them: makes the index where there is none, claims the table for its plugin and
/// configuration, and refuses a halted one. `by_itself`: another plugin or configuration takes the table over without a
/// higher revision.
pub async fn open_to_follow(
    config: &Config,
    engine: &Engine,
    store: &Store,
    by_itself: bool,
) -> Result<(Arc<Table>, FileSource), Failure> {
    let mut table = open_parts(config, engine, store).await?;
    // What cannot work does not take the table over: the host that has it ends once it is claimed.
    let source = open_source(config, &table.schema)?;
    gap_of_another_source(&table, &source.shard_id()).await?;
    table.index.create(&table.description).await.map_err(|error| other_index(&error))?;
    table.rendering =
        take_over::claim(table.state.as_ref(), &table.name, &table.rendering, by_itself).await?;
    refuse_halted(&table).await?;
    Ok((Arc::new(table), source))
}

/// A table with everything that works on it; writes neither index nor what renders the table.
async fn open_parts(config: &Config, engine: &Engine, store: &Store) -> Result<Table, Failure> {
    let schema = Arc::new(read_schema(&config.table.source.schema)?);
    let described = describe_plugin(config, engine)?;
    let (plugin, reads) = open_plugin(&described, &schema)?;
    let embedder = open_model(config, engine).await?;
    let description = index_description(config, &schema, &described.info, &embedder);
    let scope = scope(store, config);
    let index = scope.index(&config.table.index.name);
    Ok(Table {
        name: config.table.name.clone(),
        rows: Arc::new(scope.rows(&config.table.name, schema.clone())),
        schema,
        plugin,
        plugin_digest: described.plugin.digest().to_owned(),
        rendering: rendering(config, &described),
        reads,
        embedder,
        index: Arc::new(index),
        description,
        index_limits: IndexLimits::default(),
        letters: Arc::new(scope.letters()),
        leases: Arc::new(scope.leases()),
        key_names: key_names(config, &scope).await?,
        state: Arc::new(scope.state()),
        policy: policy(config),
    })
}

fn policy(config: &Config) -> Policy {
    Policy {
        batch: config.table.batch.get() as usize,
        poison_run_max: config.table.poison_run_max.get(),
        on_poison: config.table.on_poison,
        dead_letters: config.table.dead_letters,
        on_gap: config.table.source.on_gap,
    }
}

fn other_index(error: &port::Error) -> Failure {
    Failure::new(Code::BadConfig, error).next("name another index, or another store with --store")
}

fn state_failure(error: port::Error) -> Failure {
    Failure::new(Code::of(&error), error)
}

fn port_failure(error: port::Error) -> Failure {
    Failure::new(Code::Unreachable, error)
}

/// The plugin and configuration as the store is to know them.
pub fn rendering(config: &Config, described: &Described) -> Rendering {
    let render_id = hash_name(&format!("{}\n{}", described.plugin.digest(), described.config));
    Rendering {
        revision: config.table.revision,
        render_id: format!("{render_id:016x}"),
        plugin: described.plugin.name().to_owned(),
        rerender: None,
    }
}

/// A halt is of one revision, plugin and model: another one lifts it.
pub async fn refuse_halted(table: &Table) -> Result<(), Failure> {
    let key = state::halt_key(&table.name);
    let Some(halt) = state::read::<Halt>(table.state.as_ref(), &key).await.map_err(state_failure)? else {
        return Ok(());
    };
    let revision = table.rendering.revision;
    if halt.revision > revision {
        // Another host has taken the table over since it was claimed: its halt is not this host's to lift.
        return Ok(());
    }
    if !halt.holds_for(revision, &table.plugin_digest, &table.embedder.info().identity) {
        return table.state.remove(&key).await.map_err(state_failure);
    }
    Err(Failure::new(Code::PluginBroken, format!("table {} is halted: {}", table.name, halt.reason))
        .next("mend the plugin, or lift the halt with keyvector-host resume"))
}

/// Logs name rows by a hash under a secret of the store, so that lines about one row can be told from others.
async fn key_names(config: &Config, scope: &TableScope) -> Result<KeyNames, Failure> {
    const SECRET: &str = "log_secret";
    if config.host.log_keys {
        return Ok(KeyNames::Plain);
    }
    let state = scope.state();
    let fresh = format!("{:032x}", rand::rng().random::<u128>());
    if state.put_if(SECRET, None, &fresh).await.map_err(port_failure)? {
        return Ok(KeyNames::Hashed { secret: fresh });
    }
    let secret = state.get(SECRET).await.map_err(port_failure)?.unwrap_or(fresh);
    Ok(KeyNames::Hashed { secret })
}

/// The source of the table's changes.
pub fn open_source(config: &Config, schema: &Arc<TableSchema>) -> Result<FileSource, Failure> {
    let source = &config.table.source;
    let view = crate::source::file::refuse_view(&source.file, schema, source.view)
        .map_err(|reason| Failure::new(Code::BadConfig, reason))?;
    Ok(FileSource::new(&source.file, schema.clone(), view))
}

/// Follows the table until it is drained, stopped or taken over: takes the shard's lease, works, gives it up. `stop.soon`
/// asks for an end; what is at work then has ten seconds. `lead` begins the line that says that a table was rendered again.
pub async fn follow(
    config: &Config,
    table: &Arc<Table>,
    source: &FileSource,
    counters: &Arc<Counters>,
    stop: &Stop,
    until_drained: bool,
    lead: &str,
) -> Result<Outcome, Failure> {
    finish_in_time(stop);
    let work = follow_shard(config, table, source, counters, stop, until_drained, lead);
    let (outcome, superseded) = take_over::until_superseded(table, &stop.soon, work).await;
    match (outcome?, superseded) {
        (Outcome::Stopped | Outcome::LeaseLost, Some(by)) => Ok(Outcome::Superseded(by)),
        (outcome, _) => Ok(outcome),
    }
}

async fn follow_shard(
    config: &Config,
    table: &Arc<Table>,
    source: &FileSource,
    counters: &Arc<Counters>,
    stop: &Stop,
    until_drained: bool,
    lead: &str,
) -> Result<Outcome, Failure> {
    let keepers = KeeperRuntime::start()
        .map_err(|error| Failure::new(Code::Failed, format!("start a thread for leases: {error}")))?;
    let times = LeaseTimes { failover: config.host.failover };
    let owner = format!("{}-{:08x}", std::process::id(), rand::rng().random::<u32>());
    let shard_id = source.shard_id();
    loop {
        let taken = lease_keeper::acquire(table.leases.as_ref(), &shard_id, &owner, times, &stop.soon)
            .await
            .map_err(port_failure)?;
        let Some(taken) = taken else { return Ok(Outcome::Stopped) };
        let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
        match rerender_if_due(table, &lease, &owner, counters, stop).await.map_err(port_failure)? {
            Rerendered::Current => {}
            Rerendered::Done(tally) => say_above(format_args!("{lead}: {tally}")),
            // Another host works on it now; should that one end, this one is there.
            Rerendered::Ended(Outcome::LeaseLost) => continue,
            Rerendered::Ended(outcome) => {
                lease.leave().await;
                return Ok(outcome);
            }
        }
        let reader = source.open(&taken.checkpoint).map_err(port_failure)?;
        counters.reading(reader.progress());
        if taken.checkpoint == Checkpoint::TrimHorizon {
            // Names the file that is at the path now: one that takes its place is then known to be another.
            if lease.checkpoint(reader.position()).await == Fenced::Lost {
                continue;
            }
        }
        let worker = Worker::new(table.clone(), lease, counters.clone(), stop);
        match worker.run(reader, until_drained).await.map_err(port_failure)? {
            Outcome::LeaseLost => tracing::info!(table = table.name, "waiting to get the shard back"),
            outcome => return Ok(outcome),
        }
    }
}

/// Changes of another source are neither before nor after this one's: what the first one still had is lost, and what this
/// one has may be older than the index.
async fn gap_of_another_source(table: &Table, shard_id: &str) -> Result<(), Failure> {
    let leases = table.leases.list().await.map_err(port_failure)?;
    let other =
        leases.into_iter().find(|lease| lease.lease_key != shard_id && lease.lease_key != WRITES_LEASE);
    let Some(other) = other else { return Ok(()) };
    let name = &table.name;
    let reason = format!("table {name} followed {} so far, and now {shard_id}", other.lease_key);
    let gap = Gap { shard_id: shard_id.to_owned(), reason: reason.clone(), at_ms: clock::now_ms() };
    let key = state::gap_key(name, &gap);
    table.state.put(&key, &state::to_json(&gap)).await.map_err(port_failure)?;
    tracing::error!(table = name, reason, "another source: a gap was recorded");
    match table.policy.on_gap {
        OnGap::Continue => Ok(()),
        OnGap::Stop => Err(Failure::new(
            Code::BadConfig,
            format!("{reason}: one source's changes are neither before nor after another's"),
        )
        .next("go on with the first source, use another --store, or set on_gap = \"continue\"")),
    }
}

/// Once asked to stop, what is at work is left off after a while.
fn finish_in_time(stop: &Stop) {
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.soon.cancelled().await;
        tokio::select! {
            () = stop.now.cancelled() => {}
            () = tokio::time::sleep(FINISH_WITHIN) => stop.now.cancel(),
        }
    });
}
