//! The real host, killed at random moments of following the film table while that is written, ends with the index that
//! the fold of the file asks for.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keyvector_tests::fold;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

const ROUNDS: u64 = 5;
const KILLS_A_ROUND: u32 = 6;

fn host() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let host = test.ancestors().nth(2).unwrap().join("keyvector-host");
    assert!(host.is_file(), "{} is missing: cargo build --release -p keyvector-host", host.display());
    host
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/movies/data").join(name)
}

fn follow(store: &Path, source: &Path, batch: u32) -> Command {
    let mut command = Command::new(host());
    command
        .args(["--plugin", "movies", "--failover", "200ms", "--batch", &batch.to_string()])
        .arg("--source")
        .arg(source)
        .arg("--store")
        .arg(store)
        .current_dir(store.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Follows the file to its end.
fn drain(store: &Path, source: &Path, batch: u32) {
    assert!(follow(store, source, batch).arg("--until-drained").status().unwrap().success());
}

/// A copy of the film table that is written bit by bit.
struct Growing {
    file: std::fs::File,
    lines: Vec<String>,
    written: usize,
}

impl Growing {
    fn new(path: &Path, lines: &[String]) -> Self {
        Self { file: std::fs::File::create(path).unwrap(), lines: lines.to_vec(), written: 0 }
    }

    /// One line more, in two pieces, of which the first stands torn for a moment.
    fn write_line(&mut self, pause: Duration) {
        let Some(line) = self.lines.get(self.written) else { return std::thread::sleep(pause) };
        let (first, second) = line.as_bytes().split_at(line.len() / 2);
        self.file.write_all(first).unwrap();
        std::thread::sleep(pause);
        self.file.write_all(second).unwrap();
        self.file.write_all(b"\n").unwrap();
        self.written += 1;
    }
}

fn output(store: &Path, arguments: &[&str]) -> String {
    let output = Command::new(host())
        .args(arguments)
        .arg("--store")
        .arg(store)
        .current_dir(store.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct Entry {
    vector: Value,
    /// The plugin's, without the host's own keys.
    metadata: BTreeMap<String, Value>,
    /// From the vector's fingerprint.
    text_hash: String,
}

/// The index by key.
fn dump(store: &Path) -> BTreeMap<String, Entry> {
    output(store, &["index", "dump", "--vectors"])
        .lines()
        .map(|line| {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            let Value::Object(metadata) = entry["metadata"].take() else { panic!("{line}") };
            let metadata = metadata.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
            let vector = entry["vector"].take();
            assert!(vector.as_array().is_some_and(|numbers| numbers.len() == 256), "{line}");
            // `1.<model>.<text>.<metadata>.<shard>.<sequence number>`
            let fingerprint: Vec<&str> = entry["fingerprint"].as_str().unwrap().split('.').collect();
            assert_eq!((fingerprint.len(), fingerprint[0]), (6, "1"), "{line}");
            let text_hash = fingerprint[2].to_owned();
            (entry["key"].as_str().unwrap().to_owned(), Entry { vector, metadata, text_hash })
        })
        .collect()
}

/// As a fingerprint has it, computed here from nothing but the text.
fn text_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn numbers(metadata: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    // 1994 and 1994.0 are one number.
    let float = |value: &Value| value.as_f64().map_or_else(|| value.clone(), Value::from);
    metadata.iter().map(|(name, value)| (name.clone(), float(value))).collect()
}

#[test]
fn killed_at_random_moments_it_ends_with_the_same_index() {
    let lines: Vec<String> =
        std::fs::read_to_string(data("films.jsonl")).unwrap().lines().map(str::to_owned).collect();
    let expected = fold::index(&fold::table(&lines));
    let folder = tempfile::tempdir().unwrap();

    let calm = folder.path().join("calm.db");
    drain(&calm, &data("films.jsonl"), 256);
    let calm = dump(&calm);

    let mut random = StdRng::seed_from_u64(20_261_130);
    let mut at_work = 0;
    for round in 0..ROUNDS {
        let store = folder.path().join(format!("killed-{round}.db"));
        let source = folder.path().join(format!("round-{round}/films.jsonl"));
        std::fs::create_dir(source.parent().unwrap()).unwrap();
        std::fs::copy(data("table.cql"), source.with_file_name("table.cql")).unwrap();
        let mut growing = Growing::new(&source, &lines);
        for _ in 0..KILLS_A_ROUND {
            let mut child = follow(&store, &source, random.random_range(1..=9)).spawn().unwrap();
            let end = Instant::now() + Duration::from_millis(random.random_range(300..900));
            while Instant::now() < end {
                growing.write_line(Duration::from_millis(random.random_range(3..10)));
            }
            assert!(child.try_wait().unwrap().is_none(), "round {round}: it ended by itself");
            // SIGKILL.
            child.kill().unwrap();
            child.wait().unwrap();
            let done = fold::index(&fold::table(&lines[..growing.written]));
            // On a slow machine there may be no store yet.
            at_work += u32::from(!store.exists() || !dump(&store).keys().eq(done.keys()));
        }
        while growing.written < lines.len() {
            growing.write_line(Duration::ZERO);
        }
        drain(&store, &source, random.random_range(1..=300));
        let found = dump(&store);
        assert!(found.keys().eq(expected.keys()), "round {round}: {:?}", found.keys().collect::<Vec<_>>());
        for (key, expected) in &expected {
            let found = &found[key];
            assert_eq!(
                numbers(&found.metadata),
                numbers(&expected.metadata),
                "round {round}: metadata of {key}"
            );
            assert_eq!(found.text_hash, text_hash(&expected.text), "round {round}: text of {key}");
            assert_eq!(found.vector, calm[key].vector, "round {round}: vector of {key}");
        }
        let letters = output(&store, &["dlq", "list", "--json"]);
        assert_eq!(letters.lines().count(), 2, "round {round}: {letters}");
    }
    assert!(at_work >= 5, "only {at_work} of the kills met a host at work");
}
