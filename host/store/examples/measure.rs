//! Measures the store at the size it promises: `cargo run --release -p keyvector-store --example measure [vectors]`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyvector_core::change::SequenceNumber;
use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::index::{
    DistanceMetric, FINGERPRINT_KEY, IndexDescription, IndexLimits, IndexQuery, Vector,
};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Checkpoint, Fenced, Tenure};
use keyvector_core::port::{LeaseTable, RowStore, RowWrite, VectorIndex};
use keyvector_core::row::{Cell, Row};
use keyvector_core::schema::TableSchema;
use keyvector_store::{MemoryStore, Store, StoreConfig};
use serde_json::json;

const DIMENSION: usize = 256;
const BATCH: usize = 256;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let count = match std::env::args().nth(1) {
        None => 200_000,
        Some(count) => count.parse()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("keyvector.db");
        let store = Store::open(&path, StoreConfig::default())?;
        let scope = store.table_scope("films");
        let schema = schema()?;
        println!("SQLite file");
        let rows = scope.rows("films", Arc::clone(&schema));
        measure(&scope.leases(), &scope.index("films"), &rows, count).await?;
        let bytes = std::fs::metadata(&path)?.len();
        println!("  {:<44} {:>9.1} MB", "file", bytes as f64 / 1e6);
        println!("memory");
        let scope = MemoryStore::new(IndexLimits::default()).table_scope("films");
        measure(&scope.leases(), &scope.index("films"), &scope.rows("films", schema), count).await
    })
}

fn schema() -> Outcome<Arc<TableSchema>> {
    let cql = "CREATE TABLE demo.films (movie_id int PRIMARY KEY, title text, plot text, year int);";
    Ok(Arc::new(TableSchema::parse_cql(cql)?))
}

async fn measure(
    leases: &dyn LeaseTable,
    index: &dyn VectorIndex,
    rows: &dyn RowStore,
    count: usize,
) -> Outcome<()> {
    leases.create("s", &[], &Checkpoint::TrimHorizon).await?;
    let seen = leases.list().await?.remove(0);
    let tenure = leases.take(&seen, "measure").await?.ok_or("the lease is taken")?;
    index
        .create(&IndexDescription {
            name: "films".into(),
            dimension: DIMENSION as u32,
            metric: DistanceMetric::Cosine,
            non_filterable_keys: vec![FINGERPRINT_KEY.into()],
            table: "demo.films(movie_id int;)".into(),
            model_identity: "m".into(),
        })
        .await?;

    put(index, &tenure, count, 0, "put, new").await?;
    put(index, &tenure, count.min(20_000), 1, "put, replacing").await?;
    keep(rows, &tenure, count.min(50_000)).await?;

    let mut random = Random(7);
    let keys: Vec<RowKey> = (0..count.min(20_000)).map(|_| key(random.next() as usize % count)).collect();
    let began = Instant::now();
    for batch in keys.chunks(100) {
        let keys: Vec<&RowKey> = batch.iter().collect();
        index.get(&keys, true).await?;
    }
    rate("get with data, 100 a call", keys.len(), began.elapsed());

    for (name, top_k, filter) in [
        ("query, top 10", 10, None),
        ("query, top 100", 100, None),
        ("query, top 10, filter passes 1 in 2", 10, Some(json!({"year": {"$gte": 1975}}))),
        ("query, top 10, filter passes 1 in 100", 10, Some(json!({"year": 1990}))),
        ("query, top 10, filter passes none", 10, Some(json!({"year": {"$lt": 0}}))),
    ] {
        let mut slowest = Duration::ZERO;
        let mut sum = Duration::ZERO;
        for _ in 0..5 {
            let query = IndexQuery { vector: random.vector(), top_k, filter: filter.clone() };
            let began = Instant::now();
            index.query(&query).await?;
            sum += began.elapsed();
            slowest = slowest.max(began.elapsed());
        }
        println!(
            "  {name:<44} {:>9.1} ms, slowest {:.1} ms",
            sum.as_secs_f64() * 200.0,
            slowest.as_secs_f64() * 1e3
        );
    }

    let began = Instant::now();
    let (mut after, mut listed) = (None::<String>, 0);
    loop {
        let page = index.list(after.as_deref(), 1000, true).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        listed += page.len();
    }
    rate("list with data, 1,000 a page", listed, began.elapsed());

    let began = Instant::now();
    let mut counter = tenure.taken_at;
    for _ in 0..1000 {
        counter = leases.renew(&tenure, counter, None).await?.ok_or("the lease is lost")?;
    }
    rate("renewals", 1000, began.elapsed());
    Ok(())
}

async fn put(index: &dyn VectorIndex, tenure: &Tenure, count: usize, seed: u64, name: &str) -> Outcome<()> {
    let mut random = Random(seed + 1);
    let mut spent = Duration::ZERO;
    for first in (0..count).step_by(BATCH) {
        let batch: Vec<Vector> =
            (first..count.min(first + BATCH)).map(|number| vector(number, &mut random)).collect();
        let began = Instant::now();
        written(index.put(tenure, &batch).await?)?;
        spent += began.elapsed();
    }
    rate(&format!("{name}, {BATCH} a call"), count, spent);
    Ok(())
}

async fn keep(rows: &dyn RowStore, tenure: &Tenure, count: usize) -> Outcome<()> {
    let plot = "A crew of four plans one last night in the long vault. ".repeat(4);
    let mut spent = Duration::ZERO;
    for first in (0..count).step_by(BATCH) {
        let batch: Vec<(RowKey, SequenceNumber, Row)> = (first..count.min(first + BATCH))
            .map(|number| {
                let cells =
                    [&(number as u32).to_be_bytes()[..], b"The Long Vault", plot.as_bytes(), &[0, 0, 7, 202]];
                (key(number), SequenceNumber::from(number as u64), Row::new(cells.map(Cell::Bytes)))
            })
            .collect();
        let writes: Vec<RowWrite<'_>> = batch
            .iter()
            .map(|(key, sequence_number, row)| RowWrite { key, sequence_number, row: Some(row) })
            .collect();
        let began = Instant::now();
        written(rows.keep(tenure, &writes).await?)?;
        spent += began.elapsed();
    }
    rate(&format!("keep rows, {BATCH} a call"), count, spent);
    Ok(())
}

fn rate(name: &str, count: usize, spent: Duration) {
    println!(
        "  {name:<44} {:>9.0} a second ({count} in {:.2} s)",
        count as f64 / spent.as_secs_f64(),
        spent.as_secs_f64()
    );
}

fn written(fenced: Fenced) -> Outcome<()> {
    match fenced {
        Fenced::Written => Ok(()),
        Fenced::Lost => Err("the lease is lost".into()),
    }
}

fn key(number: usize) -> RowKey {
    RowKey::from_stored(format!("movie_id={number}&studio=Redwood%3DRidge"))
}

fn vector(number: usize, random: &mut Random) -> Vector {
    let fingerprint =
        format!("1.{:016x}.{:032x}.{:016x}.{:08x}.{number}", random.next(), random.next(), 1, 2);
    let metadata = [
        ("_keyvector", MetadataValue::Text(fingerprint)),
        ("_keyvector_pk", MetadataValue::Text(format!("{:016x}", random.next()))),
        ("genre", MetadataValue::Text("western".into())),
        ("year", MetadataValue::Number(1925.0 + (random.next() % 100) as f64)),
    ];
    Vector {
        key: key(number),
        data: random.vector(),
        metadata: Metadata(metadata.map(|(name, value)| (name.into(), value)).into()),
    }
}

/// Steele, Lea and Flood's SplitMix64: the same vectors in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}
