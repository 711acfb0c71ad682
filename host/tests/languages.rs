//! The film plugin in other languages than Rust, through the whole line: the same index, letters and answers.

#![allow(clippy::unwrap_used, reason = "a test")]

mod host;

use std::io::Write;
use std::path::Path;

use host::{Host, films, json_lines};

/// What is left when the film table has been followed to its end.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Keys, metadata and fingerprints, which stand for the texts.
    index: Vec<serde_json::Value>,
    /// Row and reason.
    letters: Vec<(serde_json::Value, serde_json::Value)>,
    answer: serde_json::Value,
}

fn follow_films(plugin: &str) -> Outcome {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
    let host = Host::new().env("KEYVECTOR_CACHE_DIR", cache.to_str().unwrap());
    host.run(&["--plugin", plugin, "--source", films("films.jsonl"), "--until-drained"]).ok();
    let letters = json_lines(&host.run(&["dlq", "list", "--json"]).ok());
    Outcome {
        index: json_lines(&host.run(&["index", "dump"]).ok()),
        letters: letters.iter().map(|letter| (letter["key"].clone(), letter["reason"].clone())).collect(),
        answer: serde_json::from_str(&host.run(&["query", "lost at sea", "--json"]).ok()).unwrap(),
    }
}

fn same_as_movies(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/dist/{name}.wasm"));
    if !file.is_file() {
        return skip(name);
    }
    host::needs_plugins();
    let expected = follow_films("movies");
    assert_eq!((expected.index.len(), expected.letters.len()), (296, 2));
    let given = follow_films(file.to_str().unwrap());
    for (given, expected) in given.index.iter().zip(&expected.index) {
        assert_eq!(given, expected);
    }
    assert_eq!(given, expected);
}

fn skip(name: &str) {
    let line = format!("{name} through the host\tcargo xtask examples, which says what it needs\n");
    eprint!("skipped: {line}");
    if let Some(list) = std::env::var_os("KEYVECTOR_SKIPPED") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}

#[test]
fn c_leaves_the_same_index() {
    same_as_movies("movies-c");
}

#[test]
fn java_script_leaves_the_same_index() {
    same_as_movies("movies-js");
}

#[test]
fn python_leaves_the_same_index() {
    same_as_movies("movies-python");
}

/// The whole plugin in the manual of C's SDK, as a C compiler sees it.
#[test]
fn the_manual_of_c_compiles() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/c");
    let manual = std::fs::read_to_string(sdk.join("README.md")).unwrap();
    let code = manual.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let host = Host::new();
    host.write("books.c", code);
    let mut compile = std::process::Command::new("cc");
    compile.args(["-fsyntax-only", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&sdk);
    let output = compile.arg(host.path("books.c")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
