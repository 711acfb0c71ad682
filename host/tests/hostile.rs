//! The built binary with plugins that misbehave, and with files that are none: what it prints, what it keeps, how it ends.

mod host;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::{Done, Host, films, json_lines, needs_plugins};
use keyvector_core::text::acts;

/// What a test guest of the project was built to.
fn guest(name: &str) -> PathBuf {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist")),
        PathBuf::from,
    );
    let path = folder.join(name).with_extension("wasm");
    assert!(path.is_file(), "{}: build it with `cargo xtask plugins`", path.display());
    path.canonicalize().expect("it was just seen")
}

/// A record that inserts the row `id`.
fn record(id: usize, text: &str) -> String {
    let row = serde_json::json!({
        "origin": "USER",
        "partitionKeys": {"id": {"intT": id.to_string()}},
        "sequenceNumber": format!("{:030}", id + 1),
        "newImage": {
            "valueCells": {"id": {"value": {"intT": id.to_string()}}, "text": {"value": {"textT": text}}},
            "staticCells": {},
        },
    });
    format!("{row}\n")
}

/// A folder with a table of these rows.
fn with_rows(texts: &[&str]) -> Host {
    needs_plugins();
    let host = Host::new();
    host.write("items.cql", "CREATE TABLE shop.items (id int PRIMARY KEY, text text);\n");
    host.write(
        "items.jsonl",
        &texts.iter().enumerate().map(|(id, text)| record(id, text)).collect::<String>(),
    );
    host
}

/// A configuration file for the table `name` in the store `shared.db`, with little patience.
fn configure(host: &Host, name: &str, plugin: &str, mode: &str) -> String {
    let file = format!("{name}.toml");
    host.write(
        &file,
        &format!(
            "[store]\npath = \"shared.db\"\n\
             [host]\nplugin_threads = 1\n\
             [plugin_limits]\ndeadline = \"200ms\"\ndeadline_per_row = \"1ms\"\nsecond_chance_factor = 5\n\
             [[table]]\nname = {name:?}\nplugin = {plugin:?}\nplugin_config = {{ mode = {mode:?} }}\n\
             [table.source]\nfile = \"items.jsonl\"\nschema = \"items.cql\"\n"
        ),
    );
    file
}

/// Nothing of it steers a terminal or misleads.
#[track_caller]
fn calm(done: &Done) {
    for text in [&done.stdout, &done.stderr] {
        let raw = text.chars().find(|&character| acts(character) && character != '\n');
        assert_eq!(raw, None, "{text:?}");
    }
}

const ROWS: [(&str, Option<&str>); 15] = [
    ("the first row is kept-to-itself", None),
    ("panic", Some("plugin-trapped")),
    ("rude", Some("plugin-refused")),
    ("spin", Some("plugin-deadline")),
    ("its neighbour is kept-to-itself", None),
    ("rude document", None),
    ("bomb", Some("plugin-memory")),
    ("overflow", Some("plugin-trapped")),
    ("not utf-8", Some("plugin-output")),
    ("forged", Some("plugin-output")),
    ("skip", None),
    ("broken metadata", Some("plugin-output")),
    ("refuse", Some("plugin-refused")),
    (" \u{200b}", None),
    ("the last row is kept-to-itself", None),
];

#[test]
fn each_bad_row_has_its_letter_and_its_neighbours_are_in_the_index() {
    let host = with_rows(&ROWS.map(|(text, _)| text));
    let config = configure(&host, "items", &guest("misbehave").display().to_string(), "one-by-one");
    let with = |arguments: &[&str]| host.run(&[arguments, &["--config", &config]].concat());
    let followed = with(&["--until-drained", "--strict", "-vv"]);
    assert_eq!(followed.code, 3, "letters are left: {}", followed.stderr);
    calm(&followed);
    assert!(
        followed.stderr.contains("embedded 4 ") && followed.stderr.contains("dead letters 9"),
        "{}",
        followed.stderr
    );
    // What the plugin says, and what rows hold, is nobody's.
    for secret in ["kept-to-itself", "gnp.", "[31m", "on purpose"] {
        assert!(!followed.stderr.contains(secret), "{secret}: {}", followed.stderr);
    }

    let letters = json_lines(&with(&["dlq", "list", "--json"]).ok());
    let found: BTreeMap<&str, &str> = letters
        .iter()
        .map(|letter| (letter["key"].as_str().unwrap(), letter["class"].as_str().unwrap()))
        .collect();
    let keys: Vec<String> = (0..ROWS.len()).map(|id| format!("id={id}")).collect();
    let expected: BTreeMap<&str, &str> =
        keys.iter().zip(ROWS).filter_map(|(key, (_, class))| Some((key.as_str(), class?))).collect();
    assert_eq!(found, expected);
    for letter in &letters {
        let reason = letter["reason"].as_str().unwrap();
        assert!(!reason.contains(acts) && !reason.is_empty() && reason.len() <= 1024, "{letter}");
    }
    let reason_of =
        |key: &str| letters.iter().find(|letter| letter["key"] == key).unwrap()["reason"].to_string();
    for key in ["id=1", "id=2"] {
        assert!(reason_of(key).contains("gnp."), "{}", reason_of(key));
    }

    let dumped = json_lines(&with(&["index", "dump"]).ok());
    let indexed: Vec<_> = dumped.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(indexed, ["id=0", "id=14", "id=4", "id=5"]);
    // Texts and metadata are kept as the plugin gave them.
    assert_eq!(dumped[3]["metadata"]["title"], "\u{1b}[31m\u{9b}2J\u{202e}");

    for verb in [
        &["preview", "--limit", "20"][..],
        &["preview", "--limit", "20", "--json"],
        &["query", "row"],
        &["query", "row", "--json"],
        &["index", "dump"],
        &["dlq", "list"],
        &["dlq", "list", "--json"],
        &["dlq", "show", "1"],
        &["dlq", "show", "2"],
        &["dlq", "show", "2", "--json"],
        &["dlq", "replay", "--class", "plugin-refused"],
        &["check"],
    ] {
        let done = with(verb);
        calm(&done);
        done.ok();
    }
}

#[test]
fn what_a_plugin_says_does_not_steer_the_terminal() {
    let host = with_rows(&["poison", "a"]);
    let plugin = guest("misbehave").display().to_string();
    // The mode, the verbs that let it speak, and how they end.
    let cases: [(&str, &[&str], i32); 8] = [
        ("rude-describe", &["check"], 64),
        ("rude-describe", &["--until-drained"], 64),
        ("rude-open", &["check"], 64),
        ("rude-open", &["preview"], 64),
        ("rude-reads", &["check"], 64),
        ("rude-reads", &["--until-drained"], 64),
        ("rude-key", &["check"], 64),
        ("rude-log", &["preview", "--set", "host.log_plugin_text=true", "-vv", "--log-format", "human"], 0),
    ];
    for (mode, verb, code) in cases {
        let config = configure(&host, mode, &plugin, mode);
        let done = host.run(&[verb, &["--config", &config]].concat());
        assert_eq!(done.code, code, "{mode} {verb:?}: {}{}", done.stdout, done.stderr);
        calm(&done);
        let all = done.stdout + &done.stderr;
        assert!(all.contains("31m"), "{mode} {verb:?}: it is escaped, not lost: {all}");
    }
    for mode in ["rude-describe", "rude-reads", "rude-key"] {
        for json in [&[][..], &["--json"]] {
            let set = format!("table.plugin_config.mode={mode}");
            let done = host.run(&[&["plugin", "inspect", &plugin, "--set", &set], json].concat());
            calm(&done);
            assert!(done.ok().contains("31m"), "{mode}");
        }
    }
    let config = configure(&host, "models", &plugin, "echo");
    for mode in ["rude-identity", "rude-model"] {
        let set = format!("table.index.model_config.mode={mode}");
        let done = host.run(&["check", "--config", &config, "--model", &plugin, "--set", &set]);
        assert_eq!(done.code, 64, "{}{}", done.stdout, done.stderr);
        calm(&done);
        assert!(done.stdout.contains("fix   model") && done.stdout.contains("31m"), "{}", done.stdout);
    }
}

#[test]
fn a_broken_plugin_halts_its_table_and_no_other() {
    let texts: Vec<String> = (0..150).map(|row| format!("row {row}")).collect();
    let host = with_rows(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let plugin = guest("misbehave").display().to_string();
    let broken = configure(&host, "broken", &plugin, "panic");
    let well = configure(&host, "well", &plugin, "echo");
    let run = |config: &str| host.run(&["--until-drained", "--config", config]);
    let rows = |config: &str| match host.run(&["index", "dump", "--config", config]) {
        done if done.code == 0 => done.stdout.lines().count(),
        _ => 0,
    };
    let halted = run(&broken);
    assert_eq!(halted.code, 75, "{}", halted.stderr);
    calm(&halted);
    assert!(halted.stderr.contains("table broken is halted"), "{}", halted.stderr);

    run(&well).ok();
    assert_eq!((rows(&broken), rows(&well)), (0, 150));
    assert_eq!(host.run(&["dlq", "list", "--json", "--config", &broken]).ok(), "", "it blames no row");

    // Under the same digest it stays so, for check too; the other goes on.
    let again = run(&broken);
    assert_eq!(again.code, 75, "{}", again.stderr);
    assert!(again.stderr.contains("is halted") && again.stderr.contains("resume"), "{}", again.stderr);
    assert_eq!(host.run(&["check", "--config", &broken]).code, 75);
    host.run(&["check", "--config", &well]).ok();
    let mut more = std::fs::OpenOptions::new().append(true).open(host.path("items.jsonl")).unwrap();
    std::io::Write::write_all(&mut more, record(150, "one more").as_bytes()).unwrap();
    run(&well).ok();
    assert_eq!((rows(&broken), rows(&well)), (0, 151));

    // Mended, it is another plugin, and its texts are another revision's.
    let mut mended = std::fs::read(&plugin).unwrap();
    mended.extend_from_slice(b"\0\x02\x01m");
    std::fs::write(host.path("mended.wasm"), mended).unwrap();
    let config = configure(&host, "broken", "mended.wasm", "echo");
    let refused = run(&config);
    assert_eq!(refused.code, 64, "{}", refused.stderr);
    assert!(refused.stderr.contains("revision"), "{}", refused.stderr);
}

#[test]
fn files_that_are_no_plugins_are_refused_at_once() {
    let host = with_rows(&["a"]);
    let path = |name: &str| host.path(name);
    std::fs::create_dir(path("folder.wasm")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("pipe.wasm")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", path("zeroes.wasm")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("dangling.wasm")).unwrap();
    std::fs::File::create(path("large.wasm")).unwrap().set_len(200 << 20).unwrap();
    host.write("empty.wasm", "");
    host.write("text.wasm", "(component)");
    host.write("compiled.wasm", "\u{7f}ELF\u{2}\u{1}\u{1}");
    host.write("module.wasm", "\0asm\u{1}\0\0\0");
    let whole = std::fs::read(guest("misbehave")).unwrap();
    std::fs::write(path("cut.wasm"), &whole[..whole.len() / 2]).unwrap();
    let cases = [
        ("folder.wasm", "is not a file"),
        ("pipe.wasm", "is not a file"),
        ("zeroes.wasm", "is not a file"),
        ("dangling.wasm", "no plugin \"dangling.wasm\""),
        ("missing.wasm", "no plugin \"missing.wasm\""),
        ("large.wasm", "is larger than the 128 MiB that a plugin may have"),
        ("empty.wasm", "is empty"),
        ("text.wasm", "is not WebAssembly"),
        ("compiled.wasm", "compiled code (.cwasm), which is never accepted"),
        ("module.wasm", "core module without component types"),
        ("cut.wasm", "cut off or damaged"),
    ];
    let source = ["--source", "items.jsonl", "--schema", "items.cql", "--until-drained"];
    for (file, says) in cases {
        let started = Instant::now();
        for arguments in [
            [&["--plugin", file][..], &source].concat(),
            [
                &["--plugin", "movies", "--model", file][..],
                &["--source", films("films.jsonl"), "--until-drained"],
            ]
            .concat(),
            vec!["plugin", "inspect", file],
        ] {
            let done = host.run(&arguments);
            assert_eq!(done.code, 64, "{arguments:?}: {}", done.stderr);
            assert!(
                done.stderr.starts_with("error: ") && done.stderr.contains(says),
                "{arguments:?}: {}",
                done.stderr
            );
            calm(&done);
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{file}: {:?}", started.elapsed());
    }
    // A plugin of another role.
    for (flags, says) in [
        (["--plugin", "static", "--model", "static"], "static is no table plugin: it is local-model"),
        (["--plugin", "columns", "--model", "movies"], "movies is no local-model plugin: it is table"),
    ] {
        let text = "table.plugin_config.text={text}";
        let done = host.run(
            &[&flags[..], &["--set", text][..if flags[1] == "static" { 0 } else { 2 }], &source].concat(),
        );
        assert_eq!(done.code, 64, "{}", done.stderr);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
    // A plugin for another table.
    let done = host.run(&[&["--plugin", "movies"][..], &source].concat());
    assert_eq!(done.code, 64, "{}", done.stderr);
    assert!(done.stderr.contains("that table shop.items does not have: it has id, text"), "{}", done.stderr);
    // The store is there, since it is opened before the plugin; the refusals blamed no row of either table.
    let films_source = ["--source", films("films.jsonl"), "--schema", films("table.cql")];
    for source in [&source[..4], &films_source] {
        let list = [&["dlq", "list", "--json", "--plugin", "movies"][..], source].concat();
        assert_eq!(host.run(&list).ok(), "");
    }
}
