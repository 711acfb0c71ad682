//! From files and flags to a checked [`Config`].

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keyvector_core::change::ViewType;
use keyvector_sandbox::Limits;

use super::section::Section;
use super::tree::{self, Node, Origin, Value};
use super::{
    CONFIG_FILE, Config, DEMO_STORE_FILE, Error, FileSourceConfig, HostConfig, IndexConfig, PluginRef,
    STORE_FILE, TableConfig, TooLong,
};
use crate::exit::{Code, Failure};
use crate::table::{DeadLetterPolicy, OnGap, OnPoison};

const ROOT: &[&str] = &["store", "host", "plugin_limits", "table"];
const STORE: &[&str] = &["path"];
const HOST: &[&str] = &["failover", "log_keys", "log_plugin_text", "plugin_threads", "cache_dir"];
const PLUGIN_LIMITS: &[&str] = &[
    "memory",
    "memory_large",
    "large_plugin",
    "deadline",
    "deadline_per_row",
    "second_chance_factor",
    "output_factor",
    "output_per_row",
    "plugin_size",
    "determinism_check",
];
const TABLE: &[&str] = &[
    "name",
    "plugin",
    "plugin_config",
    "revision",
    "dead_letters",
    "max_attempts",
    "poison_run_max",
    "on_poison",
    "batch",
    "too_long",
    "source",
    "index",
];
const SOURCE: &[&str] = &["file", "schema", "view", "on_gap"];
const INDEX: &[&str] = &["name", "model", "model_config", "serves"];

#[cfg(test)]
pub(super) const ALL_OPTIONS: [&[&str]; 7] = [ROOT, STORE, HOST, PLUGIN_LIMITS, TABLE, SOURCE, INDEX];

/// The model of whoever names none.
const MODEL_DEFAULT: &str = "static";

/// One value from a flag, or from the environment variable that stands for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Dotted, as for `--set`.
    pub path: String,
    pub value: SettingValue,
    /// What the user wrote, for complaints: `--batch`.
    pub flag: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    Text(String),
    Integer(u64),
    Boolean(bool),
    /// Read as TOML, else as text.
    Toml(String),
}

impl Setting {
    pub fn new(flag: &str, path: &str, value: SettingValue) -> Self {
        Self { path: path.to_owned(), value, flag: flag.to_owned() }
    }

    fn lay_over(&self, tree: &mut Node) -> Result<(), Error> {
        let origin = Origin::Flag(self.flag.clone());
        let value = match &self.value {
            SettingValue::Text(text) => Value::Text(text.clone()),
            SettingValue::Integer(number) => {
                i64::try_from(*number).map_or_else(|_| Value::Other(number.to_string()), Value::Integer)
            }
            SettingValue::Boolean(flag) => Value::Boolean(*flag),
            SettingValue::Toml(text) => tree::parse_flag_value(text, &origin),
        };
        tree.set(&self.path, value, origin)
    }
}

/// What the command line says of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// In rising precedence.
    pub settings: Vec<Setting>,
}

impl Given {
    fn says(&self, path: &str) -> bool {
        self.settings.iter().any(|setting| setting.path == path)
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.settings.iter().rev().filter(|setting| setting.path == path).find_map(|setting| {
            match &setting.value {
                SettingValue::Text(text) | SettingValue::Toml(text) => Some(text.as_str()),
                SettingValue::Integer(_) | SettingValue::Boolean(_) => None,
            }
        })
    }
}

/// Where a verb's configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    /// Flags and environment name the table.
    Flags,
    /// This store may remember one.
    Store(PathBuf),
    Nowhere,
}

impl Given {
    /// A file, else flags that name plugin or source, else the first store that is there: the one that was named, or
    /// else one of `stores`.
    pub fn place(&self, stores: &[&str]) -> Place {
        if let Some(file) = &self.file {
            return Place::File(file.clone());
        }
        if Path::new(CONFIG_FILE).exists() {
            return Place::File(CONFIG_FILE.into());
        }
        if self.says("table.plugin") || self.says("table.source.file") {
            return Place::Flags;
        }
        let store = match self.text("store.path") {
            Some(path) => Some(PathBuf::from(path)).filter(|store| store.exists()),
            None => stores.iter().map(PathBuf::from).find(|store| store.exists()),
        };
        store.map_or(Place::Nowhere, Place::Store)
    }
}

impl Config {
    /// Reads a file, with flags and environment over it.
    pub fn from_file(file: &Path, given: &Given) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::new(Code::BadConfig, format!("read the configuration {}: {error}", file.display()))
                .next("keyvector-host init writes one")
        })?;
        Ok(Self::from_tree(Node::parse(&text, file)?, given)?)
    }

    /// From flags and environment alone.
    pub fn from_flags(given: &Given) -> Result<Self, Failure> {
        Ok(Self::from_tree(Node::empty(Origin::Default), given)?)
    }

    /// Reads what [`Self::to_toml`] wrote into the store at `store`, with flags and environment over it.
    pub fn from_store(text: &str, store: &Path, given: &Given) -> Result<Self, Failure> {
        let mut tree = Node::parse(text, store)?;
        tree.set("store.path", Value::Text(store.display().to_string()), Origin::Default)?;
        Ok(Self::from_tree(tree, given)?)
    }

    /// The demo's: the shipped plugin on the shipped film table, in a store of its own, whatever file lies about.
    pub fn demo(given: &Given) -> Result<Self, Failure> {
        let mut tree = Node::empty(Origin::Default);
        tree.set("store.path", Value::Text(DEMO_STORE_FILE.to_owned()), Origin::Default)?;
        tree.set("table.plugin", Value::Text("movies".to_owned()), Origin::Default)?;
        Ok(Self::from_tree(tree, given)?)
    }

    /// Reads one TOML text, as the file at `file` would be.
    pub fn parse(text: &str, file: &Path, settings: &[Setting]) -> Result<Self, Error> {
        Self::from_tree(Node::parse(text, file)?, &Given { file: None, settings: settings.to_vec() })
    }

    fn from_tree(mut tree: Node, given: &Given) -> Result<Self, Error> {
        for setting in &given.settings {
            setting.lay_over(&mut tree)?;
        }
        let root = Section::open(&tree, "", ROOT)?;
        let store = match root.table("store") {
            Some(node) => Section::open(node, "[store]", STORE)?.path("path")?,
            None => None,
        };
        let store = store.unwrap_or_else(|| PathBuf::from(STORE_FILE));
        let host = read_host(root.table("host"))?;
        let mut plugin_limits = read_plugin_limits(root.table("plugin_limits"))?;
        let tables = root.tables("table")?;
        let table = match tables {
            [] => {
                return Err(Error::new(
                    &tree.origin,
                    "there is no [[table]]: name one, with its plugin and source",
                ));
            }
            [table] => read_table(table, &store)?,
            [_, second, ..] => {
                return Err(Error::new(
                    &second.origin,
                    "this version follows one [[table]]: give the second a configuration and a store of its own",
                ));
            }
        };
        // A changed row may come as two images.
        plugin_limits.failed_run_max = 2 * table.poison_run_max.get() as usize;
        Ok(Self { store, host, plugin_limits, table })
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// For the embedded store; a service's leases take longer.
const FAILOVER_DEFAULT: Duration = Duration::from_secs(2);
/// Below this a busy machine loses its own leases.
const FAILOVER_MIN: Duration = Duration::from_millis(100);

fn read_host(node: Option<&Node>) -> Result<HostConfig, Error> {
    let empty = Node::empty(Origin::Default);
    let host = Section::open(node.unwrap_or(&empty), "[host]", HOST)?;
    Ok(HostConfig {
        failover: host.duration("failover", FAILOVER_MIN..=HOUR)?.unwrap_or(FAILOVER_DEFAULT),
        log_keys: host.boolean("log_keys")?.unwrap_or(false),
        log_plugin_text: host.boolean("log_plugin_text")?.unwrap_or(false),
        plugin_threads: host.integer("plugin_threads", 1..=256)?.and_then(small),
        cache_dir: host.path("cache_dir")?,
    })
}

fn read_plugin_limits(node: Option<&Node>) -> Result<Limits, Error> {
    let empty = Node::empty(Origin::Default);
    let limits = Section::open(node.unwrap_or(&empty), "[plugin_limits]", PLUGIN_LIMITS)?;
    let or = Limits::default();
    // A component's memory has 32-bit addresses.
    let memory = 1 << 20..=4 << 30;
    let file = 1 << 10..=1 << 30;
    let factor = 1..=1000;
    let read = Limits {
        memory_bytes: size(&limits, "memory", memory.clone(), or.memory_bytes)?,
        memory_bytes_large: size(&limits, "memory_large", memory, or.memory_bytes_large)?,
        large_component_bytes: size(&limits, "large_plugin", file.clone(), or.large_component_bytes)?,
        deadline: limits.duration("deadline", MILLISECOND * 10..=HOUR)?.unwrap_or(or.deadline),
        deadline_per_row: limits
            .duration("deadline_per_row", MILLISECOND..=HOUR)?
            .unwrap_or(or.deadline_per_row),
        second_chance_factor: limits
            .integer("second_chance_factor", factor.clone())?
            .and_then(small)
            .map_or(or.second_chance_factor, NonZeroU32::get),
        output_factor: limits
            .integer("output_factor", factor)?
            .and_then(|factor| usize::try_from(factor).ok())
            .unwrap_or(or.output_factor),
        output_bytes_per_row: size(&limits, "output_per_row", 1 << 10..=64 << 20, or.output_bytes_per_row)?,
        component_bytes_max: size(&limits, "plugin_size", file, or.component_bytes_max)?,
        determinism_every: limits
            .integer("determinism_check", 0..=1_000_000_000)?
            .unwrap_or(or.determinism_every),
        failed_run_max: or.failed_run_max,
        failed_run_time_max: or.failed_run_time_max,
    };
    if read.memory_bytes_large < read.memory_bytes {
        // Whichever of the two was written; both may have been.
        let place = match limits.table("memory_large") {
            Some(node) => &node.origin,
            None => limits.origin("memory"),
        };
        return Err(Error::new(place, "memory_large (128 MiB unless told) may not be below memory"));
    }
    Ok(read)
}

fn size(
    section: &Section<'_>,
    name: &str,
    allowed: RangeInclusive<u64>,
    default: usize,
) -> Result<usize, Error> {
    let read = section.size(name, allowed)?.and_then(|bytes| usize::try_from(bytes).ok());
    Ok(read.unwrap_or(default))
}

fn read_table(node: &Node, store: &Path) -> Result<TableConfig, Error> {
    let table = Section::open(node, "[[table]]", TABLE)?;
    let plugin = read_plugin_ref(&table, "plugin", None)?;
    let source = read_source(&table, &plugin, store)?;
    let name = match table.text("name")? {
        Some(name) => name.to_owned(),
        None => {
            source.file.file_stem().map_or_else(|| "table".into(), |stem| stem.to_string_lossy().into_owned())
        }
    };
    check_name(&name, table.origin("name"))?;

    let dead_letters = table
        .choice("dead_letters", &[("store", DeadLetterPolicy::Store), ("none", DeadLetterPolicy::None)])?
        .unwrap_or(DeadLetterPolicy::Store);
    let on_poison = table.choice("on_poison", &[("keep", OnPoison::Keep), ("delete", OnPoison::Delete)])?;
    let too_long =
        table.choice("too_long", &[("cut", TooLong::Cut), ("dead_letter", TooLong::DeadLetter)])?;
    if dead_letters == DeadLetterPolicy::None {
        // Without a queue no row is ever set aside: the shard waits at it.
        for (name, meant) in [
            ("on_poison", on_poison == Some(OnPoison::Delete)),
            ("too_long", too_long == Some(TooLong::DeadLetter)),
        ] {
            if meant {
                let message = format!("{name} sets rows aside, which needs dead_letters = \"store\"");
                return Err(Error::new(table.origin(name), message));
            }
        }
    }
    Ok(TableConfig {
        plugin_config: table.json_object("plugin_config")?,
        revision: count(&table, "revision", u32::MAX, 1)?.get(),
        dead_letters,
        max_attempts: count(&table, "max_attempts", 1000, 5)?,
        poison_run_max: count(&table, "poison_run_max", 1_000_000, 50)?,
        on_poison: on_poison.unwrap_or(OnPoison::Keep),
        batch: count(&table, "batch", 10_000, 256)?,
        too_long: too_long.unwrap_or(TooLong::Cut),
        index: read_index(&table, &name)?,
        name,
        plugin,
        source,
    })
}

fn read_source(table: &Section<'_>, plugin: &PluginRef, store: &Path) -> Result<FileSourceConfig, Error> {
    let empty = Node::empty(table.origin("source").clone());
    let source = Section::open(table.table("source").unwrap_or(&empty), "[table.source]", SOURCE)?;
    let on_gap = source.choice(
        "on_gap",
        &[("stop", Some(OnGap::Stop)), ("continue", Some(OnGap::Continue)), ("reconcile", None)],
    )?;
    let on_gap = match on_gap {
        None => OnGap::Stop,
        Some(Some(on_gap)) => on_gap,
        Some(None) => {
            let message = "on_gap = \"reconcile\" needs a table that can be read, and a file is none: \"stop\" or \
                           \"continue\"";
            return Err(Error::new(source.origin("on_gap"), message));
        }
    };
    let view = source.choice(
        "view",
        &[ViewType::NewAndOldImages, ViewType::NewImage, ViewType::KeysOnly, ViewType::OldImage]
            .map(|view| (view.as_str(), view)),
    )?;
    if let Some(view @ (ViewType::KeysOnly | ViewType::OldImage)) = view {
        let message = format!(
            "{} records do not hold the new row, and a file has no table to read it from: NEW_AND_OLD_IMAGES or \
             NEW_IMAGE",
            view.as_str()
        );
        return Err(Error::new(source.origin("view"), message));
    }
    let (file, shipped) = match source.path("file")? {
        Some(file) => (file, false),
        None if plugin.stem() == "movies" => (shipped_films(store), true),
        None => {
            let message = format!(
                "{} has nothing to follow: name a source (--source FILE, or file in [table.source])",
                plugin.name
            );
            return Err(Error::new(source.origin("file"), message));
        }
    };
    let schema = match source.path("schema")? {
        Some(schema) => schema,
        None => file.with_file_name("table.cql"),
    };
    Ok(FileSourceConfig { file, schema, view, on_gap, shipped })
}

impl Config {
    /// Whether this is the shipped plugin on the shipped film table, as a demo has it. Seen from the folder in which the
    /// process runs, since a store remembers whole paths.
    pub fn follows_shipped_films(&self) -> bool {
        let films = std::path::absolute(&self.store).map(|store| shipped_films(&store));
        let followed = std::path::absolute(&self.table.source.file);
        self.table.plugin.name == "movies" && films.is_ok() && films.ok() == followed.ok()
    }
}

/// The film table is written out beside the store, where lines can be added to it by hand.
fn shipped_films(store: &Path) -> PathBuf {
    let stem = store.file_stem().map_or_else(|| "keyvector".into(), |stem| stem.to_string_lossy());
    store.with_file_name(format!("{stem}-films")).join("films.jsonl")
}

fn read_index(table: &Section<'_>, table_name: &str) -> Result<IndexConfig, Error> {
    let empty = Node::empty(Origin::Default);
    let node = match table.tables("index")? {
        [] => &empty,
        [index] => index,
        [_, second, ..] => {
            return Err(Error::new(
                &second.origin,
                "this version keeps one [[table.index]] a table: changing the model beside a running one comes later",
            ));
        }
    };
    let index = Section::open(node, "[[table.index]]", INDEX)?;
    if index.boolean("serves")? == Some(false) {
        return Err(Error::new(
            index.origin("serves"),
            "the only index of a table serves its queries: serves = true",
        ));
    }
    let name = index.text("name")?.unwrap_or(table_name).to_owned();
    check_name(&name, index.origin("name"))?;
    Ok(IndexConfig {
        name,
        model: read_plugin_ref(&index, "model", Some(MODEL_DEFAULT))?,
        model_config: index.json_object("model_config")?,
    })
}

fn read_plugin_ref(
    section: &Section<'_>,
    name: &'static str,
    default: Option<&str>,
) -> Result<PluginRef, Error> {
    let text = match (section.text(name)?, default) {
        (Some(text), _) => text,
        (None, Some(default)) => default,
        (None, None) => return Err(section.missing(name)),
    };
    let origin = section.origin(name);
    PluginRef::parse(text, &origin.folder())
        .map_err(|message| Error::new(origin, format!("{name}: {message}")))
}

/// Names become parts of keys in the store and of log fields.
fn check_name(name: &str, origin: &Origin) -> Result<(), Error> {
    let fine = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    match fine {
        true => Ok(()),
        false => Err(Error::new(
            origin,
            format!("the name {name:?} is not 1 to 64 of A–Z a–z 0–9 - _ .: set name"),
        )),
    }
}

fn count(section: &Section<'_>, name: &str, most: u32, default: u32) -> Result<NonZeroU32, Error> {
    let number = section.integer(name, 1..=u64::from(most))?.and_then(small);
    Ok(number.or(NonZeroU32::new(default)).unwrap_or(NonZeroU32::MIN))
}

fn small(number: u64) -> Option<NonZeroU32> {
    u32::try_from(number).ok().and_then(NonZeroU32::new)
}
