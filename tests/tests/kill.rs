//! The real host, killed at random moments of following the film table, ends with the index that the fold of the file
//! asks for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

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

fn films() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/movies/data/films.jsonl")
}

fn follow(store: &Path, batch: u32) -> Command {
    let mut command = Command::new(host());
    command
        .args(["--plugin", "movies", "--until-drained", "--failover", "200ms", "--batch", &batch.to_string()])
        .arg("--source")
        .arg(films())
        .arg("--store")
        .arg(store)
        .current_dir(store.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
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

/// The index by key: the vector's numbers and the plugin's metadata.
fn dump(store: &Path) -> BTreeMap<String, (Value, BTreeMap<String, Value>)> {
    output(store, &["index", "dump", "--vectors"])
        .lines()
        .map(|line| {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            let Value::Object(metadata) = entry["metadata"].take() else { panic!("{line}") };
            let metadata = metadata.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
            let vector = entry["vector"].take();
            assert!(vector.as_array().is_some_and(|numbers| numbers.len() == 256), "{line}");
            (entry["key"].as_str().unwrap().to_owned(), (vector, metadata))
        })
        .collect()
}

fn numbers(metadata: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    // 1994 and 1994.0 are one number.
    let float = |value: &Value| value.as_f64().map_or_else(|| value.clone(), Value::from);
    metadata.iter().map(|(name, value)| (name.clone(), float(value))).collect()
}

#[test]
fn killed_at_random_moments_it_ends_with_the_same_index() {
    let lines: Vec<String> = std::fs::read_to_string(films()).unwrap().lines().map(str::to_owned).collect();
    let expected = fold::index(&fold::table(&lines));
    let folder = tempfile::tempdir().unwrap();

    let calm = folder.path().join("calm.db");
    assert!(follow(&calm, 256).status().unwrap().success());
    let calm = dump(&calm);

    let mut random = StdRng::seed_from_u64(20_261_130);
    let mut killed = 0;
    for round in 0..ROUNDS {
        let store = folder.path().join(format!("killed-{round}.db"));
        for _ in 0..KILLS_A_ROUND {
            let mut child = follow(&store, random.random_range(1..=9)).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.random_range(150..900)));
            killed += u32::from(child.try_wait().unwrap().is_none());
            // SIGKILL; it may have ended by itself just now.
            child.kill().ok();
            child.wait().unwrap();
        }
        assert!(follow(&store, random.random_range(1..=300)).status().unwrap().success(), "round {round}");
        let found = dump(&store);
        let keys = |index: &BTreeMap<String, _>| index.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), expected.keys().cloned().collect::<Vec<_>>(), "round {round}: keys");
        for (key, expected) in &expected {
            let (vector, metadata) = &found[key];
            assert_eq!(numbers(metadata), numbers(&expected.metadata), "round {round}: metadata of {key}");
            assert_eq!(*vector, calm[key].0, "round {round}: vector of {key}");
        }
        let letters = output(&store, &["dlq", "list", "--json"]);
        assert_eq!(letters.lines().count(), 2, "round {round}: {letters}");
    }
    assert!(killed >= 25, "only {killed} of the kills met a running host");
}
