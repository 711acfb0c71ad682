//! The host's own memory, measured in a process of its own: what a guest hands over or leaks takes none of it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use keyvector_core::document::Rendered;
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, RestartReason, Stats, TablePlugin, push_cell};

/// One measurement at a time.
static ALONE: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

fn open(guest: &str, mode: &str) -> TablePlugin {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist")),
        PathBuf::from,
    );
    let path = folder.join(guest);
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: build it with `cargo xtask plugins`", path.display()));
    let engine = Engine::new(EngineConfig { threads: 1, ..EngineConfig::default() }).unwrap();
    let plugin = engine.load(guest, &bytes).unwrap();
    let text = ColumnInfo { name: "text".to_owned(), cql_type: "text".to_owned(), kind: ColumnKind::Regular };
    TablePlugin::open(&plugin, &format!("{{\"mode\":\"{mode}\"}}"), &[text]).unwrap()
}

async fn render(table: &TablePlugin, rows: u32) -> Vec<Rendered> {
    let mut cells = Vec::new();
    for _ in 0..rows {
        push_cell(&mut cells, Some(b"a row of the table"));
    }
    table.render(rows, cells).await.unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// A line of this process's status, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// What is resident now, from where the peak counts anew.
fn begin() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    status("VmRSS")
}

#[test]
fn what_a_guest_hands_over_takes_no_memory_of_the_host() {
    let _alone = ALONE.lock();
    let modes = [
        ("misbehave.wasm", "chatty"),
        ("misbehave.wasm", "long-line"),
        ("misbehave.wasm", "flood"),
        ("wasi-caller.wasm", "write-much"),
        ("wasi-caller.wasm", "write-60-mib"),
        ("wasi-caller.wasm", "write-2-to-40-zeroes"),
        ("wasi-caller.wasm", "poll-a-million"),
        ("wasi-caller.wasm", "2-to-40-random-bytes"),
        ("wasi-caller.wasm", "2-to-40-insecure-bytes"),
    ];
    for (guest, mode) in modes {
        let table = open(guest, mode);
        let before = begin();
        block_on(render(&table, 1));
        let grown = status("VmHWM").saturating_sub(before);
        // The guest's own memory is the process's too.
        let own = table.stats().memory_bytes_peak;
        println!("{mode}: {} KiB, of which the guest had {} KiB", grown / 1024, own / 1024);
        assert!(grown < own + 8 * MIB, "{mode}: {grown} bytes, of which the guest had {own}");
    }
}

fn leak(rows: u64) -> (Stats, usize) {
    const ONE_BY_ONE: u64 = 5;
    let table = open("misbehave.wasm", "slow-leak");
    let before = begin();
    block_on(async {
        let mut done = 0;
        while done < rows {
            // Four fifths as a table that catches up, the rest as a stream at its tip.
            let batch = if done < rows / ONE_BY_ONE * (ONE_BY_ONE - 1) { 256.min(rows - done) } else { 1 };
            let rendered = render(&table, u32::try_from(batch).unwrap()).await;
            assert!(
                rendered.iter().all(|rendered| matches!(rendered, Rendered::Document(document) if document.text == "a row of the table")),
                "after {done} rows: {rendered:?}"
            );
            done += batch;
        }
    });
    (table.stats(), status("VmHWM").saturating_sub(before))
}

/// 500 B a row.
#[test]
#[ignore = "takes a minute or more: cargo test --release --workspace --test memory -- --ignored --nocapture"]
fn a_leak_over_five_million_rows_fails_none() {
    let _alone = ALONE.lock();
    let started = Instant::now();
    let (stats, grown) = leak(5_000_000);
    let restarts = RestartReason::ALL.map(|reason| (reason.as_str(), stats.restarts(reason)));
    println!(
        "{} rows in {} batches, {:.1} s, restarts {restarts:?}, {} determinism checks, {} different; guest peak {} KiB, \
         process grew by {} KiB",
        stats.rows,
        stats.batches,
        started.elapsed().as_secs_f64(),
        stats.determinism_checks,
        stats.determinism_differences,
        stats.memory_bytes_peak / 1024,
        grown / 1024
    );
    assert_eq!(stats.rows, 5_000_000);
    assert_eq!(stats.restarts_total(), stats.restarts(RestartReason::MemoryHigh), "no call failed");
    assert!(stats.restarts(RestartReason::MemoryHigh) > 40);
    assert_eq!(stats.determinism_differences, 0);
    assert!(stats.memory_bytes_peak < 50 * MIB && grown < 64 * MIB);
}
