//! Calls what WASI a plugin gets, as a language's runtime would.
#![cfg(target_arch = "wasm32")]

mod modes;

use std::cell::RefCell;

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../wit/draft", "wit"],
        world: "test:wasi-caller/wasi-caller",
        generate_all,
    });
}

use bindings::exports::keyvector::plugin::table::{Column, Documents, Guest, RowState, TableInfo};
use bindings::keyvector::plugin::types::Packed;
use bindings::wasi::cli::{environment, exit, stderr};
use bindings::wasi::clocks::{monotonic_clock, wall_clock};
use bindings::wasi::filesystem::preopens;
use bindings::wasi::io::poll;
use bindings::wasi::random::{insecure, insecure_seed, random};

struct WasiCaller;

bindings::export!(WasiCaller with_types_in bindings);

thread_local! {
    static MODE: RefCell<String> = const { RefCell::new(String::new()) };
}

const THREE_SECONDS_NS: u64 = 3_000_000_000;

impl Guest for WasiCaller {
    fn describe(config: String) -> Result<TableInfo, String> {
        let mode =
            config.strip_prefix("{\"mode\":\"").and_then(|rest| rest.strip_suffix("\"}")).unwrap_or_default();
        if !modes::WASI_MODES.contains(&mode) {
            return Err(format!("unknown mode in {config}"));
        }
        Ok(TableInfo { reads: vec!["text".to_owned()], metadata: vec![] })
    }

    fn open(config: String, _: Vec<Column>) -> Result<(), String> {
        MODE.set(config);
        Ok(())
    }

    fn render(rows: u32, _: Vec<u8>) -> Documents {
        let config = MODE.with_borrow(String::clone);
        let text = if config.contains("look-around") { look_around() } else { act(&config) };
        let ends = (1..=rows).map(|row| row * text.len() as u32).collect();
        Documents {
            states: vec![RowState::Document; rows as usize],
            texts: Packed { data: text.repeat(rows as usize).into_bytes(), ends },
            metadata: Packed { data: vec![], ends: vec![0; rows as usize] },
        }
    }
}

fn look_around() -> String {
    format!(
        "{:?} {} {} {:?} {:?} {:?} {:?} {:?} {} {:?}",
        wall_clock::now(),
        monotonic_clock::now(),
        monotonic_clock::subscribe_duration(THREE_SECONDS_NS).ready(),
        random::get_random_bytes(8),
        insecure::get_insecure_random_bytes(4),
        insecure_seed::insecure_seed(),
        environment::get_environment(),
        environment::get_arguments(),
        preopens::get_directories().len(),
        environment::initial_cwd(),
    )
}

fn act(config: &str) -> String {
    match config {
        "{\"mode\":\"sleep\"}" => monotonic_clock::subscribe_duration(THREE_SECONDS_NS).block(),
        "{\"mode\":\"poll\"}" => drop(poll::poll(&[&monotonic_clock::subscribe_duration(THREE_SECONDS_NS)])),
        "{\"mode\":\"poll-a-million\"}" => {
            let pollable = monotonic_clock::subscribe_duration(0);
            drop(poll::poll(&vec![&pollable; 1_000_000]));
        }
        "{\"mode\":\"2-to-40-random-bytes\"}" => drop(random::get_random_bytes(1 << 40)),
        "{\"mode\":\"2-to-40-insecure-bytes\"}" => drop(insecure::get_insecure_random_bytes(1 << 40)),
        "{\"mode\":\"write-60-mib\"}" => drop(stderr::get_stderr().write(&vec![b'w'; 60 << 20])),
        "{\"mode\":\"write-2-to-40-zeroes\"}" => drop(stderr::get_stderr().write_zeroes(1 << 40)),
        "{\"mode\":\"exit\"}" => exit::exit(Err(())),
        "{\"mode\":\"write-and-panic\"}" => {
            say("Traceback: the cause");
            panic!("it does not reach the host by itself");
        }
        "{\"mode\":\"write-much\"}" => {
            for _ in 0..1000 {
                say(&"w".repeat(4096));
            }
        }
        "{\"mode\":\"hoard\"}" => {
            for _ in 0..100_000 {
                std::mem::forget(monotonic_clock::subscribe_duration(THREE_SECONDS_NS));
            }
        }
        _ => {}
    }
    "done".to_owned()
}

fn say(text: &str) {
    stderr::get_stderr().blocking_write_and_flush(text.as_bytes()).expect("standard error takes all");
}
