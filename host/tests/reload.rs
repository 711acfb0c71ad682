//! The development loop and take-overs with the built binary: plugin files change under a running host, good and bad, and
//! hosts are killed while a table is rendered again.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod host;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use host::{Host, film, films, json_lines, needs_plugins};

const PATIENCE: Duration = Duration::from_secs(60);

/// A host at work, and what it says.
struct Running {
    child: Child,
    said: Receiver<String>,
    heard: Vec<String>,
}

impl Running {
    fn start(host: &Host, arguments: &[&str]) -> Self {
        let mut child = host.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, said, heard: Vec::new() }
    }

    /// Waits for the next line that holds `words`; lines before it are heard.
    fn until(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.heard.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
        panic!("it never said {words:?}, but {:#?}", self.heard);
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it does not end: {:#?}", self.heard);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.heard.extend(self.said.iter());
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.heard))
    }

    fn interrupt(self) -> (Option<i32>, Vec<String>) {
        self.signal("-INT");
        self.ends()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A shipped plugin's bytes.
fn plugin(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
    std::fs::read(folder.join(name).with_extension("wasm")).unwrap()
}

/// The film table and `own.wasm`, which is `titles`, in a folder; and the flags that follow it.
fn set_up() -> (Host, Vec<&'static str>) {
    needs_plugins();
    let host = Host::new();
    std::fs::copy(films("films.jsonl"), host.path("films.jsonl")).unwrap();
    std::fs::copy(films("table.cql"), host.path("table.cql")).unwrap();
    std::fs::write(host.path("own.wasm"), plugin("titles")).unwrap();
    // What a row that fails had before depends on the plugin that was there before.
    let follow =
        ["--plugin", "own.wasm", "--source", "films.jsonl", "--failover", "300ms", "--on-poison", "delete"];
    (host, follow.to_vec())
}

fn with<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [flags, more].concat()
}

/// Vectors by key, each with all that was said of it but which change brought it there: a plugin that does not read what
/// a change touched leaves the vector of the change before.
fn dump(host: &Host) -> BTreeMap<String, serde_json::Value> {
    by_key(&host.run(&["index", "dump", "--vectors"]).ok())
}

fn by_key(dumped: &str) -> BTreeMap<String, serde_json::Value> {
    let entry = |mut line: serde_json::Value| {
        let (made_from, _) = line["fingerprint"].as_str().unwrap().rsplit_once('.').unwrap();
        line["fingerprint"] = made_from.into();
        (line["key"].as_str().unwrap().to_owned(), line)
    };
    json_lines(dumped).into_iter().map(entry).collect()
}

/// Waits until the index is as it should be.
fn until(host: &Host, what: &str, is_so: impl Fn(&BTreeMap<String, serde_json::Value>) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let dumped = host.run(&["index", "dump"]);
        if dumped.code == 0 && is_so(&by_key(&dumped.stdout)) {
            return;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a fresh run under this plugin makes of the host's file.
fn fresh(host: &Host, name: &str) -> BTreeMap<String, serde_json::Value> {
    let other = Host::new();
    std::fs::copy(host.path("films.jsonl"), other.path("films.jsonl")).unwrap();
    std::fs::copy(host.path("table.cql"), other.path("table.cql")).unwrap();
    std::fs::write(other.path("own.wasm"), plugin(name)).unwrap();
    let follow =
        ["--plugin", "own.wasm", "--source", "films.jsonl", "--on-poison", "delete", "--until-drained"];
    other.run(&follow).ok();
    dump(&other)
}

/// The index is as if this plugin had followed the table from the start.
fn assert_as_fresh(host: &Host, name: &str) {
    let (found, expected) = (dump(host), fresh(host, name));
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys().collect::<Vec<_>>());
    for (key, expected) in &expected {
        assert_eq!(&found[key], expected);
    }
}

fn append(host: &Host, line: &serde_json::Value) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(host.path("films.jsonl")).unwrap();
    writeln!(file, "{line}").unwrap();
}

#[test]
fn a_plugin_file_that_changes_takes_over_and_one_that_cannot_leaves_the_running_one() {
    let (host, follow) = set_up();
    let mut running = Running::start(&host, &with(&follow, &["--reload"]));
    running.until("following films.jsonl and own.wasm");
    until(&host, "the table is followed", |index| index.len() > 290);
    let files: [(&[u8], &str); 5] = [
        (b"(half a build", "not WebAssembly"),
        (&plugin("movies")[..20_000], "own.wasm"),
        // A model, no table plugin; and one that refuses the configuration.
        (&plugin("static"), "table"),
        (&plugin("misbehave"), "unknown mode"),
        (b"", "own.wasm"),
    ];
    for (bytes, why) in files {
        std::fs::write(host.path("own.wasm"), bytes).unwrap();
        let line = running.until("changed and cannot be used");
        assert!(line.contains("own.wasm") && line.contains(why), "{why}: {line}");
        append(&host, &film(9000 + bytes.len() as u32 % 1000, "1999"));
    }
    // Back to what it was, which nobody has to be told of twice.
    std::fs::write(host.path("own.wasm"), plugin("titles")).unwrap();
    running.until("own.wasm is again the one at work");
    let expected = fresh(&host, "titles");
    until(&host, "changes are followed meanwhile", |index| index.keys().eq(expected.keys()));

    std::fs::write(host.path("own.wasm"), plugin("movies")).unwrap();
    let line = running.until("own.wasm changed");
    assert!(line.contains(" rows rendered again: embedded ") && line.contains("metadata only"), "{line}");
    append(&host, &film(8000, "2001"));
    until(&host, "changes are followed", |index| index.contains_key("movie_id=8000&studio=Test%20%26%20Co"));
    let (code, heard) = running.interrupt();
    assert_eq!(code, Some(0), "{heard:#?}");
    let said = |words: &str| heard.iter().filter(|line| line.contains(words)).count();
    assert_eq!((said("cannot be used"), said("rendered again")), (5, 1), "{heard:#?}");
    assert_as_fresh(&host, "movies");

    // The same plugin goes on, whatever revision it was given; another needs a word.
    host.run(&with(&follow, &["--until-drained"])).ok();
    std::fs::write(host.path("own.wasm"), plugin("titles")).unwrap();
    let superseded = host.run(&with(&follow, &["--until-drained"]));
    assert_eq!(superseded.code, 0, "{}", superseded.stderr);
    assert!(superseded.stderr.contains("superseded by revision 2"), "{}", superseded.stderr);
    let check = host.run(&with(&["check"], &follow));
    assert_eq!(check.code, 64, "{}", check.stdout);
    let refused = host.run(&with(&follow, &["--until-drained", "--revision", "2"]));
    assert_eq!(refused.code, 64, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("revision = 3") && refused.stderr.contains("--reload"),
        "{}",
        refused.stderr
    );
    let replay = host.run(&with(&follow, &["dlq", "replay", "--all"]));
    assert_eq!(replay.code, 64, "{}", replay.stderr);
    assert!(replay.stderr.contains("another plugin or configuration"), "{}", replay.stderr);
    let taken = host.run(&with(&follow, &["--until-drained", "--reload"]));
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert!(taken.stderr.contains("raised to revision 3"), "{}", taken.stderr);
    assert_as_fresh(&host, "titles");
}

#[test]
fn a_host_of_a_lower_revision_hands_over_and_cannot_come_back() {
    let (host, follow) = set_up();
    let mut first = Running::start(&host, &with(&follow, &["-v"]));
    until(&host, "the table is followed", |index| index.len() > 290);
    std::fs::write(host.path("other.wasm"), plugin("movies")).unwrap();
    let movies =
        ["--plugin", "other.wasm"].into_iter().chain(follow[2..].iter().copied()).collect::<Vec<_>>();
    let mut second = Running::start(&host, &with(&movies, &["--revision", "2"]));
    second.until("taken over by other.wasm, revision 2");
    first.until("superseded by revision 2 (other.wasm)");
    let (code, heard) = first.ends();
    assert_eq!(code, Some(0), "{heard:#?}");
    second.until("rows rendered again");
    let late = host.run(&follow);
    assert_eq!(late.code, 0, "{}", late.stderr);
    assert!(late.stderr.starts_with("table films: superseded by revision 2"), "{}", late.stderr);
    assert_eq!(second.interrupt().0, Some(0));
    assert_as_fresh(&host, "movies");
}

#[test]
fn a_host_that_cannot_start_takes_no_table_over() {
    let (host, mut follow) = set_up();
    follow.extend(["--table", "films", "--schema", "table.cql", "--on-gap", "stop"]);
    let mut first = Running::start(&host, &with(&follow, &["-v"]));
    until(&host, "the table is followed", |index| index.len() > 290);
    std::fs::write(host.path("other.wasm"), plugin("movies")).unwrap();
    host.write("another.jsonl", &format!("{}\n", film(1, "1999")));
    let mut keys_only = film(1, "1999");
    keys_only.as_object_mut().unwrap().remove("newImage");
    host.write("keys.jsonl", &format!("{keys_only}\n"));
    let refusals =
        [("none.jsonl", "no file", 69), ("keys.jsonl", "KEYS_ONLY", 64), ("another.jsonl", "on_gap", 64)];
    for (source, why, code) in refusals {
        let mut flags = with(&follow, &["--revision", "2", "--until-drained"]);
        (flags[1], flags[3]) = ("other.wasm", source);
        let refused = host.run(&flags);
        assert_eq!(refused.code, code, "{source}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{source}: {}", refused.stderr);
    }
    // Longer than a host takes to see that it was superseded.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(first.child.try_wait().unwrap().is_none(), "{:#?}", first.ends());
    append(&host, &film(8000, "2001"));
    until(&host, "changes are followed", |index| index.contains_key("movie_id=8000&studio=Test%20%26%20Co"));
    let check = host.run(&with(&["check"], &follow));
    assert!(check.stdout.contains("revision 1 by own.wasm"), "{}", check.stdout);
    assert_eq!(first.interrupt().0, Some(0));
    assert_as_fresh(&host, "titles");
}

#[test]
fn a_halted_table_waits_for_its_plugin_to_be_mended() {
    let (host, follow) = set_up();
    // `movies` refuses every row.
    let lines: String = (1..=20).map(|id| format!("{}\n", film(id, "-1"))).collect();
    host.write("films.jsonl", &lines);
    std::fs::write(host.path("own.wasm"), plugin("movies")).unwrap();
    let follow = with(&follow, &["--poison-run-max", "10"]);
    let mut running = Running::start(&host, &with(&follow, &["--reload"]));
    running.until("waiting for own.wasm to change");
    std::fs::write(host.path("own.wasm"), plugin("titles")).unwrap();
    let line = running.until("own.wasm changed");
    assert!(line.contains("20 rows rendered again: embedded 20"), "{line}");
    // Broken again: it halts while rows are rendered again, and takes nothing away.
    std::fs::write(host.path("own.wasm"), plugin("movies")).unwrap();
    running.until("waiting for own.wasm to change");
    assert_eq!(dump(&host).len(), 20);
    let (code, heard) = running.interrupt();
    assert_eq!(code, Some(75), "{heard:#?}");
    assert_eq!(host.run(&with(&follow, &["--until-drained"])).code, 75, "the halt lasts");
    assert_eq!(host.run(&["dlq", "list", "--exit-code"]).code, 0, "nothing was dead-lettered");
    std::fs::write(host.path("own.wasm"), plugin("titles")).unwrap();
    host.run(&with(&follow, &["--until-drained", "--revision", "9"])).ok();
    assert_as_fresh(&host, "titles");
}

#[test]
fn a_halted_host_that_waits_for_its_plugin_ends_once_the_table_is_taken_over() {
    let (host, follow) = set_up();
    let lines: String = (1..=20).map(|id| format!("{}\n", film(id, "-1"))).collect();
    host.write("films.jsonl", &lines);
    std::fs::write(host.path("own.wasm"), plugin("movies")).unwrap();
    std::fs::write(host.path("other.wasm"), plugin("titles")).unwrap();
    let follow = with(&follow, &["--poison-run-max", "10"]);
    let mut waiting = Running::start(&host, &with(&follow, &["--reload"]));
    waiting.until("waiting for own.wasm to change");
    let mut other = with(&follow, &["--revision", "2", "--until-drained"]);
    other[1] = "other.wasm";
    host.run(&other).ok();
    waiting.until("superseded by revision 2 (other.wasm)");
    let (code, heard) = waiting.ends();
    assert_eq!(code, Some(0), "{heard:#?}");
    assert_as_fresh(&host, "titles");
}

#[test]
fn a_plugin_that_loops_while_rows_are_rendered_again_can_be_stopped() {
    needs_plugins();
    let host = Host::new();
    std::fs::write(host.path("own.wasm"), plugin("misbehave")).unwrap();
    host.write("table.cql", "CREATE TABLE shop.items (id int PRIMARY KEY, text text);\n");
    let record = |id: usize| {
        let id = id.to_string();
        let cells = serde_json::json!({"id": {"value": {"intT": id}}, "text": {"value": {"textT": id}}});
        serde_json::json!({
            "origin": "USER",
            "partitionKeys": {"id": {"intT": id}},
            "sequenceNumber": format!("{id:0>30}"),
            "newImage": {"valueCells": cells, "staticCells": {}},
        })
    };
    host.write("films.jsonl", &(1..=200).map(|id| format!("{}\n", record(id))).collect::<String>());
    let echo =
        ["--plugin", "own.wasm", "--source", "films.jsonl", "--set", "table.plugin_config.mode=\"echo\""];
    let loops =
        ["--plugin", "own.wasm", "--source", "films.jsonl", "--set", "table.plugin_config.mode=\"loop\""];
    host.run(&with(&echo, &["--until-drained"])).ok();
    let mut running = Running::start(&host, &with(&loops, &["--reload"]));
    running.until("revision 2");
    // The first asks for an end, the second for one at once: no batch of this plugin ever comes to one.
    running.signal("-TERM");
    std::thread::sleep(Duration::from_millis(500));
    running.signal("-TERM");
    let asked = Instant::now();
    let (code, heard) = running.ends();
    assert_eq!(code, Some(0), "{heard:#?}");
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    // The plugin that works has the table back.
    host.run(&with(&echo, &["--until-drained", "--revision", "3"])).ok();
    assert_eq!(dump(&host).len(), 200);
}

#[test]
fn two_tables_in_one_store_halt_and_are_taken_over_each_for_itself() {
    let (host, follow) = set_up();
    let lines: String = (1..=20).map(|id| format!("{}\n", film(id, "-1"))).collect();
    host.write("bad.jsonl", &lines);
    let bad = ["--table", "bad", "--plugin", "movies", "--source", "bad.jsonl", "--poison-run-max", "10"];
    let bad = with(&bad, &["--schema", "table.cql", "--until-drained"]);
    assert_eq!(host.run(&bad).code, 75);
    let drained = with(&follow, &["--until-drained"]);
    host.run(&drained).ok();
    assert_eq!(host.run(&bad).code, 75, "it is halted still");
    std::fs::write(host.path("own.wasm"), plugin("movies")).unwrap();
    let taken = host.run(&with(&drained, &["--revision", "2"]));
    assert!(taken.stderr.contains("rows rendered again"), "{}", taken.stderr);
    assert_eq!(host.run(&bad).code, 75, "another table's revision lifts nothing");
    let mended = host.run(&with(&bad, &["--revision", "2"]));
    assert_eq!(mended.code, 75, "tried again, and as broken: {}", mended.stderr);
    host.run(&drained).ok();
}

#[test]
fn killed_while_rows_are_rendered_again_the_next_start_goes_on() {
    const ROWS: u32 = 4000;
    let (host, _) = set_up();
    let lines: String = (1..=ROWS).map(|id| format!("{}\n", film(id, "1999"))).collect();
    host.write("films.jsonl", &lines);
    let flags = ["--source", "films.jsonl", "--failover", "200ms", "--batch", "8"];
    let under = |name: &'static str, revision: &'static str| {
        with(&flags, &["--plugin", name, "--revision", revision])
    };
    let drain = |name, revision| with(&under(name, revision), &["--until-drained"]);
    host.run(&drain("own.wasm", "1")).ok();
    let mut in_between = 0;
    for (name, revision) in [("movies", "2"), ("own.wasm", "3"), ("movies", "4"), ("own.wasm", "5")] {
        for kill in 0..3_u64 {
            let mut running = Running::start(&host, &drain(name, revision));
            running.until(if kill == 0 { "taken over by" } else { "rendered again" });
            std::thread::sleep(Duration::from_millis(10 + 20 * kill));
            // SIGKILL, unless it was faster.
            running.child.kill().ok();
            running.child.wait().unwrap();
            let check = host.run(&with(&["check"], &under(name, revision))).stdout;
            if !check.contains("goes on rendering the table again") {
                break;
            }
            in_between += 1;
        }
        let done = host.run(&drain(name, revision));
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    assert!(in_between >= 4, "only {in_between} of 12 kills met a host that rendered again");
    assert_as_fresh(&host, "titles");
}

#[test]
fn killed_while_a_file_is_taken_over_the_next_start_goes_on() {
    let (host, follow) = set_up();
    let lines: String = (1..=2000).map(|id| format!("{}\n", film(id, "1999"))).collect();
    host.write("films.jsonl", &lines);
    let follow = with(&follow, &["--batch", "8", "--reload"]);
    let drain = with(&follow, &["--until-drained"]);
    host.run(&drain).ok();
    let mut in_between = 0;
    for (kill, name) in ["movies", "titles", "movies", "titles", "movies"].into_iter().enumerate() {
        let mut running = Running::start(&host, &follow);
        running.until("following");
        std::fs::write(host.path("own.wasm"), plugin(name)).unwrap();
        // It is taken over about a second later: some are killed before, some in the middle.
        std::thread::sleep(Duration::from_millis(800 + 200 * kill as u64));
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        let next = host.run(&drain);
        assert_eq!(next.code, 0, "{}", next.stderr);
        in_between += u32::from(next.stderr.contains("goes on being rendered again"));
        assert_as_fresh(&host, name);
    }
    assert!(in_between >= 1, "no kill met a host that rendered again");
}

#[test]
fn restarts_are_counted_over_all_plugins_that_a_run_has_had() {
    needs_plugins();
    let host = Host::new();
    host.write("table.cql", "CREATE TABLE k.words (id int PRIMARY KEY, text text);");
    let word = |id: u32| {
        serde_json::json!({
            "eventVersion": "1.0", "createdAt": 1_796_000_000.0, "origin": "USER",
            "partitionKeys": {"id": {"intT": id.to_string()}}, "sequenceNumber": format!("{id:030}"),
            "newImage": {"valueCells": {"id": {"value": {"intT": id.to_string()}},
                "text": {"value": {"textT": "word"}}}, "staticCells": {}},
        })
    };
    host.write("words.jsonl", &(1..=6).map(|id| format!("{}\n", word(id))).collect::<String>());
    let mut bytes = plugin("misbehave");
    std::fs::write(host.path("own.wasm"), &bytes).unwrap();
    let follow = [
        "--plugin",
        "own.wasm",
        "--source",
        "words.jsonl",
        "--batch",
        "1",
        "--plugin-threads",
        "1",
        "--reload",
    ];
    let mode = ["--set", "table.plugin_config.mode=trap-every-second-call"];
    let mut running = Running::start(&host, &with(&follow, &mode));
    running.until("following");
    until(&host, "all rows are there", |index| index.len() == 6);
    // A custom section: another digest, the same plugin.
    bytes.extend([0, 3, 1, b'x', b'y']);
    std::fs::write(host.path("own.wasm"), &bytes).unwrap();
    let line = running.until("own.wasm changed");
    assert!(line.contains("6 rows rendered again: embedded 0") && line.contains("nothing 6"), "{line}");
    let (code, heard) = running.interrupt();
    assert_eq!(code, Some(0), "{heard:#?}");
    // Each plugin's first call went well, and every later one was the second of its instance.
    assert!(heard.iter().any(|line| line == "plugin   restarts: trap 10"), "{heard:#?}");
}
