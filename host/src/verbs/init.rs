//! `init`: writes a commented configuration, asking on a terminal for what the flags do not say.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use keyvector_core::schema::{ColumnKind, TableSchema};
use keyvector_cql::CqlType;
use serde_json::{Map, Value, json};

use super::preview;
use crate::app;
use crate::cli::{InitArgs, Options};
use crate::config::{Config, InitAnswers, PluginRef};
use crate::exit::{Code, Failure, WithCode, say, tell};

/// The plugin that needs no code.
const COLUMNS: &str = "columns";

pub(super) fn init(args: &InitArgs, options: &Options) -> Result<()> {
    if args.output.exists() && !args.force {
        let message = format!("{} is there already", args.output.display());
        return Err(Failure::new(Code::Failed, message)
            .next("--force replaces it, --output FILE writes another")
            .into());
    }
    let mut ask = Ask { terminal: io::stdin().is_terminal() && io::stderr().is_terminal() };
    let source = PathBuf::from(ask.required(
        options.source.as_deref(),
        "--source",
        "Changes to follow (JSON lines in Keyspaces' record form)",
        None,
    )?);
    if !source.is_file() {
        return Err(Failure::new(Code::Unreachable, format!("there is no file {}", source.display())).into());
    }
    let beside = source.with_file_name("table.cql");
    let schema_path = match &options.schema {
        Some(schema) => PathBuf::from(schema),
        None if beside.exists() => beside.clone(),
        None => PathBuf::from(ask.required(
            None,
            "--schema",
            "The table's CREATE TABLE statement (a file)",
            None,
        )?),
    };
    let schema = app::read_schema(&schema_path)?;
    let plugin = ask.or_default(
        options.plugin.as_deref(),
        "Table plugin (columns needs no code; else a .wasm file)",
        COLUMNS,
    )?;
    let named = PluginRef::parse(&plugin, Path::new("")).code(Code::BadConfig)?;
    let plugin_config = match named.stem() == COLUMNS {
        true => columns_config(args, &schema, &mut ask)?,
        false => refuse_template(args, &plugin)?,
    };
    let answers = InitAnswers {
        table: options.table.clone().unwrap_or_else(|| schema.table.clone()),
        schema: (schema_path != beside).then(|| from_file(&args.output, &schema_path)).transpose()?,
        source: from_file(&args.output, &source)?,
        plugin: match Path::new(&plugin).is_file() {
            true => from_file(&args.output, Path::new(&plugin))?.display().to_string(),
            false => plugin,
        },
        plugin_config,
        model: options.model.clone().unwrap_or_else(|| "static".to_owned()),
        store: options.store.as_ref().map(|store| from_file(&args.output, Path::new(store))).transpose()?,
    };
    let text = answers.to_toml().context("fill in the example")?;
    // What was typed may be refused: better now than at the next command.
    let mut settings = options.given().settings;
    settings.retain(|setting| setting.path.starts_with("host."));
    let config = Config::parse(&text, &args.output, &settings).map_err(Failure::from)?;
    refuse_what_cannot_run(&config, &schema)?;
    write_new(&args.output, &text, args.force).map_err(|error| {
        Failure::new(Code::Unreachable, format!("write {}: {error}", args.output.display()))
    })?;

    say!("wrote {}", args.output.display());
    let config = match args.output.as_os_str() == crate::config::CONFIG_FILE {
        true => String::new(),
        false => format!(" --config {}", args.output.display()),
    };
    say!("next:  keyvector-host preview{config}    a few of your rows as text and metadata; costs nothing");
    say!("       keyvector-host check{config}      opens everything and says what to fix");
    say!("       keyvector-host{config}            follows the table until stopped");
    Ok(())
}

/// Loads the plugin with its configuration on this table, and the model: what fails here would fail at every start.
fn refuse_what_cannot_run(config: &Config, schema: &TableSchema) -> Result<(), Failure> {
    let engine = app::engine(config)?;
    let described = app::describe_plugin(config, &engine)?;
    app::open_plugin(&described, schema)?;
    preview::model_limits(config, &engine)?;
    Ok(())
}

/// Other plugins have configurations of their own, of which nothing is known here.
fn refuse_template(args: &InitArgs, plugin: &str) -> Result<Map<String, Value>, Failure> {
    let flag = match (&args.text, &args.metadata) {
        (None, None) => return Ok(Map::new()),
        (Some(_), _) => "--text is a template",
        (None, Some(_)) => "--metadata names columns",
    };
    let message = format!("{flag} for the {COLUMNS} plugin, and the plugin is {plugin}");
    Err(Failure::new(Code::BadConfig, message)
        .next("leave it out, and set [table.plugin_config] afterwards; or leave --plugin out"))
}

/// The columns plugin's configuration: a template over the text columns, unless told.
fn columns_config(
    args: &InitArgs,
    schema: &TableSchema,
    ask: &mut Ask,
) -> Result<Map<String, Value>, Failure> {
    say!("columns of {}: {}", schema.table, column_names(schema).join(", "));
    let texts: Vec<String> = schema
        .columns
        .iter()
        .filter(|column| matches!(column.cql_type, CqlType::Text) && column.kind == ColumnKind::Regular)
        .map(|column| format!("{{{}}}", column.name))
        .collect();
    let text = ask.or_default(args.text.as_deref(), "Text to embed, as a template", &texts.join("\\n"))?;
    let text = text.replace("\\n", "\n");
    if text.trim().is_empty() {
        return Err(Failure::new(
            Code::BadConfig,
            "the text template is empty, and the table has no text columns",
        )
        .next("--text '{column} …'"));
    }
    let given = args.metadata.as_ref().map(|names| names.join(","));
    let names =
        ask.or_default(given.as_deref(), "Columns to filter queries by (by comma, may be empty)", "")?;
    let metadata = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| metadata_entry(schema, name))
        .collect::<Result<Vec<_>, _>>()?;
    let mut config = Map::new();
    config.insert("text".to_owned(), text.into());
    config.insert("metadata".to_owned(), metadata.into());
    Ok(config)
}

fn column_names(schema: &TableSchema) -> Vec<&str> {
    schema.columns.iter().map(|column| column.name.as_str()).collect()
}

/// A column's entry with the metadata type that fits it; what fits no other is a text.
fn metadata_entry(schema: &TableSchema, name: &str) -> Result<Value, Failure> {
    let Some(column) = schema.columns.iter().find(|column| column.name == name) else {
        let message =
            format!("{} has no column {name:?}: it has {}", schema.table, column_names(schema).join(", "));
        return Err(Failure::new(Code::BadConfig, message));
    };
    Ok(match metadata_type(&column.cql_type) {
        "text" => json!(name),
        other => json!({ "column": name, "type": other }),
    })
}

fn metadata_type(cql_type: &CqlType) -> &'static str {
    match cql_type {
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int | CqlType::Float | CqlType::Double => "number",
        CqlType::Decimal | CqlType::Timestamp => "number",
        CqlType::Boolean => "boolean",
        CqlType::List(element) | CqlType::Set(element) => match metadata_type(element) {
            "number" => "number-list",
            "text" => "text-list",
            _ => "text",
        },
        // A bigint may go beyond 2^53, where a number is no longer exact.
        _ => "text",
    }
}

/// A path as the configuration at `output` has to say it: relative paths there start from its folder.
fn from_file(output: &Path, path: &Path) -> Result<PathBuf> {
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::path::absolute(path).with_context(|| format!("find {}", path.display()))
        }
        _ => Ok(path.to_owned()),
    }
}

fn write_new(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true);
    match force {
        true => options.truncate(true),
        false => options.create_new(true),
    };
    options.open(path)?.write_all(text.as_bytes())
}

/// Asks on a terminal; elsewhere takes what the flags say.
struct Ask {
    terminal: bool,
}

impl Ask {
    fn required(
        &mut self,
        given: Option<&str>,
        flag: &str,
        question: &str,
        default: Option<&str>,
    ) -> Result<String, Failure> {
        if let Some(given) = given {
            return Ok(given.to_owned());
        }
        if !self.terminal {
            return Err(Failure::new(Code::BadConfig, format!("init needs {flag} where it cannot ask"))
                .next("keyvector-host init --help"));
        }
        self.ask(question, default)
    }

    fn or_default(&mut self, given: Option<&str>, question: &str, default: &str) -> Result<String, Failure> {
        match given {
            Some(given) => Ok(given.to_owned()),
            None if self.terminal => self.ask(question, Some(default)),
            None => Ok(default.to_owned()),
        }
    }

    fn ask(&mut self, question: &str, default: Option<&str>) -> Result<String, Failure> {
        let failed = |error: io::Error| Failure::new(Code::Failed, format!("ask on the terminal: {error}"));
        loop {
            match default {
                Some(default) if !default.is_empty() => tell(format_args!("{question} [{default}]: ")),
                _ => tell(format_args!("{question}: ")),
            }
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line).map_err(failed)? == 0 {
                return Err(Failure::new(Code::Failed, "init was left before all was answered"));
            }
            match (line.trim(), default) {
                ("", Some(default)) => return Ok(default.to_owned()),
                ("", None) => {}
                (answer, _) => return Ok(answer.to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_types_follow_the_column() {
        let schema = TableSchema::parse_cql(
            "CREATE TABLE k.t (a int PRIMARY KEY, b text, c set<text>, d list<int>, e boolean, f bigint, g uuid);",
        )
        .unwrap();
        let entry = |name: &str| metadata_entry(&schema, name).unwrap();
        assert_eq!(entry("a"), json!({ "column": "a", "type": "number" }));
        assert_eq!(entry("b"), json!("b"));
        assert_eq!(entry("c"), json!({ "column": "c", "type": "text-list" }));
        assert_eq!(entry("d"), json!({ "column": "d", "type": "number-list" }));
        assert_eq!(entry("e"), json!({ "column": "e", "type": "boolean" }));
        assert_eq!((entry("f"), entry("g")), (json!("f"), json!("g")));
        let refused = metadata_entry(&schema, "z").unwrap_err();
        assert_eq!(refused.message, "t has no column \"z\": it has a, b, c, d, e, f, g");
    }
}
