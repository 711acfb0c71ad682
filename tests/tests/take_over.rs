//! A table that another plugin or configuration takes over ends as if that one had followed it from the start, whatever
//! dies meanwhile; a broken one takes nothing away.

use std::sync::Arc;
use std::time::Duration;

use keyvector_core::document::FailureClass;
use keyvector_host::counters::Counters;
use keyvector_host::drift::drift;
use keyvector_host::lease_keeper::{KeeperRuntime, LeaseKeeper, LeaseTimes};
use keyvector_host::rerender::{Rerendered, Tally, rerender_if_due};
use keyvector_host::state::Rendering;
use keyvector_host::table::{DeadLetterPolicy, OnPoison, Table};
use keyvector_host::take_over::claim;
use keyvector_host::worker::{Outcome, Stop, Worker};
use keyvector_tests::changes::{History, history};
use keyvector_tests::faulty::{Call, When};
use keyvector_tests::line::{Faults, Plugins, World, letters, open_plugin};
use serde_json::{Value, json};

/// What a table is rendered by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Movies,
    /// `columns` under a configuration.
    Columns(&'static str),
}

const TITLES: By =
    By::Columns(r#"{"text":"{title}\n{plot}","metadata":[{"column":"title","filterable":false}]}"#);
/// The same texts, other metadata.
const TITLES_WITH_GENRE: By = By::Columns(
    r#"{"text":"{title}\n{plot}","metadata":[{"column":"title","filterable":false},"genre",{"column":"year","type":"number"}]}"#,
);
/// Other texts.
const GENRES: By =
    By::Columns(r#"{"text":"{genre}: {plot}","metadata":[{"column":"title","filterable":false}]}"#);

/// A host of this revision; its table, claimed.
async fn host(plugins: &Plugins, world: &World, by: By, revision: u32, faults: &Arc<Faults>) -> Arc<Table> {
    let (plugin, config) = match by {
        By::Movies => (&plugins.movies, "{}"),
        By::Columns(config) => (&plugins.columns, config),
    };
    let wanted = Rendering { revision, render_id: format!("{by:?}"), plugin: "p".into(), rerender: None };
    let state = world.store.table_scope("films").state();
    let rendering = claim(&state, "films", &wanted, false).await.unwrap();
    let opened = open_plugin(plugin, config, &world.schema);
    let table = world.table(opened, plugin.digest(), faults).await;
    let again = open_plugin(plugin, config, &world.schema);
    let reads = table.reads.clone();
    Arc::new(table.under(again, plugin.digest(), reads, rendering))
}

/// One life of a host: takes the shard, renders the table again where that is due, and follows to the end.
async fn live(world: &World, table: &Arc<Table>, owner: &str, seed: u64) -> (Outcome, Option<Tally>) {
    let keepers = KeeperRuntime::start().unwrap();
    let taken = world.take_lease(owner).await;
    let times = LeaseTimes { failover: world.failover };
    let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
    let (counters, stop) = (Arc::new(Counters::default()), Stop::default());
    let tally = match rerender_if_due(table, &lease, owner, &counters, &stop).await.unwrap() {
        Rerendered::Current => None,
        Rerendered::Done(tally) => Some(tally),
        Rerendered::Ended(outcome) => return (outcome, None),
    };
    let worker = Worker::new(table.clone(), lease, counters, &stop);
    (worker.run(world.reader(&taken.checkpoint, seed), true).await.unwrap(), tally)
}

/// Follows to the end without faults.
async fn work(plugins: &Plugins, world: &World, by: By, revision: u32) -> (Outcome, Option<Tally>) {
    let table = host(plugins, world, by, revision, &Faults::none()).await;
    live(world, &table, "host", 1).await
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(240), test).await.expect("it hangs") })
}

fn film(id: usize, plot: &str, year: i32) -> String {
    json!({
        "origin": "USER",
        "partitionKeys": {"movie_id": {"intT": id.to_string()}},
        "clusteringKeys": {"studio": {"textT": "north"}},
        "newImage": {"staticCells": {}, "valueCells": {
            "plot": {"value": {"textT": plot}},
            "year": {"value": {"intT": year.to_string()}},
            "studio": {"value": {"textT": "north"}},
        }},
    })
    .to_string()
}

fn key(id: usize) -> String {
    format!("movie_id={id}&studio=north")
}

/// `KEYVECTOR_SEEDS=1000` runs more of them.
fn seeds() -> u64 {
    std::env::var("KEYVECTOR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

/// Lives until one reaches the end: each may die at any step, the first ones likely.
async fn outlive(plugins: &Plugins, world: &World, by: By, revision: u32, seed: u64) -> u32 {
    for life in 0.. {
        let deaths = if life < 12 { 0.02 + 0.2 * (seed % 5) as f64 / 5.0 } else { 0.0 };
        let faults = Faults::random(seed.wrapping_mul(1_000_003) + u64::from(life), deaths, 0.0);
        let table = host(plugins, world, by, revision, &faults).await;
        let owner = format!("{revision}-{life}");
        tokio::select! {
            biased;
            () = faults.death() => {}
            (outcome, _) = live(world, &table, &owner, seed ^ u64::from(life)) => {
                assert_eq!(outcome, Outcome::Drained, "seed {seed}");
                return life;
            }
        }
    }
    unreachable!("lives do not end")
}

async fn one_history(plugins: &Plugins, seed: u64) -> u32 {
    let poison = seed % 2 == 1;
    let of = History { seed, records: 90, rows: 1 + (seed as usize % 24), poison };
    let mut lines = history(of);
    // A row that is always good, so that it can always be told whether the plugin works.
    lines.insert(0, film(1_000_000, "good", 1999));
    let world = || {
        let mut world = World::by_hand(plugins);
        world.policy.batch = 1 + (seed as usize % 7);
        // What a row that fails had before depends on how it came there.
        world.policy.on_poison = if poison { OnPoison::Delete } else { OnPoison::Keep };
        world
    };
    let mut taken = world();
    let (mut deaths, mut done) = (0, 0);
    let plan =
        [(By::Movies, 30), (TITLES, 60), (TITLES_WITH_GENRE, 60), (GENRES, 75), (By::Movies, lines.len())];
    for (revision, (by, until)) in (1..).zip(plan) {
        taken.append(&lines[done..until]);
        done = until;
        deaths += outlive(plugins, &taken, by, revision, seed).await;
        let mut fresh = world();
        fresh.append(&lines[..until]);
        assert_eq!(work(plugins, &fresh, by, 1).await, (Outcome::Drained, None));
        assert_eq!(taken.index().await, fresh.index().await, "seed {seed}, revision {revision}, {by:?}");
        let table = host(plugins, &taken, by, revision, &Faults::none()).await;
        let drift = drift(&table).await.unwrap();
        assert!(drift.is_none(), "seed {seed}, revision {revision}: {drift:?}");
        assert_eq!(taken.state("rendering/").await["rendering/films"].get("rerender"), None);
    }
    deaths
}

#[test]
fn whatever_dies_the_index_is_as_if_the_new_plugin_had_been_there_from_the_start() {
    let plugins = Arc::new(Plugins::load(1));
    block_on(async {
        let mut deaths = 0;
        for seed in 0..seeds() {
            deaths += one_history(&plugins, seed).await;
        }
        assert!(deaths > 40, "only {deaths} deaths");
    });
}

#[test]
fn only_texts_that_differ_are_embedded() {
    let plugins = Plugins::load(1);
    block_on(async {
        let mut world = World::by_hand(&plugins);
        world.append(&[film(1, "a", 1999), film(2, "b", 1999), film(3, " ", 1999)]);
        assert_eq!(work(&plugins, &world, TITLES, 1).await, (Outcome::Drained, None));
        assert_eq!(work(&plugins, &world, TITLES, 2).await, (Outcome::Drained, None), "nothing is another");
        let tally = work(&plugins, &world, TITLES_WITH_GENRE, 3).await.1.unwrap();
        assert_eq!(tally, Tally { rows: 3, metadata_only: 2, nothing: 1, ..Tally::default() });
        let tally = work(&plugins, &world, GENRES, 4).await.1.unwrap();
        assert_eq!(tally, Tally { rows: 3, embedded: 2, nothing: 1, ..Tally::default() });
        assert_eq!(work(&plugins, &world, GENRES, 4).await.1, None, "it is done once");
        // Rows that have no text now lose their vectors.
        let years =
            By::Columns(r#"{"text":"{runtime_min}","metadata":[{"column":"title","filterable":false}]}"#);
        let tally = work(&plugins, &world, years, 5).await.1.unwrap();
        assert_eq!(tally, Tally { rows: 3, deleted: 2, nothing: 1, ..Tally::default() });
        assert!(world.index().await.is_empty());
    });
}

#[test]
fn a_broken_plugin_takes_nothing_away_and_the_next_revision_mends_it() {
    let plugins = Plugins::load(1);
    block_on(async {
        for (on_poison, rows) in [(OnPoison::Keep, 60), (OnPoison::Delete, 60), (OnPoison::Delete, 5)] {
            let mut world = World::by_hand(&plugins);
            world.policy.on_poison = on_poison;
            world.policy.batch = 7;
            // `movies` refuses them all.
            world.append(&(0..rows).map(|id| film(id, "a", -7)).collect::<Vec<_>>());
            work(&plugins, &world, TITLES, 1).await;
            let (before, checkpoint) = (world.index().await, world.checkpoint().await);
            assert_eq!(before.len(), rows);

            let (outcome, _) = work(&plugins, &world, By::Movies, 2).await;
            let Outcome::Halted(words) = &outcome else { panic!("{outcome:?}") };
            assert!(words.contains("plugin-refused") && words.contains("the plugin"), "{words}");
            assert_eq!(world.index().await, before, "{on_poison:?}");
            assert!(letters(&world).await.is_empty());
            assert_eq!(world.checkpoint().await, checkpoint);
            assert_eq!(world.state("halt/").await["halt/films"]["revision"], 2);

            let (outcome, tally) = work(&plugins, &world, TITLES, 3).await;
            assert_eq!(outcome, Outcome::Drained);
            assert_eq!(tally.unwrap().nothing, rows as u64, "nothing of the broken one is left");
        }
    });
}

#[test]
fn single_rows_that_fail_become_letters_and_rows_that_are_well_lose_theirs() {
    let plugins = Plugins::load(1);
    block_on(async {
        for (on_poison, left) in [(OnPoison::Keep, vec![1, 2, 3]), (OnPoison::Delete, vec![1, 3])] {
            let mut world = World::by_hand(&plugins);
            world.policy.on_poison = on_poison;
            world.policy.batch = 2;
            world.append(&[film(1, "a", 1), film(2, "b", -2), film(3, "c", 3), film(4, "[nan]", 4)]);
            world.append(&["no record".to_owned()]);
            work(&plugins, &world, TITLES, 1).await;
            let by_line = |letters: Vec<(Option<String>, FailureClass)>| {
                let mut letters: Vec<_> = letters.into_iter().map(|(key, class)| (class, key)).collect();
                letters.sort();
                letters
            };
            let unreadable = (FailureClass::BadRecord, None);
            let no_vector = (FailureClass::BadVector, Some(key(4)));
            assert_eq!(by_line(letters(&world).await), [unreadable.clone(), no_vector.clone()]);

            let tally = work(&plugins, &world, By::Movies, 2).await.1.unwrap();
            assert_eq!((tally.rows, tally.failed), (4, 2));
            let keys: Vec<String> = world.index().await.into_keys().collect();
            assert_eq!(keys, left.into_iter().map(key).collect::<Vec<_>>(), "{on_poison:?}");
            let refused = (FailureClass::PluginRefused, Some(key(2)));
            assert_eq!(by_line(letters(&world).await), [unreadable.clone(), refused, no_vector.clone()]);

            // What `movies` said of row 2 is gone with it.
            let tally = work(&plugins, &world, TITLES, 3).await.1.unwrap();
            assert_eq!((tally.rows, tally.failed), (4, 1));
            assert_eq!(by_line(letters(&world).await), [unreadable, no_vector]);
        }
    });
}

#[test]
fn a_host_that_was_overtaken_in_the_middle_writes_nothing_more() {
    let plugins = Plugins::load(1);
    let moments = [
        (Call::ScanRows, When::Before),
        (Call::GetVectors, When::After),
        (Call::Put, When::Before),
        (Call::Put, When::Half),
        (Call::WriteState, When::Before),
        (Call::Letters, When::Before),
    ];
    block_on(async {
        for moment in moments {
            let mut world = World::by_hand(&plugins);
            world.policy.batch = 4;
            world.append(&(0..9).map(|id| film(id, "a", if id == 2 { -2 } else { 1 })).collect::<Vec<_>>());
            work(&plugins, &world, TITLES, 1).await;

            let faults = Faults::wait_at(moment);
            let slow = host(&plugins, &world, By::Movies, 2, &faults).await;
            let slow = {
                let world = world.clone();
                tokio::spawn(async move { live(&world, &slow, "slow", 0).await })
            };
            faults.reached().await;
            assert_eq!(work(&plugins, &world, GENRES, 3).await.0, Outcome::Drained);
            let after = (world.index().await, letters(&world).await, world.state("").await);
            faults.go_on();
            let (outcome, _) = slow.await.unwrap();
            assert!(
                matches!(outcome, Outcome::Superseded(_) | Outcome::LeaseLost),
                "{moment:?}: {outcome:?}"
            );
            let now = (world.index().await, letters(&world).await, world.state("").await);
            assert_eq!(now, after, "{moment:?}");
        }
    });
}

#[test]
fn a_passing_fault_of_any_call_stops_nothing() {
    let plugins = Arc::new(Plugins::load(1));
    block_on(async {
        let calm = Faults::none();
        taken_over(&plugins, &calm).await;
        let mut lives = tokio::task::JoinSet::new();
        for (moment, count) in calm.steps() {
            for nth in 1..=count {
                let (plugins, faults) = (plugins.clone(), Faults::failure_at(moment, nth));
                let life = tokio::spawn(async move { taken_over(&plugins, &faults).await });
                lives
                    .spawn(async move { life.await.err().map(|panic| format!("{moment:?} {nth}: {panic}")) });
            }
        }
        let wrong: Vec<String> = lives.join_all().await.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

async fn taken_over(plugins: &Plugins, faults: &Arc<Faults>) {
    let mut world = World::by_hand(plugins);
    world.policy.batch = 2;
    world.policy.on_poison = OnPoison::Delete;
    world.failover = Duration::from_secs(4);
    world.append(&[film(1, "a", 1), film(2, "b", -2), film(3, "c", 3), film(4, "d", 4), film(5, " ", 5)]);
    work(plugins, &world, TITLES, 1).await;
    let table = host(plugins, &world, By::Movies, 2, faults).await;
    let (outcome, tally) = live(&world, &table, "host", 0).await;
    assert_eq!(outcome, Outcome::Drained);
    assert_eq!(tally.unwrap().rows, 5);
    assert_eq!(world.index().await.into_keys().collect::<Vec<_>>(), [key(1), key(3), key(4)]);
    assert_eq!(letters(&world).await, [(Some(key(2)), FailureClass::PluginRefused)]);
    assert_eq!(world.state("rendering/").await["rendering/films"].get("rerender"), None::<&Value>);
}

#[test]
fn without_a_queue_it_waits_at_a_row_that_fails() {
    let plugins = Plugins::load(1);
    block_on(async {
        let mut world = World::by_hand(&plugins);
        world.append(&[film(1, "a", 1), film(2, "b", -2)]);
        work(&plugins, &world, TITLES, 1).await;
        world.policy.dead_letters = DeadLetterPolicy::None;
        let table = host(&plugins, &world, By::Movies, 2, &Faults::none()).await;
        let keepers = KeeperRuntime::start().unwrap();
        let taken = world.take_lease("host").await;
        let times = LeaseTimes { failover: world.failover };
        let lease = LeaseKeeper::start(&keepers, table.leases.clone(), &taken, times);
        let (counters, stop) = (Counters::default(), Stop::default());
        let work = rerender_if_due(&table, &lease, "host", &counters, &stop);
        let stopper = async {
            while !counters.read().waiting {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            stop.soon.cancel();
        };
        let (ended, ()) = tokio::join!(work, stopper);
        assert!(matches!(ended, Ok(Rerendered::Ended(Outcome::Stopped))), "{ended:?}");
        assert!(letters(&world).await.is_empty());
        assert_eq!(world.index().await.len(), 2, "it has kept its vector");
        assert!(world.state("rendering/").await["rendering/films"].get("rerender").is_some());
    });
}

#[test]
fn a_letter_that_is_held_when_the_host_dies_is_written_by_the_next() {
    let plugins = Plugins::load(1);
    block_on(async {
        let mut world = World::by_hand(&plugins);
        // A row a page: the letter of row 2 is held until row 3 shows that the plugin works.
        world.policy.batch = 1;
        world.append(&[film(1, "a", 1), film(2, "b", -2), film(3, "c", 3)]);
        work(&plugins, &world, TITLES, 1).await;
        let faults = Faults::death_at((Call::Put, When::Before), 2);
        let table = host(&plugins, &world, By::Movies, 2, &faults).await;
        tokio::select! {
            biased;
            () = faults.death() => {}
            ended = live(&world, &table, "first", 0) => panic!("{ended:?}"),
        }
        assert!(letters(&world).await.is_empty());
        assert_eq!(work(&plugins, &world, By::Movies, 2).await.0, Outcome::Drained);
        assert_eq!(letters(&world).await, [(Some(key(2)), FailureClass::PluginRefused)]);
    });
}
