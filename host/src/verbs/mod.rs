//! The verbs. Each finds its table, store and model in the configuration, else in the embedded store, which remembers
//! them; what it does itself is mostly asking and printing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use keyvector_core::port::{self, State, VectorIndex};
use keyvector_store::Store;

use crate::app;
use crate::cli::{Cli, DlqVerb, IndexVerb, KeysVerb, Options, PluginVerb, Verb};
use crate::config::{Config, DEMO_STORE_FILE, Place, STORE_FILE};
use crate::exit::{Code, Failure};
use crate::table::Table;

mod check;
mod demo;
mod dlq;
mod index;
mod init;
mod keys;
mod plugin;
mod preview;
mod query;
mod resume;
mod run;
mod show;

/// Does what the command line says.
///
/// # Errors
/// Anything, with a [`Failure`] in its chain where the exit code is not 1.
pub fn start(cli: &Cli) -> Result<()> {
    // These need no table.
    match &cli.verb {
        Some(Verb::Init(args)) => return init::init(args, &cli.options),
        Some(Verb::Keys { verb }) => return with_keys(verb, &cli.options),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(with_table(cli));
    // A read that waits for a terminal or a pipe must not hold the process.
    runtime.shutdown_background();
    result
}

fn with_keys(verb: &KeysVerb, options: &Options) -> Result<()> {
    let schema = options.schema.as_deref().map(|path| app::read_schema(Path::new(path))).transpose()?;
    match verb {
        KeysVerb::Encode { cql } => {
            keys::encode(schema.as_ref(), *cql, std::io::stdin().lock(), std::io::stdout().lock())?;
            Ok(())
        }
        KeysVerb::Decode { key } => {
            let schema = schema.ok_or_else(|| {
                Failure::new(Code::BadConfig, "a key does not name its types: the table's schema is needed")
                    .next("keyvector-host keys decode --schema table.cql KEY")
            })?;
            keys::decode(&schema, key, std::io::stdout().lock())
        }
    }
}

async fn with_table(cli: &Cli) -> Result<()> {
    let options = &cli.options;
    match &cli.verb {
        None => Box::pin(run::run(&to_follow(options).await?, cli)).await,
        Some(Verb::Demo(args)) => Box::pin(demo::demo(&Config::demo(&options.given())?, args, cli)).await,
        Some(Verb::Check(args)) => Box::pin(check::check(options, args)).await,
        Some(Verb::Preview(args)) => Box::pin(preview::preview(&to_look(options).await?, args)).await,
        Some(Verb::Query(args)) => query::run(&*open(&to_look(options).await?).await?, args).await,
        Some(Verb::Index { verb: IndexVerb::Dump { vectors } }) => {
            let config = to_look(options).await?;
            let store = open_store(&config)?;
            let index = app::scope(&store, &config).index(&config.table.index.name);
            let described = index.describe().await.map_err(|error| port_failure("read the index", error))?;
            if described.is_none() {
                return Err(no_index(&store, &config).into());
            }
            index::dump(&index, *vectors).await
        }
        Some(Verb::Dlq { verb }) => {
            let config = to_look(options).await?;
            let letters = app::scope(&open_store(&config)?, &config).letters();
            match verb {
                DlqVerb::List(args) => dlq::list(&letters, &config.table.name, args).await,
                DlqVerb::Show { id, json } => dlq::show(&letters, &config.table.name, *id, *json).await,
                DlqVerb::Drop(args) => dlq::drop(&letters, &config.table.name, args).await,
                DlqVerb::Replay(args) => dlq::replay(&*open(&config).await?, args).await,
            }
        }
        Some(Verb::Plugin { verb: PluginVerb::Inspect { file, json } }) => {
            plugin::inspect(options, file, *json)
        }
        Some(Verb::Resume) => {
            let config = to_look(options).await?;
            let state = app::scope(&open_store(&config)?, &config).state();
            resume::resume(&state, &config.table.name).await
        }
        Some(Verb::Init(_) | Verb::Keys { .. }) => unreachable!("done without a table"),
    }
}

/// The configuration of a table to follow.
async fn to_follow(options: &Options) -> Result<Config, Failure> {
    configuration(options, &[STORE_FILE]).await
}

/// The configuration of a table to look at: the demo's store will do where there is no other.
async fn to_look(options: &Options) -> Result<Config, Failure> {
    configuration(options, &[STORE_FILE, DEMO_STORE_FILE]).await
}

async fn configuration(options: &Options, stores: &[&str]) -> Result<Config, Failure> {
    let given = options.given();
    match given.place(stores) {
        Place::File(file) => return Config::from_file(&file, &given),
        Place::Flags => return Config::from_flags(&given),
        Place::Store(path) => {
            if let Some(text) = recall(&app::open_store(&path, false)?).await? {
                return Config::from_store(&text, &path, &given);
            }
        }
        Place::Nowhere => {}
    }
    let message =
        "no table to work on: there is no keyvector.toml, no --plugin, and no store that remembers one";
    Err(Failure::new(Code::BadConfig, message)
        .next("keyvector-host demo shows the product; keyvector-host init sets up a table of your own"))
}

/// No table can be called so: its state is apart from all tables'.
const STORE_SCOPE: &str = "(store)";
const REMEMBERED: &str = "configuration";

/// What [`remember`] left.
async fn recall(store: &Store) -> Result<Option<String>, Failure> {
    let state = store.table_scope(STORE_SCOPE).state();
    state.get(REMEMBERED).await.map_err(|error| port_failure("read the remembered configuration", error))
}

/// Lets the store remember its table, so that other verbs need no flags.
async fn remember(store: &Store, config: &Config) -> Result<(), Failure> {
    let folder = std::env::current_dir()
        .map_err(|error| Failure::new(Code::Failed, format!("find the working folder: {error}")))?;
    let state = store.table_scope(STORE_SCOPE).state();
    let text = config.to_toml(&folder);
    state.put(REMEMBERED, &text).await.map_err(|error| port_failure("remember the configuration", error))
}

fn open_store(config: &Config) -> Result<Store, Failure> {
    if !config.store.exists() {
        return Err(no_store(&config.store));
    }
    app::open_store(&config.store, false)
}

fn no_store(path: &Path) -> Failure {
    Failure::new(Code::Unreachable, format!("there is no store {} yet", path.display()))
        .next("keyvector-host --until-drained makes and fills it")
}

/// The store is there, but nobody has followed this table into this index.
fn no_index(store: &Store, config: &Config) -> Failure {
    let message =
        format!("the store {} has no index {:?} yet", store.path().display(), config.table.index.name);
    Failure::new(Code::BadConfig, message).next("keyvector-host --until-drained fills it")
}

/// The table with everything that works on it, to ask or to repair.
async fn open(config: &Config) -> Result<Arc<Table>, Failure> {
    let store = open_store(config)?;
    app::open_table(config, &app::engine(config)?, &store).await
}

/// An error behind a port, with what was tried.
fn port_failure(what: &str, error: port::Error) -> Failure {
    Failure::new(Code::of(&error), format!("{what}: {error}"))
}

/// A path as a user would type it: from the working folder where it lies below.
fn typed(path: &Path) -> PathBuf {
    let below =
        std::env::current_dir().ok().and_then(|folder| Some(path.strip_prefix(folder).ok()?.to_owned()));
    below.unwrap_or_else(|| path.to_owned())
}
