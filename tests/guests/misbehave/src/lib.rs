//! Does, by configuration, what no plugin should. It is written against the boundary itself, not the SDK, which would
//! prevent half of it.
#![cfg(target_arch = "wasm32")]

mod model;
mod modes;
mod puppet;
mod table;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/draft",
        inline: "
            package test:misbehave;
            world misbehave {
                import keyvector:plugin/log@0.1.0-draft.1;
                export keyvector:plugin/table@0.1.0-draft.1;
                export keyvector:plugin/local-model@0.1.0-draft.1;
                export keyvector:plugin/remote-model@0.1.0-draft.1;
            }
        ",
        world: "test:misbehave/misbehave",
        generate_all,
    });
}

struct Misbehave;

bindings::export!(Misbehave with_types_in bindings);

thread_local! {
    static MODE: RefCell<String> = const { RefCell::new(String::new()) };
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// The calls of this instance so far, this one included.
fn count_call() -> u32 {
    CALLS.fetch_add(1, Relaxed) + 1
}

fn opened_as() -> String {
    MODE.with_borrow(String::clone)
}

/// The mode in a configuration such as `{"mode":"echo"}`.
fn mode(config: &str, known: &[&str]) -> Result<String, String> {
    let mode =
        config.strip_prefix("{\"mode\":\"").and_then(|rest| rest.strip_suffix("\"}")).unwrap_or_default();
    if !known.contains(&mode) {
        return Err(format!("unknown mode in {config}"));
    }
    Ok(mode.to_owned())
}

fn spin() -> ! {
    loop {
        std::hint::black_box(());
    }
}

fn take_all_memory() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

fn overflow_stack(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 64]);
    if block[0] == u64::MAX {
        return 0;
    }
    overflow_stack(depth + 1) + block[depth as usize % 64]
}

fn pack<T: AsRef<[u8]>>(items: &[T]) -> bindings::keyvector::plugin::types::Packed {
    let mut packed = bindings::keyvector::plugin::types::Packed { data: Vec::new(), ends: Vec::new() };
    for item in items {
        packed.data.extend_from_slice(item.as_ref());
        packed.ends.push(packed.data.len() as u32);
    }
    packed
}
