//! The guest's code compiled for this machine, without a boundary: what the benchmark of the plugin call compares with.
//!
//! `native SHAPE ROWS COLUMN:TYPE …`, with the cells of that many rows on standard input: prints nanoseconds a row, best
//! of many.

use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

use cost::Cost;
use keyvector_sdk::__private::{open, render};
use keyvector_sdk::bindings::table::exports::keyvector::plugin::table::{Column, ColumnKind};

/// So that reading the clock does not count.
const SAMPLE: Duration = Duration::from_micros(200);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, rows, columns @ ..] = &arguments[..] else {
        panic!("native SHAPE ROWS COLUMN:TYPE … < CELLS")
    };
    let rows: u32 = rows.parse().expect("a count of rows");
    let columns = columns.iter().filter_map(|column| column.split_once(':')).map(|(name, cql_type)| Column {
        name: name.to_owned(),
        cql_type: cql_type.to_owned(),
        kind: ColumnKind::Regular,
    });
    let opened =
        open::<Cost>(&format!("{{\"shape\":\"{shape}\"}}"), columns.collect()).expect("columns it can read");
    let mut cells = Vec::new();
    std::io::stdin().read_to_end(&mut cells).expect("the cells");

    let time = |calls: u32| {
        let started = Instant::now();
        for _ in 0..calls {
            black_box(render(&opened, rows, black_box(&cells)));
        }
        started.elapsed()
    };
    let mut calls = 1;
    while time(calls) < SAMPLE {
        calls *= 2;
    }
    let until = Instant::now() + Duration::from_millis(500);
    let mut best = Duration::MAX;
    while Instant::now() < until {
        best = best.min(time(calls));
    }
    println!("{}", best.as_nanos() as f64 / f64::from(calls) / f64::from(rows));
}
