//! What a render costs on this side of the boundary: nanoseconds a row at several batch sizes, best of many.
//!
//! `cargo run --release -p keyvector-sandbox --example render_timing [FILE] [CONFIG] [COLUMN:TYPE …]`; without arguments the
//! guest of the tests that gives each row's one cell back, and a metadata object of three keys.

use std::error::Error;
use std::time::{Duration, Instant};

use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, TablePlugin, push_cell};

const TEXT: &str = "A crew of retired lamplighters digs towards a bank vault that flooded a century ago, and finds that \
                    somebody has been living in it ever since; none of them wants to be the one who knocks first.";

fn main() -> Result<(), Box<dyn Error>> {
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist/misbehave.wasm");
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| guest.to_owned());
    let config = arguments.next().unwrap_or_else(|| "{\"mode\":\"metadata\"}".to_owned());
    let types: Vec<String> = arguments.collect();

    let engine = Engine::new(EngineConfig { threads: 1, ..EngineConfig::default() })?;
    let started = Instant::now();
    let plugin = engine.load(&path, &std::fs::read(&path)?)?;
    println!("load {:?}", started.elapsed());
    let info = TablePlugin::describe(&plugin, &config)?;
    let columns: Vec<_> = info
        .reads
        .iter()
        .map(|name| {
            let cql_type = types.iter().find_map(|given| given.strip_prefix(name)?.strip_prefix(':'));
            ColumnInfo {
                name: name.clone(),
                cql_type: cql_type.unwrap_or("text").to_owned(),
                kind: ColumnKind::Regular,
            }
        })
        .collect();
    let started = Instant::now();
    let table = TablePlugin::open(&plugin, &config, &columns)?;
    println!("open {:?}", started.elapsed());

    let mut row = Vec::new();
    for column in &columns {
        let value: &[u8] = match (column.name.as_str(), column.cql_type.as_str()) {
            ("metadata", _) => br#"{"year":1994,"title":"The Long Vault","tags":["heist","water"]}"#,
            (_, "int") => &1994_i32.to_be_bytes(),
            (_, "boolean") => &[0],
            (_, "text") => TEXT.as_bytes(),
            _ => {
                push_cell(&mut row, None);
                continue;
            }
        };
        push_cell(&mut row, Some(value));
    }
    println!("row {} bytes, {} columns", row.len(), columns.len());

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    for batch in [1_u32, 32, 256, 1000] {
        let cells = row.repeat(batch as usize);
        let mut best_call = Duration::MAX;
        let mut best_guest = Duration::MAX;
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            let cells = cells.clone();
            let guest_before = table.stats().guest_time;
            let started = Instant::now();
            let rendered = runtime.block_on(table.render(batch, cells))?;
            best_call = best_call.min(started.elapsed());
            drop(rendered);
            best_guest = best_guest.min(table.stats().guest_time - guest_before);
        }
        let each = |time: Duration| time.as_nanos() / u128::from(batch);
        println!(
            "batch {batch:>4}: {:>6} ns a row, of which {:>6} in the guest and across its boundary",
            each(best_call),
            each(best_guest)
        );
    }
    Ok(())
}
