//! Configuration as text: the commented example, what `init` makes of it, and what a store remembers.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Config, PluginRef, TooLong, units};
use crate::table::{DeadLetterPolicy, OnGap, OnPoison};

/// The commented example: every option with its default.
pub const EXAMPLE: &str = include_str!("../../keyvector.example.toml");

/// What `init` was told.
#[derive(Clone, Debug)]
pub struct InitAnswers {
    pub table: String,
    pub source: PathBuf,
    pub schema: Option<PathBuf>,
    pub plugin: String,
    /// The plugin's configuration, where it needs one.
    pub plugin_config: serde_json::Map<String, Value>,
    pub model: String,
    pub store: Option<PathBuf>,
}

impl InitAnswers {
    /// The example with the answers filled in; comments and order stay.
    pub fn to_toml(&self) -> Result<String, toml_edit::TomlError> {
        let mut document: toml_edit::DocumentMut = EXAMPLE.parse()?;
        if let Some(store) = &self.store {
            set(&mut document["store"]["path"], store.display().to_string());
        }
        let table = &mut document["table"][0];
        set(&mut table["name"], self.table.as_str());
        set(&mut table["plugin"], self.plugin.as_str());
        set(&mut table["source"]["file"], self.source.display().to_string());
        if let Some(schema) = &self.schema {
            set(&mut table["source"]["schema"], schema.display().to_string());
        }
        set(&mut table["index"][0]["model"], self.model.as_str());
        set(&mut table["index"][0]["name"], self.table.as_str());
        let own = table.as_table_like_mut().and_then(|table| table.get_mut("plugin_config"));
        if let Some(own) = own.and_then(toml_edit::Item::as_table_like_mut) {
            own.clear();
            for (name, value) in &self.plugin_config {
                if let Some(value) = toml_value(value) {
                    own.insert(name, toml_edit::Item::Value(value));
                }
            }
        }
        Ok(document.to_string())
    }
}

/// Replaces a value and keeps the comment after it.
fn set(item: &mut toml_edit::Item, value: impl Into<toml_edit::Value>) {
    let mut value = value.into();
    if let Some(old) = item.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *item = toml_edit::Item::Value(value);
}

fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => toml_edit::Value::Array(values.iter().filter_map(toml_value).collect()),
        Value::Object(entries) => {
            let mut table = toml_edit::InlineTable::new();
            for (name, value) in entries {
                if let Some(value) = toml_value(value) {
                    table.insert(name, value);
                }
            }
            toml_edit::Value::InlineTable(table)
        }
    })
}

impl Config {
    /// The whole configuration as TOML with absolute paths, for a store to remember: reading it gives this
    /// configuration back wherever the reader stands. The store's own path is left out.
    pub fn to_toml(&self, working_folder: &Path) -> String {
        let path = |path: &Path| working_folder.join(path).display().to_string();
        let plugin = |plugin: &PluginRef| match working_folder.join(&plugin.path) {
            file if file.is_file() => {
                PluginRef { name: file.display().to_string(), ..plugin.clone() }.to_string()
            }
            _ => plugin.to_string(),
        };
        let object = |entries| toml_value(&Value::Object(entries)).unwrap_or_else(|| "".into());
        let mut document = toml_edit::DocumentMut::new();
        let host = &mut document["host"];
        *host = toml_edit::table();
        host["failover"] = toml_edit::value(units::show_duration(self.host.failover));
        host["log_keys"] = toml_edit::value(self.host.log_keys);
        host["log_plugin_text"] = toml_edit::value(self.host.log_plugin_text);
        if let Some(threads) = self.host.plugin_threads {
            host["plugin_threads"] = toml_edit::value(i64::from(threads.get()));
        }
        if let Some(folder) = &self.host.cache_dir {
            host["cache_dir"] = toml_edit::value(path(folder));
        }

        let limits = &mut document["plugin_limits"];
        *limits = toml_edit::table();
        let from = &self.plugin_limits;
        for (name, bytes) in [
            ("memory", from.memory_bytes),
            ("memory_large", from.memory_bytes_large),
            ("large_plugin", from.large_component_bytes),
            ("output_per_row", from.output_bytes_per_row),
            ("plugin_size", from.component_bytes_max),
        ] {
            limits[name] = toml_edit::value(units::show_size(bytes as u64));
        }
        limits["deadline"] = toml_edit::value(units::show_duration(from.deadline));
        limits["deadline_per_row"] = toml_edit::value(units::show_duration(from.deadline_per_row));
        limits["second_chance_factor"] = toml_edit::value(i64::from(from.second_chance_factor));
        limits["output_factor"] = toml_edit::value(integer(from.output_factor as u64));
        limits["determinism_check"] = toml_edit::value(integer(from.determinism_every));

        let from = &self.table;
        let mut source = toml_edit::table();
        source["file"] = toml_edit::value(path(&from.source.file));
        source["schema"] = toml_edit::value(path(&from.source.schema));
        if let Some(view) = from.source.view {
            source["view"] = toml_edit::value(view.as_str());
        }
        source["on_gap"] = toml_edit::value(match from.source.on_gap {
            OnGap::Stop => "stop",
            OnGap::Continue => "continue",
        });
        let mut index = toml_edit::table();
        index["name"] = toml_edit::value(&from.index.name);
        index["model"] = toml_edit::value(plugin(&from.index.model));
        index["model_config"] = toml_edit::value(object(from.index.model_config.clone()));

        let mut table = toml_edit::table();
        table["name"] = toml_edit::value(&from.name);
        table["plugin"] = toml_edit::value(plugin(&from.plugin));
        table["plugin_config"] = toml_edit::value(object(from.plugin_config.clone()));
        table["revision"] = toml_edit::value(i64::from(from.revision));
        table["dead_letters"] = toml_edit::value(match from.dead_letters {
            DeadLetterPolicy::Store => "store",
            DeadLetterPolicy::None => "none",
        });
        table["max_attempts"] = toml_edit::value(i64::from(from.max_attempts.get()));
        table["poison_run_max"] = toml_edit::value(i64::from(from.poison_run_max.get()));
        table["on_poison"] = toml_edit::value(match from.on_poison {
            OnPoison::Keep => "keep",
            OnPoison::Delete => "delete",
        });
        table["batch"] = toml_edit::value(i64::from(from.batch.get()));
        table["too_long"] = toml_edit::value(match from.too_long {
            TooLong::Cut => "cut",
            TooLong::DeadLetter => "dead_letter",
        });
        table["source"] = source;
        table["index"] = array_of(index);
        document["table"] = array_of(table);
        document.to_string()
    }
}

/// TOML's whole numbers have a sign; ours were read from TOML.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn array_of(item: toml_edit::Item) -> toml_edit::Item {
    let mut array = toml_edit::ArrayOfTables::new();
    if let toml_edit::Item::Table(table) = item {
        array.push(table);
    }
    toml_edit::Item::ArrayOfTables(array)
}
