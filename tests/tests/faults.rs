//! A host that dies at any step, as often as it likes, ends with the index that the fold of the table asks for; and one
//! that never dies pays for each change once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keyvector_core::letter::Letter;
use keyvector_host::counters::Counted;
use keyvector_host::worker::Outcome;
use keyvector_tests::changes::{History, history};
use keyvector_tests::fold::{self, Film};
use keyvector_tests::line::{Faults, Plugins, World, work_at_tip, work_through};

/// Lives after which faults are switched off, so that each run ends.
const LIVES_MAX: u32 = 12;

/// So many runs wait for their retries side by side.
const RUNS_AT_ONCE: usize = 24;

/// `KEYVECTOR_SEEDS=10000` runs more of them, `KEYVECTOR_SEED=7` one.
fn seeds(default: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("KEYVECTOR_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("KEYVECTOR_SEEDS").unwrap_or(default)).collect(),
    }
}

#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    /// The chance that a step is the last of its life.
    deaths: f64,
    /// The chance that a call to a port fails, or that its reply is lost, at one step.
    errors: f64,
    poison: bool,
}

/// Works a history through, one life after the other, until it is drained.
async fn drain(plugins: &Plugins, world: &World, run: Run) -> Counted {
    for life in 0.. {
        let (deaths, errors) = if life < LIVES_MAX { (run.deaths, run.errors) } else { (0.0, 0.0) };
        let faults = Faults::random(run.seed.wrapping_mul(1_000_003) + u64::from(life), deaths, errors);
        let host = world.life(plugins, &format!("host-{life}"), &faults, run.seed ^ u64::from(life)).await;
        let counters = host.counters.clone();
        tokio::select! {
            biased;
            () = faults.death() => {}
            outcome = host.run(true) => match outcome {
                Ok(Outcome::Drained) => return counters.read(),
                // A renewal that failed too often, on a busy machine: the next host goes on.
                Ok(Outcome::LeaseLost) if run.errors > 0.0 => {}
                other => panic!("seed {}: {other:?}", run.seed),
            }
        }
    }
    unreachable!("lives do not end")
}

async fn one_run(plugins: &Plugins, run: Run) {
    let seed = run.seed;
    let of = History { seed, records: 120, rows: 1 + (seed as usize % 24), poison: run.poison };
    let mut lines = history(of);
    if run.poison {
        // A row that is always good, so that it can always be told whether the plugin works.
        lines.insert(0, GOOD.to_owned());
    }
    let mut world = World::new(plugins, lines, 8);
    if run.errors > 0.0 {
        world.failover = Duration::from_secs(4);
    }
    let counted = drain(plugins, &world, run).await;

    check_index(&world, seed).await;
    check_letters(&world.lines, &world.letters().await, seed);
    if run.deaths == 0.0 && run.errors == 0.0 && !run.poison {
        let cuts = world.cuts.lock().unwrap();
        let paid = fold::paid(cuts.iter().map(|range| &world.lines[range.clone()]));
        assert_eq!(world.texts.load(Ordering::SeqCst), paid.texts, "seed {seed}: texts embedded");
        assert_eq!(world.puts.load(Ordering::SeqCst), paid.puts, "seed {seed}: vectors put");
        assert_eq!(counted.embedded, paid.texts, "seed {seed}");
        assert_eq!(counted.embedded + counted.metadata_only, paid.puts, "seed {seed}");
        assert_eq!(counted.records, world.lines.len() as u64, "seed {seed}");
        assert_eq!(counted.dead_letters, 0, "seed {seed}");
    }
}

const GOOD: &str = r#"{"origin": "USER", "partitionKeys": {"movie_id": {"intT": "1000000"}},
    "clusteringKeys": {"studio": {"textT": "good"}}, "newImage": {"valueCells": {"title": {"value": {"textT": "Good"}},
    "studio": {"value": {"textT": "good"}}}, "staticCells": {}}}"#;

async fn check_index(world: &World, seed: u64) {
    let mut index = world.index().await;
    for (key, row) in &fold::table(world.lines.iter()) {
        let found = index.remove(key);
        match fold::film(row) {
            Film::None => assert_eq!(found, None, "seed {seed}: a vector for {key}, which has no text"),
            Film::Vector(expected) => {
                let found = found.unwrap_or_else(|| panic!("seed {seed}: no vector for {key}"));
                assert_eq!(found.1, expected.metadata, "seed {seed}: metadata of {key}");
                assert_eq!(found.0, world.vector(&expected.text).await, "seed {seed}: vector of {key}");
            }
            // It may have kept what it had before, whole.
            Film::Dead(..) => {
                let Some(found) = found else { continue };
                let mut parked = false;
                for earlier in fold::earlier(&world.lines, key) {
                    parked |= found == (world.vector(&earlier.text).await, earlier.metadata);
                }
                assert!(parked, "seed {seed}: {key} is parked with a vector that it never had");
            }
        }
    }
    let left: Vec<_> = index.into_keys().collect();
    assert!(left.is_empty(), "seed {seed}: vectors without a row: {left:?}");
}

/// Every letter belongs to a line that cannot be read, or to a row that failed at that line; none is missing.
fn check_letters(lines: &[String], letters: &[Letter], seed: u64) {
    let expected = fold::letters(lines);
    let mut found = BTreeSet::new();
    for letter in letters {
        let line: u64 = letter.sequence_number.as_str().parse().unwrap();
        let letter = (letter.key.as_ref().map(|key| key.to_string()), letter.class.as_str());
        assert_eq!(expected.may.get(&line), Some(&letter), "seed {seed}: the letter of line {line}");
        assert!(found.insert(line), "seed {seed}: two letters of line {line}");
    }
    for one_of in &expected.must {
        assert!(!found.is_disjoint(one_of), "seed {seed}: no letter of any of the lines {one_of:?}");
    }
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

fn run_all(seeds: Vec<u64>, run: impl Fn(u64) -> Run) {
    let plugins = Plugins::load(1);
    block_on(async {
        for seed in seeds {
            one_run(&plugins, run(seed)).await;
        }
    });
}

#[test]
fn deaths_at_every_step_change_nothing_in_the_end() {
    let deaths = |seed| 0.02 + 0.2 * (seed % 7) as f64 / 7.0;
    run_all(seeds(600), |seed| Run { seed, deaths: deaths(seed), errors: 0.0, poison: false });
}

#[test]
fn poison_rows_stop_themselves_alone_whatever_dies() {
    run_all(seeds(300), |seed| Run { seed, deaths: 0.05, errors: 0.0, poison: true });
}

#[test]
fn passing_faults_and_lost_replies_change_nothing_in_the_end() {
    let plugins = Arc::new(Plugins::load(1));
    block_on(async {
        let mut runs = tokio::task::JoinSet::new();
        for seed in seeds(96) {
            if runs.len() == RUNS_AT_ONCE {
                runs.join_next().await.unwrap().unwrap();
            }
            let deaths = if seed % 3 == 0 { 0.01 } else { 0.0 };
            let run = Run { seed, deaths, errors: 0.02, poison: seed % 2 == 0 };
            let plugins = plugins.clone();
            runs.spawn(async move { one_run(&plugins, run).await });
        }
        while let Some(run) = runs.join_next().await {
            run.unwrap();
        }
    });
}

#[test]
fn a_crash_after_the_put_pays_for_no_text_again() {
    let plugins = Plugins::load(1);
    block_on(async {
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
    block_on(async {
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
    run_all(seeds(200), |seed| Run { seed, deaths: 0.0, errors: 0.0, poison: false });
}
