//! Faults that users of such pipelines have reported in public, each as an input to the whole line. The numbers are those
//! of our list of reports; where a fault is one of values or keys alone, its test stands with them in `host/core` and
//! `sdk/cql`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyvector_core::document::FailureClass;
use keyvector_core::lease::Checkpoint;
use keyvector_host::worker::Outcome;
use keyvector_tests::faulty::{Call, Moment, When};
use keyvector_tests::line::{Faults, Plugins, World, letters, work_at_tip, work_through};
use serde_json::{Value, json};

/// A record of the film `id` of one studio. Images are columns by name, each with its typed value.
fn record(id: &str, before: Option<Value>, after: Option<Value>) -> String {
    record_of(id, "north", before, after)
}

fn record_of(id: &str, studio: &str, before: Option<Value>, after: Option<Value>) -> String {
    let image = |columns: Value| {
        let Value::Object(columns) = columns else { panic!("an image is an object") };
        let cells: serde_json::Map<String, Value> =
            columns.into_iter().map(|(name, value)| (name, json!({"value": value}))).collect();
        json!({"valueCells": cells, "staticCells": {}})
    };
    let mut record = json!({
        "origin": "USER",
        "partitionKeys": {"movie_id": {"intT": id}},
        "clusteringKeys": {"studio": {"textT": studio}},
        "sequenceNumber": "000000000000000000001",
    });
    if let Some(before) = before {
        record["oldImage"] = image(before);
    }
    if let Some(after) = after {
        record["newImage"] = image(after);
    }
    record.to_string()
}

fn plot(text: &str) -> Option<Value> {
    Some(json!({"plot": {"textT": text}}))
}

fn key(id: &str) -> String {
    format!("movie_id={id}&studio=north")
}

/// All lines are there from the start, so that one batch holds them.
fn world(plugins: &Plugins, lines: &[String]) -> World {
    let world = World::new(plugins, lines.to_vec(), 8);
    world.visible.store(lines.len() as u64, Ordering::SeqCst);
    world
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

/// Lets a host die at each moment of its way that `moment` names, over three rows of which the second may be poison, and
/// says how often it came there.
async fn die_at(plugins: &Plugins, moment: Moment, batch: usize, poison: bool) -> u32 {
    let second = if poison { "[nan]" } else { "b" };
    let lines = [record("1", None, plot("a")), record("2", None, plot(second)), record("3", None, plot("c"))];
    for nth in 1.. {
        let mut world = World::by_hand(plugins);
        world.policy.batch = batch;
        world.append(&lines);
        let faults = Faults::death_at(moment, nth);
        let host = world.life(plugins, "first", &faults, 0).await;
        let died = tokio::select! {
            biased;
            () = faults.death() => true,
            outcome = host.run(true) => {
                assert_eq!(outcome.unwrap(), Outcome::Drained);
                false
            }
        };
        let place = format!("death {nth} at {moment:?}, batches of {batch}, poison: {poison}");
        check_covered(&world, &place).await;
        if !died {
            return nth - 1;
        }
        work_through(plugins, &world).await;
        check_covered(&world, &place).await;
        assert_eq!(world.checkpoint().await, Checkpoint::At("3".into()), "{place}");
    }
    unreachable!("the counting does not end")
}

/// Everything that the checkpoint covers is in the index with its own vector, or in a letter.
async fn check_covered(world: &World, place: &str) {
    let covered = match world.checkpoint().await {
        Checkpoint::At(text) => text.parse().unwrap(),
        _ => 0,
    };
    let (index, letters) = (world.index().await, letters(world).await);
    for (id, text) in [("1", "a"), ("2", "b"), ("3", "c")].into_iter().take(covered) {
        let letter = (Some(key(id)), FailureClass::BadVector);
        match index.get(&key(id)) {
            Some((vector, _)) => assert_eq!(*vector, world.vector(text).await, "{place}: {id}"),
            None => assert!(
                letters.contains(&letter),
                "{place}: the checkpoint is past {id}, its vector is not there"
            ),
        }
    }
}

#[test]
fn b01_the_checkpoint_never_runs_ahead_of_the_writes() {
    let plugins = Plugins::load(1);
    let moments: [Moment; 9] = [
        (Call::Embed, When::Before),
        (Call::Embed, When::After),
        (Call::Put, When::Before),
        (Call::Put, When::Half),
        (Call::Put, When::After),
        (Call::Letters, When::Before),
        (Call::Letters, When::After),
        (Call::Checkpoint, When::Before),
        (Call::Checkpoint, When::After),
    ];
    block_on(async {
        for moment in moments {
            for poison in [false, true] {
                for batch in [1, 2, 3] {
                    let deaths = die_at(&plugins, moment, batch, poison).await;
                    // One a batch, but for calls that have nothing to do in it, and texts that are tried again.
                    match moment.0 {
                        Call::Letters => {
                            assert_eq!(deaths, u32::from(poison), "{moment:?} in batches of {batch}")
                        }
                        _ => assert!(deaths >= 1, "{moment:?} in batches of {batch}"),
                    }
                    if !poison && moment.0 != Call::Letters {
                        assert_eq!(
                            deaths as usize,
                            3_usize.div_ceil(batch),
                            "{moment:?} in batches of {batch}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn b12_keys_that_look_alike_are_different_rows_and_one_too_long_is_set_aside() {
    let plugins = Plugins::load(1);
    block_on(async {
        let studios = ["\u{e9}", "e\u{301}", "x%2Fy", "x/y", "", "a&studio=b"];
        let mut lines: Vec<String> = studios
            .iter()
            .map(|studio| record_of("1", studio, None, plot(&format!("of {studio}"))))
            .collect();
        lines.push(record_of("2", &"🎬".repeat(300), None, plot("too long a name")));
        let world = world(&plugins, &lines);
        let counted = work_through(&plugins, &world).await;
        assert_eq!(world.index().await.len(), studios.len());
        assert_eq!((counted.embedded, counted.dead_letters, counted.too_long), (studios.len() as u64, 1, 1));
        assert_eq!(letters(&world).await[0].1, FailureClass::KeyTooLong);
    });
}

#[test]
fn b16_one_key_many_times_in_a_batch_ends_as_its_last_change() {
    let plugins = Plugins::load(1);
    block_on(async {
        // Insert and delete; insert, delete, insert; there and back again; text and metadata in two steps.
        let year = |plot: &str, year: &str| Some(json!({"plot": {"textT": plot}, "year": {"intT": year}}));
        let lines = [
            record("1", None, plot("A")),
            record("1", plot("A"), None),
            record("2", None, plot("A")),
            record("2", plot("A"), None),
            record("2", None, plot("C")),
        ];
        let before = [record("3", None, plot("a")), record("4", None, year("a", "1990"))];
        let mut folded = world(&plugins, &before);
        work_through(&plugins, &folded).await;
        assert_eq!(folded.texts.load(Ordering::SeqCst), 2);

        let all: Vec<String> = before
            .iter()
            .cloned()
            .chain(lines)
            .chain([
                record("3", plot("a"), plot("b")),
                record("3", plot("b"), plot("a")),
                record("4", year("a", "1990"), year("b", "1990")),
                record("4", year("b", "1990"), year("b", "1991")),
            ])
            .collect();
        folded.visible.store(all.len() as u64, Ordering::SeqCst);
        folded.lines = Arc::new(all);
        work_through(&plugins, &folded).await;
        let index = folded.index().await;
        assert_eq!(index.keys().cloned().collect::<Vec<_>>(), [key("2"), key("3"), key("4")]);
        assert_eq!(index[&key("2")].0, folded.vector("C").await);
        assert_eq!(index[&key("3")].0, folded.vector("a").await);
        assert_eq!(index[&key("4")].0, folded.vector("(1991)\nb").await);
    });
}

#[test]
fn b16_back_to_a_text_whose_successor_was_dead_lettered_is_nothing_and_from_it_an_embed() {
    let plugins = Plugins::load(1);
    block_on(async {
        // The index kept the vector of "a" when "[nan]" could not be embedded.
        let lines = [
            record("1", None, plot("a")),
            record("1", plot("a"), plot("[nan]")),
            record("2", None, plot("other")),
            record("1", plot("[nan]"), plot("a")),
        ];
        let texts_and_embedded = async |at_tip: bool| {
            let mut world = World::by_hand(&plugins);
            let mut steps = Vec::new();
            for line in &lines {
                world.append(std::slice::from_ref(line));
                let before = world.texts.load(Ordering::SeqCst);
                let counted = match at_tip {
                    true => work_at_tip(&plugins, &world).await,
                    false => work_through(&plugins, &world).await,
                };
                steps.push((world.texts.load(Ordering::SeqCst) - before, counted.embedded));
            }
            assert_eq!(letters(&world).await, [(Some(key("1")), FailureClass::BadVector)]);
            assert_eq!(world.index().await[&key("1")].0, world.vector("a").await);
            steps
        };
        // The bad text is tried twice, and then the model's probe.
        let bad = (3, 0);
        // A host that asks the index finds the text there; one that trusts the before image sees another text.
        assert_eq!(texts_and_embedded(false).await, [(1, 1), bad, (1, 1), (0, 0)]);
        assert_eq!(texts_and_embedded(true).await, [(1, 1), bad, (1, 1), (1, 1)]);
    });
}

#[test]
fn b17_a_blank_text_is_never_sent_and_takes_the_old_vector_along() {
    let plugins = Plugins::load(1);
    block_on(async {
        let lines: Vec<String> = ["good", "", "\n\n", "\u{a0}\u{200b}", "good2"]
            .iter()
            .enumerate()
            .map(|(id, text)| record(&id.to_string(), None, plot(text)))
            .collect();
        let mut world = world(&plugins, &lines);
        let counted = work_through(&plugins, &world).await;
        assert_eq!((counted.embedded, counted.dead_letters, counted.blank), (2, 0, 3));
        assert_eq!(world.texts.load(Ordering::SeqCst), 2);

        let mut more = lines.clone();
        more.push(record("0", plot("good"), plot("")));
        world.visible.store(more.len() as u64, Ordering::SeqCst);
        world.lines = Arc::new(more);
        let counted = work_through(&plugins, &world).await;
        assert_eq!((counted.deleted, counted.dead_letters), (1, 0));
        assert_eq!(world.index().await.into_keys().collect::<Vec<_>>(), [key("4")]);
    });
}

#[test]
fn s01_an_empty_collection_and_none_are_the_same() {
    let plugins = Plugins::load(1);
    block_on(async {
        let with = |tags: Option<Value>| {
            let mut image = json!({"plot": {"textT": "a"}});
            if let Some(tags) = tags {
                image["tags"] = tags;
            }
            Some(image)
        };
        let mut world = world(&plugins, &[record("1", None, with(Some(json!({"setT": []}))))]);
        work_through(&plugins, &world).await;
        let puts = world.puts.load(Ordering::SeqCst);
        let mut lines = world.lines.to_vec();
        lines.push(record("1", with(Some(json!({"setT": []}))), with(None)));
        lines.push(record("1", with(None), with(Some(json!({"setT": []})))));
        world.visible.store(lines.len() as u64, Ordering::SeqCst);
        world.lines = Arc::new(lines);
        let counted = work_through(&plugins, &world).await;
        assert_eq!((counted.embedded, counted.metadata_only, counted.deleted), (0, 0, 0));
        assert_eq!(world.puts.load(Ordering::SeqCst), puts);
    });
}

#[test]
fn upstream_3_an_unchanged_text_is_not_embedded_again() {
    let plugins = Plugins::load(1);
    block_on(async {
        let runtime = |minutes: &str| Some(json!({"plot": {"textT": "a"}, "runtime_min": {"intT": minutes}}));
        let mut world = world(&plugins, &[record("1", None, runtime("90"))]);
        work_through(&plugins, &world).await;
        let mut lines = world.lines.to_vec();
        lines.push(record("1", runtime("90"), runtime("90")));
        lines.push(record("1", runtime("90"), runtime("91")));
        lines.push(record("1", runtime("91"), runtime("92")));
        world.visible.store(lines.len() as u64, Ordering::SeqCst);
        world.lines = Arc::new(lines);
        let counted = work_through(&plugins, &world).await;
        assert_eq!(counted.embedded, 0);
        assert_eq!(world.texts.load(Ordering::SeqCst), 1);
        assert_eq!(world.index().await[&key("1")].1["runtime"], json!(92.0));
    });
}
