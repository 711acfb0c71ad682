//! Misbehaving tables.

use std::time::Duration;

use keyvector_core::document::{FailureClass, Metadata, MetadataValue, Rendered};
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Limits, OpenError, RestartReason, TablePlugin, push_cell};

use crate::puppet::Answer;
use crate::{
    block_on, config, failure_of, hasty, load, misbehave_modes, open_table, polite, render, render_in,
    tests_of_modes, text_column, text_of, texts_of,
};

const GUEST: &str = "misbehave.wasm";

/// 256 rows of which row 137 is poison.
fn batch() -> (Vec<String>, usize) {
    let mut texts: Vec<_> = (0..256).map(|row| format!("row {row}")).collect();
    texts[137] = "poison".to_owned();
    (texts, 137)
}

/// Renders [`batch`], and checks that row 137 alone failed.
#[track_caller]
fn one_failure_of_256(mode: &str, limits: Limits) -> (FailureClass, String, u32) {
    let (texts, poison) = batch();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (rendered, _) = render(mode, limits, &texts);
    let rendered = rendered.unwrap();
    assert_eq!(rendered.len(), 256);
    for (row, rendered) in rendered.iter().enumerate() {
        if row != poison {
            assert_eq!(text_of(rendered), texts[row]);
        }
    }
    let (class, reason, attempts) = failure_of(&rendered[poison]);
    (class, reason.to_owned(), attempts)
}

/// Renders two rows that both fail, and checks how.
#[track_caller]
fn both_fail(mode: &str, limits: Limits, class: FailureClass, part: &str) {
    let (rendered, stats) = render(mode, limits, &["a", "bc"]);
    for rendered in rendered.unwrap() {
        let (found, reason, attempts) = failure_of(&rendered);
        assert_eq!(found, class, "{reason}");
        assert!(reason.contains(part), "{reason}");
        assert_eq!(attempts, 3, "whole, whole again, alone");
    }
    // The first try, the second chance, and each half.
    assert_eq!(stats.restarts_total(), 4);
}

fn metadata_of(rendered: &Rendered) -> Metadata {
    match rendered {
        Rendered::Document(document) => document.metadata.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused_declaration(mode: &str, part: &str) {
    let error = TablePlugin::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
    assert!(matches!(error, OpenError::Declaration { .. }), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

/// Renders these batches, of which the second comes out as `second`, and checks that it and those after it are found to
/// come out differently.
#[track_caller]
fn differs(mode: &str, batches: &[&[&str]], second: &[&str]) {
    let table = open_table(GUEST, mode, Limits { determinism_every: 1, ..Limits::default() }).unwrap();
    for (index, batch) in batches.iter().enumerate() {
        let rendered = render_in(&table, batch).unwrap();
        if index == 1 {
            assert_eq!(texts_of(&rendered), second);
        }
    }
    // One batch more: the check of a batch is over before the next one begins.
    render_in(&table, &["last"]).unwrap();
    let differences = table.stats().determinism_differences as usize;
    // The check of this last one may be over, too.
    assert!((batches.len() - 1..=batches.len()).contains(&differences), "{differences}");
}

tests_of_modes! {
    misbehave_modes::TABLE_MODES;

    "echo" echo |mode| {
        let (rendered, stats) = render(mode, Limits::default(), &["one", "zwölf", "skip", "refuse", "\u{a0}\u{200b}", ""]);
        let rendered = rendered.unwrap();
        assert_eq!(texts_of(&rendered[..2]), ["one", "zwölf"]);
        assert_eq!(rendered[2], Rendered::Skipped);
        assert_eq!(failure_of(&rendered[3]), (FailureClass::PluginRefused, "refuse", 1));
        assert_eq!(rendered[4..], [Rendered::Blank, Rendered::Blank]);
        assert_eq!((stats.batches, stats.rows, stats.restarts_total()), (1, 6, 0));
        assert!(stats.memory_bytes_peak > 0 && stats.guest_time.as_nanos() > 0);
    }

    "metadata" metadata |mode| {
        let columns = [text_column(), ColumnInfo {
            name: "metadata".to_owned(), cql_type: "text".to_owned(), kind: ColumnKind::Static,
        }];
        let table = TablePlugin::open(&load(GUEST, Limits::default()), &config(mode), &columns).unwrap();
        assert_eq!(table.info().metadata.len(), 5);
        assert!(!table.info().metadata[0].filterable);
        let mut cells = Vec::new();
        for json in [Some(r#"{"year":1994,"tags":["a"],"seen":null}"#), None, Some(r#"{"_k":1}"#), Some(r#"{"year":1e400}"#)] {
            push_cell(&mut cells, Some(b"text"));
            push_cell(&mut cells, json.map(str::as_bytes));
        }
        let rendered = block_on(table.render(4, cells)).unwrap();
        let expected = [
            ("tags".into(), MetadataValue::TextList(vec!["a".to_owned()])),
            ("year".into(), MetadataValue::Number(1994.0)),
        ];
        assert_eq!(metadata_of(&rendered[0]), Metadata(expected.into()));
        assert_eq!(metadata_of(&rendered[1]), Metadata::default());
        for (rendered, part) in rendered[2..].iter().zip(["is not declared", "number out of range"]) {
            let (class, reason, attempts) = failure_of(rendered);
            assert_eq!((class, attempts), (FailureClass::PluginOutput, 1));
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(table.stats().restarts_total(), 0);
    }

    "puppet" any_answer |mode| {
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        let answer = Answer::documents(&[("one", ""), ("zwei", r#"{"year":2}"#)]);
        let rendered = answer.render_in(&table);
        assert_eq!(texts_of(&rendered), ["one", "zwei"]);
        assert_eq!(metadata_of(&rendered[1]), Metadata([("year".into(), MetadataValue::Number(2.0))].into()));
        assert_eq!(table.stats().restarts_total(), 0);
        // A cell that dictates nothing.
        let (class, _, attempts) = failure_of(&render_in(&table, &["no answer"]).unwrap()[0]);
        assert_eq!((class, attempts), (FailureClass::PluginTrapped, 2));
    }

    "panic" panic |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginTrapped, "`unreachable`");
        // What it logged as an error is part of the reason.
        both_fail(mode, Limits::default(), FailureClass::PluginTrapped, "it said: about to panic");
    }

    "stack-overflow" stack_overflow |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginTrapped, "out of bounds memory access");
    }

    "trap-on-poison" trap_on_row_137_of_256 |mode| {
        let (class, reason, attempts) = one_failure_of_256(mode, Limits::default());
        assert_eq!((class, attempts), (FailureClass::PluginTrapped, 10), "{reason}");
    }

    "trap-every-second-call" trap_on_every_second_call_fails_no_row |mode| {
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        for call in 0..6 {
            let text = format!("call {call}");
            assert_eq!(texts_of(&render_in(&table, &[&text, "b"]).unwrap()), [text.as_str(), "b"]);
        }
        // Each trap's fresh instance serves the call that trapped, and traps at the next.
        assert_eq!(table.stats().restarts(RestartReason::Trap), 5);
    }

    "loop" loop_for_ever |mode| {
        both_fail(mode, hasty(), FailureClass::PluginDeadline, "ran for more than");
    }

    "loop-on-poison" loop_on_row_137_of_256 |mode| {
        let (class, _, _) = one_failure_of_256(mode, hasty());
        assert_eq!(class, FailureClass::PluginDeadline);
    }

    "loop-in-describe" loop_in_describe |mode| {
        let error = TablePlugin::describe(&load(GUEST, hasty()), &config(mode)).unwrap_err();
        assert_eq!(error.to_string(), "misbehave.wasm is broken: cannot be opened: ran for more than 240 ms");
    }

    "loop-in-open" loop_in_open |mode| {
        let error = open_table(GUEST, mode, hasty()).err().unwrap();
        assert_eq!(error.to_string(), "misbehave.wasm is broken: cannot be opened: ran for more than 240 ms");
    }

    "refuse-describe" refuse_describe |mode| {
        let error = TablePlugin::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert_eq!(error.to_string(), "misbehave.wasm refuses: no such thing as a table");
    }

    "refuse-open" refuse_open |mode| {
        let error = open_table(GUEST, mode, Limits::default()).err().unwrap();
        assert_eq!(error.to_string(), "misbehave.wasm refuses: text is text");
    }

    "memory-bomb" memory_bomb |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginMemory, "asked for more than 67108864 bytes of memory");
    }

    "memory-bomb-on-poison" memory_bomb_on_row_137_of_256 |mode| {
        assert_eq!(one_failure_of_256(mode, Limits::default()).0, FailureClass::PluginMemory);
    }

    "leak" leak_is_replaced_between_batches |mode| {
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        for _ in 0..40 {
            assert_eq!(texts_of(&render_in(&table, &["a"]).unwrap()), ["a"]);
        }
        let stats = table.stats();
        // 4 MiB a call: 12 calls pass 48 MiB.
        assert_eq!(stats.restarts(RestartReason::MemoryHigh), 3);
        assert_eq!(stats.restarts_total(), 3, "no call failed");
        assert!((48 << 20..56 << 20).contains(&stats.memory_bytes_peak), "{}", stats.memory_bytes_peak);
    }

    "slow-leak" slow_leak_crosses_replacements_without_a_failure |mode| {
        // 500 B a row, in the batches of a stream at its tip and of one that catches up: 128 MB and more.
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        let row = ["row"; 256];
        for batch in 0..1000 {
            let rows = if batch % 10 == 0 { 1 } else { 256 };
            let rendered = render_in(&table, &row[..rows]).unwrap();
            assert!(texts_of(&rendered).iter().all(|&text| text == "row"));
        }
        let stats = table.stats();
        let replaced = stats.restarts(RestartReason::MemoryHigh);
        assert!((2..=3).contains(&replaced), "{stats:?}");
        assert_eq!(stats.restarts_total(), replaced, "no call failed");
        assert!(stats.memory_bytes_peak < 50 << 20, "{stats:?}");
    }

    "flood" flood |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginOutput, "answered");
    }

    "flood-describe" flood_describe |mode| {
        let error = TablePlugin::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(error.to_string().contains("answered more than 1048576 bytes"), "{error}");
    }

    "chatty" chatty |mode| {
        let (rendered, stats) = render(mode, Limits::default(), &["a"]);
        assert_eq!(texts_of(&rendered.unwrap()), ["a"]);
        assert_eq!(stats.restarts_total(), 0);
    }

    "long-line" a_line_of_30_mib_is_too_much |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginOutput, "answered more than");
    }

    "carry-over" what_is_carried_from_call_to_call_is_found |mode| {
        differs(mode, &[&["a", "b"], &["c"], &["d"]], &["bc"]);
    }

    "one-by-one" each_row_does_something_else |mode| {
        let texts = [
            "good", "panic", "rude", "spin", "rude document", "bomb", "overflow", "not utf-8", "forged",
            "broken metadata", "skip", "refuse", "good",
        ];
        // On a busy machine it takes a while to fill 64 MiB.
        let limits = Limits { deadline: Duration::from_millis(400), ..hasty() };
        let (rendered, _) = render(mode, limits, &texts);
        let rendered = rendered.unwrap();
        let classes: Vec<_> = rendered.iter().zip(texts).filter_map(|(rendered, text)| match rendered {
            Rendered::Failed(failure) => Some((text, failure.class)),
            _ => None,
        }).collect();
        let expected = [
            ("panic", FailureClass::PluginTrapped),
            ("rude", FailureClass::PluginRefused),
            ("spin", FailureClass::PluginDeadline),
            ("bomb", FailureClass::PluginMemory),
            ("overflow", FailureClass::PluginTrapped),
            ("not utf-8", FailureClass::PluginOutput),
            ("forged", FailureClass::PluginOutput),
            ("broken metadata", FailureClass::PluginOutput),
            ("refuse", FailureClass::PluginRefused),
        ];
        assert_eq!(classes, expected);
        assert_eq!((text_of(&rendered[0]), text_of(&rendered[12])), ("good", "good"));
        assert_eq!(rendered[10], Rendered::Skipped);
        for row in [1, 2] {
            polite(failure_of(&rendered[row]).1);
        }
        // Documents are stored as they are.
        assert_eq!(text_of(&rendered[4]), misbehave_modes::RUDE);
        let title = MetadataValue::Text("\u{1b}[31m\u{9b}2J\u{202e}".to_owned());
        assert_eq!(metadata_of(&rendered[4]), Metadata([("title".into(), title)].into()));
    }

    "count-rows" what_depends_on_its_neighbours_is_found |mode| {
        differs(mode, &[&["a"], &["b", "c"], &["d", "e", "f"]], &["one of 2", "one of 2"]);
    }

    "many-keys" forty_seven_keys_of_forty_eight_declared |mode| {
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        assert_eq!(table.info().metadata.len(), 48);
        let object = |count| {
            let members: Vec<_> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let rendered = Answer::documents(&[("a", &object(47)), ("b", &object(48))]).render_in(&table);
        assert_eq!(metadata_of(&rendered[0]).0.len(), 47);
        let (class, reason, attempts) = failure_of(&rendered[1]);
        assert_eq!((class, attempts), (FailureClass::PluginOutput, 1));
        assert!(reason.contains("48 keys, of 47"), "{reason}");
    }

    "hidden-keys" more_non_filterable_keys_than_an_index_has |mode| {
        refused_declaration(mode, "10 non-filterable metadata keys, of 9");
    }

    "forged-key" a_declared_key_of_the_hosts |mode| {
        refused_declaration(mode, "\"_fingerprint\": names that begin with _ are the host's");
    }

    "twin-keys" a_key_declared_twice |mode| {
        refused_declaration(mode, "metadata key \"a\" twice");
    }

    "twin-reads" a_column_read_twice |mode| {
        refused_declaration(mode, "reads column \"text\" twice");
    }

    "rude-describe" a_rude_refusal |mode| {
        let error = TablePlugin::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(matches!(error, OpenError::Refused { .. }));
        polite(&error.to_string());
    }

    "rude-open" a_rude_refusal_of_the_table |mode| {
        polite(&open_table(GUEST, mode, Limits::default()).err().unwrap().to_string());
    }

    "rude-reads" a_rude_column |mode| {
        // No table has it: the host says so in its own words.
        polite(&open_table(GUEST, mode, Limits::default()).err().unwrap().to_string());
    }

    "rude-key" a_rude_metadata_key |mode| {
        let error = TablePlugin::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(matches!(error, OpenError::Declaration { .. }));
        polite(&error.to_string());
    }

    "rude-log" rude_last_words |mode| {
        let (rendered, _) = render(mode, Limits::default(), &["a", "poison"]);
        let rendered = rendered.unwrap();
        assert_eq!(text_of(&rendered[0]), "a");
        polite(failure_of(&rendered[1]).1);
    }

    "fickle" fickle |mode| {
        let table = open_table(GUEST, mode, Limits { determinism_every: 3, ..Limits::default() }).unwrap();
        for call in 1..=7 {
            assert_eq!(texts_of(&render_in(&table, &["a"]).unwrap()), [format!("call {call}")]);
        }
        // Batches 3 and 6; the check runs after the answer was given, before the next batch.
        let stats = table.stats();
        assert_eq!((stats.determinism_checks, stats.determinism_differences), (2, 2));
    }

    "wrong-counts" wrong_counts |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginOutput, "answered 2 states for 1 rows");
    }

    "missing-metadata" missing_metadata |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginOutput, "answered 0 metadata for 1 rows");
    }

    "falling-ends" falling_ends |mode| {
        // A single row has one end, which cannot fall: each row is right alone.
        let (rendered, stats) = render(mode, Limits::default(), &["a", "bc"]);
        assert_eq!(texts_of(&rendered.unwrap()), ["a", "bc"]);
        assert_eq!(stats.restarts(RestartReason::Output), 2);
    }

    "long-data" long_data |mode| {
        both_fail(mode, Limits::default(), FailureClass::PluginOutput, "bytes of data");
    }

    "invalid-utf8" invalid_utf8_in_one_row |mode| {
        let (class, reason, attempts) = one_failure_of_256(mode, Limits::default());
        assert_eq!((class, attempts), (FailureClass::PluginOutput, 1), "its neighbours are not rendered again");
        assert!(reason.contains("not UTF-8"), "{reason}");
    }
}

#[test]
fn an_honest_plugin_passes_the_determinism_check() {
    let table = open_table(GUEST, "echo", Limits { determinism_every: 1, ..Limits::default() }).unwrap();
    for _ in 0..3 {
        render_in(&table, &["a", "skip", "refuse", ""]).unwrap();
    }
    let stats = table.stats();
    // The third check may still be under way.
    assert!((2..=3).contains(&stats.determinism_checks), "{stats:?}");
    assert_eq!(stats.determinism_differences, 0);
}

#[test]
fn a_plugin_that_stops_on_every_row_is_broken_and_blames_none() {
    let (rendered, _) = render("panic", Limits { failed_run_max: 5, ..Limits::default() }, &["a"; 32]);
    let broken = rendered.unwrap_err().to_string();
    assert!(broken.starts_with("misbehave.wasm is broken: 5 rows in a row stopped it"), "{broken}");
}

#[test]
fn no_rows_are_no_call() {
    let (rendered, stats) = render("panic", Limits::default(), &[]);
    assert_eq!((rendered.unwrap(), stats.batches), (vec![], 0));
}

#[test]
fn other_columns_than_it_reads_are_refused() {
    let plugin = load(GUEST, Limits::default());
    let error = TablePlugin::open(&plugin, &config("echo"), &[]).err().unwrap();
    assert!(matches!(error, OpenError::Declaration { .. }), "{error}");
    let error = TablePlugin::open(&plugin, "{}", &[text_column()]).err().unwrap();
    assert_eq!(error.to_string(), "misbehave.wasm refuses: unknown mode in {}");
}

#[test]
fn an_answer_that_nobody_waits_for_is_given_up() {
    let table = open_table(GUEST, "loop", hasty()).unwrap();
    block_on(async {
        let render = table.render(256, crate::cells(&["a"; 256]));
        tokio::select! {
            _ = render => panic!("it loops"),
            () = async { std::thread::sleep(std::time::Duration::from_millis(30)) } => {}
        }
    });
    // The thread is free again after the try under way: had it gone on halving, this would take minutes.
    let started = std::time::Instant::now();
    render_in(&table, &["a"]).unwrap();
    assert!(started.elapsed().as_secs() < 10);
}

#[test]
fn many_callers_share_the_threads() {
    let table = open_table(GUEST, "echo", Limits::default()).unwrap();
    block_on(async {
        let calls = (0..50).map(|call| {
            let text = format!("call {call}");
            let table = &table;
            async move { (table.render(1, crate::cells(&[&text])).await.unwrap(), text) }
        });
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        for (rendered, text) in futures_in_turn(&mut calls).await {
            assert_eq!(texts_of(&rendered), [text]);
        }
    });
    assert_eq!(table.stats().batches, 50);
}

/// Polls all of them until each is done.
async fn futures_in_turn<F: Future + Unpin>(futures: &mut [F]) -> Vec<F::Output> {
    use std::task::Poll;
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = std::pin::Pin::new(future).poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
