//! A host that dies at any step, as often as it likes, ends with the index that the fold of the table asks for; and one
//! that never dies pays for each change once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyvector_host::counters::Counters;
use keyvector_host::lease_keeper::{KeeperRuntime, LeaseKeeper, LeaseTimes};
use keyvector_host::worker::{Outcome, Stop, Worker};
use keyvector_tests::changes::{History, history};
use keyvector_tests::fold;
use keyvector_tests::line::{Faults, Plugins, World, letters, open_movies, work_at_tip, work_through};

/// Lives after which faults are switched off, so that each run ends.
const LIVES_MAX: u32 = 12;

/// `KEYVECTOR_SEEDS=10000` runs more of them, `KEYVECTOR_SEED=7` one.
fn seeds(default: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("KEYVECTOR_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("KEYVECTOR_SEEDS").unwrap_or(default)).collect(),
    }
}

struct Run {
    seed: u64,
    chance: f64,
    poison: bool,
}

/// Works a history through, one life after the other, until it is drained.
async fn drain(plugins: &Plugins, world: &World, run: &Run) -> Counters {
    let keepers = KeeperRuntime::start().unwrap();
    for life in 0.. {
        let chance = if life < LIVES_MAX { run.chance } else { 0.0 };
        let faults = Faults::new(run.seed.wrapping_mul(1_000_003) + u64::from(life), chance);
        let plugin = open_movies(&plugins.movies, &world.schema);
        let table = world.table(plugin, plugins.movies.digest(), &faults).await;
        let taken = world.take_lease(&format!("host-{life}")).await;
        let reader = world.reader(&taken.checkpoint, run.seed ^ u64::from(life));
        let times = LeaseTimes { failover: std::time::Duration::from_secs(3600) };
        let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
        let counters = Arc::new(Counters::default());
        let worker = Worker::new(table, lease, counters.clone(), &Stop::default());
        tokio::select! {
            biased;
            () = faults.death() => {}
            outcome = worker.run(reader, true) => {
                assert_eq!(outcome.unwrap(), Outcome::Drained, "seed {}", run.seed);
                return Arc::into_inner(counters).expect("the worker is gone");
            }
        }
    }
    unreachable!("lives do not end")
}

async fn one_run(plugins: &Plugins, run: Run) {
    let of = History { seed: run.seed, records: 120, rows: 1 + (run.seed as usize % 24), poison: run.poison };
    let world = World::new(plugins, history(of), 8);
    let counters = drain(plugins, &world, &run).await;
    let seed = run.seed;

    let expected = fold::index(&fold::table(world.lines.iter()));
    let mut index = world.index().await;
    let dead: BTreeSet<String> = letters(&world).await.into_iter().filter_map(|(key, _)| key).collect();
    for (key, expected) in &expected {
        let vector = world.vector(&expected.text).await;
        if dead.contains(key) && is_poison(&expected.text) {
            // It kept what it had before.
            index.remove(key);
            continue;
        }
        let found = index.remove(key).unwrap_or_else(|| panic!("seed {seed}: no vector for {key}"));
        assert_eq!(found.1, expected.metadata, "seed {seed}: metadata of {key}");
        assert_eq!(found.0, vector, "seed {seed}: vector of {key}");
    }
    // What is left belongs to rows that the plugin refuses: they keep their old vector.
    let table = fold::table(world.lines.iter());
    for key in index.keys() {
        assert!(dead.contains(key) && table.contains_key(key), "seed {seed}: a vector without a row: {key}");
    }

    if run.chance == 0.0 && !run.poison {
        let cuts = world.cuts.lock().unwrap();
        let paid = fold::paid(cuts.iter().map(|range| &world.lines[range.clone()]));
        assert_eq!(world.texts.load(Ordering::SeqCst), paid.texts, "seed {seed}: texts embedded");
        assert_eq!(world.puts.load(Ordering::SeqCst), paid.puts, "seed {seed}: vectors put");
        let counted = counters.read();
        assert_eq!(counted.embedded, paid.texts, "seed {seed}");
        assert_eq!(counted.embedded + counted.metadata_only, paid.puts, "seed {seed}");
        assert_eq!(counted.records, world.lines.len() as u64, "seed {seed}");
        assert_eq!(counted.dead_letters, 0, "seed {seed}");
    }
}

fn is_poison(text: &str) -> bool {
    ["[nan]", "[zero]", "[trap]"].iter().any(|marker| text.contains(marker))
}

fn run_all(seeds: Vec<u64>, run: impl Fn(u64) -> Run + Send + Sync) {
    let plugins = Plugins::load(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for seed in seeds {
            one_run(&plugins, run(seed)).await;
        }
    });
}

#[test]
fn deaths_at_every_step_change_nothing_in_the_end() {
    run_all(seeds(700), |seed| Run { seed, chance: 0.02 + 0.2 * (seed % 7) as f64 / 7.0, poison: false });
}

#[test]
fn poison_rows_stop_themselves_alone_whatever_dies() {
    run_all(seeds(300), |seed| Run { seed, chance: 0.05, poison: true });
}

#[test]
fn a_crash_after_the_put_pays_for_no_text_again() {
    let plugins = Plugins::load(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // Each row changes once, so that however the lines are cut, no middle state is embedded.
        let mut seen = BTreeSet::new();
        let all = history(History { seed: 5, records: 400, rows: 300, poison: false });
        let lines: Vec<String> = all
            .into_iter()
            .filter(|line| fold::apply(&mut fold::Table::new(), line).is_some_and(|key| seen.insert(key)))
            .collect();
        let world = World::new(&plugins, lines.clone(), 8);
        world.visible.store(lines.len() as u64, Ordering::SeqCst);
        work_through(&plugins, &world).await;
        let paid = world.texts.load(Ordering::SeqCst);
        assert!(paid > 100);

        // As if the process had died after every put and before every checkpoint.
        world.reset_lease().await;
        let counted = work_through(&plugins, &world).await;
        assert_eq!(world.texts.load(Ordering::SeqCst), paid);
        assert_eq!((counted.embedded, counted.metadata_only), (0, 0));
    });
}

#[test]
fn there_and_back_again_in_one_batch_mends_what_another_writer_left() {
    let plugins = Plugins::load(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The images of one row, three times: a, then a to b, then b to a.
        let a_and_b: Vec<String> = history(History { seed: 9, records: 60, rows: 1, poison: false })
            .into_iter()
            .filter(|line| line.contains("newImage"))
            .collect();
        let image = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["newImage"].clone();
        let record = |before: Option<&str>, after: &str| {
            let mut record: serde_json::Value = serde_json::from_str(&a_and_b[0]).unwrap();
            record["origin"] = "USER".into();
            record.as_object_mut().unwrap().remove("oldImage");
            if let Some(before) = before {
                record["oldImage"] = image(before);
            }
            record["newImage"] = image(after);
            record.to_string()
        };
        let expected = |line: &str| fold::index(&fold::table(&[record(None, line)])).into_values().next();
        let a = a_and_b.iter().find(|line| expected(line).is_some()).unwrap();
        let b = a_and_b
            .iter()
            .find(|line| expected(line).is_some_and(|b| b.text != expected(a).unwrap().text))
            .unwrap();

        let mut world = World::new(&plugins, vec![record(None, a)], 8);
        world.visible.store(1, Ordering::SeqCst);
        work_through(&plugins, &world).await;
        let before = world.index().await;
        assert_eq!(before.len(), 1);

        world.lose_vectors().await;
        world.lines = Arc::new(vec![record(None, a), record(Some(a), b), record(Some(b), a)]);
        world.visible.store(3, Ordering::SeqCst);
        work_at_tip(&plugins, &world).await;
        assert_eq!(world.index().await, before);
    });
}

#[test]
fn without_a_crash_each_change_is_paid_once() {
    run_all(seeds(200), |seed| Run { seed, chance: 0.0, poison: false });
}
