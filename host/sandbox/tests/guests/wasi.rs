//! What a guest sees of WASI: nothing that differs, and nothing to wait for.

use std::time::{Duration, Instant};

use keyvector_core::document::FailureClass;
use keyvector_sandbox::Limits;

use crate::{failure_of, load, open_table, render_in, tests_of_modes, texts_of, wasi_modes};

const GUEST: &str = "wasi-caller.wasm";

#[track_caller]
fn fails(mode: &str, parts: &[&str]) {
    let table = open_table(GUEST, mode, Limits::default()).unwrap();
    let started = Instant::now();
    let rendered = render_in(&table, &["a"]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "it waited");
    let (class, reason, _) = failure_of(&rendered[0]);
    assert_eq!(class, FailureClass::PluginTrapped);
    for part in parts {
        assert!(reason.contains(part), "{reason}");
    }
}

tests_of_modes! {
    wasi_modes::WASI_MODES;

    "look-around" look_around |mode| {
        let seen = || {
            let table = open_table(GUEST, mode, Limits::default()).unwrap();
            texts_of(&render_in(&table, &["a"]).unwrap())[0].to_owned()
        };
        let first = seen();
        assert_eq!(
            first,
            "Datetime { seconds: 946684800, nanoseconds: 0 } 0 true \
             [137, 145, 101, 190, 251, 248, 238, 113] (8214565720323784705, 7738725084120183919) [] [] 0 None"
        );
        assert_eq!(first, seen());
        assert_eq!(load(GUEST, Limits::default()).memory_bytes_max(), 128 << 20);
    }

    "sleep" sleep |mode| {
        fails(mode, &["may not wait"]);
    }

    "poll" poll |mode| {
        fails(mode, &["may not wait"]);
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
