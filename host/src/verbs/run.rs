//! Without a verb: follows the table until it is stopped, or until everything is done.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use keyvector_core::letter::LetterFilter;
use keyvector_sandbox::Engine;
use keyvector_store::Store;
use tokio_util::sync::CancellationToken;

use super::{dlq, port_failure, remember, typed};
use crate::app;
use crate::cli::{Cli, RunArgs};
use crate::config::Config;
use crate::counters::{Counted, Counters, Restarts};
use crate::exit::{Code, Failure, say};
use crate::progress::{self, Progress};
use crate::reload;
use crate::shipped;
use crate::state::{Rendering, Rerender};
use crate::table::Table;
use crate::worker::{Outcome, Stop};

/// A table that was followed.
pub(super) struct Followed {
    pub(super) table: Arc<Table>,
    pub(super) counted: Counted,
    pub(super) took: Duration,
    /// Whether somebody asked for the end, or another host took the table over.
    pub(super) stopped: bool,
}

pub(super) async fn run(config: &Config, cli: &Cli) -> Result<()> {
    let store = prepare(config).await?;
    let followed = follow(config, &store, cli, cli.run.until_drained).await?;
    let done = if followed.stopped { "stopped" } else { "drained" };
    say!("{done:<8} {}", summary(&followed.counted));
    if cli.run.strict {
        let filter = LetterFilter { table: Some(config.table.name.clone()), ..Default::default() };
        let left = followed
            .table
            .letters
            .list(&filter)
            .await
            .map_err(|error| port_failure("list dead letters", error))?;
        if !left.is_empty() {
            return Err(dlq::letters_left(left.len()).into());
        }
    }
    Ok(())
}

/// Writes the film table out where it is what is followed, and opens the store.
async fn prepare(config: &Config) -> Result<Store, Failure> {
    if config.table.source.shipped {
        refuse_foreign_movies(config)?;
        // The store first: where it cannot be, nothing is written.
        let store = app::open_store(&config.store, true)?;
        shipped::write_films(&config.table.source)?;
        return Ok(store);
    }
    let file = &config.table.source.file;
    if !file.exists() {
        return Err(Failure::new(
            Code::Unreachable,
            format!("there is no file {} to follow", typed(file).display()),
        )
        .next("name another with --source, or in [table.source]"));
    }
    app::open_store(&config.store, true)
}

/// A plugin of one's own that happens to be called movies is not the one for the film table.
fn refuse_foreign_movies(config: &Config) -> Result<(), Failure> {
    let found = shipped::find_plugin(&config.table.plugin, config.plugin_limits.component_bytes_max)?;
    if shipped::is_shipped(&found, "movies") {
        return Ok(());
    }
    let message = format!("{} is not the shipped movies plugin, and names no source to follow", found.name);
    Err(Failure::new(Code::BadConfig, message).next("name one with --source FILE, or keyvector-host init"))
}

/// Follows the table with progress on a terminal, until it ends by itself or a signal ends it.
pub(super) async fn follow(
    config: &Config,
    store: &Store,
    cli: &Cli,
    until_drained: bool,
) -> Result<Followed, Failure> {
    let engine: Engine = app::engine(config)?;
    let by_itself = takes_over_by_itself(&cli.run);
    let watched = if until_drained { None } else { file_to_watch(config, &cli.run)? };
    let (mut table, mut source) = app::open_to_follow(config, &engine, store, by_itself).await?;
    if until_drained {
        // One look at the end of the file is enough.
        source.limits.wait = DRAINED_WAIT;
    }
    remember(store, config).await?;

    let file = typed(&config.table.source.file);
    match &watched {
        Some(plugin) => {
            say!("following {} and {}; stop with Ctrl-C", file.display(), typed(plugin).display());
        }
        None if !until_drained && std::io::stderr().is_terminal() => {
            say!("following {}; stop with Ctrl-C", file.display());
        }
        None => {}
    }
    let lead = lead(config, &table);
    let counters = Arc::new(Counters::default());
    let stop = Stop::default();
    let shown = progress::wanted(cli.output.no_progress);
    let watching = tokio::spawn(watch(config.table.name.clone(), counters.clone(), stop.clone(), shown));
    let signals = tokio::spawn(stop_on_signals(stop.clone()));
    let started = Instant::now();
    let mut restarts = Restarts::default();
    let outcome = match watched {
        None => app::follow(config, &table, &source, &counters, &stop, until_drained, &lead).await,
        Some(path) => {
            let host =
                reload::Host { config, engine: &engine, source: &source, counters: &counters, stop: &stop };
            reload::follow(&host, &path, &mut table, &mut restarts, &lead).await
        }
    };
    let took = started.elapsed();
    restarts.add(&table.plugin.stats());
    watching.abort();
    signals.abort();
    // The bar is gone once the task that holds it is.
    watching.await.ok();
    if !restarts.is_none() {
        say!("plugin   restarts: {restarts}");
    }
    let stopped = match outcome? {
        Outcome::Drained => false,
        Outcome::Stopped | Outcome::LeaseLost => true,
        Outcome::Superseded(by) => {
            let own = table.rendering.revision;
            say!(
                "table {}: superseded by revision {} ({}), revision {own} ends",
                table.name,
                by.revision,
                by.plugin
            );
            true
        }
        Outcome::Unreadable(reason) => {
            let message = format!("table {}: {reason}; nothing of it was dead-lettered", config.table.name);
            return Err(Failure::new(Code::BadConfig, message)
                .next("correct the schema (--schema) or the source, then start again"));
        }
        Outcome::Held(reason) => {
            let message =
                format!("{reason}: nothing was dead-lettered, and the checkpoint stands before them");
            return Err(Failure::new(Code::PluginBroken, message)
                .next("mend the plugin or the rows, then start again; rows that work release the others"));
        }
        Outcome::Halted(reason) => {
            let message =
                format!("table {} is halted, nothing of it was dead-lettered: {reason}", config.table.name);
            return Err(Failure::new(Code::PluginBroken, message)
                .next("mend the plugin and start it under a higher revision, or keyvector-host resume"));
        }
    };
    Ok(Followed { table, counted: counters.read(), took, stopped })
}

/// Whether another plugin or configuration takes the table over without a higher revision in the configuration: where
/// somebody sees it, or asked for it.
fn takes_over_by_itself(args: &RunArgs) -> bool {
    !args.no_reload && (args.reload || std::io::stderr().is_terminal())
}

/// The plugin's file, where it is to be followed like the table.
fn file_to_watch(config: &Config, args: &RunArgs) -> Result<Option<PathBuf>, Failure> {
    let plugin = &config.table.plugin;
    if args.reload && plugin.sha256.is_some() {
        let message = format!("--reload: {} is pinned, and no other file may take its place", plugin.name);
        return Err(Failure::new(Code::BadConfig, message).next("leave out either --reload or @sha256:…"));
    }
    let is_file = plugin.path.is_file();
    if args.reload && !is_file {
        say!("--reload: {} comes with this program: there is no file to watch", plugin.name);
    }
    let watch = takes_over_by_itself(args) && is_file && plugin.sha256.is_none();
    Ok(watch.then(|| plugin.path.clone()))
}

/// Says that the table is taken over, and gives the beginning of the line that says that it was.
fn lead(config: &Config, table: &Table) -> String {
    let Rendering { revision, plugin, rerender, .. } = &table.rendering;
    let name = &table.name;
    let raised = config.table.revision < *revision;
    match rerender {
        None => {}
        Some(Rerender { done_to: Some(_), .. }) => {
            say!("table {name}: goes on being rendered again by {plugin}, revision {revision}");
        }
        Some(_) if raised => {
            say!(
                "table {name}: another plugin or configuration than before, raised to revision {revision}: {plugin}"
            );
        }
        Some(_) => say!("table {name}: taken over by {plugin}, revision {revision}"),
    }
    format!("table {name}, revision {revision}")
}

/// What was done, in the words of the closing line.
pub(super) fn summary(counted: &Counted) -> String {
    format!(
        "embedded {} · metadata only {} · deleted {} · nothing {} · dead letters {}",
        counted.embedded, counted.metadata_only, counted.deleted, counted.nothing, counted.dead_letters
    )
}

/// How long the end of the source is looked at before it counts as drained.
const DRAINED_WAIT: Duration = Duration::from_millis(50);

const WATCH_EVERY: Duration = Duration::from_millis(100);

/// Moves the bar. Ends by being aborted.
async fn watch(table: String, counters: Arc<Counters>, stop: Stop, shown: bool) {
    let bar = Progress::new(&table, shown);
    let mut told_waiting = false;
    loop {
        let counted = counters.read();
        let note = match (stop.soon.is_cancelled(), counted.waiting, counted.reached_tip) {
            (true, ..) => "stopping",
            (_, true, _) => "waiting at a row that fails",
            (_, _, true) => "following",
            (_, _, false) => "catching up",
        };
        if let Some((done, rows)) = counted.rerendering {
            bar.at(done, rows, &format!("{done} of {rows} rows rendered again"));
        } else if let Some(source) = counters.source() {
            bar.at(
                source.bytes_read(),
                source.bytes_total(),
                &format!("{} changes, {note}", counted.records),
            );
        }
        if counted.waiting && !told_waiting {
            tracing::warn!(table, "a row cannot be indexed, and there is no queue for it: the stream waits");
        }
        told_waiting = counted.waiting;
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// The first signal asks for an end, a second one leaves off at once.
async fn stop_on_signals(stop: Stop) {
    for token in [&stop.soon, &stop.now] {
        signal(token).await;
    }
}

async fn signal(token: &CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        // Without SIGTERM there is still Ctrl-C.
        Err(_) => {
            tokio::signal::ctrl_c().await.ok();
        }
    }
    token.cancel();
}
