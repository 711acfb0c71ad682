//! The development loop: while a table is followed, its plugin's file is watched, and another plugin that works takes the
//! table over. One that does not leaves the running one at work.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keyvector_sandbox::{Engine, TablePlugin};

use crate::app::{self, Described};
use crate::config::Config;
use crate::counters::{Counters, Restarts};
use crate::exit::{Code, Failure, one_line};
use crate::progress::say_above;
use crate::shipped;
use crate::source::file::FileSource;
use crate::state::Rendering;
use crate::table::Table;
use crate::take_over;
use crate::worker::{Outcome, Stop};

/// A file that two looks find the same is no longer being written.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a reloading host has, whatever its plugin.
pub struct Host<'a> {
    pub config: &'a Config,
    pub engine: &'a Engine,
    pub source: &'a FileSource,
    pub counters: &'a Arc<Counters>,
    pub stop: &'a Stop,
}

/// Follows the table under its plugin's file, whatever that becomes, until the host is stopped. `table` is then the last
/// one; plugins that were replaced have added to `restarts`.
///
/// # Errors
/// As [`app::follow`]. A plugin that cannot be used is none: a line says why, and what was there goes on.
pub async fn follow(
    host: &Host<'_>,
    path: &Path,
    table: &mut Arc<Table>,
    restarts: &mut Restarts,
    lead: &str,
) -> Result<Outcome, Failure> {
    let mut file = Watched::new(path);
    let mut lead = lead.to_owned();
    loop {
        let next = match round(host, &mut file, table, &lead).await? {
            Round::Changed(next) => next,
            Round::Ended(Outcome::Halted(reason)) => {
                say_above(format_args!(
                    "table {} is halted, nothing of it was dead-lettered: {}; waiting for {} to change, or stop with \
                     Ctrl-C",
                    table.name,
                    one_line(&reason),
                    file.name()
                ));
                tokio::select! {
                    () = host.stop.soon.cancelled() => return Ok(Outcome::Halted(reason)),
                    by = take_over::taken_over(table) => return Ok(Outcome::Superseded(by)),
                    next = file.next(host, table) => Box::new(next),
                }
            }
            Round::Ended(outcome) => return Ok(outcome),
        };
        if host.stop.soon.is_cancelled() {
            return Ok(Outcome::Stopped);
        }
        let before = table.plugin.stats();
        let swapped = tokio::select! {
            () = host.stop.soon.cancelled() => return Ok(Outcome::Stopped),
            swapped = swap(host, table, *next) => swapped?,
        };
        match swapped {
            Ok(swapped) => *table = swapped,
            Err(by) => return Ok(Outcome::Superseded(by)),
        }
        restarts.add(&before);
        lead = format!("{} changed", file.name());
    }
}

enum Round {
    /// The former plugin has ended, and this one is to begin.
    Changed(Box<Next>),
    Ended(Outcome),
}

/// A plugin that was loaded and opened beside the one at work.
struct Next {
    described: Described,
    plugin: TablePlugin,
    reads: Vec<usize>,
}

/// Follows under one plugin, until its file holds another that works.
async fn round(
    host: &Host<'_>,
    file: &mut Watched,
    table: &Arc<Table>,
    lead: &str,
) -> Result<Round, Failure> {
    let stop = host.stop.child();
    let mut following = pin!(app::follow(host.config, table, host.source, host.counters, &stop, false, lead));
    let ended = tokio::select! {
        outcome = &mut following => Round::Ended(outcome?),
        next = file.next(host, table) => {
            // The batch at work is finished and checkpointed, and the lease given up.
            stop.soon.cancel();
            match following.await? {
                outcome @ (Outcome::Superseded(_) | Outcome::Unreadable(_)) => Round::Ended(outcome),
                _ => Round::Changed(Box::new(next)),
            }
        }
    };
    stop.soon.cancel();
    stop.now.cancel();
    Ok(ended)
}

/// The store learns of the new plugin, and that the whole table is to be rendered again, before anything is. `Err` in the
/// `Ok`: another host has taken the table over since.
async fn swap(host: &Host<'_>, table: &Table, next: Next) -> Result<Result<Arc<Table>, Rendering>, Failure> {
    let wanted = app::rendering(host.config, &next.described);
    let claimed = take_over::claim_from(table.state.as_ref(), &table.name, &table.rendering, &wanted).await?;
    let rendering = match claimed {
        Ok(rendering) => rendering,
        Err(by) => return Ok(Err(by)),
    };
    tracing::info!(table = table.name, revision = rendering.revision, "another plugin takes over");
    let table = table.under(next.plugin, next.described.plugin.digest(), next.reads, rendering);
    app::refuse_halted(&table).await?;
    Ok(Ok(Arc::new(table)))
}

/// A plugin's file, looked at again and again.
struct Watched {
    path: PathBuf,
    /// The file as it was when it was last loaded, in vain or not.
    handled: Option<Seen>,
    /// Whether the file is one that cannot be used.
    refused: bool,
}

/// What tells a file from what it was before, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    modified: SystemTime,
    bytes: u64,
}

impl Watched {
    fn new(path: &Path) -> Self {
        // The first look reads it again: it may have changed since it was opened.
        Self { path: path.to_owned(), handled: None, refused: false }
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        one_line(&name.to_string_lossy())
    }

    /// Waits for another plugin than the table's that can take its place. Says of each change of the file that cannot
    /// why, once.
    async fn next(&mut self, host: &Host<'_>, table: &Table) -> Next {
        loop {
            let seen = self.changed().await;
            let loaded = load(host, &self.path, table).await;
            if look(&self.path).as_ref() != Some(&seen) {
                // It is being written.
                continue;
            }
            self.handled = Some(seen);
            match loaded {
                Ok(Some(next)) => {
                    self.refused = false;
                    return next;
                }
                Ok(None) if self.refused => {
                    self.refused = false;
                    say_above(format_args!("{} is again the one at work", self.name()));
                }
                Ok(None) => {}
                Err(failure) => {
                    self.refused = true;
                    say_above(format_args!(
                        "{} changed and cannot be used, the one before stays: {}",
                        self.name(),
                        one_line(&failure.message)
                    ));
                }
            }
        }
    }

    /// Waits until the file is another than was handled, and no longer changes.
    async fn changed(&self) -> Seen {
        let mut before = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // A build may take the file away for a while.
            let now = look(&self.path);
            match now {
                Some(seen) if self.handled.as_ref() != Some(&seen) && before.as_ref() == Some(&seen) => {
                    return seen;
                }
                now => before = now,
            }
        }
    }
}

fn look(path: &Path) -> Option<Seen> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(Seen { modified: metadata.modified().ok()?, bytes: metadata.len() })
}

/// Loads, describes and opens the file beside the plugin at work; `None`: it is that one.
async fn load(host: &Host<'_>, path: &Path, table: &Table) -> Result<Option<Next>, Failure> {
    let (config, engine, schema) = (host.config.clone(), host.engine.clone(), table.schema.clone());
    let (path, running) = (path.to_owned(), table.plugin_digest.clone());
    let loading = tokio::task::spawn_blocking(move || -> Result<Option<Next>, Failure> {
        let file = shipped::read_plugin(&path, config.plugin_limits.component_bytes_max)?;
        if keyvector_sandbox::sha256_hex(&file.bytes) == running {
            return Ok(None);
        }
        let described = app::describe_file(&config, &engine, &file)?;
        let (plugin, reads) = app::open_plugin(&described, &schema)?;
        Ok(Some(Next { described, plugin, reads }))
    });
    let loaded = loading
        .await
        .map_err(|error| Failure::new(Code::Failed, format!("loading the plugin failed: {error}")))??;
    if let Some(next) = &loaded {
        let description =
            app::index_description(host.config, &table.schema, &next.described.info, &table.embedder);
        table.index.create(&description).await.map_err(|error| Failure::new(Code::BadConfig, error))?;
    }
    Ok(loaded)
}
