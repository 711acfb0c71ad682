//! Runs the built binary in a folder of its own.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "only tests use this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder to run in, and an environment.
pub(crate) struct Host {
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Standard output of a run that went well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "it failed:\n{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

impl Host {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The command, with no variable of the surroundings that could change what it does.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyvector-host"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("KEYVECTOR_") || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        let output = self.command(arguments).output().unwrap();
        Done {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Follows the film table to its end.
    pub(crate) fn with_films() -> Self {
        needs_plugins();
        let host = Self::new();
        host.run(&["--plugin", "movies", "--until-drained"]).ok();
        host
    }
}

/// A file of the film table in the project.
pub(crate) fn films(name: &str) -> &'static str {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/movies/data");
    String::leak(folder.join(name).canonicalize().expect("the film table is there").display().to_string())
}

/// A record that inserts a film.
pub(crate) fn film(movie_id: u32, year: &str) -> serde_json::Value {
    record(&movie_id.to_string(), "Test & Co", year)
}

pub(crate) fn record(movie_id: &str, studio: &str, year: &str) -> serde_json::Value {
    serde_json::json!({
        "eventVersion": "1.0", "createdAt": 1_796_000_000.0, "origin": "USER",
        "partitionKeys": {"movie_id": {"intT": movie_id}}, "clusteringKeys": {"studio": {"textT": studio}},
        "sequenceNumber": "000000826000000000000000009999",
        "newImage": {"valueCells": {
            "movie_id": {"value": {"intT": movie_id}}, "studio": {"value": {"textT": studio}},
            "title": {"value": {"textT": "Put Right"}}, "year": {"value": {"intT": year}},
        }, "staticCells": {}},
    })
}

/// These tests need a binary that carries the shipped plugins.
pub(crate) fn needs_plugins() {
    let names = keyvector_host::shipped::plugin_names();
    assert!(
        names == ["columns", "movies", "static"],
        "this build carries {names:?}: run `cargo xtask plugins`, then test again"
    );
}

/// JSON lines of standard output.
pub(crate) fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}
