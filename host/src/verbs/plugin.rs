//! `plugin inspect`: what a plugin file is.

use std::path::Path;

use anyhow::Result;
use keyvector_core::document::{MetadataKey, MetadataType};
use keyvector_sandbox::{Engine, EngineConfig, Limits, LocalModel, Role, TablePlugin, plugin_api_versions};
use serde_json::{Value, json};

use super::show;
use crate::cli::Options;
use crate::config::{Config, Given, Place, PluginRef, Setting, SettingValue, units};
use crate::exit::{Code, Failure};
use crate::shipped;

pub(super) fn inspect(options: &Options, file: &str, as_program: bool) -> Result<()> {
    let wanted =
        PluginRef::parse(file, Path::new("")).map_err(|reason| Failure::new(Code::BadConfig, reason))?;
    let (config, limits) = settings(options)?;
    let found = shipped::find_plugin(&wanted, limits.component_bytes_max)?;
    let engine = Engine::new(EngineConfig { limits, ..EngineConfig::default() })
        .map_err(|error| Failure::new(Code::Failed, error))?;
    let plugin =
        engine.load(&found.name, &found.bytes).map_err(|error| Failure::new(Code::BadConfig, error))?;

    let mut parts = Vec::new();
    let mut add = |name: &'static str, value: Value| parts.push((name, value));
    add("name", plugin.name().into());
    add("shipped", found.shipped.into());
    add("sha256", plugin.digest().into());
    add("size_bytes", plugin.size_bytes().into());
    add("speaks", format!("keyvector:plugin {}", plugin.speaks()).into());
    add("host_binds", plugin_api_versions().into());
    add("roles", plugin.roles().iter().map(|role| role.as_str()).collect());
    if !plugin.unknown_exports().is_empty() {
        // A later release's abilities, which this host does without.
        add("not_used", plugin.unknown_exports().into());
    }
    add("imports", plugin.imports().into());
    add("memory_bytes", plugin.memory_bytes_max().into());
    if plugin.roles().contains(&Role::Table) {
        match TablePlugin::describe(&plugin, &config) {
            Ok(info) => {
                add("reads", info.reads.into());
                add("metadata", info.metadata.iter().map(metadata_key).collect());
            }
            // Most often it needs a configuration, which inspect does not have.
            Err(error) => add("not_described", error.to_string().into()),
        }
    }
    if plugin.roles().contains(&Role::LocalModel) {
        match LocalModel::open(&plugin, &config) {
            Ok((_, info)) => {
                add("identity", info.identity.into());
                add("dimension", info.dimension.into());
                add("metric", info.metric.as_str().into());
            }
            Err(error) => add("not_opened", error.to_string().into()),
        }
    }
    if as_program {
        show::json_line(&parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>())?;
        return Ok(());
    }
    let mut shown = show::table([]);
    for (name, value) in &parts {
        let value = match value.as_u64() {
            Some(bytes) if name.contains("bytes") => units::show_size(bytes),
            _ => show::lines(&plain(value)),
        };
        shown.add_row([name.replace("_bytes", "").replace('_', " "), value]);
    }
    show::line(show::trimmed(&shown))?;
    Ok(())
}

/// The plugin's configuration, which is what `--set table.plugin_config.…` says, else nothing; and the limits of the
/// configuration file, if there is one, with what `--set plugin_limits.…` says.
fn settings(options: &Options) -> Result<(String, Limits), Failure> {
    let given = options.given();
    let limits = match given.place(&[]) {
        Place::File(file) => Some(Config::from_file(&file, &given)?.plugin_limits),
        Place::Flags | Place::Store(_) | Place::Nowhere => None,
    };
    let mut settings = given.settings;
    settings
        .retain(|setting| setting.path.starts_with("table.") || setting.path.starts_with("plugin_limits."));
    // A whole configuration is read, so that what is said is checked as elsewhere; the rest of it is not used.
    for (path, value) in [("table.plugin", "inspected"), ("table.source.file", "none.jsonl")] {
        settings.push(Setting::new("--set", path, SettingValue::Text(value.to_owned())));
    }
    let config = Config::from_flags(&Given { file: None, settings })?;
    let limits = limits.unwrap_or(config.plugin_limits);
    Ok((Value::Object(config.table.plugin_config).to_string(), limits))
}

fn metadata_key(key: &MetadataKey) -> Value {
    let value_type = match key.value_type {
        MetadataType::Text => "text",
        MetadataType::Number => "number",
        MetadataType::Boolean => "boolean",
        MetadataType::TextList => "text-list",
        MetadataType::NumberList => "number-list",
    };
    json!({ "name": key.name, "type": value_type, "filterable": key.filterable })
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join("\n"),
        Value::Object(entries) => match (&entries["name"], &entries["type"], &entries["filterable"]) {
            (name, value_type, Value::Bool(true)) => format!("{} ({})", plain(name), plain(value_type)),
            (name, value_type, _) => format!("{} ({}, not filterable)", plain(name), plain(value_type)),
        },
        other => other.to_string(),
    }
}
