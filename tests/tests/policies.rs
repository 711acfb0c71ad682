//! What the user decides for a table, and what hosts do that are in each other's way: each rule as an input to the whole
//! line.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use keyvector_core::document::FailureClass;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::schema::TableSchema;
use keyvector_host::source::{Batch, ShardReader};
use keyvector_host::table::{DeadLetterPolicy, OnGap, OnPoison};
use keyvector_host::worker::Outcome;
use keyvector_tests::faulty::{Call, Moment, When};
use keyvector_tests::line::{Faults, LinesReader, Plugins, World, letters, work_through};
use serde_json::{Value, json};

/// A record of the film `id` of one studio, whose regular columns are `after`, each with its typed value.
fn record(id: usize, after: Option<Value>) -> String {
    let mut record = json!({
        "origin": "USER",
        "partitionKeys": {"movie_id": {"intT": id.to_string()}},
        "clusteringKeys": {"studio": {"textT": "north"}},
    });
    if let Some(Value::Object(columns)) = after {
        let cells: serde_json::Map<String, Value> =
            columns.into_iter().map(|(name, value)| (name, json!({"value": value}))).collect();
        record["newImage"] = json!({"valueCells": cells, "staticCells": {}});
    }
    record.to_string()
}

fn good(id: usize, plot: &str) -> String {
    record(id, Some(json!({"plot": {"textT": plot}})))
}

/// The plugin refuses it.
fn refused(id: usize) -> String {
    record(id, Some(json!({"plot": {"textT": "a"}, "year": {"intT": "-7"}})))
}

/// The model gives no usable vector for it.
fn no_vector(id: usize) -> String {
    good(id, "[nan]")
}

fn key(id: usize) -> String {
    format!("movie_id={id}&studio=north")
}

async fn keys(world: &World) -> Vec<String> {
    world.index().await.into_keys().collect()
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("it hangs") })
}

/// Looks every few milliseconds until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("after ten seconds: {what}");
}

#[test]
fn a_parked_row_keeps_its_vector_or_loses_it_as_the_user_wants() {
    let plugins = Plugins::load(1);
    block_on(async {
        for (on_poison, left) in [(OnPoison::Keep, vec![key(1), key(2)]), (OnPoison::Delete, vec![key(2)])] {
            let mut world = World::by_hand(&plugins);
            world.policy.on_poison = on_poison;
            world.append(&[good(1, "a"), good(2, "b")]);
            work_through(&plugins, &world).await;
            world.append(&[refused(1)]);
            work_through(&plugins, &world).await;
            assert_eq!(keys(&world).await, left, "{on_poison:?}");
            assert_eq!(letters(&world).await, [(Some(key(1)), FailureClass::PluginRefused)]);
        }
    });
}

#[test]
fn a_row_that_is_good_again_keeps_its_new_vector_when_its_old_letter_is_written() {
    let plugins = Plugins::load(1);
    block_on(async {
        let mut world = World::by_hand(&plugins);
        world.policy.on_poison = OnPoison::Delete;
        // One record a batch: the letter is held until the next row, the very same one, shows that the plugin works.
        world.policy.batch = 1;
        world.append(&[good(1, "a"), refused(2), good(2, "b")]);
        work_through(&plugins, &world).await;
        assert_eq!(letters(&world).await, [(Some(key(2)), FailureClass::PluginRefused)]);
        assert_eq!(keys(&world).await, [key(1), key(2)]);
    });
}

#[test]
fn a_broken_plugin_takes_nothing_away() {
    let plugins = Plugins::load(1);
    block_on(async {
        for on_poison in [OnPoison::Keep, OnPoison::Delete] {
            for bad in [refused, no_vector] {
                let mut world = World::by_hand(&plugins);
                world.policy.on_poison = on_poison;
                world.append(&(0..60).map(|id| good(id, "a")).collect::<Vec<_>>());
                work_through(&plugins, &world).await;
                let (before, done) = (world.index().await, world.checkpoint().await);
                assert_eq!(before.len(), 60);

                world.policy.batch = 7;
                world.append(&(0..60).map(bad).collect::<Vec<_>>());
                let host = world.life(&plugins, "second", &Faults::none(), 0).await;
                let outcome = host.run(true).await.unwrap();
                let Outcome::Halted(words) = &outcome else { panic!("{outcome:?}") };
                assert!(words.contains("plugin"), "{words}");
                assert_eq!(world.index().await, before, "{on_poison:?}");
                assert!(letters(&world).await.is_empty());
                assert_eq!(world.checkpoint().await, done);
                assert_eq!(world.state("halt/").await.len(), 1);
            }
        }
    });
}

#[test]
fn lines_that_cannot_be_read_blame_no_plugin() {
    let plugins = Plugins::load(1);
    block_on(async {
        let mut world = World::by_hand(&plugins);
        world.append(&(0..50).map(|line| format!("no record {line}")).collect::<Vec<_>>());
        let host = world.life(&plugins, "host", &Faults::none(), 0).await;
        let outcome = host.run(true).await.unwrap();
        let Outcome::Unreadable(words) = outcome else { panic!("{outcome:?}") };
        assert!(words.contains("bad-record"), "{words}");
        assert!(!words.contains("plugin") && !words.contains("model"), "{words}");
        assert!(letters(&world).await.is_empty());
        assert_eq!(world.checkpoint().await, Checkpoint::TrimHorizon);
        assert!(world.state("halt/").await.is_empty(), "the plugin is halted for what it never saw");
    });
}

#[test]
fn without_a_queue_the_shard_waits_and_stops_when_it_is_asked_to() {
    let plugins = Plugins::load(1);
    block_on(async {
        for bad in [refused(2), no_vector(2), "not JSON".to_owned()] {
            let mut world = World::by_hand(&plugins);
            world.policy.dead_letters = DeadLetterPolicy::None;
            world.append(&[good(1, "a"), bad.clone(), good(3, "c")]);
            let host = world.life(&plugins, "host", &Faults::none(), 0).await;
            let (counters, stop) = (host.counters.clone(), host.stop.clone());
            let running = tokio::spawn(host.run(true));
            until("it does not wait", async || counters.read().waiting).await;
            // The neighbours are written; nothing of the batch is behind a checkpoint.
            assert_eq!(keys(&world).await, [key(1), key(3)], "{bad}");
            assert_eq!(world.checkpoint().await, Checkpoint::TrimHorizon);
            assert!(letters(&world).await.is_empty());

            stop.soon.cancel();
            let outcome =
                tokio::time::timeout(Duration::from_secs(5), running).await.expect("it does not stop");
            assert_eq!(outcome.unwrap().unwrap(), Outcome::Stopped, "{bad}");
            assert_eq!(world.checkpoint().await, Checkpoint::TrimHorizon);
            assert!(letters(&world).await.is_empty());
        }
    });
}

#[test]
fn each_bad_row_that_comes_alone_at_the_tip_gets_its_letter_there() {
    let plugins = Plugins::load(1);
    block_on(async {
        let bad_ones: [(String, FailureClass); 6] = [
            (refused(2), FailureClass::PluginRefused),
            (refused(3), FailureClass::PluginRefused),
            (no_vector(4), FailureClass::BadVector),
            (no_vector(5), FailureClass::BadVector),
            ("not JSON".to_owned(), FailureClass::BadRecord),
            ("{".to_owned(), FailureClass::BadRecord),
        ];
        let mut world = World::by_hand(&plugins);
        world.append(&[good(1, "a")]);
        world.append(&bad_ones.each_ref().map(|(line, _)| line.clone()));
        world.visible.store(1, Ordering::SeqCst);
        let host = world.life(&plugins, "host", &Faults::none(), 0).await;
        let stop = host.stop.clone();
        let running = tokio::spawn(host.run(false));
        for (count, (line, class)) in (1..).zip(&bad_ones) {
            world.visible.store(count as u64 + 1, Ordering::SeqCst);
            until(line, async || letters(&world).await.len() == count).await;
            assert_eq!(letters(&world).await[count - 1].1, *class);
            let done = Checkpoint::At((count + 1).to_string());
            until("no checkpoint", async || world.checkpoint().await == done).await;
        }
        stop.soon.cancel();
        assert_eq!(running.await.unwrap().unwrap(), Outcome::Stopped);
    });
}

#[test]
fn a_host_that_lost_its_lease_while_a_write_is_on_its_way_changes_nothing() {
    let plugins = Plugins::load(1);
    let moments: [Moment; 6] = [
        (Call::KeepRows, When::Before),
        (Call::Put, When::Before),
        (Call::Put, When::Half),
        (Call::Delete, When::Before),
        (Call::Letters, When::Before),
        (Call::Checkpoint, When::Before),
    ];
    block_on(async {
        for moment in moments {
            let mut world = World::by_hand(&plugins);
            world.append(&[good(1, "a"), good(2, "b")]);
            work_through(&plugins, &world).await;

            world.append(&[
                good(1, "of the first"),
                good(2, "of the first"),
                record(3, None),
                refused(4),
                good(5, "e"),
            ]);
            let faults = Faults::wait_at(moment);
            let zombie = world.life(&plugins, "first", &faults, 0).await;
            let zombie = tokio::spawn(zombie.run(true));
            faults.reached().await;

            // Another host takes over, does the same, and goes further.
            world.append(&[record(1, None), good(2, "of the second"), good(3, "of the second")]);
            work_through(&plugins, &world).await;
            let after = (world.index().await, letters(&world).await, world.checkpoint().await);
            assert_eq!(after.0.keys().cloned().collect::<Vec<_>>(), [key(2), key(3), key(5)], "{moment:?}");
            assert_eq!(after.2, Checkpoint::At("10".into()));

            faults.go_on();
            assert_eq!(zombie.await.unwrap().unwrap(), Outcome::LeaseLost, "{moment:?}");
            assert_eq!(
                (world.index().await, letters(&world).await, world.checkpoint().await),
                after,
                "{moment:?}"
            );
        }
    });
}

#[test]
fn a_passing_fault_of_any_call_stops_nothing() {
    let plugins = Arc::new(Plugins::load(1));
    block_on(async {
        let calm = Faults::none();
        one_life(&plugins, &calm).await;
        let steps = calm.steps();
        let calls: BTreeSet<Call> = steps.keys().map(|&(call, _)| call).collect();
        // All but a renewal for its own sake, and what follows when one fails.
        for call in [Call::KeepRows, Call::ScanRows, Call::GetVectors, Call::Put, Call::Delete, Call::Letters]
        {
            assert!(calls.contains(&call), "{call:?} is not part of it");
        }
        for call in [Call::Checkpoint, Call::ReadState, Call::WriteState] {
            assert!(calls.contains(&call), "{call:?} is not part of it");
        }
        let mut lives = tokio::task::JoinSet::new();
        for (moment, count) in steps {
            for nth in 1..=count {
                let plugins = plugins.clone();
                let faults = Faults::failure_at(moment, nth);
                let life = tokio::spawn(async move { one_life(&plugins, &faults).await });
                lives
                    .spawn(async move { life.await.err().map(|panic| format!("{moment:?} {nth}: {panic}")) });
            }
        }
        let wrong: Vec<String> = lives.join_all().await.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// A life that needs every call of the line, the last of them at the tip: to find out whether a row or the plugin is
/// to blame.
async fn one_life(plugins: &Plugins, faults: &Arc<Faults>) {
    let mut world = World::by_hand(plugins);
    world.policy.batch = 3;
    world.failover = Duration::from_secs(4);
    world.append(&[
        good(1, "a"),
        good(2, "b"),
        record(1, None),
        no_vector(3),
        partition_gone(9),
        good(4, "d"),
        refused(5),
    ]);
    let host = world.life(plugins, "host", faults, 0).await;
    assert_eq!(host.run(true).await.unwrap(), Outcome::Drained);
    assert_eq!(keys(&world).await, [key(2), key(4)]);
    let expected = [(Some(key(3)), FailureClass::BadVector), (Some(key(5)), FailureClass::PluginRefused)];
    assert_eq!(letters(&world).await, expected);
    assert_eq!(world.checkpoint().await, Checkpoint::At("7".into()));
    assert_eq!(world.state("waiting/").await.len(), 1);
}

fn partition_gone(id: usize) -> String {
    json!({"origin": "USER", "partitionKeys": {"movie_id": {"intT": id.to_string()}}}).to_string()
}

/// Says of its first batch that something before it is lost.
struct AfterGap {
    lines: LinesReader,
    gap: Option<String>,
}

#[async_trait]
impl ShardReader for AfterGap {
    async fn next(&mut self, records_max: usize) -> port::Result<Batch> {
        Ok(Batch { gap: self.gap.take(), ..self.lines.next(records_max).await? })
    }
}

#[test]
fn a_gap_is_recorded_and_stops_the_table_or_not_as_the_user_wants() {
    let plugins = Plugins::load(1);
    block_on(async {
        for on_gap in [OnGap::Stop, OnGap::Continue] {
            let mut world = World::by_hand(&plugins);
            world.policy.on_gap = on_gap;
            world.append(&[good(1, "a")]);
            // Found twice, as by a host that is started again.
            for _ in 0..2 {
                world.reset_lease().await;
                let host = world.life(&plugins, "host", &Faults::none(), 0).await;
                let gap = Some("the file was cut off".to_owned());
                let outcome = host.run_with(|lines| AfterGap { lines, gap }).await;
                match on_gap {
                    OnGap::Stop => {
                        let Err(port::Error::Fatal(words)) = outcome else { panic!("{outcome:?}") };
                        assert!(
                            words.contains("the file was cut off") && words.contains("on_gap"),
                            "{words}"
                        );
                        assert!(keys(&world).await.is_empty());
                        assert_eq!(world.checkpoint().await, Checkpoint::TrimHorizon);
                    }
                    OnGap::Continue => {
                        assert_eq!(outcome.unwrap(), Outcome::Drained);
                        assert_eq!(keys(&world).await, [key(1)]);
                    }
                }
                let gaps = world.state("gap/").await;
                assert_eq!(gaps.len(), 1, "{gaps:?}");
                assert!(gaps.values().all(|gap| gap["reason"] == "the file was cut off"), "{gaps:?}");
            }
        }
    });
}

#[test]
fn a_partition_that_changed_waits_and_is_never_said_to_be_less_than_it_was() {
    let plugins = Plugins::load(1);
    let statics = |id: usize| {
        let cells = json!({"note": {"value": {"textT": "of all"}}});
        json!({
            "origin": "USER",
            "partitionKeys": {"movie_id": {"intT": id.to_string()}},
            "newImage": {"valueCells": {}, "staticCells": cells},
        })
        .to_string()
    };
    block_on(async {
        // One batch, or one record a batch.
        for batch in [1, 256] {
            let mut world = World::by_hand(&plugins);
            world.policy.batch = batch;
            let with_static =
                keyvector_tests::changes::SCHEMA.replace("title text", "note text static, title text");
            world.schema = Arc::new(TableSchema::parse_cql(&with_static).unwrap());
            world.append(&[
                good(1, "a"),
                partition_gone(1),
                statics(1),
                statics(2),
                partition_gone(2),
                statics(3),
            ]);
            let counted = work_through(&plugins, &world).await;
            assert_eq!((counted.partitions, counted.dead_letters), (5, 0));
            assert_eq!(world.checkpoint().await, Checkpoint::At("6".into()));
            let waiting: BTreeSet<(String, bool)> = world
                .state("waiting/")
                .await
                .values()
                .map(|item| {
                    (item["partition"].as_str().unwrap().to_owned(), item["static_only"].as_bool().unwrap())
                })
                .collect();
            let expected = [("movie_id=1", false), ("movie_id=2", false), ("movie_id=3", true)];
            assert_eq!(waiting, expected.map(|(partition, statics)| (partition.to_owned(), statics)).into());
            // Whether the row went with its partition cannot be told yet.
            assert_eq!(keys(&world).await, [key(1)]);
        }
    });
}

#[test]
fn a_vector_that_the_index_cannot_take_is_set_aside_alone() {
    let plugins = Plugins::load(1);
    block_on(async {
        let genre = |id: usize, bytes: usize| {
            record(id, Some(json!({"plot": {"textT": "a"}, "genre": {"textT": "g".repeat(bytes)}})))
        };
        let mut world = World::by_hand(&plugins);
        world.append(&[good(1, "a"), genre(2, 2100), good(3, "c"), genre(4, 1800)]);
        let counted = work_through(&plugins, &world).await;
        assert_eq!(letters(&world).await, [(Some(key(2)), FailureClass::IndexRejected)]);
        assert_eq!(counted.dead_letters, 1);
        assert_eq!(keys(&world).await, [key(1), key(3), key(4)]);
        let reason = world.letters().await.remove(0).reason;
        assert!(reason.contains("2048"), "{reason}");
    });
}
