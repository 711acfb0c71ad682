//! The whole table rendered again after another plugin or configuration took it over: every row that is kept, in key
//! order, by the verified write, so that only texts that differ are embedded.
//!
//! The host holds the shard's lease meanwhile, so no change is followed before all of it is done, and writes under the
//! lease for verified writes, which fences replays of the former plugin off. How far it is stands in the state store; a
//! host that died is gone on for from there, and a page done twice does nothing the second time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use keyvector_core::document::FailureClass;
use keyvector_core::fingerprint::{hash_name, hash_shard};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::letter::{Letter, LetterFilter, StoredLetter};
use keyvector_core::poison::{PoisonGuard, Verdict};
use keyvector_core::port::{self, RowPlace};

use crate::clock;
use crate::counters::Counters;
use crate::embed::{PROBE_TEXT, Purpose};
use crate::lease_keeper::LeaseKeeper;
use crate::render::{AfterDocument, render_row};
use crate::state::{self, Halt, Rendering, Rerender};
use crate::table::{DeadLetterPolicy, OnPoison, Table};
use crate::take_over::superseded_by;
use crate::verified::{self, RowToWrite, Written, take_writes, verified_writes};
use crate::worker::{self, Outcome, Stop};

/// Keys alone are read in longer pages.
const COUNT_PAGE: usize = 10_000;
/// So many rows beside those that failed are tried to tell whether a plugin works at all.
const KNOWN_ROWS_TRIED: usize = 20;
/// Of so many rows it is remarked if most lose their vectors.
const MANY_ROWS: u64 = 20;
const PAUSE: Duration = Duration::from_millis(200);
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How it ended.
#[derive(Debug)]
pub enum Rerendered {
    /// Nothing was due.
    Current,
    /// The whole table is under its plugin now.
    Done(Tally),
    /// The host has to end, or the lease is lost.
    Ended(Outcome),
}

/// What became of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    pub embedded: u64,
    pub metadata_only: u64,
    pub deleted: u64,
    pub nothing: u64,
    pub failed: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, embedded, metadata_only, deleted, nothing, failed } = self;
        write!(
            f,
            "{rows} rows rendered again: embedded {embedded} · metadata only {metadata_only} · deleted {deleted} · nothing \
             {nothing} · failed {failed}"
        )
    }
}

/// Why it left off.
enum Interrupt {
    Outcome(Outcome),
    /// The plugin or the model does not work, whatever the row.
    Broken(String),
    Error(port::Error),
}

impl From<port::Error> for Interrupt {
    fn from(error: port::Error) -> Self {
        Self::Error(error)
    }
}

type Step<T> = Result<T, Interrupt>;

/// Renders the whole table again where that is due, under the shard's lease. `owner` is this host's name on leases.
///
/// # Errors
/// What a port says that trying again cannot mend.
pub async fn rerender_if_due(
    table: &Table,
    lease: &LeaseKeeper,
    owner: &str,
    counters: &Counters,
    stop: &Stop,
) -> port::Result<Rerendered> {
    let key = state::rendering_key(&table.name);
    let stored = loop {
        match state::read_with_text::<Rendering>(table.state.as_ref(), &key).await {
            Err(port::Error::Transient { message, .. }) => {
                tracing::warn!(table = table.name, error = message, "reading state failed, trying again");
                tokio::select! {
                    () = stop.soon.cancelled() => return Ok(Rerendered::Ended(Outcome::Stopped)),
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
            stored => break stored?,
        }
    };
    let Some((item, text)) = stored else { return Ok(Rerendered::Current) };
    if !item.is_same(&table.rendering) {
        return Ok(Rerendered::Ended(Outcome::Superseded(item)));
    }
    let Some(due) = item.rerender.clone() else { return Ok(Rerendered::Current) };

    let stop = stop.or_lost(lease.lost());
    let mut work = Work {
        table,
        lease,
        owner,
        counters,
        stop: stop.clone(),
        tenure: None,
        guard: PoisonGuard::new(table.policy.poison_run_max),
        held: Vec::new(),
        letters: BTreeMap::new(),
        item,
        text,
        tally: Tally::default(),
    };
    let result = match work.run(due).await {
        Err(Interrupt::Broken(reason)) => work.halt(&reason).await.and(Err(Interrupt::Broken(reason))),
        result => result,
    };
    work.release_writes().await;
    counters.rerendering(None);
    stop.now.cancel();
    match result {
        Ok(()) => Ok(Rerendered::Done(work.tally)),
        Err(Interrupt::Outcome(outcome)) => Ok(Rerendered::Ended(outcome)),
        Err(Interrupt::Broken(reason)) => Ok(Rerendered::Ended(Outcome::Halted(reason))),
        Err(Interrupt::Error(error)) => Err(error),
    }
}

struct Work<'a> {
    table: &'a Table,
    lease: &'a LeaseKeeper,
    owner: &'a str,
    counters: &'a Counters,
    stop: Stop,
    /// Of the lease for verified writes.
    tenure: Option<Tenure>,
    guard: PoisonGuard,
    /// Letters that wait until it is known whether the rows or the plugin are to blame, in key order.
    held: Vec<Letter>,
    /// Letters that rows have from before, of what plugin, model or index said of them.
    letters: BTreeMap<RowKey, Vec<StoredLetter>>,
    item: Rendering,
    /// The item as it stands in the store: whoever changes it has taken the table over.
    text: String,
    tally: Tally,
}

impl Work<'_> {
    async fn run(&mut self, mut due: Rerender) -> Step<()> {
        self.tenure().await?;
        self.letters = self.letters_by_row().await?;
        let rows = self.count(due.done_to.as_deref()).await?;
        self.counters.rerendering(Some((0, rows)));
        loop {
            if self.stop.soon.is_cancelled() {
                return Err(Interrupt::Outcome(Outcome::Stopped));
            }
            let page = self.places(due.done_to.as_deref(), self.table.policy.batch).await?;
            let Some(last) = page.last() else { break };
            due.done_to = Some(last.key.to_string());
            let written = self.write(&page).await?;
            let written = self.wait_without_queue(&page, written).await?;
            self.settle(&page, written).await?;
            self.counters.rerendering(Some((self.tally.rows, rows.max(self.tally.rows))));
            // What is held is not durable yet, and a host that dies starts before it.
            if self.held.is_empty() {
                self.keep(Some(due.clone())).await?;
            }
        }
        self.settle_end().await?;
        let Tally { rows, deleted, .. } = self.tally;
        if rows >= MANY_ROWS && deleted > rows / 2 {
            tracing::warn!(
                table = self.table.name,
                rows,
                deleted,
                "most rows have no text any more, and their vectors were deleted: is that what the plugin is meant to do?"
            );
        }
        self.keep(None).await
    }

    /// A page of rows through the verified write, as often as passing faults and other writers ask for it.
    async fn write(&mut self, page: &[RowPlace]) -> Step<Vec<Written>> {
        let rows: Vec<RowToWrite<'_>> = page
            .iter()
            .map(|place| RowToWrite {
                key: &place.key,
                shard: hash_shard(&place.shard_id),
                sequence_number: &place.sequence_number,
            })
            .collect();
        loop {
            let tenure = self.tenure().await?;
            match verified_writes(self.table, &tenure, &rows, &self.stop.now).await {
                Ok(written) => return Ok(written),
                Err(verified::Error::Overtaken) => self.tenure = None,
                Err(verified::Error::Port(error)) => self.again(error).await?,
                Err(verified::Error::Restless) => {}
                Err(verified::Error::Broken(reason)) => return Err(Interrupt::Broken(reason)),
                Err(verified::Error::Stopped) => return Err(self.stopped()),
            }
        }
    }

    /// Where the user wants no dead letters, every row has to go through.
    async fn wait_without_queue(
        &mut self,
        page: &[RowPlace],
        mut written: Vec<Written>,
    ) -> Step<Vec<Written>> {
        if self.table.policy.dead_letters == DeadLetterPolicy::Store {
            return Ok(written);
        }
        let mut pause = WAIT_FIRST;
        loop {
            let failed: Vec<usize> =
                (0..page.len()).filter(|&row| matches!(written[row], Written::Failed(_))).collect();
            self.counters.waiting(!failed.is_empty());
            if failed.is_empty() {
                return Ok(written);
            }
            tracing::error!(
                table = self.table.name,
                rows = failed.len(),
                key = self.table.key_names.of(&page[failed[0]].key),
                "the table waits for rows that cannot be indexed, since dead_letters = \"none\""
            );
            self.pause(pause).await?;
            pause = (pause * 2).min(WAIT_MAX);
            let rows: Vec<RowPlace> = failed.iter().map(|&row| page[row].clone()).collect();
            for (row, again) in failed.into_iter().zip(self.write(&rows).await?) {
                written[row] = again;
            }
        }
    }

    /// Counts, and dead-letters rows that failed once it is clear that they are to blame.
    async fn settle(&mut self, page: &[RowPlace], written: Vec<Written>) -> Step<()> {
        let mut well = Vec::new();
        for (place, written) in page.iter().zip(written) {
            self.tally.rows += 1;
            let key_hash = hash_name(place.key.as_str());
            self.guard.saw(key_hash, matches!(written, Written::Failed(_)));
            match written {
                Written::Failed(failure) => {
                    self.tally.failed += 1;
                    let place_before = self.letters.get(&place.key).into_iter().flatten();
                    let named = place_before
                        .map(|stored| &stored.letter)
                        .find(|letter| letter.sequence_number == place.sequence_number)
                        .map_or_else(
                            || format!("{} {}", place.shard_id, place.sequence_number),
                            |letter| letter.place.clone(),
                        );
                    let number = place.sequence_number.clone();
                    let key = Some(place.key.clone());
                    self.held.push(worker::letter(self.table, &place.shard_id, named, key, number, failure));
                    continue;
                }
                Written::Embedded => {
                    self.tally.embedded += 1;
                    self.counters.embedded();
                }
                Written::MetadataOnly => {
                    self.tally.metadata_only += 1;
                    self.counters.metadata_only();
                }
                Written::Deleted => {
                    self.tally.deleted += 1;
                    self.counters.deleted(false);
                }
                Written::Nothing => {
                    self.tally.nothing += 1;
                    self.counters.nothing(false);
                }
            }
            well.extend(self.letters.remove(&place.key).into_iter().flatten().map(|stored| stored.id));
        }
        // What a former plugin said of rows that are well now.
        self.remove_letters(&well).await?;
        self.settle_letters().await
    }

    async fn settle_letters(&mut self) -> Step<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let hold = match self.guard.verdict() {
            Verdict::Release => 0,
            Verdict::Hold { latest } => (latest as usize).min(self.held.len()),
            Verdict::Halt => return Err(self.broken()),
        };
        let released: Vec<Letter> = self.held.drain(..self.held.len() - hold).collect();
        self.guard.released(u32::try_from(hold).unwrap_or(u32::MAX));
        self.set_aside(&released).await
    }

    /// Nothing more comes that could tell bad rows from a broken plugin.
    async fn settle_end(&mut self) -> Step<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        if !self.is_sound().await? {
            return Err(self.broken());
        }
        self.guard.proved_sound();
        self.settle_letters().await
    }

    async fn set_aside(&mut self, letters: &[Letter]) -> Step<()> {
        if letters.is_empty() {
            return Ok(());
        }
        loop {
            let tenure = self.tenure().await?;
            match self.write_letters(&tenure, letters).await {
                Ok(Fenced::Written) => break,
                Ok(Fenced::Lost) => self.tenure = None,
                Err(error) => self.again(error).await?,
            }
        }
        self.counters.dead_letters(letters);
        // One letter a row: what it had before was of the former plugin, unless it is the very one just replaced.
        let keys = letters.iter().filter_map(|letter| letter.key.as_ref().map(|key| (key, letter)));
        let mut former = Vec::new();
        for (key, letter) in keys {
            let stored = self.letters.remove(key).into_iter().flatten();
            former.extend(
                stored.filter(|stored| !is_same_letter(&stored.letter, letter)).map(|stored| stored.id),
            );
        }
        self.remove_letters(&former).await
    }

    async fn write_letters(&self, tenure: &Tenure, letters: &[Letter]) -> port::Result<Fenced> {
        if self.table.policy.on_poison == OnPoison::Delete {
            let keys: Vec<RowKey> = letters.iter().filter_map(|letter| letter.key.clone()).collect();
            if self.table.index.delete(tenure, &keys).await? == Fenced::Lost {
                return Ok(Fenced::Lost);
            }
        }
        self.table.letters.write(tenure, letters).await
    }

    async fn remove_letters(&self, ids: &[u64]) -> Step<()> {
        while !ids.is_empty() {
            match self.table.letters.remove(ids).await {
                Ok(_) => break,
                Err(error) => self.again(error).await?,
            }
        }
        Ok(())
    }

    /// Stops the table for every host, under this plugin and model. Held letters are not written.
    async fn halt(&self, reason: &str) -> Step<()> {
        let halt = Halt::of(self.table, reason);
        while let Err(error) = state::halt(self.table.state.as_ref(), &self.table.name, &halt).await {
            self.again(error).await?;
        }
        tracing::error!(table = self.table.name, "the table is halted");
        Ok(())
    }

    fn broken(&self) -> Interrupt {
        let classes: BTreeSet<&str> = self.held.iter().map(|letter| letter.class.as_str()).collect();
        Interrupt::Broken(format!(
            "{} rows failed ({}): it looks like the plugin or the model, not the rows",
            self.held.len(),
            classes.into_iter().collect::<Vec<_>>().join(", ")
        ))
    }

    /// Whether plugin and model, as far as held letters blame them, work on anything at all.
    async fn is_sound(&self) -> Step<bool> {
        if self.held.iter().any(|letter| letter.class <= FailureClass::PluginOutput)
            && !self.renders_a_row().await?
        {
            return Ok(false);
        }
        if self
            .held
            .iter()
            .any(|letter| (FailureClass::ModelRejected..=FailureClass::ModelFailed).contains(&letter.class))
        {
            let probe = self.table.embedder.embed(&[PROBE_TEXT], Purpose::Document, &self.stop.now).await;
            return Ok(matches!(probe.as_deref(), Ok([Ok(_)])));
        }
        Ok(true)
    }

    async fn renders_a_row(&self) -> Step<bool> {
        if self.tally.rows > self.tally.failed {
            return Ok(true);
        }
        let failed: BTreeSet<&str> =
            self.held.iter().filter_map(|letter| letter.key.as_ref()).map(|key| key.as_str()).collect();
        let limit = failed.len() + KNOWN_ROWS_TRIED;
        let known = loop {
            match self.table.rows.scan(None, limit, clock::now_ms()).await {
                Ok(known) => break known,
                Err(error) => self.again(error).await?,
            }
        };
        for (_, row) in known.iter().filter(|(key, _)| !failed.contains(key.as_str())) {
            let rendered = tokio::select! {
                () = self.stop.now.cancelled() => return Err(self.stopped()),
                rendered = render_row(self.table, row) => rendered,
            };
            let rendered = rendered.map_err(|broken| Interrupt::Broken(broken.to_string()))?;
            if !matches!(rendered, AfterDocument::Failed(_)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes durable how far it is; `None`: the whole table is done.
    async fn keep(&mut self, rerender: Option<Rerender>) -> Step<()> {
        self.item.rerender = rerender;
        let (key, text) = (state::rendering_key(&self.table.name), state::to_json(&self.item));
        loop {
            match self.table.state.put_if(&key, Some(&self.text), &text).await {
                Ok(true) => break,
                Ok(false) => {
                    self.still_ours().await?;
                    // Ours after a reply that was lost, or of a host that has the lease by now.
                    match self.table.state.get(&key).await {
                        Ok(stored) if stored.as_ref() == Some(&text) => break,
                        Ok(_) => return Err(Interrupt::Outcome(Outcome::LeaseLost)),
                        Err(error) => self.again(error).await?,
                    }
                }
                Err(error) => self.again(error).await?,
            }
        }
        self.text = text;
        Ok(())
    }

    /// The tenure of the lease for verified writes, taken anew where another writer took it. Only then it is certain
    /// that whoever takes the table over from now on fences this host off.
    async fn tenure(&mut self) -> Step<Tenure> {
        loop {
            if !self.lease.may_write() {
                return Err(Interrupt::Outcome(Outcome::LeaseLost));
            }
            if let Some(tenure) = &self.tenure {
                return Ok(tenure.clone());
            }
            match take_writes(self.table.leases.as_ref(), self.owner).await {
                Ok(tenure) => {
                    self.still_ours().await?;
                    self.tenure = Some(tenure);
                }
                Err(verified::Error::Port(error)) => self.again(error).await?,
                Err(_) => self.pause(PAUSE).await?,
            }
        }
    }

    /// Whether this host's plugin and configuration are still what renders the table.
    async fn still_ours(&self) -> Step<()> {
        loop {
            match superseded_by(self.table).await {
                Ok(None) => return Ok(()),
                Ok(Some(by)) => return Err(Interrupt::Outcome(Outcome::Superseded(by))),
                Err(error) => self.again(error).await?,
            }
        }
    }

    async fn release_writes(&self) {
        let Some(tenure) = &self.tenure else { return };
        if let Err(error) = self.table.leases.release(tenure, None).await {
            tracing::debug!(error = %error, "the lease for writes was not released: whoever wants it takes it");
        }
    }

    async fn letters_by_row(&self) -> Step<BTreeMap<RowKey, Vec<StoredLetter>>> {
        let filter = LetterFilter { table: Some(self.table.name.clone()), ..LetterFilter::default() };
        let listed = loop {
            match self.table.letters.list(&filter).await {
                Ok(listed) => break listed,
                Err(error) => self.again(error).await?,
            }
        };
        let mut by_row = BTreeMap::<RowKey, Vec<StoredLetter>>::new();
        // Letters of records that could not be read stand for changes that are not in the rows.
        for stored in listed.into_iter().filter(|stored| stored.letter.class >= FailureClass::BadCell) {
            if let Some(key) = stored.letter.key.clone() {
                by_row.entry(key).or_default().push(stored);
            }
        }
        Ok(by_row)
    }

    async fn count(&self, after: Option<&str>) -> Step<u64> {
        let (mut rows, mut after) = (0, after.map(str::to_owned));
        loop {
            let page = self.places(after.as_deref(), COUNT_PAGE).await?;
            let Some(last) = page.last() else { return Ok(rows) };
            rows += page.len() as u64;
            after = Some(last.key.to_string());
        }
    }

    async fn places(&self, after: Option<&str>, limit: usize) -> Step<Vec<RowPlace>> {
        loop {
            match self.table.rows.places(after, limit, clock::now_ms()).await {
                Ok(page) => return Ok(page),
                Err(error) => self.again(error).await?,
            }
        }
    }

    /// Waits before the next try of a call that failed, if another try can help.
    async fn again(&self, error: port::Error) -> Step<()> {
        let port::Error::Transient { message, retry_after } = error else { return Err(error.into()) };
        tracing::warn!(table = self.table.name, error = message, "rendering again failed, trying again");
        self.pause(retry_after.unwrap_or(PAUSE)).await
    }

    async fn pause(&self, pause: Duration) -> Step<()> {
        tokio::select! {
            () = self.stop.now.cancelled() => Err(self.stopped()),
            () = self.stop.soon.cancelled() => Err(self.stopped()),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    fn stopped(&self) -> Interrupt {
        let lost = self.lease.lost().is_cancelled();
        Interrupt::Outcome(if lost { Outcome::LeaseLost } else { Outcome::Stopped })
    }
}

/// Whether writing the one replaces the other.
fn is_same_letter(one: &Letter, other: &Letter) -> bool {
    (&one.shard_id, &one.sequence_number, one.class) == (&other.shard_id, &other.sequence_number, other.class)
}
