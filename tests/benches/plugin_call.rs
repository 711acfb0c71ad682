//! What a call into a table plugin costs, beside the same code without a boundary: nanoseconds a row, best of many, for
//! the guests in `tests/guests/cost` and `tests/benches/guests`. `cargo xtask bench` builds them and runs this pinned to one core.
//!
//! *In the call* is all that happens on the plugin's thread, call after call: into the guest, its work, out again, and the
//! host's checks of the answer. *Whole* is `TablePlugin::render` as the line awaits it, with the way to that thread
//! and back.
//!
//! Arguments are shapes and languages (`light`, `Rust`): then nothing else is measured.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keyvector_core::document::Rendered;
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, Limits, OnThisThread, TablePlugin, push_cell};
use keyvector_tests::line::plugin_file;
use tokio::runtime::Runtime;

const BATCHES: [u32; 4] = [1, 32, 256, 1000];
/// With the end of its guests' names. The one in Rust has all shapes, by configuration.
const LANGUAGES: [(&str, &str); 4] = [("Rust", ""), ("C", "c"), ("Python", "python"), ("JavaScript", "js")];
/// For each figure.
const TIME: Duration = Duration::from_secs(1);
/// Reading the clock does not count in a sample of this length.
const SAMPLE: Duration = Duration::from_micros(200);

struct Shape {
    name: &'static str,
    what: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "light",
        what: "a short text and two metadata keys of three columns",
        columns: &[("title", "text"), ("year", "int"), ("genre", "text")],
    },
    Shape {
        name: "eight",
        what: "eight columns of 500 bytes written into one text",
        columns: &[
            ("id", "bigint"),
            ("title", "text"),
            ("year", "int"),
            ("genre", "text"),
            ("rating", "double"),
            ("votes", "int"),
            ("seen", "boolean"),
            ("plot", "text"),
        ],
    },
];

const PLOT: &str = "A crew of retired lamplighters digs towards a bank vault that flooded a century ago, and finds that \
                    somebody has been living in it ever since; none of them wants to be the one who knocks first. The \
                    water rises by a hand a night, the town above gets ready for its fair, and the only map shows a door \
                    where every one of them remembers a wall. By the time the door opens from the other side, the map \
                    has been sold twice.";

impl Shape {
    /// The cells of `rows` rows, as the host packs them.
    fn cells(&self, rows: u32) -> Vec<u8> {
        let mut cells = Vec::new();
        for row in 0..rows {
            for (name, _) in self.columns {
                let value = match *name {
                    "id" => (8_000_000_000 + i64::from(row)).to_be_bytes().to_vec(),
                    "title" => format!("The film of number {row}").into_bytes(),
                    "year" => (1930 + row % 95).to_be_bytes().to_vec(),
                    "genre" => b"drama".to_vec(),
                    // All languages write such fractions alike.
                    "rating" => (0.25 + f64::from(row % 9)).to_be_bytes().to_vec(),
                    "votes" => (row * 37).to_be_bytes().to_vec(),
                    "seen" => vec![u8::from(row % 2 == 0)],
                    _ => PLOT.as_bytes().to_vec(),
                };
                push_cell(&mut cells, Some(&value));
            }
        }
        cells
    }

    /// `None` where the guest was not built.
    fn open(&self, engine: &Engine, language: &str) -> Option<Open> {
        let (guest, config) = match language {
            "" => ("cost".to_owned(), format!("{{\"shape\":\"{}\"}}", self.name)),
            _ => (format!("cost-{}-{language}", self.name), "{}".to_owned()),
        };
        let bytes = std::fs::read(plugin_file(&guest)).ok()?;
        let plugin = engine.load(&guest, &bytes).expect("a guest of ours");
        let column = |(name, cql_type): &(&str, &str)| ColumnInfo {
            name: (*name).to_owned(),
            cql_type: (*cql_type).to_owned(),
            kind: ColumnKind::Regular,
        };
        let columns: Vec<_> = self.columns.iter().map(column).collect();
        let here = OnThisThread::open(&plugin, &config, &columns).expect("it reads these columns");
        let threaded = TablePlugin::open(&plugin, &config, &columns).expect("it opens twice");
        Some(Open { here, threaded })
    }
}

/// One plugin, open on this thread and on its own.
struct Open {
    here: OnThisThread,
    threaded: TablePlugin,
}

/// Nanoseconds a row.
struct Figures {
    in_call: f64,
    whole: f64,
}

fn measure(runtime: &Runtime, open: &mut Open, rows: u32, cells: &[u8]) -> Figures {
    let in_call = |batches: Vec<Vec<u8>>| {
        let started = Instant::now();
        for cells in batches {
            drop(open.here.render(rows, cells).expect("no faults"));
        }
        started.elapsed()
    };
    let in_call = best(rows, cells, in_call);
    let whole = |batches: Vec<Vec<u8>>| {
        let started = Instant::now();
        runtime.block_on(async {
            for cells in batches {
                drop(open.threaded.render(rows, cells).await.expect("no faults"));
            }
        });
        started.elapsed()
    };
    Figures { in_call, whole: best(rows, cells, whole) }
}

/// Nanoseconds a row, best of many samples.
fn best(rows: u32, cells: &[u8], mut time: impl FnMut(Vec<Vec<u8>>) -> Duration) -> f64 {
    let batches = |count: u32| (0..count).map(|_| cells.to_vec()).collect::<Vec<_>>();
    let mut count = 1;
    while time(batches(count)) < SAMPLE {
        count *= 2;
    }
    let until = Instant::now() + TIME;
    let mut best = Duration::MAX;
    while Instant::now() < until {
        best = best.min(time(batches(count)));
    }
    best.as_nanos() as f64 / f64::from(count) / f64::from(rows)
}

/// What the guest's own code takes on this machine, by the program beside it.
fn native(shape: &Shape, rows: u32, cells: &[u8]) -> Option<f64> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/target/release/examples/native");
    let mut child = Command::new(program)
        .args([shape.name, &rows.to_string()])
        .args(shape.columns.iter().map(|(name, cql_type)| format!("{name}:{cql_type}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().expect("a pipe").write_all(cells).expect("it reads the cells");
    let output = child.wait_with_output().expect("it ends");
    Some(String::from_utf8_lossy(&output.stdout).trim().parse().expect("it prints a number"))
}

fn rendered(runtime: &Runtime, table: &TablePlugin, shape: &Shape) -> Vec<Rendered> {
    runtime.block_on(table.render(100, shape.cells(100))).expect("no faults")
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let limits = Limits { determinism_every: u64::MAX, ..Limits::default() };
    let cache_folder = Some(std::env::temp_dir().join("keyvector-bench-cache"));
    let engine = Engine::new(EngineConfig { threads: 1, limits, cache_folder, ..EngineConfig::default() });
    let engine = engine.expect("WebAssembly runs here");
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |names: &[&str], name: &str| {
        let of_these = |word: &String| names.iter().any(|name| name.eq_ignore_ascii_case(word));
        !asked.iter().any(of_these) || asked.iter().any(|word| word.eq_ignore_ascii_case(name))
    };
    let mut missing = Vec::new();
    for shape in SHAPES.iter().filter(|shape| wanted(&SHAPES.each_ref().map(|shape| shape.name), shape.name))
    {
        let inputs = BATCHES.map(|rows| (rows, shape.cells(rows)));
        let natives = inputs.each_ref().map(|(rows, cells)| native(shape, *rows, cells));
        println!("\n{}: {}; nanoseconds a row (and times native)", shape.name, shape.what);
        let mut header = format!("{:<22}", "");
        BATCHES.iter().for_each(|rows| write!(header, "{rows:>18}").expect("a string"));
        println!("{header}");
        row("native Rust", natives.map(|native| native.map(|native| (native, None))));
        let mut expected: Option<Vec<Rendered>> = None;
        for (language, suffix) in LANGUAGES {
            if !wanted(&LANGUAGES.map(|(language, _)| language), language) {
                continue;
            }
            let Some(mut open) = shape.open(&engine, suffix) else {
                missing.push(format!("{language}: cargo xtask bench builds it where its tools are"));
                continue;
            };
            let documents = rendered(&runtime, &open.threaded, shape);
            assert_eq!(
                &documents,
                expected.get_or_insert_with(|| documents.clone()),
                "{language} says another thing"
            );
            let figures = inputs.each_ref().map(|(rows, cells)| measure(&runtime, &mut open, *rows, cells));
            let beside = |ns: f64, position: usize| Some((ns, natives[position].map(|native| ns / native)));
            let in_call = std::array::from_fn(|at| beside(figures[at].in_call, at));
            row(&format!("{language}, in the call"), in_call);
            let whole = std::array::from_fn(|at| beside(figures[at].whole, at));
            row(&format!("{language}, whole"), whole);
        }
    }
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/target/release/examples/native").is_file() {
        missing.push("native Rust: cargo xtask bench builds it".to_owned());
    }
    missing.dedup();
    missing.iter().for_each(|line| println!("left out: {line}"));
}

/// One line of the table.
fn row(name: &str, figures: [Option<(f64, Option<f64>)>; BATCHES.len()]) {
    let cell = |figure| match figure {
        None => "-".to_owned(),
        Some((ns, None)) => format!("{ns:.0}        "),
        Some((ns, Some(ratio))) => format!("{ns:.0} ({ratio:>5.1})"),
    };
    let cells: String = figures.map(|figure| format!("{:>18}", cell(figure))).concat();
    println!("{name:<22}{cells}");
}
