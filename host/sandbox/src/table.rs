//! Table plugins: rows to documents.

use std::ops::Range;
use std::sync::Arc;

use keyvector_core::document::{Document, FailureClass, MetadataKey, MetadataType, Rendered, RowFailure};
use keyvector_core::schema::ColumnKind;

use crate::bindings::table::{self as wit, Documents, RowState};
use crate::bindings::{Table, TablePre};
use crate::blank::is_blank;
use crate::guest::{Bounds, Guest, Stop, on_own_thread};
use crate::isolate::{self, Batch, Broken, Failed, RunMax, Try};
use crate::load::Role;
use crate::log::quoted_with_its_end;
use crate::metadata::Declared;
use crate::packed;
use crate::plugin::Plugin;
use crate::slot::{self, NotOpened, OpenError, Slot};
use crate::stats::{Counters, Stats};
use crate::workers::{Reply, Workers};

/// What a table plugin does under one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// The columns whose cells it gets, in this order. Nothing else of a row changes its document.
    pub reads: Vec<String>,
    /// All keys that its metadata may hold.
    pub metadata: Vec<MetadataKey>,
}

/// A column that the plugin reads, as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    pub name: String,
    /// Spelled out without `frozen`: `int`, `map<text,tuple<int,uuid>>`, `udt<street:text,"Zip":int>`.
    pub cql_type: String,
    pub kind: ColumnKind,
}

/// A table plugin that was opened for one table. It lives on threads of its own.
pub struct TablePlugin {
    info: TableInfo,
    workers: Workers<Rows, Vec<Rendered>>,
    counters: Arc<Counters>,
}

/// Rows as the boundary carries them.
struct Rows {
    rows: usize,
    cells: Vec<u8>,
}

/// Appends one cell as [`TablePlugin::render`] takes it: a big-endian length and the value's bytes, or −1 for null.
///
/// # Panics
/// When the value has 2 GiB or more, which no source lets through.
pub fn push_cell(cells: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(-1, |bytes| i32::try_from(bytes.len()).expect("a cell is below 2 GiB"));
    cells.extend_from_slice(&length.to_be_bytes());
    cells.extend_from_slice(value.unwrap_or_default());
}

impl TablePlugin {
    /// Asks what the plugin does under `config`, a JSON object, with no table at hand. Blocks for at most twice the
    /// longer deadline.
    pub fn describe(plugin: &Plugin, config: &str) -> Result<TableInfo, OpenError> {
        let counters = Arc::new(Counters::default());
        on_own_thread(|| described(plugin, config, &counters)).map(|(info, _)| info)
    }

    /// Opens the plugin for a table: `columns` are what [`TableInfo::reads`] names, in its order. Starts the plugin's
    /// threads. Blocks for at most a few times the longer deadline.
    pub fn open(plugin: &Plugin, config: &str, columns: &[ColumnInfo]) -> Result<Self, OpenError> {
        let counters = Arc::new(Counters::default());
        let (info, renderers) = renderers(plugin, config, columns, &counters)?;
        let workers = Workers::start(plugin, renderers, Renderer::render).map_err(|error| Broken {
            plugin: plugin.name().to_owned(),
            reason: format!("its threads cannot be started: {error}"),
        })?;
        Ok(Self { info, workers, counters })
    }

    /// What the plugin declared.
    pub fn info(&self) -> &TableInfo {
        &self.info
    }

    /// Renders `rows` rows. `cells` are the cells of [`TableInfo::reads`], row by row, each as [`push_cell`] writes it.
    /// Gives one result a row, in order: a row that cannot be rendered fails alone.
    ///
    /// # Errors
    /// [`Broken`] says nothing about any row: the plugin cannot be opened any more, or a whole run of rows failed.
    ///
    /// # Cancel safety
    /// Safe: the work is given up at the next try.
    pub async fn render(&self, rows: u32, cells: Vec<u8>) -> Result<Vec<Rendered>, Broken> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        self.workers.ask(Rows { rows: rows as usize, cells }).await
    }

    /// What the plugin has done so far.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }
}

fn described(
    plugin: &Plugin,
    config: &str,
    counters: &Arc<Counters>,
) -> Result<(TableInfo, Declared), OpenError> {
    slot::require_role(plugin, Role::Table)?;
    let pre = pre(plugin)?;
    let info = slot::open_twice(plugin, counters, |patience| {
        let mut guest = Guest::instantiate(plugin, counters, patience, |store| pre.instantiate(store))?;
        guest
            .call(Bounds::of_setup(plugin, patience), |table, store| table.describe(store, config))?
            .map_err(NotOpened::Refused)
    })?;
    let refuse = |reason| OpenError::Declaration { plugin: plugin.name().to_owned(), reason };
    let info = TableInfo {
        reads: info.reads,
        metadata: info
            .metadata
            .into_iter()
            .map(|key| MetadataKey {
                name: key.name,
                value_type: match key.value_type {
                    wit::MetadataType::Text => MetadataType::Text,
                    wit::MetadataType::Number => MetadataType::Number,
                    wit::MetadataType::Boolean => MetadataType::Boolean,
                    wit::MetadataType::TextList => MetadataType::TextList,
                    wit::MetadataType::NumberList => MetadataType::NumberList,
                },
                filterable: key.filterable,
            })
            .collect(),
    };
    let mut names = std::collections::BTreeSet::new();
    if let Some(name) = info.reads.iter().find(|name| !names.insert(*name)) {
        return Err(refuse(format!("it reads column {name:?} twice")));
    }
    let declared = Declared::new(&info.metadata).map_err(refuse)?;
    Ok((info, declared))
}

fn pre(plugin: &Plugin) -> Result<TablePre, OpenError> {
    TablePre::new(plugin.wit_version, plugin.instance_pre.clone()).map_err(|error| OpenError::Declaration {
        plugin: plugin.name().to_owned(),
        reason: crate::engine::one_line(&error),
    })
}

/// What each thread of an open plugin has.
fn renderers(
    plugin: &Plugin,
    config: &str,
    columns: &[ColumnInfo],
    counters: &Arc<Counters>,
) -> Result<(TableInfo, Vec<Renderer>), OpenError> {
    let (info, declared) = on_own_thread(|| described(plugin, config, counters))?;
    if !columns.iter().map(|column| &column.name).eq(&info.reads) {
        let given: Vec<_> = columns.iter().map(|column| &column.name).collect();
        let reason = format!("it reads {:?}, but was to be opened with {given:?}", info.reads);
        return Err(OpenError::Declaration { plugin: plugin.name().to_owned(), reason });
    }

    let columns_read = columns.len();
    let open = opener(plugin, config, columns, counters)?;
    let first = on_own_thread(|| slot::open_twice(plugin, counters, &open))?;
    let declared = Arc::new(declared);
    let renderers = slot::slots(plugin, counters, open, first)
        .into_iter()
        .map(|slot| Renderer { slot, declared: Arc::clone(&declared), columns_read })
        .collect();
    Ok((info, renderers))
}

/// What opens one instance for this table.
fn opener(
    plugin: &Plugin,
    config: &str,
    columns: &[ColumnInfo],
    counters: &Arc<Counters>,
) -> Result<impl Fn(u32) -> Result<Guest<Table>, NotOpened> + Send + Sync + use<>, OpenError> {
    let pre = pre(plugin)?;
    let (plugin, config, counters) = (plugin.clone(), config.to_owned(), Arc::clone(counters));
    let columns: Vec<_> = columns
        .iter()
        .map(|column| wit::Column {
            name: column.name.clone(),
            cql_type: column.cql_type.clone(),
            kind: match column.kind {
                ColumnKind::PartitionKey => wit::ColumnKind::PartitionKey,
                ColumnKind::ClusteringKey => wit::ColumnKind::ClusteringKey,
                ColumnKind::Static => wit::ColumnKind::StaticColumn,
                ColumnKind::Regular => wit::ColumnKind::Regular,
            },
        })
        .collect();
    Ok(move |patience| {
        let mut guest = Guest::instantiate(&plugin, &counters, patience, |store| pre.instantiate(store))?;
        guest
            .call(Bounds::of_setup(&plugin, patience), |table, store| table.open(store, &config, &columns))?
            .map_err(NotOpened::Refused)?;
        Ok(guest.opened())
    })
}

/// An open plugin without threads of its own: what a call costs without the way there. For the benchmark; not to be
/// used on an async runtime's threads.
#[doc(hidden)]
pub struct OnThisThread(Renderer);

impl OnThisThread {
    pub fn open(plugin: &Plugin, config: &str, columns: &[ColumnInfo]) -> Result<Self, OpenError> {
        let (_, mut renderers) = renderers(plugin, config, columns, &Arc::default())?;
        Ok(Self(renderers.swap_remove(0)))
    }

    /// As [`TablePlugin::render`].
    pub fn render(&mut self, rows: u32, cells: Vec<u8>) -> Result<Vec<Rendered>, Broken> {
        let (reply, mut answer) = Reply::channel();
        self.0.render(Rows { rows: rows as usize, cells }, reply);
        answer.try_recv().expect("it was answered")
    }
}

/// One thread's side of an open plugin.
struct Renderer {
    slot: Slot<Table>,
    declared: Arc<Declared>,
    columns_read: usize,
}

impl Renderer {
    fn render(&mut self, question: Rows, reply: Reply<Vec<Rendered>>) {
        let number = self.slot.counters().begin_batch(question.rows);
        let run_max = RunMax::of(self.slot.plugin().limits());
        let every = self.slot.plugin().limits().determinism_every;
        let mut batch =
            Rendering { renderer: self, question: &question, reply: &reply, rendered: Vec::new() };
        let result = isolate::isolate(&mut batch, question.rows, run_max);
        let rendered = batch.rendered;
        let to_compare = (number.is_multiple_of(every) && result.is_ok()).then(|| rendered.clone());
        reply.send(result.map(|()| rendered));
        if let Some(rendered) = to_compare {
            self.check_determinism(&question, &rendered);
        }
        self.slot.rest();
    }

    /// Renders the rows that were rendered at once again, each half in a fresh instance, and compares: neither what came
    /// before nor what stands beside a row may change its document. Nobody waits for it.
    fn check_determinism(&mut self, question: &Rows, rendered: &[Rendered]) {
        let declared = Arc::clone(&self.declared);
        let middle = question.rows / 2;
        let halves = [0..middle, middle..question.rows].into_iter().filter(|half| !half.is_empty());
        let halves: Result<Vec<_>, Broken> =
            halves.map(|half| Ok((half.len(), self.cells(question, half)?))).collect();
        let again = halves.map_err(Failed::Ended).and_then(|halves| {
            self.slot.aside(|slot| {
                let again =
                    halves.into_iter().map(|(rows, cells)| call(slot, &declared, rows, cells, Try(2)));
                again.collect::<Result<Vec<_>, _>>()
            })
        });
        let differing = match again {
            Ok(again) => {
                let pairs = rendered.iter().zip(again.iter().flatten());
                pairs.filter(|(before, after)| !same(before, after)).count()
            }
            // Some rows stop the plugin, and did so before.
            Err(_) if rendered.iter().any(is_stopped) => return,
            Err(_) => rendered.len(),
        };
        self.slot.counters().determinism_check(differing == 0);
        if differing > 0 {
            tracing::warn!(
                plugin = self.slot.plugin().name(),
                rows = question.rows,
                differing,
                "plugin says different things of the same rows"
            );
        }
    }

    /// The cells of some rows.
    fn cells<'a>(&self, question: &'a Rows, rows: Range<usize>) -> Result<&'a [u8], Broken> {
        if rows == (0..question.rows) {
            return Ok(&question.cells);
        }
        let start = offset(&question.cells, 0, rows.start * self.columns_read);
        let end = start.and_then(|start| offset(&question.cells, start, rows.len() * self.columns_read));
        start.zip(end).map(|(start, end)| &question.cells[start..end]).ok_or_else(|| Broken {
            plugin: self.slot.plugin().name().to_owned(),
            reason: format!(
                "the host's cells are not {} rows of {} columns",
                question.rows, self.columns_read
            ),
        })
    }
}

/// Where the cell lies that is `count` cells after the one at `from`.
fn offset(cells: &[u8], from: usize, count: usize) -> Option<usize> {
    (0..count).try_fold(from, |at, _| {
        let (length, _) = cells.get(at..)?.split_first_chunk::<4>()?;
        let next = at + 4 + usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        (next <= cells.len()).then_some(next)
    })
}

fn is_stopped(rendered: &Rendered) -> bool {
    matches!(rendered, Rendered::Failed(failure) if failure.class != FailureClass::PluginRefused)
}

/// Equal but for how often a row was tried.
fn same(before: &Rendered, after: &Rendered) -> bool {
    match (before, after) {
        (Rendered::Failed(before), Rendered::Failed(after)) => {
            (before.class, &before.reason) == (after.class, &after.reason)
        }
        _ => before == after,
    }
}

/// A batch under way.
struct Rendering<'a> {
    renderer: &'a mut Renderer,
    question: &'a Rows,
    reply: &'a Reply<Vec<Rendered>>,
    rendered: Vec<Rendered>,
}

impl Batch for Rendering<'_> {
    fn attempt(&mut self, rows: Range<usize>, this: Try) -> Result<(), Failed> {
        if self.reply.is_abandoned() {
            let plugin = self.renderer.slot.plugin().name().to_owned();
            return Err(Failed::Ended(Broken { plugin, reason: "nobody waits for this batch".to_owned() }));
        }
        let cells = self.renderer.cells(self.question, rows.clone()).map_err(Failed::Ended)?;
        let rendered = match call(&mut self.renderer.slot, &self.renderer.declared, rows.len(), cells, this) {
            Err(Failed::Stopped(stop)) if this == Try(2) && rows.len() > 1 => {
                tracing::warn!(
                    plugin = self.renderer.slot.plugin().name(),
                    rows = rows.len(),
                    class = stop.class.as_str(),
                    "a batch stopped the plugin twice: its rows are tried apart, which takes time"
                );
                return Err(Failed::Stopped(stop));
            }
            rendered => rendered?,
        };
        if self.rendered.is_empty() {
            self.rendered = rendered;
        } else {
            self.rendered.extend(rendered);
        }
        Ok(())
    }

    fn convict(&mut self, _: usize, stop: Stop, last: Try) {
        self.rendered.push(Rendered::Failed(RowFailure {
            class: stop.class,
            reason: stop.reason,
            attempts: last.0,
        }));
    }

    fn broken(&self, rows: usize, last: &Stop) -> Broken {
        Broken {
            plugin: self.renderer.slot.plugin().name().to_owned(),
            reason: format!("{rows} rows in a row stopped it, the last one by {}", last.class.as_str()),
        }
    }
}

fn call(
    slot: &mut Slot<Table>,
    declared: &Declared,
    rows: usize,
    cells: &[u8],
    this: Try,
) -> Result<Vec<Rendered>, Failed> {
    let bounds = Bounds::of_rows(slot.plugin(), rows, cells.len(), slot::patience(slot.plugin(), this));
    let count = u32::try_from(rows).expect("the caller gave the count as u32");
    slot.call(
        this,
        bounds,
        |table, store| table.render(store, count, cells),
        |documents| read_documents(&documents, rows, bounds.output_bytes, declared, this),
    )
}

/// Checks a render's answer and reads it row by row.
fn read_documents(
    documents: &Documents,
    rows: usize,
    output_bytes_max: usize,
    declared: &Declared,
    this: Try,
) -> Result<Vec<Rendered>, Stop> {
    if documents.states.len() != rows {
        return Err(Stop::output(format!("answered {} states for {rows} rows", documents.states.len())));
    }
    packed::check(&documents.texts, rows, "texts")?;
    packed::check(&documents.metadata, rows, "metadata")?;
    let bytes = documents.texts.data.len().saturating_add(documents.metadata.data.len());
    if bytes > output_bytes_max {
        return Err(Stop::output(format!("answered {bytes} bytes, of {output_bytes_max} allowed")));
    }
    let row = |(index, state): (usize, &RowState)| {
        let text = packed::item(&documents.texts, index);
        match state {
            RowState::Skipped => Rendered::Skipped,
            RowState::Failed => failed(FailureClass::PluginRefused, refusal(text), this),
            RowState::Document => match std::str::from_utf8(text) {
                Err(error) => {
                    failed(FailureClass::PluginOutput, format!("its text is not UTF-8: {error}"), this)
                }
                Ok(text) if is_blank(text) => Rendered::Blank,
                Ok(text) => match declared.parse(packed::item(&documents.metadata, index)) {
                    Err(reason) => failed(FailureClass::PluginOutput, reason, this),
                    Ok(metadata) => Rendered::Document(Document { text: text.to_owned(), metadata }),
                },
            },
        }
    };
    Ok(documents.states.iter().enumerate().map(row).collect())
}

fn failed(class: FailureClass, reason: String, this: Try) -> Rendered {
    Rendered::Failed(RowFailure { class, reason: quoted_with_its_end(&reason), attempts: this.0 })
}

/// A plugin's reason for a row, in words whatever it sent.
fn refusal(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if text.trim().is_empty() { "refused without a reason".to_owned() } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cells_are_found_again(cells in proptest::collection::vec(proptest::option::of(".{0,9}"), 0..40)) {
            let mut bytes = Vec::new();
            let mut offsets = vec![0];
            for cell in &cells {
                push_cell(&mut bytes, cell.as_deref().map(str::as_bytes));
                offsets.push(bytes.len());
            }
            for (index, &expected) in offsets.iter().enumerate() {
                prop_assert_eq!(offset(&bytes, 0, index), Some(expected));
            }
            prop_assert_eq!(offset(&bytes, 0, cells.len() + 1), None);
        }

        #[test]
        fn no_cells_make_it_panic(cells: Vec<u8>, from in 0_usize..50, count in 0_usize..10) {
            offset(&cells, from, count);
        }
    }

    #[test]
    fn a_refusal_always_has_words() {
        assert_eq!(refusal(b" \n"), "refused without a reason");
        assert_eq!(refusal(b"year \xff"), "year \u{fffd}");
    }
}
