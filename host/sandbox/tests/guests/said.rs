//! What a plugin says in the host's log: bounded, and one line that does nothing, whatever was said.

use std::io;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use keyvector_sandbox::{Engine, EngineConfig, TablePlugin};

use crate::misbehave_modes::RUDE;
use crate::{built_plugin, config, polite, render_in, text_column};

/// Lines of this process's log that plugins wrote, as a terminal gets them.
static LOG: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(|| {
    tracing_subscriber::fmt().with_env_filter("plugin=debug").with_ansi(false).with_writer(|| Writer).init();
    Mutex::default()
});

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Renders one row, and gives the lines that the log got meanwhile. Each test has a guest's name of its own.
fn said(guest: &str, name: &str, mode: &str, row: &str, log_plugin_text: bool) -> Vec<String> {
    LazyLock::force(&LOG);
    let config_of_engine = EngineConfig { threads: 1, log_plugin_text, ..EngineConfig::default() };
    let plugin = Engine::new(config_of_engine).unwrap().load(name, &built_plugin(guest)).unwrap();
    let table = TablePlugin::open(&plugin, &config(mode), &[text_column()]).unwrap();
    let started = Instant::now();
    render_in(&table, &[row]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
}

#[test]
fn megabytes_of_lines_are_bounded() {
    for with_text in [false, true] {
        let lines = said("misbehave.wasm", &format!("chatty-{with_text}"), "chatty", "a", with_text);
        assert_eq!(lines.len(), 101, "100 lines, and one that says so");
        assert!(lines[100].contains("dropping the rest"), "{}", lines[100]);
        for line in &lines[..100] {
            assert!(line.contains("bytes=20000"), "{line}");
            assert_eq!(line.contains("éé"), with_text, "{line}");
            assert!(line.len() < 1024 + 200, "{} bytes", line.len());
        }
    }
}

#[test]
fn megabytes_on_standard_error_are_bounded() {
    for with_text in [false, true] {
        let lines =
            said("wasi-caller.wasm", &format!("write-much-{with_text}"), "write-much", "a", with_text);
        assert_eq!(lines.len(), 101);
        assert!(lines.iter().all(|line| line.len() < 1024 + 200));
        assert!(lines[..100].iter().all(|line| line.contains("www") == with_text));
    }
}

#[test]
fn rude_lines_are_escaped_or_left_out() {
    let lines = said("misbehave.wasm", "rude-with-text", "rude-log", "a", true);
    assert_eq!(lines.len(), 4);
    lines.iter().for_each(|line| polite(line));
    let lines = said("misbehave.wasm", "rude-without-text", "rude-log", "a", false);
    assert_eq!(lines.len(), 4);
    for line in lines {
        assert!(!line.contains("red") && line.contains(&format!("bytes={}", RUDE.len())), "{line}");
    }
}
