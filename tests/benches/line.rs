//! The whole line, from JSON records to vectors in the index, over a store in memory with the fake model: changes a
//! second on one core. `cargo xtask bench` runs it pinned to one core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::record;
use keyvector_core::schema::TableSchema;
use keyvector_host::counters::Counters;
use keyvector_host::lease_keeper::{KeeperRuntime, LeaseKeeper, LeaseTimes};
use keyvector_host::source::{Batch, ShardReader, SourceRecord};
use keyvector_host::worker::{Outcome, Stop, Worker};
use keyvector_tests::line::{Faults, Plugins, World, open_movies};
use serde_json::{Value, json};

const ROWS: usize = 20_000;
const DIMENSION: u32 = 256;
const ROUNDS: usize = 3;

struct Workload {
    name: &'static str,
    /// Changes a second that were aimed for.
    aim: u32,
    /// The row's state after its `round`th change.
    row: fn(row: usize, round: usize) -> Value,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "all text changed",
        aim: 20_000,
        row: |row, round| film(row, &format!("plot {round}"), 100, false),
    },
    Workload { name: "metadata only", aim: 30_000, row: |row, round| film(row, "plot", 100 + round, false) },
    Workload {
        name: "nothing changed",
        aim: 60_000,
        row: |row, round| film(row, "plot", 100, round % 2 == 1),
    },
];

/// About 300 bytes of cells, as a film has. `scribbled` changes a column that the plugin does not read.
fn film(row: usize, plot: &str, runtime: usize, scribbled: bool) -> Value {
    let text = |text: String| json!({"value": {"textT": text}});
    let number = |number: usize| json!({"value": {"intT": number.to_string()}});
    let mut cells = json!({
        "movie_id": number(row),
        "studio": text(format!("studio {}", row % 97)),
        "title": text(format!("The film of number {row}")),
        "year": number(1930 + row % 95),
        "genre": text("drama".into()),
        "plot": text(format!("{plot}: a keeper counts the lamps of an empty harbour, film {row}, and finds one more \
                              every night until the tide comes back for the light that was never its own.")),
        "runtime_min": number(runtime),
        "tags": {"value": {"setT": [text("harbour".into()), text("night".into())]}},
    });
    if scribbled {
        cells["not_read"] = text("x".into());
    }
    json!({"valueCells": cells, "staticCells": {}})
}

/// The lines of some rounds. A row's line is written once and its images' few changing words are put in after, so that a
/// profile shows the line rather than the making of its input.
fn lines(workload: &Workload, rounds: std::ops::Range<usize>) -> Vec<Vec<Vec<u8>>> {
    let images: Vec<Vec<String>> = (0..rounds.end.min(2))
        .map(|round| (0..ROWS).map(|row| (workload.row)(row, round).to_string()).collect())
        .collect();
    let image = |row: usize, round: usize| match workload.name {
        "all text changed" => images[0][row].replacen("plot 0", &format!("plot {round}"), 1),
        "metadata only" => {
            let runtime = |minutes: usize| format!("\"runtime_min\":{{\"value\":{{\"intT\":\"{minutes}\"");
            images[0][row].replacen(&runtime(100), &runtime(100 + round), 1)
        }
        _ => images[round % 2][row].clone(),
    };
    let line = |row: usize, round: usize| {
        let before = match round {
            0 => String::new(),
            round => format!(",\"oldImage\":{}", image(row, round - 1)),
        };
        format!(
            "{{\"eventVersion\":\"1.1\",\"createdAt\":1790000000.125,\"origin\":\"USER\",\"partitionKeys\":{{\"movie_id\":{{\
             \"intT\":\"{row}\"}}}},\"clusteringKeys\":{{\"studio\":{{\"textT\":\"studio {}\"}}}},\"sequenceNumber\":\
             \"000000810000000000000000000001\",\"newImage\":{}{before}}}",
            row % 97,
            image(row, round)
        )
        .into_bytes()
    };
    rounds.map(|round| (0..ROWS).map(|row| line(row, round)).collect()).collect()
}

/// Gives the lines of a round batch by batch, and notes when each round begins and ends.
struct Rounds {
    schema: Arc<TableSchema>,
    rounds: Vec<Vec<Vec<u8>>>,
    round: usize,
    next: usize,
    number: u64,
}

#[async_trait]
impl ShardReader for Rounds {
    async fn next(&mut self, records_max: usize) -> port::Result<Batch> {
        if self.round < self.rounds.len() && self.next == self.rounds[self.round].len() {
            self.round += 1;
            self.next = 0;
        }
        let Some(lines) = self.rounds.get_mut(self.round) else {
            return Ok(Batch {
                records: vec![],
                position: Checkpoint::At("end".into()),
                at_tip: true,
                gap: None,
            });
        };
        let range = self.next..lines.len().min(self.next + records_max);
        self.next = range.end;
        let at_tip = range.end == lines.len();
        let records = lines[range]
            .iter_mut()
            .map(|raw| {
                self.number += 1;
                let sequence_number = SequenceNumber::from(self.number);
                let raw = std::mem::take(raw);
                let parsed = record::parse(
                    &self.schema,
                    ViewType::NewAndOldImages,
                    &raw,
                    Some(sequence_number.clone()),
                );
                SourceRecord { sequence_number, line: Some(self.number), raw, parsed }
            })
            .collect();
        Ok(Batch { records, position: Checkpoint::At(self.number.to_string()), at_tip, gap: None })
    }
}

/// Works the first round untimed, so that the rows are in the index, then the others against the clock.
async fn measure(plugins: &Plugins, workload: &Workload) -> (f64, Counters) {
    let world = World::new(plugins, Vec::new(), DIMENSION);
    let keepers = KeeperRuntime::start().expect("a thread");
    let mut time = Duration::ZERO;
    let mut last = Counters::default();
    let (first, timed) = (lines(workload, 0..1), lines(workload, 1..1 + ROUNDS));
    for (rounds, timed) in [(first, false), (timed, true)] {
        let plugin = open_movies(&plugins.movies, &world.schema);
        let table = world.table(plugin, plugins.movies.digest(), &Faults::none()).await;
        let taken = world.take_lease("bench").await;
        let times = LeaseTimes { failover: Duration::from_secs(10) };
        let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
        let counters = Arc::new(Counters::default());
        let worker = Worker::new(table, lease, counters.clone(), &Stop::default()).at_tip();
        let number = if timed { ROWS as u64 } else { 0 };
        let reader = Rounds { schema: world.schema.clone(), rounds, round: 0, next: 0, number };
        let started = Instant::now();
        assert_eq!(worker.run(reader, true).await.expect("no faults"), Outcome::Drained);
        if timed {
            time = started.elapsed();
        }
        last = Arc::into_inner(counters).expect("the worker is gone");
    }
    ((ROWS * ROUNDS) as f64 / time.as_secs_f64(), last)
}

fn main() {
    // Cargo's test runner also calls benches; then one short look that it still works is enough.
    let plugins = Plugins::load(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("{ROWS} rows, {DIMENSION} dimensions, batch 256, {ROUNDS} rounds, memory store, fake model\n");
    println!("{:<18} {:>12} {:>10} {:>7}   did", "workload", "changes/s", "aim", "ratio");
    for workload in &WORKLOADS {
        let (rate, counters) = runtime.block_on(measure(&plugins, workload));
        let did = counters.read();
        println!(
            "{:<18} {rate:>12.0} {:>10} {:>7.2}   embedded {} · metadata only {} · nothing {}",
            workload.name,
            workload.aim,
            rate / f64::from(workload.aim),
            did.embedded,
            did.metadata_only,
            did.nothing
        );
    }
}
