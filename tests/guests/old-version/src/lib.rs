//! Speaks a version of the boundary that never was, well or badly, by configuration.
#![cfg(target_arch = "wasm32")]

mod model;
mod modes;
mod table;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package test:old-version;
            world old-version {
                import keyvector:plugin/log@0.0.9;
                export keyvector:plugin/table@0.0.9;
                export keyvector:plugin/local-model@0.0.9;
                export keyvector:plugin/remote-model@0.0.9;
            }
        ",
        world: "test:old-version/old-version",
        generate_all,
    });
}

struct OldVersion;

bindings::export!(OldVersion with_types_in bindings);

thread_local! {
    static MODE: RefCell<String> = const { RefCell::new(String::new()) };
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// The calls of this instance so far, this one included.
fn count_call() -> u32 {
    CALLS.fetch_add(1, Relaxed) + 1
}

/// Keeps the mode in a configuration such as `{"mode":"echo"}`.
fn open_as(config: &str) -> Result<(), String> {
    MODE.set(mode(config)?);
    Ok(())
}

fn opened_as() -> String {
    MODE.with_borrow(String::clone)
}

fn mode(config: &str) -> Result<String, String> {
    let mode =
        config.strip_prefix("{\"mode\":\"").and_then(|rest| rest.strip_suffix("\"}")).unwrap_or_default();
    if !modes::MODES.contains(&mode) {
        return Err(format!("unknown mode in {config}"));
    }
    Ok(mode.to_owned())
}

/// What breaks every call alike.
fn misbehave(mode: &str, poisoned: bool) {
    use bindings::keyvector::plugin::log;
    match mode {
        "panic" => {
            log::write(log::Level::Error, "about to panic");
            panic!("on purpose")
        }
        "trap-on-poison" if poisoned => panic!("poison"),
        "loop" => loop {
            std::hint::black_box(());
        },
        "memory-bomb" => {
            let mut taken = Vec::new();
            loop {
                taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        "leak" => std::mem::forget(std::hint::black_box(vec![1_u8; 4 << 20])),
        _ => {}
    }
}
