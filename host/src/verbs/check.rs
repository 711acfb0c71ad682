//! `check`: loads and opens everything without writing, and says what to fix.

use std::sync::Arc;

use anyhow::Result;
use keyvector_core::index::IndexDescription;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port::{State, VectorIndex};
use keyvector_core::schema::TableSchema;
use keyvector_sandbox::Engine;

use super::{port_failure, show, to_look, typed};
use crate::app::{self, Described};
use crate::cli::{CheckArgs, Options};
use crate::clock;
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::source::ShardReader;
use crate::state::{self, Halt, Rendering};
use crate::take_over::{self, Decision};

/// What was found so far. The first thing to fix decides the exit code.
#[derive(Default)]
struct Findings {
    first: Option<Failure>,
    wrong: usize,
}

impl Findings {
    /// Prints one finding, and passes on what was opened.
    fn note<T>(&mut self, what: &str, found: Result<(T, String), Failure>) -> Result<Option<T>> {
        match found {
            Ok((opened, words)) => {
                show::line(format_args!("ok    {what:<14} {}", show::one_line(&words)))?;
                Ok(Some(opened))
            }
            Err(failure) => {
                show::line(format_args!("fix   {what:<14} {}", show::one_line(&failure.message)))?;
                if let Some(next) = &failure.next {
                    show::line(format_args!("      {:<14} {next}", "next:"))?;
                }
                self.wrong += 1;
                self.first.get_or_insert(failure);
                Ok(None)
            }
        }
    }
}

pub(super) async fn check(options: &Options, args: &CheckArgs) -> Result<()> {
    let mut findings = Findings::default();
    let config = to_look(options).await.map(|config| {
        let words = format!("table {}, revision {}", config.table.name, config.table.revision);
        (config, words)
    });
    if let Some(config) = findings.note("configuration", config)? {
        check_parts(&config, args, &mut findings).await?;
    }
    match findings.first {
        None => Ok(()),
        Some(first) => {
            let wrong =
                if findings.wrong == 1 { "1 thing".to_owned() } else { format!("{} things", findings.wrong) };
            Err(Failure::new(first.code, format!("{wrong} to fix, see above")).into())
        }
    }
}

async fn check_parts(config: &Config, args: &CheckArgs, findings: &mut Findings) -> Result<()> {
    let schema = app::read_schema(&config.table.source.schema).map(|schema| {
        let words = format!("{}, {} columns", schema.describe_key(), schema.columns.len());
        (Arc::new(schema), words)
    });
    // The film table is written out at the first run.
    let pending = config.table.source.shipped && !config.table.source.file.exists();
    let schema = if pending { None } else { findings.note("schema", schema)? };
    let Some(engine) = findings.note("plugin engine", engine(config))? else { return Ok(()) };
    let described = app::describe_plugin(config, &engine).map(|described| {
        let plugin = &described.plugin;
        let reads = described.info.reads.join(", ");
        let words = format!("{}, sha256:{}, reads {reads}", plugin.name(), plugin.digest());
        (described, words)
    });
    let described = findings.note("plugin", described)?;
    if let (Some(schema), Some(described)) = (&schema, &described) {
        let opened = app::open_plugin(described, schema).map(|_| ((), "fits the table".to_owned()));
        findings.note("plugin opens", opened)?;
    }
    let model = app::open_model(config, &engine).await.map(|embedder| {
        let info = embedder.info();
        let words = format!("{}, {} dimensions, {}", info.identity, embedder.dimension, info.metric.as_str());
        (embedder, words)
    });
    let embedder = findings.note("model", model)?;
    if args.offline {
        return Ok(());
    }
    let Some(schema) = schema else { return Ok(()) };
    findings.note("source", source(config, &schema).await)?;
    let description = match (&described, &embedder) {
        (Some(described), Some(embedder)) => {
            Some(app::index_description(config, &schema, &described.info, embedder))
        }
        _ => None,
    };
    store(config, described.as_ref(), description.as_ref(), findings).await
}

fn engine(config: &Config) -> Result<(Engine, String), Failure> {
    let engine = app::engine(config)?;
    let words = match engine.cache_refused() {
        None => "runs here".to_owned(),
        Some(reason) => format!("runs here; compiled plugins are not kept: {reason}"),
    };
    Ok((engine, words))
}

/// Reads the first records.
async fn source(config: &Config, schema: &Arc<TableSchema>) -> Result<((), String), Failure> {
    let source = app::open_source(config, schema)?;
    let failed = |error| Failure::new(Code::Unreachable, format!("read the source: {error}"));
    let mut reader = source.open(&Checkpoint::TrimHorizon).map_err(failed)?;
    let batch = reader.next(100).await.map_err(failed)?;
    let bad: Vec<_> = batch
        .records
        .iter()
        .filter_map(|record| Some((record.line, record.parsed.as_ref().err()?)))
        .collect();
    if let (Some((line, first)), true) = (bad.first(), bad.len() == batch.records.len()) {
        let line = line.map_or_else(String::new, |line| format!(" line {line}"));
        let message = format!("{}{line}: {}", typed(&source.path).display(), first.reason);
        return Err(Failure::new(Code::BadConfig, message).next("compare the records with the schema"));
    }
    let words = match (batch.records.len(), bad.len()) {
        (0, _) => "empty so far".to_owned(),
        (1, 0) => "the first record can be read".to_owned(),
        (read, 0) => format!("the first {read} records can be read"),
        (read, bad) => {
            format!("{bad} of the first {read} records cannot be read: they would become dead letters")
        }
    };
    Ok(((), format!("{}: {words}", typed(&source.path).display())))
}

async fn store(
    config: &Config,
    described: Option<&Described>,
    description: Option<&IndexDescription>,
    findings: &mut Findings,
) -> Result<()> {
    let shown = typed(&config.store);
    if !config.store.exists() {
        let folder = config.store.parent().filter(|folder| !folder.as_os_str().is_empty());
        let found = match folder.is_none_or(std::path::Path::is_dir) {
            true => Ok(((), format!("{} is made at the first run", shown.display()))),
            false => Err(Failure::new(
                Code::Unreachable,
                format!("the folder of {} is not there", shown.display()),
            )),
        };
        findings.note("store", found)?;
        return Ok(());
    }
    let opened = app::open_store(&config.store, false).map(|store| (store, shown.display().to_string()));
    let Some(store) = findings.note("store", opened)? else { return Ok(()) };
    let scope = app::scope(&store, config);
    let index = scope.index(&config.table.index.name);
    let stored = index.describe().await.map_err(|error| port_failure("read the index", error))?;
    let fits = match (&stored, description) {
        (None, _) => Ok(((), format!("{} is made at the first run", config.table.index.name))),
        (Some(stored), Some(wanted)) if stored != wanted => {
            index.create(wanted).await.map(|()| ((), config.table.index.name.clone())).map_err(|error| {
                Failure::new(Code::BadConfig, error).next("name another index, or another store with --store")
            })
        }
        (Some(_), _) => Ok(((), config.table.index.name.clone())),
    };
    findings.note("index", fits)?;
    let rendering = match described {
        Some(described) => findings.note("rendering", rendering(config, &scope.state(), described).await?)?,
        None => None,
    };
    let halt = state::read::<Halt>(&scope.state(), &state::halt_key(&config.table.name)).await;
    if let Some(halt) = halt.map_err(|error| port_failure("read the state", error))? {
        let (name, reason) = (&config.table.name, show::one_line(&halt.reason));
        // A model that cannot be opened lifts nothing.
        let model = description.map_or(&halt.model_identity, |description| &description.model_identity);
        let lifted = match (rendering, described) {
            (Some(rendering), Some(described)) => {
                !halt.holds_for(rendering.revision, described.plugin.digest(), model)
            }
            _ => false,
        };
        let found = match lifted {
            true => {
                Ok(((), format!("{name} is halted, which another plugin or configuration lifts: {reason}")))
            }
            false => {
                let message = format!("table {name} is halted: {reason}");
                Err(Failure::new(Code::PluginBroken, message).next("keyvector-host resume"))
            }
        };
        findings.note("table", found)?;
    }
    let gaps = scope.state().list(&state::gap_prefix(&config.table.name)).await;
    let gaps = gaps.map_err(|error| port_failure("read the state", error))?;
    if !gaps.is_empty() {
        show::line(format_args!("note  {:<14} {} recorded: changes were lost", "gaps", gaps.len()))?;
    }
    Ok(())
}

/// Whether the configured plugin may render the table, and what is still to be rendered again.
async fn rendering(
    config: &Config,
    items: &dyn State,
    described: &Described,
) -> Result<Result<(Rendering, String), Failure>> {
    let name = &config.table.name;
    let stored = state::read::<Rendering>(items, &state::rendering_key(name)).await;
    let stored = stored.map_err(|error| port_failure("read the state", error))?;
    let wanted = app::rendering(config, described);
    let now_ms = clock::now_ms();
    let rendering = match take_over::decide(stored.as_ref(), &wanted, false, now_ms) {
        Decision::Known(rendering) | Decision::Write(rendering) => rendering,
        Decision::Refused { stored } => return Ok(Err(take_over::refused(name, &stored))),
        Decision::Superseded { by } => {
            let superseded = take_over::superseded(name, wanted.revision, &by);
            return Ok(Err(Failure { code: Code::BadConfig, ..superseded }));
        }
    };
    let mut words = format!("revision {} by {}", rendering.revision, rendering.plugin);
    match (&stored, &rendering.rerender) {
        (Some(stored), Some(_)) if stored.render_id != rendering.render_id => {
            let then = format!(" takes the table over from revision {} at the next start", stored.revision);
            words.push_str(&then);
        }
        (_, Some(_)) => words.push_str("; the next start goes on rendering the table again"),
        (_, None) => {}
    }
    Ok(Ok((rendering, words)))
}
