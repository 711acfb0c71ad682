//! What a plugin file costs: compiled afresh, loaded from the cache, opened, and how much memory an instance takes.
//!
//! `cargo run --release -p keyvector-sandbox --example plugin_costs -- plugins/dist/movies.wasm …`
//! Processor time, since that does not depend on what else the machine does.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::path::Path;

use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, Plugin, TablePlugin};

fn main() {
    println!(
        "{:<16}{:>10}{:>12}{:>12}{:>12}{:>14}",
        "plugin", "size", "compile", "from cache", "open", "instance"
    );
    for file in std::env::args().skip(1) {
        let bytes = std::fs::read(&file).unwrap();
        let name = Path::new(&file).file_stem().unwrap().to_string_lossy().into_owned();
        let folder = tempfile::tempdir().unwrap();
        let engine = || {
            let cache_folder = Some(folder.path().join("cache"));
            Engine::new(EngineConfig { threads: 1, cache_folder, ..EngineConfig::default() }).unwrap()
        };
        let (cold, _) = timed(|| engine().load(&name, &bytes).unwrap());
        let (cached, plugin) = timed(|| engine().load(&name, &bytes).unwrap());
        let (opened, table) = timed(|| open_on_films(&plugin));
        println!(
            "{name:<16}{:>7} KB{cold:>9} ms{cached:>9} ms{opened:>9} ms{:>11.1} MB",
            bytes.len() / 1000,
            table.stats().memory_bytes_peak as f64 / 1e6
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not told here");
    println!("the process at its peak, {peak}");
}

/// Opens a film plugin and renders 256 rows of nulls.
fn open_on_films(plugin: &Plugin) -> TablePlugin {
    let column = |name: String| {
        let cql_type = match name.as_str() {
            "year" | "runtime_min" => "int",
            "tags" => "set<text>",
            "unlisted" => "boolean",
            _ => "text",
        };
        ColumnInfo { name, cql_type: cql_type.to_owned(), kind: ColumnKind::Regular }
    };
    let reads = TablePlugin::describe(plugin, "{}").unwrap().reads;
    let columns: Vec<_> = reads.into_iter().map(column).collect();
    let table = TablePlugin::open(plugin, "{}", &columns).unwrap();
    let cells = [0xff; 4].repeat(columns.len() * 256);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(table.render(256, cells)).unwrap();
    table
}

/// Milliseconds of processor time, all threads together.
fn timed<R>(run: impl FnOnce() -> R) -> (u64, R) {
    let before = processor_ms();
    let result = run();
    (processor_ms() - before, result)
}

fn processor_ms() -> u64 {
    const MS_PER_TICK: u64 = 10; // Linux's clock ticks, 100 a second
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
    (ticks(11) + ticks(12)) * MS_PER_TICK
}
