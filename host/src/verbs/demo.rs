//! `demo`: the whole line on the shipped film table, checked, and asked two questions.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use keyvector_core::document::FailureClass;
use keyvector_core::lease::Lease;
use keyvector_core::letter::LetterFilter;
use keyvector_core::port::{DeadLetters, LeaseTable};
use keyvector_store::Store;
use serde_json::json;

use super::{port_failure, query, recall, run, show};
use crate::app;
use crate::cli::{Cli, DemoArgs};
use crate::config::{CONFIG_FILE, Config, DEMO_STORE_FILE, Given, STORE_FILE};
use crate::drift::{Drift, drift};
use crate::exit::{Code, Failure, say};
use crate::query::Question;
use crate::shipped;
use crate::table::Table;

/// Rows shown for each question.
const TOP: u32 = 3;

/// `FILMS_ROWS` lines insert the table's rows; the lines after them change it.
const FILMS_ROWS: usize = 302;

pub(super) async fn demo(config: &Config, args: &DemoArgs, cli: &Cli) -> Result<()> {
    if config.store.exists() {
        refuse_no_demo(config, args.keep).await?;
    }
    if !args.keep {
        start_anew(config)?;
    }
    let store = app::open_store(&config.store, true)?;
    shipped::write_films(&config.table.source)?;
    let followed = run::follow(config, &store, cli, true).await?;
    let mut out = io::stdout().lock();
    let lines = lines_in(&config.table.source.file)?;
    let changes = lines.saturating_sub(FILMS_ROWS);
    let films = format!("{} rows, then {changes} changes", lines.min(FILMS_ROWS));
    // Drained means that all lines are done, some of them perhaps by an earlier run.
    let read = match followed.stopped {
        true => usize::try_from(followed.counted.records).unwrap_or(usize::MAX),
        false => lines,
    };
    let seconds = followed.took.as_secs_f64();
    writeln!(
        out,
        "{:<8} {films:<40} {} {read}/{lines}  {seconds:.1} s",
        config.table.name,
        bar(read, lines)
    )?;
    writeln!(out, "done     {}", run::summary(&followed.counted))?;
    drop(out);
    if followed.stopped {
        say!("stopped before all was done: keyvector-host demo --keep goes on");
        return Ok(());
    }

    let table = &followed.table;
    let drift =
        drift(table).await.map_err(|error| port_failure("compare the index with the table", error))?;
    checked(&drift)?;
    question(table, "a heist that goes wrong", None).await?;
    question(table, "lost at sea", Some(json!({"year": {"$gte": 1990}}))).await?;
    next_steps(config, &*table.letters).await?;
    if args.follow {
        let followed = run::follow(config, &store, cli, false).await?;
        say!("stopped  {}", run::summary(&followed.counted));
    }
    Ok(())
}

/// Deletes the last demo's store and film table.
fn start_anew(config: &Config) -> Result<(), Failure> {
    Store::delete(&config.store).map_err(|error| {
        Failure::new(Code::Unreachable, error).next("keyvector-host demo --store FILE uses another file")
    })?;
    let source = &config.table.source;
    if !source.shipped {
        return Ok(());
    }
    for path in [&source.file, &source.schema] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let message = format!("remove the last demo's {}: {error}", path.display());
                return Err(Failure::new(Code::Unreachable, message));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Refuses a store that no demo made, and, unless it is kept, one at which a host is at work.
async fn refuse_no_demo(config: &Config, keep: bool) -> Result<(), Failure> {
    let shown = config.store.display();
    let store = app::open_store(&config.store, false)
        .map_err(|failure| failure.next("keyvector-host demo --store FILE uses another file"))?;
    let remembered = recall(&store).await?;
    let last = match &remembered {
        Some(text) => Config::from_store(text, &config.store, &Given::default())
            .ok()
            .filter(Config::follows_shipped_films),
        // The demo was left before it began.
        None => Some(config.clone()),
    };
    let foreign = || {
        Failure::new(Code::BadConfig, format!("the store {shown} was not made by a demo and is left alone"))
            .next("keyvector-host demo --store FILE uses another file")
    };
    let last = last.ok_or_else(foreign)?;
    let leases = app::scope(&store, &last).leases();
    if remembered.is_none() && !read_leases(&leases).await?.is_empty() {
        return Err(foreign());
    }
    if !keep && is_at_work(&leases, last.host.failover).await? {
        let message = format!("a host is at work on {shown}, which the demo would delete");
        return Err(Failure::new(Code::Unreachable, message)
            .next("stop that host, or keyvector-host demo --store FILE uses another file"));
    }
    Ok(())
}

/// Whether the owner of a lease renews it, or another takes it: for longer than one renewal, it is looked at.
async fn is_at_work(leases: &dyn LeaseTable, failover: Duration) -> Result<bool, Failure> {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let before = read_leases(leases).await?;
    if before.iter().all(|lease| lease.lease_owner.is_none()) {
        return Ok(false);
    }
    // A third of the fail-over time passes between renewals. The owner of one that takes long is believed to live.
    let (look_for, most) = (failover / 3 + Duration::from_millis(150), Duration::from_secs(10));
    if look_for > most {
        return Ok(true);
    }
    let started = Instant::now();
    while started.elapsed() < look_for {
        tokio::time::sleep(LOOK_EVERY).await;
        if read_leases(leases).await? != before {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn read_leases(leases: &dyn LeaseTable) -> Result<Vec<Lease>, Failure> {
    leases.list().await.map_err(|error| port_failure("read the leases", error))
}

fn lines_in(path: &Path) -> Result<usize, Failure> {
    let bytes = fs::read(path)
        .map_err(|error| Failure::new(Code::Unreachable, format!("read {}: {error}", path.display())))?;
    Ok(bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count())
}

fn bar(done: usize, all: usize) -> String {
    const WIDTH: usize = 20;
    let filled = (WIDTH * done.min(all)).checked_div(all).unwrap_or(WIDTH);
    "━".repeat(filled) + &"─".repeat(WIDTH - filled)
}

fn checked(drift: &Drift) -> Result<()> {
    if drift.is_none() {
        show::line(format_args!(
            "checked  {} vectors for {} rows, one each, every one current",
            drift.vectors, drift.due
        ))?;
        return Ok(());
    }
    let message = format!(
        "the index differs from the table: {} vectors missing, {} stale, {} without a row",
        drift.missing, drift.stale, drift.orphaned
    );
    Err(Failure::new(Code::Failed, message).into())
}

async fn question(table: &Table, text: &str, filter: Option<serde_json::Value>) -> Result<()> {
    let filtered = filter.as_ref().map_or_else(String::new, |filter| format!("  where {filter}"));
    let answer = query::ask(table, &Question { text, filter, top: TOP }).await?;
    show::line(format_args!("query    {text:?}{filtered}"))?;
    let keys = query::shown_keys(table);
    let mut shown = show::table([]);
    for found in &answer.found {
        shown.add_row(query::cells(table, &keys, found));
    }
    for line in show::trimmed(&shown).lines() {
        show::line(format_args!("         {line}"))?;
    }
    Ok(())
}

async fn next_steps(config: &Config, letters: &dyn DeadLetters) -> Result<()> {
    // The other verbs find the demo's store by themselves only where nothing comes before it.
    let found = config.store.as_os_str() == DEMO_STORE_FILE
        && ![CONFIG_FILE, STORE_FILE].into_iter().any(|before| Path::new(before).exists());
    let store = match found {
        true => String::new(),
        false => format!(" --store {}", config.store.display()),
    };
    show::line(format_args!("next     keyvector-host query \"a ghost in the machine\" --json{store}"))?;
    let letters = letters.list(&LetterFilter::default()).await;
    let letters = letters.map_err(|error| port_failure("list dead letters", error))?;
    // A row that the plugin refuses is the more telling one.
    let refused = letters.iter().find(|stored| stored.letter.class == FailureClass::PluginRefused);
    if let Some(stored) = refused.or(letters.first()) {
        let show_it = format!("keyvector-host dlq show {}{store}", stored.id);
        show::line(format_args!("         {show_it:<30}   the row that could not be read, and why"))?;
    }
    Ok(())
}
