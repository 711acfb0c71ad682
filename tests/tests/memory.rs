//! The real host's resident memory over many changes of few rows does not grow, and is small.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keyvector_core::lease::Checkpoint;
use keyvector_core::port::LeaseTable;
use keyvector_store::{Store, StoreConfig};
use keyvector_tests::line::plugin_file;
use serde_json::{Value, json};

/// Changes; `KEYVECTOR_MEMORY_CHANGES` says otherwise. `cargo xtask bench` follows 1,000,000, about 1.2 GB of records.
const CHANGES: usize = 200_000;
const ROWS: usize = 10_000;
/// From here on nothing may grow.
const WARM: u64 = 100_000;
const RESIDENT_KIB_MAX: u64 = 64 << 10;
/// Pages that are touched late, buffers that meet a longer line.
const SLACK_KIB: u64 = 2 << 10;
/// The same where glibc has an arena for each thread: it fills them slowly with holes, by what is allocated on one thread
/// and freed on another. Measured over 1,000,000 changes: 7 MiB.
const SLACK_OF_ARENAS_KIB: u64 = 12 << 10;

fn host() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let host = test.ancestors().nth(2).unwrap().join("keyvector-host");
    assert!(host.is_file(), "{} is missing: cargo build --release -p keyvector-host", host.display());
    host
}

/// Follows `films.jsonl` in `folder` to its end. `one_arena`: with an allocator that hides no leak.
fn follow(folder: &Path, one_arena: bool) -> Child {
    let mut command = Command::new(host());
    if one_arena {
        command.env("MALLOC_ARENA_MAX", "1");
    }
    command
        .args([
            "--plugin",
            "movies",
            "--source",
            "films.jsonl",
            "--store",
            "films.db",
            "--until-drained",
            "--model",
        ])
        .arg(plugin_file("fake"))
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A film's state after its `round`th change.
fn image(row: usize, round: usize) -> Value {
    let text = |text: String| json!({"value": {"textT": text}});
    let number = |number: usize| json!({"value": {"intT": number.to_string()}});
    json!({"valueCells": {
        "movie_id": number(row),
        "studio": text(format!("studio {}", row % 97)),
        "title": text(format!("The film of number {row}")),
        "year": number(1930 + row % 95),
        "genre": text("drama".into()),
        "plot": text(format!("plot {round}: a keeper counts the lamps of an empty harbour and finds one more every night.")),
        "runtime_min": number(100),
        "tags": {"value": {"setT": [text("harbour".into()), text("night".into())]}},
    }, "staticCells": {}})
}

fn write_changes(file: &Path, changes: usize) {
    let mut out = BufWriter::new(File::create(file).unwrap());
    for change in 0..changes {
        // Every row once in each round, in no order.
        let (row, round) = (change * 7919 % ROWS, change / ROWS);
        let mut record = json!({
            "eventVersion": "1.1",
            "createdAt": 1_790_000_000,
            "origin": "USER",
            "partitionKeys": {"movie_id": {"intT": row.to_string()}},
            "clusteringKeys": {"studio": {"textT": format!("studio {}", row % 97)}},
            "sequenceNumber": format!("{:030}", change + 1),
            "newImage": image(row, round),
        });
        if round > 0 {
            record["oldImage"] = image(row, round - 1);
        }
        serde_json::to_writer(&mut out, &record).unwrap();
        out.write_all(b"\n").unwrap();
    }
    out.flush().unwrap();
}

#[derive(Clone, Copy, Debug, Default)]
struct Resident {
    kib: u64,
    anonymous_kib: u64,
    file_kib: u64,
    peak_kib: u64,
}

impl Resident {
    /// `None` once the process has ended.
    fn of(process: &Child) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        Some(Self {
            kib: field("VmRSS")?,
            anonymous_kib: field("RssAnon")?,
            file_kib: field("RssFile")?,
            peak_kib: field("VmHWM")?,
        })
    }
}

/// How many lines of the source are done, by the lease in the store.
async fn lines_done(store: &Store) -> u64 {
    let leases = store.table_scope("films/films").leases().list().await.unwrap();
    let done = leases.iter().find_map(|lease| match &lease.checkpoint {
        Checkpoint::At(position) => position.split(':').nth(4)?.parse().ok(),
        _ => None,
    });
    done.unwrap_or(0)
}

#[tokio::test]
async fn resident_memory_is_flat() {
    let changes = std::env::var("KEYVECTOR_MEMORY_CHANGES").map_or(CHANGES, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let films = folder.path().join("films.jsonl");
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/movies/data/table.cql");
    std::fs::copy(schema, folder.path().join("table.cql")).unwrap();

    // The first start compiles the plugins, which takes memory of its own.
    write_changes(&films, 1);
    let mut first = follow(folder.path(), false);
    let mut compiling = Resident::default();
    while first.try_wait().unwrap().is_none() {
        compiling = Resident::of(&first).unwrap_or(compiling);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(first.wait().unwrap().success());
    Store::delete(folder.path().join("films.db")).unwrap();

    println!("a start that compiles: {} KiB at most", compiling.peak_kib);

    write_changes(&films, changes);
    for one_arena in [true, false] {
        let (warm, after) = watch(follow(folder.path(), one_arena), &folder.path().join("films.db")).await;
        let arenas = if one_arena { "one arena" } else { "arenas as they come" };
        println!("{changes} changes of {ROWS} rows, {arenas}; resident at most, in KiB:");
        for (part, most) in [("until 100,000", warm), ("from there on", after)] {
            println!("  {part}: {} ({} anonymous, {} of files)", most.kib, most.anonymous_kib, most.file_kib);
        }
        assert!(warm.kib > 0 && after.kib > 0, "nobody looked at both parts");
        let slack = if one_arena { SLACK_KIB } else { SLACK_OF_ARENAS_KIB };
        assert!(after.kib <= warm.kib + slack, "{arenas}: it grows: {warm:?}, then {after:?}");
        assert!(
            warm.kib.max(after.kib) < RESIDENT_KIB_MAX,
            "{arenas}: it is large: {warm:?}, then {after:?}"
        );
    }
}

/// Watches a host from its start to its end: the most up to [`WARM`] changes, and after. Then deletes
/// its store.
async fn watch(mut process: Child, store_file: &Path) -> (Resident, Resident) {
    let (mut warm, mut after) = (Resident::default(), Resident::default());
    let mut store = None;
    while process.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(100));
        if store.is_none() {
            let config = StoreConfig { create: false, ..StoreConfig::default() };
            store = Store::open(store_file, config).ok();
        }
        let (Some(now), Some(store)) = (Resident::of(&process), &store) else { continue };
        let most = if lines_done(store).await <= WARM { &mut warm } else { &mut after };
        if now.kib > most.kib {
            *most = now;
        }
    }
    assert!(process.wait().unwrap().success());
    drop(store);
    Store::delete(store_file).unwrap();
    (warm, after)
}
