//! Configuration files, flags, and what `init` writes.

use std::path::{Path, PathBuf};

use keyvector_fuzz::Target;
use keyvector_fuzz::input::Input;
use keyvector_host::config::{Config, EXAMPLE, Given, InitAnswers, Setting, SettingValue};
use serde_json::{Map, Value, json};

const FILE: &str = "etc/keyvector.toml";

/// Up to three flags, then a file.
#[rustfmt::skip]
pub(crate) const CONFIGS: Target = Target {
    name: "config",
    run: configs,
    samples: config_samples,
    words: &[
        "[store]\n", "[host]\n", "[plugin_limits]\n", "[[table]]\n", "[table.source]\n", "[[table.index]]\n",
        "[table.plugin_config]\n", "path = ", "failover = ", "memory = ", "batch = ", "plugin = ", "file = ",
        "schema = ", "view = ", "name = ", "model = ", "model_config = ", "plugin_config = ", "\"2s\"", "\"64 MiB\"",
        "true", "0x7f", "18446744073709551615", "-1", "1e400", "nan", "inf", "1979-05-27", "\"\"\"", "'''",
        "{ a = 1 }", "[1, [2]]", "\n", "# ", ".", "\"\\u0000\"", "@sha256:", "a.b.c.d = 1\n",
    ],
};

const PATHS: [&str; 12] = [
    "table.plugin",
    "table.source.file",
    "table.batch",
    "host.failover",
    "plugin_limits.memory",
    "store.path",
    "table.0.name",
    "table.index.0.model",
    "table.1.plugin",
    "table.plugin_config.text",
    "table..batch",
    "",
];

fn configs(data: &[u8]) {
    let mut input = Input::new(data);
    let settings: Vec<Setting> = (0..input.below(4)).map(|_| setting(&mut input)).collect();
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    match Config::parse(text, Path::new(FILE), &settings) {
        Ok(config) => is_remembered(&config),
        Err(error) => {
            let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
            let message = error.to_string();
            let (place, what) =
                message.split_once(": ").unwrap_or_else(|| panic!("{message:?} has no place"));
            let known = match place.strip_prefix(FILE) {
                Some(line) => {
                    let line = line.strip_prefix(" line ").and_then(|line| line.parse::<usize>().ok());
                    line.is_some_and(|line| (1..=lines).contains(&line))
                }
                None => place == "configuration" || place == "--set",
            };
            assert!(known, "{message:?} of {lines} lines");
            assert!(!what.is_empty(), "{message:?}");
        }
    }
}

fn setting(input: &mut Input<'_>) -> Setting {
    let path = if input.flag() { (*input.pick(&PATHS)).to_owned() } else { input.text() };
    let value = match input.below(4) {
        0 => SettingValue::Text(input.text()),
        1 => SettingValue::Integer(u64::from_le_bytes(input.array())),
        2 => SettingValue::Boolean(input.flag()),
        _ => SettingValue::Toml(input.text()),
    };
    Setting::new("--set", &path, value)
}

/// What a store remembers of a configuration is that configuration.
fn is_remembered(config: &Config) {
    let folder = Path::new("/somewhere");
    let text = config.to_toml(folder);
    let store = folder.join(&config.store);
    let again = Config::from_store(&text, &store, &Given::default())
        .unwrap_or_else(|fault| panic!("{text}\n{fault}"));
    assert_eq!(anchored(again, folder), anchored(config.clone(), folder), "{text}");
}

/// The configuration with its paths whole. Where a plugin's name is looked for depends on who names it.
fn anchored(mut config: Config, folder: &Path) -> Config {
    let whole = |path: &mut PathBuf| *path = folder.join(&*path);
    whole(&mut config.store);
    whole(&mut config.table.source.file);
    whole(&mut config.table.source.schema);
    config.host.cache_dir.iter_mut().for_each(whole);
    config.table.source.shipped = false;
    config.table.plugin.path = PathBuf::new();
    config.table.index.model.path = PathBuf::new();
    config
}

fn config_samples() -> Vec<Vec<u8>> {
    let option = |line: &'static str| line.strip_prefix("# ").filter(|rest| rest.contains(" = "));
    let uncommented: String =
        EXAMPLE.lines().map(|line| format!("{}\n", option(line).unwrap_or(line))).collect();
    let small = "[[table]]\nplugin = \"columns\"\n\
        plugin_config = { text = \"{title}\", metadata = [\"year\"], deep = { a = [1, 2.5, true] } }\n\
        [table.source]\nfile = \"films.jsonl\"\nview = \"NEW_IMAGE\"\n";
    let long_name = format!("{}a = 1\n{small}", "a.".repeat(10_000));
    let deep = format!("a = {}1{}\n{small}", "[".repeat(20_000), "]".repeat(20_000));
    let mut samples: Vec<Vec<u8>> = [EXAMPLE, &uncommented, small, "", &long_name, &deep]
        .iter()
        .map(|text| [b"\0", text.as_bytes()].concat())
        .collect();
    // A flag over the small file.
    samples.push([b"\x01\x01\x03\x03\x025s".as_slice(), small.as_bytes()].concat());
    samples.push([b"\x01\x00\x0btable.batch\x01\x07\0\0\0\0\0\0\0".as_slice(), small.as_bytes()].concat());
    samples
}

/// What a user answers to `init`.
pub(crate) const ANSWERS: Target = Target {
    name: "init",
    run: answers,
    samples: || {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let plain = ["films", "films.jsonl", "columns", "static", "", "{title}\n{plot}", "year"];
        let odd = ["t", "a\"b\\.jsonl", "p.wasm", "m'", "", "# \t", "\u{e9}"];
        vec![plain.map(text).concat(), odd.map(text).concat()]
    },
    words: &["\"", "'", "\\", "\n", "#", "]]", "@sha256:", "\0", "\u{7f}", "\u{e9}", ".", "/"],
};

fn answers(data: &[u8]) {
    let mut input = Input::new(data);
    let answers = InitAnswers {
        table: input.text(),
        source: input.text().into(),
        plugin: input.text(),
        model: input.text(),
        schema: Some(input.text()).filter(|text| !text.is_empty()).map(PathBuf::from),
        plugin_config: {
            let mut config = Map::new();
            config.insert("text".to_owned(), input.text().into());
            config.insert(input.text(), any_json(&mut input, 2));
            config
        },
        store: None,
    };
    let text = answers.to_toml().expect("the example is TOML");
    match Config::parse(&text, Path::new("keyvector.toml"), &[]) {
        Ok(config) => {
            let table = config.table;
            assert_eq!((&table.name, &table.index.name), (&answers.table, &answers.table), "{text}");
            // A digest is kept in lower case.
            let lower = |plugin: &str| plugin.to_lowercase();
            assert_eq!(lower(&table.plugin.to_string()), lower(&answers.plugin), "{text}");
            assert_eq!(lower(&table.index.model.to_string()), lower(&answers.model), "{text}");
            assert_eq!(table.source.file, answers.source, "{text}");
            assert!(answers.schema.is_none_or(|schema| schema == table.source.schema), "{text}");
            let given = without_nulls(Value::Object(answers.plugin_config));
            assert_eq!(Value::Object(table.plugin_config), given, "{text}");
        }
        // What TOML takes and the host does not: a name of other letters, nothing where something is needed.
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains("not TOML"), "{message}\n{text}");
            let blank = |text: &str| text.trim().is_empty();
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let may_be_refused = !answers.table.bytes().all(plain)
                || answers.table.is_empty()
                || answers.table.len() > 64
                || [&answers.plugin, &answers.model]
                    .iter()
                    .any(|name| blank(name) || name.contains("@sha256:"))
                || blank(&answers.source.display().to_string())
                || answers.schema.is_some_and(|schema| blank(&schema.display().to_string()));
            assert!(may_be_refused, "{message}\n{text}");
        }
    }
}

fn any_json(input: &mut Input<'_>, depth: usize) -> Value {
    match input.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => input.flag().into(),
        2 => i64::from_le_bytes(input.array()).into(),
        3 => json!(f64::from_le_bytes(input.array())),
        4 => input.text().into(),
        5 => (0..input.below(3)).map(|_| any_json(input, depth - 1)).collect::<Vec<_>>().into(),
        _ => Value::Object((0..input.below(3)).map(|_| (input.text(), any_json(input, depth - 1))).collect()),
    }
}

/// TOML has no null: what is null is left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(values) => {
            values.into_iter().filter(|value| !value.is_null()).map(without_nulls).collect()
        }
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}
