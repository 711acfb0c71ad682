use std::path::Path;
use std::time::Duration;

use super::*;

fn parse(text: &str) -> Result<Config, Error> {
    Config::parse(text, Path::new("etc/keyvector.toml"), &[])
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

const SMALL: &str = "[[table]]\nplugin = \"columns\"\n[table.source]\nfile = \"films.jsonl\"\n";

/// `SMALL` with more lines in `[[table]]`.
fn with(lines: &str) -> String {
    SMALL.replace("[table.source]", &format!("{lines}\n[table.source]"))
}

#[test]
fn a_small_file_gets_the_documented_defaults() {
    let config = parse(SMALL).unwrap();
    assert_eq!(config.store, Path::new("keyvector.db"));
    assert_eq!(config.host.failover, Duration::from_secs(2));
    assert_eq!(config.plugin_limits.memory_bytes, 64 << 20);
    let table = &config.table;
    assert_eq!((table.name.as_str(), table.revision), ("films", 1));
    assert_eq!((table.max_attempts.get(), table.poison_run_max.get(), table.batch.get()), (5, 50, 256));
    assert_eq!(table.source.file, Path::new("etc/films.jsonl"));
    assert_eq!(table.source.schema, Path::new("etc/table.cql"));
    assert_eq!((table.index.name.as_str(), table.index.model.name.as_str()), ("films", "static"));
    assert!(!table.source.shipped);
}

#[test]
fn the_example_loads_and_states_the_defaults() {
    let example = parse(EXAMPLE).unwrap();
    let uncommented: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_option(rest) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let mut written_out = parse(&uncommented).unwrap();
    // These two have no fixed default.
    written_out.host.plugin_threads = None;
    written_out.host.cache_dir = None;
    written_out.table.source.view = None;
    assert_eq!(written_out, Config { store: "etc/keyvector.db".into(), ..example });
}

fn is_option(line: &str) -> bool {
    line.starts_with('[')
        || line
            .split_once(" = ")
            .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
}

#[test]
fn the_example_shows_every_option() {
    for known in load::ALL_OPTIONS.iter().flat_map(|section| section.iter()) {
        let shown = EXAMPLE.lines().any(|line| {
            let line = line.trim_start_matches("# ").trim_start_matches('[');
            line.starts_with(&format!("{known} ="))
                || line.trim_end_matches(']').rsplit('.').next() == Some(*known)
        });
        assert!(shown, "{known} is not in the example");
    }
}

#[test]
fn what_a_store_remembers_is_the_same_configuration() {
    let folder = Path::new("/somewhere");
    for text in
        [EXAMPLE.to_owned(), with("plugin_config = { text = \"{a}\", deep = { list = [1, 2.5, true] } }")]
    {
        let text =
            text.replace("# view", "view").replace("# too_long = \"cut\"", "too_long = \"dead_letter\"");
        let config = Config::parse(&text, Path::new("/somewhere/keyvector.toml"), &[]).unwrap();
        let again = Config::from_store(&config.to_toml(folder), &config.store, &Given::default()).unwrap();
        // Only the folder that a plugin's name is looked for in may differ: no such file is there.
        let paths = |mut config: Config| {
            config.table.plugin.path = PathBuf::new();
            config.table.index.model.path = PathBuf::new();
            config
        };
        assert_eq!(paths(again), paths(config));
    }
}

#[test]
fn unknown_keys_are_refused_with_their_line_and_the_nearest_name() {
    let cases = [
        (
            with("bacth = 3"),
            "etc/keyvector.toml line 3: unknown key \"bacth\" in [[table]]: did you mean \"batch\"?",
        ),
        (
            format!("[hosts]\nfailover = \"2s\"\n{SMALL}"),
            "etc/keyvector.toml line 1: unknown key \"hosts\": did you mean \"host\"?",
        ),
        (
            format!("[host]\nfail-over = \"2s\"\n{SMALL}"),
            "etc/keyvector.toml line 2: unknown key \"fail-over\" in [host]: did you mean \"failover\"?",
        ),
        (
            format!("[store]\nbucket = \"b\"\n{SMALL}"),
            "etc/keyvector.toml line 2: unknown key \"bucket\" in [store]: it may hold path",
        ),
        (
            format!("{SMALL}\nvieuw = \"NEW_IMAGE\""),
            "etc/keyvector.toml line 6: unknown key \"vieuw\" in [table.source]: did you mean \"view\"?",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(&text), expected);
    }
}

#[test]
fn wrong_values_are_refused_with_their_line_and_what_is_allowed() {
    let at = "etc/keyvector.toml line";
    let cases = [
        (with("batch = 0"), format!("{at} 3: batch is a whole number from 1 to 10000, not 0")),
        (with("batch = \"many\""), format!("{at} 3: batch is a whole number from 1 to 10000, not \"many\"")),
        (with("batch = -1"), format!("{at} 3: batch is a whole number from 1 to 10000, not -1")),
        (with("on_poison = \"burn\""), format!("{at} 3: on_poison is \"keep\" or \"delete\", not \"burn\"")),
        (
            format!("[host]\nfailover = 2\n{SMALL}"),
            format!("{at} 2: failover is a duration such as \"2s\" or \"250ms\", from 100ms to 1h, not 2"),
        ),
        (
            format!("[host]\nlog_keys = \"yes\"\n{SMALL}"),
            format!("{at} 2: log_keys is true or false, not \"yes\""),
        ),
        (
            format!("[plugin_limits]\nmemory = \"64\"\n{SMALL}"),
            format!(
                "{at} 2: memory is a size such as \"64 MiB\" or \"512 KiB\", from 1 MiB to 4 GiB, not \"64\""
            ),
        ),
        (
            "[table]\nplugin = \"x\"\n".into(),
            format!("{at} 1: \"table\" is an array of tables: write [[table]]"),
        ),
        (
            with("name = \"a b\""),
            format!("{at} 3: the name \"a b\" is not 1 to 64 of A–Z a–z 0–9 - _ .: set name"),
        ),
        (
            SMALL.replace("columns", "columns@sha256:12"),
            format!("{at} 2: plugin: \"12\" is no SHA-256 digest: 64 hexadecimal digits"),
        ),
        ("x = = 3".into(), format!("{at} 1: not TOML: ")),
    ];
    for (text, expected) in cases {
        let refusal = refusal(&text);
        assert!(refusal.starts_with(&expected), "{refusal}\nexpected {expected}");
    }
}

#[test]
fn impossible_combinations_are_refused_with_their_line() {
    let at = "etc/keyvector.toml line";
    let cases = [
        (
            with("dead_letters = \"none\"\non_poison = \"delete\""),
            format!("{at} 4: on_poison sets rows aside, which needs dead_letters = \"store\""),
        ),
        (
            with("too_long = \"dead_letter\"\ndead_letters = \"none\""),
            format!("{at} 3: too_long sets rows aside, which needs dead_letters = \"store\""),
        ),
        (
            format!("{SMALL}on_gap = \"reconcile\""),
            format!("{at} 5: on_gap = \"reconcile\" needs a table that can be"),
        ),
        (
            format!("{SMALL}view = \"KEYS_ONLY\""),
            format!("{at} 5: KEYS_ONLY records do not hold the new row"),
        ),
        (format!("{SMALL}{SMALL}"), format!("{at} 5: this version follows one [[table]]")),
        (
            format!("{SMALL}[[table.index]]\n[[table.index]]\n"),
            format!("{at} 6: this version keeps one [[table.index]] a table"),
        ),
        (
            format!("{SMALL}[[table.index]]\nserves = false\n"),
            format!("{at} 6: the only index of a table serves its queries: serves = true"),
        ),
        (
            format!("[plugin_limits]\nmemory = \"256 MiB\"\n{SMALL}"),
            format!("{at} 2: memory_large (128 MiB unless told) may not be below memory"),
        ),
        (
            "[[table]]\nplugin = \"columns\"\n".into(),
            format!("{at} 1: columns has nothing to follow: name a source"),
        ),
        ("[store]\npath = \"x.db\"\n".into(), format!("{at} 1: there is no [[table]]")),
    ];
    for (text, expected) in cases {
        let refusal = refusal(&text);
        assert!(refusal.starts_with(&expected), "{refusal}\nexpected {expected}");
    }
}

#[test]
fn flags_beat_the_file_and_reach_every_option() {
    let setting = |flag: &str, path: &str, value| Setting::new(flag, path, value);
    let settings = [
        setting("--batch", "table.batch", SettingValue::Integer(7)),
        setting("--source", "table.source.file", SettingValue::Text("here.jsonl".into())),
        setting("--set", "table.index.0.model", SettingValue::Toml("fake.wasm".into())),
        setting("--set", "table.plugin_config.text", SettingValue::Toml("\"{a}\"".into())),
        setting("--set", "host.failover", SettingValue::Toml("500ms".into())),
        setting("--set", "table.0.max_attempts", SettingValue::Toml("9".into())),
    ];
    let config = Config::parse(SMALL, Path::new("etc/keyvector.toml"), &settings).unwrap();
    assert_eq!(config.table.batch.get(), 7);
    assert_eq!(config.table.max_attempts.get(), 9);
    assert_eq!(
        config.table.source.file,
        Path::new("here.jsonl"),
        "a flag's path starts from the working folder"
    );
    assert_eq!(config.table.index.model.name, "fake.wasm");
    assert_eq!(config.table.plugin_config["text"], "{a}");
    assert_eq!(config.host.failover, Duration::from_millis(500));

    let refused = |path: &str, value: &str| {
        let flag = format!("--set {path}={value}");
        let setting = setting(&flag, path, SettingValue::Toml(value.into()));
        Config::parse(SMALL, Path::new("etc/keyvector.toml"), &[setting]).expect_err("refused").to_string()
    };
    assert_eq!(
        refused("table.bacth", "3"),
        "--set table.bacth=3: unknown key \"bacth\" in [[table]]: did you mean \"batch\"?"
    );
    assert_eq!(
        refused("table.batch", "0"),
        "--set table.batch=0: batch is a whole number from 1 to 10000, not 0"
    );
    assert_eq!(
        refused("table.3.batch", "1"),
        "--set table.3.batch=1: table.3.batch: 3 is beyond the array's end: it has 1 elements"
    );
    assert_eq!(
        refused("table.plugin.x", "1"),
        "--set table.plugin.x=1: table.plugin.x: \"x\" is looked for in a text, not in a table"
    );
    assert_eq!(refused("table..x", "1"), "--set table..x=1: table..x: a name is missing between the dots");
}

#[test]
fn the_movies_plugin_alone_follows_the_shipped_film_table() {
    let plugin = |name: &str| {
        let settings = [
            Setting::new("--plugin", "table.plugin", SettingValue::Text(name.into())),
            Setting::new("--store", "store.path", SettingValue::Text("data/my.db".into())),
        ];
        Config::parse("", Path::new("keyvector.toml"), &settings)
    };
    let config = plugin("movies.wasm").unwrap();
    assert!(config.table.source.shipped);
    assert_eq!(config.table.source.file, Path::new("data/my-films/films.jsonl"));
    assert_eq!(config.table.name, "films");
    let refusal = plugin("other.wasm").unwrap_err().to_string();
    assert!(refusal.starts_with("--plugin: other.wasm has nothing to follow: name a source"), "{refusal}");
}

#[test]
fn plugins_can_be_pinned() {
    let digits = "0123456789abcdef".repeat(4);
    let plugin = PluginRef::parse(&format!("a/movies.wasm@sha256:{digits}"), Path::new("etc")).unwrap();
    assert_eq!((plugin.path.as_path(), plugin.stem()), (Path::new("etc/a/movies.wasm"), "movies"));
    assert_eq!(plugin.to_string(), format!("a/movies.wasm@sha256:{digits}"));
    assert!(PluginRef::parse(&format!("@sha256:{digits}"), Path::new("")).is_err());
    assert!(PluginRef::parse("x@sha256:é", Path::new("")).is_err());
}

#[test]
fn init_fills_the_example_in() {
    let answers = InitAnswers {
        table: "books".into(),
        source: "data/books.jsonl".into(),
        schema: Some("books.cql".into()),
        plugin: "columns".into(),
        plugin_config: [("text".to_owned(), "{title}\n{blurb}".into())].into_iter().collect(),
        model: "static".into(),
        store: None,
    };
    let text = answers.to_toml().unwrap();
    let config = Config::parse(&text, Path::new("keyvector.toml"), &[]).unwrap();
    assert_eq!(config.table.name, "books");
    assert_eq!(config.table.source.file, Path::new("data/books.jsonl"));
    assert_eq!(config.table.source.schema, Path::new("books.cql"));
    assert_eq!(config.table.plugin_config["text"], "{title}\n{blurb}");
    assert!(!config.table.plugin_config.contains_key("metadata"), "the example's answers are gone");
    assert!(text.contains("# Tries of one row before it is set aside."), "comments stay");
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_is_read_or_refused_without_a_panic(
            text in "(\\[\\[?(table|host|store|table\\.(source|index))\\]?\\]\n|(name|plugin|file|batch|failover) = (\"[a-z0-9./@:]{0,9}\"|-?[0-9]{1,20}|true|\\{a = 1\\}|\\[1\\])\n){0,12}",
            path in "[a-z.0-9]{0,20}",
            value in ".{0,12}",
        ) {
            let setting = Setting::new("--set", &path, SettingValue::Toml(value));
            Config::parse(&text, Path::new("x.toml"), &[setting]).ok();
        }
    }
}
