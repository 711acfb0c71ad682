//! What the verbs print on the film table.

mod host;

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use host::{Host, films, json_lines, needs_plugins, record};

#[test]
fn query_prints_a_table_json_or_keys() {
    let host = Host::with_films();
    let table = host.run(&["query", "a heist that goes wrong", "--top", "3"]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    for column in ["score", "title", "studio", "year", "key"] {
        assert!(lines[0].contains(column), "{table}");
    }
    assert!(lines[1..].iter().all(|line| line.contains("movie_id=")), "{table}");

    let question = ["query", "lost at sea", "--filter", r#"{"year":{"$gte":1990}}"#, "--top", "7"];
    let json = host.run(&[&question[..], &["--json"]].concat()).ok();
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!((rows.len(), answer["query"].as_str()), (7, Some("lost at sea")));
    let mut last = f64::MIN;
    for row in rows {
        assert!(row["metadata"]["year"].as_i64().unwrap() >= 1990, "{row}");
        assert_eq!(row["metadata"]["year"], row["row"]["year"]);
        assert!(row["metadata"].as_object().unwrap().keys().all(|key| !key.starts_with('_')), "{row}");
        let distance = row["distance"].as_f64().unwrap();
        assert!(distance >= last, "nearest first");
        last = distance;
    }
    let keys = host.run(&[&question[..], &["--keys-only"]].concat()).ok();
    let expected: Vec<&str> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys.lines().collect::<Vec<_>>(), expected);

    let slip = host.run(&["query", "x", "--filter", r#"{"yaer":{"$gt":1990}}"#]);
    assert_eq!((slip.code, slip.stdout.as_str()), (0, ""));
    assert!(
        slip.stderr.contains("no row has a key \"yaer\": there are") && slip.stderr.contains("year"),
        "{}",
        slip.stderr
    );
    let none = host.run(&["query", "x", "--filter", r#"{"year":{"$gt":9999}}"#]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{}", none.stderr);
    for (filter, says) in
        [("{", "not JSON"), (r#"{"year":{"$gte":"x"}}"#, "$gte"), (r#"{"title":"x"}"#, "title")]
    {
        let refused = host.run(&["query", "x", "--filter", filter]);
        assert_eq!(refused.code, 1, "{filter}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{filter}: {}", refused.stderr);
    }
    let blank = host.run(&["query", "  "]);
    assert!(blank.code == 1 && blank.stderr.contains("word"), "{}", blank.stderr);
}

#[test]
fn letters_are_listed_shown_replayed_and_dropped() {
    let host = Host::with_films();
    let letters = json_lines(&host.run(&["dlq", "list", "--json"]).ok());
    let classes: BTreeSet<&str> = letters.iter().map(|letter| letter["class"].as_str().unwrap()).collect();
    assert_eq!(classes, BTreeSet::from(["key-too-long", "plugin-refused"]));
    let poison = letters.iter().find(|letter| letter["class"] == "plugin-refused").unwrap();
    let id = poison["id"].to_string();

    let one = host.run(&["dlq", "list", "--class", "plugin-refused"]).ok();
    assert_eq!(one.lines().count(), 2, "{one}");
    let none = host.run(&["dlq", "list", "--until", "2020-01-01", "--exit-code"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{}", none.stderr);

    let shown = host.run(&["dlq", "show", &id]).ok();
    for word in ["plugin-refused", "year", "line 330", "films.jsonl", poison["key"].as_str().unwrap()] {
        assert!(shown.contains(word), "{word} is not in\n{shown}");
    }
    let missing = host.run(&["dlq", "show", "999999"]);
    assert!(missing.code == 1 && missing.stderr.contains("dlq list"), "{}", missing.stderr);

    // The row is as it was: it stays.
    let stays = host.run(&["dlq", "replay", &id]).ok();
    assert!(stays.contains("stays"), "{stays}");
    assert_eq!(json_lines(&host.run(&["dlq", "list", "--json"]).ok()).len(), 2);

    // Once the row is well, replay embeds it and removes the letter.
    let mut source =
        std::fs::OpenOptions::new().append(true).open(host.path("keyvector-films/films.jsonl")).unwrap();
    let record = well_again(poison["key"].as_str().unwrap());
    writeln!(source, "{record}").unwrap();
    host.run(&["--until-drained"]).ok();
    let replayed = host.run(&["dlq", "replay", "--class", "plugin-refused"]);
    assert!(replayed.stderr.contains("1 replayed, 0 left"), "{}{}", replayed.stdout, replayed.stderr);

    host.run(&["dlq", "drop", "--all"]).ok();
    assert_eq!(host.run(&["dlq", "list", "--exit-code"]).code, 0);
}

/// A record that gives the row of `key` a year that the plugin takes.
fn well_again(key: &str) -> serde_json::Value {
    let part = |name: &str| {
        let value = key
            .split('&')
            .find_map(|part| part.strip_prefix(&format!("{name}=")))
            .expect("the key has both columns");
        value
            .replace("%20", " ")
            .replace("%26", "&")
            .replace("%3D", "=")
            .replace("%2B", "+")
            .replace("%27", "'")
    };
    record(&part("movie_id"), &part("studio"), "1999")
}

#[test]
fn the_index_is_dumped_as_json_lines() {
    let host = Host::with_films();
    let lines = json_lines(&host.run(&["index", "dump"]).ok());
    let keys: Vec<&str> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert!(keys.is_sorted() && keys.len() > 290, "{} keys", keys.len());
    for line in &lines {
        assert!(line["fingerprint"].as_str().unwrap().starts_with("1."), "{line}");
        assert!(line["metadata"]["title"].is_string() && line.get("vector").is_none(), "{line}");
    }
    let with_vectors = json_lines(&host.run(&["index", "dump", "--vectors"]).ok());
    assert_eq!(with_vectors.len(), lines.len());
    assert!(with_vectors.iter().all(|line| line["vector"].as_array().unwrap().len() == 256));
}

#[test]
fn preview_shows_rows_against_the_limits_and_writes_no_store() {
    needs_plugins();
    let host = Host::new();
    let flags = ["preview", "--plugin", "movies", "--source", films("films.jsonl")];
    let text = host.run(&flags).ok();
    assert_eq!(text.matches("\nkey ").count() + usize::from(text.starts_with("key ")), 5, "{text}");
    for word in ["text ", "metadata ", "of 2,048", "of 1024 bytes", "about "] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    assert!(!host.path("keyvector.db").exists());

    let key = "movie_id=12&studio=Redwood%3DRidge";
    let json = json_lines(&host.run(&[&flags[..], &["--key", key, "--json"]].concat()).ok());
    assert_eq!(json.len(), 1);
    assert_eq!(json[0]["key"], key);
    assert!(json[0]["text"].as_str().unwrap().starts_with("The Long Vault (1994)"), "{}", json[0]);
    let foreign = host.run(&[&flags[..], &["--key", "movie_id=x"]].concat());
    assert_eq!(foreign.code, 1, "{}", foreign.stderr);

    // From the store, once there is one.
    let host = Host::with_films();
    let stored = json_lines(&host.run(&["preview", "--key", key, "--json"]).ok());
    assert_eq!(stored[0]["key"], key);
}

#[test]
fn what_init_wrote_passes_check_and_runs() {
    needs_plugins();
    let host = Host::new();
    let refused = host.run(&["init"]);
    assert!(refused.code == 64 && refused.stderr.contains("--source"), "{}", refused.stderr);
    let answers = [
        "init",
        "--source",
        films("films.jsonl"),
        "--text",
        "{title} ({year})\\n{plot}",
        "--metadata",
        "year,genre,tags",
    ];
    host.run(&answers).ok();
    let there = host.run(&answers);
    assert!(there.code == 1 && there.stderr.contains("--force"), "{}", there.stderr);

    let offline = host.run(&["check", "--offline"]).ok();
    assert!(offline.lines().all(|line| line.starts_with("ok ")), "{offline}");
    let check = host.run(&["check"]).ok();
    assert!(check.lines().all(|line| line.starts_with("ok ")), "{check}");
    assert!(check.contains("source") && !offline.contains("source "), "{check}");
    assert!(!host.path("keyvector.db").exists(), "check writes nothing");

    host.run(&["--until-drained"]).ok();
    let dumped = json_lines(&host.run(&["index", "dump"]).ok());
    assert!(
        dumped.iter().any(|line| line["metadata"]["tags"].is_array() && line["metadata"]["year"].is_i64())
    );
    host.run(&["check"]).ok();
}

#[test]
fn check_says_what_to_fix() {
    needs_plugins();
    let host = Host::new();
    host.write(
        "keyvector.toml",
        &format!(
            "[[table]]\nplugin = \"columns\"\nplugin_config = {{ text = \"{{titel}}\" }}\n[table.source]\nfile = {:?}\n",
            films("films.jsonl")
        ),
    );
    let done = host.run(&["check"]);
    assert_eq!(done.code, 64, "{}{}", done.stdout, done.stderr);
    let fix = done.stdout.lines().find(|line| line.starts_with("fix ")).unwrap_or_default();
    assert!(fix.contains("titel"), "{}", done.stdout);
    assert!(done.stderr.contains("1 thing to fix"), "{}", done.stderr);
}

#[test]
fn plugins_are_inspected() {
    needs_plugins();
    let host = Host::new();
    let movies: serde_json::Value =
        serde_json::from_str(&host.run(&["plugin", "inspect", "movies", "--json"]).ok()).unwrap();
    assert_eq!(movies["roles"], serde_json::json!(["table"]));
    assert_eq!(movies["sha256"].as_str().unwrap().len(), 64);
    assert!(movies["reads"].as_array().unwrap().contains(&"plot".into()), "{movies}");
    let binds = movies["host_binds"].as_array().unwrap();
    let speaks = movies["speaks"].as_str().unwrap().strip_prefix("keyvector:plugin ").unwrap();
    assert!(binds.contains(&speaks.into()), "{movies}");
    let version = host.run(&["--version"]).ok();
    assert!(version.ends_with(&format!("plugins: keyvector:plugin {speaks}\n")), "{version}");
    let model = host.run(&["plugin", "inspect", "static"]).ok();
    assert!(model.contains("local-model") && model.contains("256"), "{model}");
    let pinned = format!("movies@sha256:{}", movies["sha256"].as_str().unwrap());
    host.run(&["plugin", "inspect", &pinned]).ok();

    // The size limit is the configuration's.
    host.write("large.wasm", &"no plugin".repeat(1000));
    let small = "plugin_limits.plugin_size=2KiB";
    let flagged = host.run(&["plugin", "inspect", "large.wasm", "--set", small]);
    host.write(
        "small.toml",
        "[plugin_limits]\nplugin_size = \"2KiB\"\n[[table]]\nplugin = \"movies\"\n[table.source]\nfile = \"x.jsonl\"\n",
    );
    let configured = host.run(&["plugin", "inspect", "large.wasm", "--config", "small.toml"]);
    for refused in [flagged, configured] {
        assert_eq!(refused.code, 64, "{}", refused.stderr);
        assert!(refused.stderr.contains("is larger than the 2 KiB"), "{}", refused.stderr);
    }
    host.write("notes.wasm", "no plugin");
    let refused = host.run(&["plugin", "inspect", "notes.wasm"]);
    assert_eq!(refused.code, 64, "{}", refused.stderr);
    assert!(refused.stderr.starts_with("error: notes.wasm is not WebAssembly"), "{}", refused.stderr);
}

#[test]
fn it_follows_until_asked_to_stop_and_exits_0() {
    needs_plugins();
    let host = Host::new();
    let mut child = host.command(&["--plugin", "movies"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let rows = |host: &Host| match host.run(&["index", "dump"]) {
        done if done.code == 0 => done.stdout.lines().count(),
        _ => 0,
    };
    while rows(&host) < 290 {
        assert!(Instant::now() < deadline, "it never filled the index");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Followed as it grows.
    let mut source =
        std::fs::OpenOptions::new().append(true).open(host.path("keyvector-films/films.jsonl")).unwrap();
    writeln!(source, "{}", well_again("movie_id=7777&studio=New")).unwrap();
    let new = |host: &Host| host.run(&["index", "dump"]).stdout.contains("movie_id=7777");
    while !new(&host) {
        assert!(Instant::now() < deadline, "the new line was not followed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let asked = Instant::now();
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "SIGTERM ends it well");
    assert!(asked.elapsed() < Duration::from_secs(12), "in bounded time");
}

#[test]
fn the_demo_deletes_only_what_a_demo_made() {
    needs_plugins();
    let host = Host::new();
    host.run(&["--plugin", "movies", "--source", films("films.jsonl"), "--until-drained"]).ok();
    let before = host.run(&["index", "dump"]).ok();
    for flags in [&["demo", "--store", "keyvector.db"][..], &["demo", "--keep", "--store", "keyvector.db"]] {
        let refused = host.run(flags);
        assert_eq!(refused.code, 64, "{}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("--store FILE"), "{}", refused.stderr);
    }
    let mut command = host.command(&["demo"]);
    let refused = command.env("KEYVECTOR_STORE", "keyvector.db").output().unwrap();
    assert_eq!(refused.status.code(), Some(64));
    assert_eq!(host.run(&["index", "dump"]).ok(), before, "the store is as it was");

    // A demo's own store goes, and so does one in which nothing ever happened.
    host.run(&["demo", "--store", "mine.db"]).ok();
    host.run(&["demo", "--store", "mine.db"]).ok();
    let fresh = keyvector_store::StoreConfig { create: true, ..Default::default() };
    drop(keyvector_store::Store::open(host.path("fresh.db"), fresh).unwrap());
    host.run(&["demo", "--store", "fresh.db"]).ok();
}

#[test]
fn the_demo_leaves_a_store_in_use_alone() {
    needs_plugins();
    let host = Host::new();
    let mut child = host.command(&["demo", "--follow"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("next ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    // It takes its lease again to follow.
    std::thread::sleep(Duration::from_millis(500));
    let refused = host.run(&["demo"]);
    assert_eq!(refused.code, 69, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("at work"), "{}", refused.stderr);
    // What a killed host leaves behind is no host at work.
    child.kill().unwrap();
    child.wait().unwrap();
    host.run(&["demo"]).ok();
}

#[test]
fn init_refuses_what_could_not_run_and_writes_nothing() {
    needs_plugins();
    let host = Host::new();
    let init = ["init", "--source", films("films.jsonl")];
    for (flags, says) in [
        (&["--text", "{nope}"][..], "nope"),
        (&["--text", "{title"], "has no `}`"),
        (&["--text", "{title}", "--metadata", "title,title"], "title"),
        (&["--plugin", "movies", "--text", "{title}"], "columns plugin"),
        (&["--plugin", "movies", "--metadata", "title"], "columns plugin"),
        (&["--plugin", "nowhere.wasm"], "nowhere.wasm"),
        (&["--model", "nowhere"], "nowhere"),
        (&["--schema", "none.cql"], "none.cql"),
    ] {
        let refused = host.run(&[&init[..], flags].concat());
        assert_eq!(refused.code, 64, "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{flags:?}: {}", refused.stderr);
        assert!(!host.path("keyvector.toml").exists(), "{flags:?}");
    }
    host.run(&[&init[..], &["--plugin", "movies"]].concat()).ok();
    host.run(&["check"]).ok();
}

#[test]
fn an_index_that_is_not_there_yet_is_said_to_be_filled_by_a_run() {
    needs_plugins();
    let host = Host::with_films();
    for verb in [&["index", "dump"][..], &["query", "x"]] {
        let none = host.run(&[verb, &["--set", "table.index=[{name=\"other\"}]"]].concat());
        assert_eq!(none.code, 64, "{}", none.stderr);
        assert!(none.stderr.contains("has no index \"other\" yet"), "{}", none.stderr);
        assert!(none.stderr.contains("next:  keyvector-host --until-drained"), "{}", none.stderr);
    }
}

#[test]
fn control_characters_of_rows_do_not_reach_the_terminal() {
    needs_plugins();
    let host = Host::new();
    let mut record = record("1", "A\u{9b}31m", "1999");
    record["newImage"]["valueCells"]["title"]["value"]["textT"] = "Red\u{9b}31m\u{7f}\u{85}\u{1b}[2J".into();
    let mut poison = record.clone();
    poison["partitionKeys"]["movie_id"]["intT"] = "2".into();
    poison["newImage"]["valueCells"]["movie_id"]["value"]["intT"] = "2".into();
    poison["newImage"]["valueCells"]["year"]["value"]["intT"] = "-1".into();
    poison["sequenceNumber"] = "000000826000000000000000010000".into();
    host.write("films.jsonl", &format!("{record}\n{poison}\n"));
    let follow = ["--plugin", "movies", "--source", "films.jsonl", "--schema", films("table.cql")];
    host.run(&[&follow[..], &["--until-drained"]].concat()).ok();
    for (verb, is_json) in [
        (&["preview"][..], false),
        (&["preview", "--json"], true),
        (&["query", "red"], false),
        (&["query", "red\u{9b}", "--json"], true),
        (&["index", "dump"], true),
        (&["dlq", "list"], false),
        (&["dlq", "list", "--json"], true),
        (&["dlq", "show", "1"], false),
        (&["dlq", "show", "1", "--json"], true),
    ] {
        let shown = host.run(verb).ok();
        let raw = shown.chars().find(|&character| character.is_control() && character != '\n');
        assert_eq!(raw, None, "{verb:?}: {shown:?}");
        assert!(shown.contains("31m"), "{verb:?}: {shown}");
        if is_json {
            json_lines(&shown);
        }
    }
    // Escaped, not lost.
    let dumped = json_lines(&host.run(&["index", "dump"]).ok());
    assert_eq!(dumped[0]["metadata"]["title"], "Red\u{9b}31m\u{7f}\u{85}\u{1b}[2J");
}

#[test]
fn a_broken_standard_error_does_not_end_the_work() {
    needs_plugins();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let host = Host::new();
    for arguments in
        [&["--plugin", "movies", "--until-drained", "-vv"][..], &["dlq", "drop", "--all"], &["resume"]]
    {
        let status = host.command(arguments).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    // A failure keeps its code.
    let status = host.command(&["dlq", "show", "99"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    // Whoever read standard error has gone.
    std::fs::remove_file(host.path("keyvector.db")).unwrap();
    let mut child = host
        .command(&["--plugin", "movies", "--until-drained", "-vv"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
