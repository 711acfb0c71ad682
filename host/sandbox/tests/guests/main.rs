//! Runs every guest of `tests/guests` in every one of its modes.
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod answers;
mod files;
mod load;
mod local_model;
#[path = "../../../../tests/guests/misbehave/src/modes.rs"]
mod misbehave_modes;
mod puppet;
mod remote_model;
mod said;
mod start;
mod table;
mod wasi;
#[path = "../../../../tests/guests/wasi-caller/src/modes.rs"]
mod wasi_modes;

use std::path::PathBuf;
use std::time::Duration;

use keyvector_core::document::{FailureClass, Rendered};
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{
    Broken, ColumnInfo, Engine, EngineConfig, Limits, OpenError, Plugin, Stats, TablePlugin, push_cell,
};

/// Makes a test of each mode's block, and one that fails where a mode has no test or a test no mode.
macro_rules! tests_of_modes {
    ($modes:expr; $($mode:literal $test:ident |$name:ident| $body:block)*) => {
        $(
            #[test]
            fn $test() {
                let $name = $mode;
                $body
            }
        )*

        #[test]
        fn every_mode_has_a_test() {
            let tested = std::collections::BTreeSet::from([$($mode),*]);
            let modes = $modes.iter().copied().collect();
            assert_eq!(tested, modes, "the guest's modes and the host's tests differ");
        }
    };
}
use tests_of_modes;

fn built_plugin(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist")),
        PathBuf::from,
    );
    let path = folder.join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: build it with `cargo xtask plugins`", path.display()))
}

fn engine(limits: Limits) -> Engine {
    Engine::new(EngineConfig { limits, threads: 1, ..EngineConfig::default() }).unwrap()
}

fn load(name: &str, limits: Limits) -> Plugin {
    engine(limits).load(name, &built_plugin(name)).unwrap()
}

/// Words of [`misbehave_modes::RUDE`] are in it, escaped, and it is one line that acts nowhere.
#[track_caller]
fn polite(message: &str) {
    assert!(!message.contains(keyvector_core::text::acts), "{message:?}");
    assert!(message.contains("\\u{1b}[31m") && message.contains("gnp."), "{message}");
}

/// Short deadlines, so that what runs for ever does not run for long.
fn hasty() -> Limits {
    Limits {
        deadline: Duration::from_millis(60),
        deadline_per_row: Duration::from_millis(1),
        second_chance_factor: 4,
        ..Limits::default()
    }
}

fn config(mode: &str) -> String {
    format!("{{\"mode\":\"{mode}\"}}")
}

fn text_column() -> ColumnInfo {
    ColumnInfo { name: "text".to_owned(), cql_type: "text".to_owned(), kind: ColumnKind::Regular }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn open_table(name: &str, mode: &str, limits: Limits) -> Result<TablePlugin, OpenError> {
    TablePlugin::open(&load(name, limits), &config(mode), &[text_column()])
}

fn cells(texts: &[&str]) -> Vec<u8> {
    let mut cells = Vec::new();
    for text in texts {
        push_cell(&mut cells, Some(text.as_bytes()));
    }
    cells
}

/// Renders rows of one text each, in one batch.
fn render_in(table: &TablePlugin, texts: &[&str]) -> Result<Vec<Rendered>, Broken> {
    block_on(table.render(texts.len().try_into().unwrap(), cells(texts)))
}

/// Opens a table plugin, renders one batch and gives the counters.
fn render(mode: &str, limits: Limits, texts: &[&str]) -> (Result<Vec<Rendered>, Broken>, Stats) {
    let table = open_table("misbehave.wasm", mode, limits).unwrap();
    let rendered = render_in(&table, texts);
    (rendered, table.stats())
}

fn text_of(rendered: &Rendered) -> &str {
    match rendered {
        Rendered::Document(document) => &document.text,
        other => panic!("{other:?}"),
    }
}

fn failure_of(rendered: &Rendered) -> (FailureClass, &str, u32) {
    match rendered {
        Rendered::Failed(failure) => (failure.class, &failure.reason, failure.attempts),
        other => panic!("{other:?}"),
    }
}

fn texts_of(rendered: &[Rendered]) -> Vec<&str> {
    rendered.iter().map(text_of).collect()
}
