//! What a guest sees of WASI: nothing that differs, and nothing to wait for.

use std::time::{Duration, Instant};

use keyvector_core::document::FailureClass;
use keyvector_sandbox::{Limits, Plugin, TablePlugin};

use crate::{
    config, failure_of, load, open_table, render_in, tests_of_modes, text_column, texts_of, wasi_modes,
};

const GUEST: &str = "wasi-caller.wasm";

#[track_caller]
fn fails(mode: &str, parts: &[&str]) {
    fails_as(mode, FailureClass::PluginTrapped, parts);
}

#[track_caller]
fn fails_as(mode: &str, expected: FailureClass, parts: &[&str]) {
    let table = open_table(GUEST, mode, Limits::default()).unwrap();
    let started = Instant::now();
    let rendered = render_in(&table, &["a"]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "it waited");
    let (class, reason, _) = failure_of(&rendered[0]);
    assert_eq!(class, expected, "{reason}");
    for part in parts {
        assert!(reason.contains(part), "{reason}");
    }
}

tests_of_modes! {
    wasi_modes::WASI_MODES;

    "look-around" look_around |mode| {
        // In two engines, in two instances of one engine, and in one instance twice.
        let seen = |plugin: &Plugin| {
            let table = TablePlugin::open(plugin, &config(mode), &[text_column()]).unwrap();
            [(); 2].map(|()| texts_of(&render_in(&table, &["a"]).unwrap())[0].to_owned())
        };
        let plugins = [(); 2].map(|()| load(GUEST, Limits::default()));
        let [first, again] = seen(&plugins[0]);
        for plugin in [&plugins[0], &plugins[1]] {
            assert_eq!(seen(plugin), [first.clone(), again.clone()]);
        }
        assert_eq!(
            first,
            "Datetime { seconds: 946684800, nanoseconds: 0 } 0 true \
             [137, 145, 101, 190, 251, 248, 238, 113] [28, 151, 11, 191] (8214565720323784705, 7738725084120183919) [] [] 0 None"
        );
        assert_eq!(load(GUEST, Limits::default()).memory_bytes_max(), 128 << 20);
    }

    "sleep" sleep |mode| {
        fails(mode, &["may not wait"]);
    }

    "poll" poll |mode| {
        fails(mode, &["may not wait"]);
    }

    "poll-a-million" poll_a_million |mode| {
        // The list alone is more than a call may hand over.
        fails_as(mode, FailureClass::PluginOutput, &["answered more than"]);
    }

    "2-to-40-random-bytes" two_to_the_40_random_bytes |mode| {
        fails(mode, &["1099511627776 exceeds limit 1048576"]);
    }

    "2-to-40-insecure-bytes" two_to_the_40_insecure_bytes |mode| {
        fails(mode, &["1099511627776 exceeds limit 1048576"]);
    }

    "write-60-mib" write_60_mib |mode| {
        fails_as(mode, FailureClass::PluginOutput, &["answered more than"]);
    }

    "write-2-to-40-zeroes" write_two_to_the_40_zeroes |mode| {
        fails(mode, &["more zeroes than"]);
    }

    "exit" exit |mode| {
        fails(mode, &["exited with 1"]);
    }

    "write-and-panic" last_words_on_standard_error_are_kept |mode| {
        fails(mode, &["`unreachable`", "it said: Traceback: the cause"]);
    }

    "write-much" write_much |mode| {
        let table = open_table(GUEST, mode, Limits::default()).unwrap();
        assert_eq!(texts_of(&render_in(&table, &["a"]).unwrap()), ["done"]);
    }

    "hoard" hoarded_resources_are_bounded |mode| {
        fails(mode, &["resource table has no free keys"]);
    }
}
