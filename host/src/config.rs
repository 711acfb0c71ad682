//! Configuration: a file, the environment and flags, laid over each other and checked once into types that cannot hold
//! a bad value. Together with `cli.rs` this is the only place that reads the environment.
//!
//! A flag beats the environment, which beats the file, which beats the default. Values keep the place where they were
//! written, and every complaint names it; that is why this is not read by serde's derive, which forgets it.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keyvector_core::change::ViewType;
use keyvector_sandbox::Limits;

use crate::exit::{Code, Failure};
use crate::table::{DeadLetterPolicy, OnGap, OnPoison};

mod load;
mod section;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod units;
mod write;

pub use load::{Given, Place, Setting, SettingValue};
pub use write::{EXAMPLE, InitAnswers};

/// Looked for in the working folder where no `--config` is given.
pub const CONFIG_FILE: &str = "keyvector.toml";
/// The store of whoever names none.
pub const STORE_FILE: &str = "keyvector.db";
/// The demo's store; the other verbs take it where there is no other store and no configuration.
pub const DEMO_STORE_FILE: &str = "keyvector-demo.db";

/// The user's folder for what can be made again; `None` where the environment names none.
pub fn user_cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))
}

/// Everything a host needs to know, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The embedded store's file.
    pub store: PathBuf,
    pub host: HostConfig,
    /// What one call into a plugin may use.
    pub plugin_limits: Limits,
    /// The table to follow: this version follows one.
    pub table: TableConfig,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// A lease whose counter stands still for this long is free to take. Renewal is a third of it, the safety margin a
    /// quarter.
    pub failover: Duration,
    /// Logs show row keys as they are rather than hashed.
    pub log_keys: bool,
    /// Logs show what plugins and servers say, which may be row data.
    pub log_plugin_text: bool,
    /// `None`: one for each core.
    pub plugin_threads: Option<NonZeroU32>,
    /// Where compiled plugins are kept; `None`: the user's cache folder.
    pub cache_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableConfig {
    /// What logs, letters and the store call the table.
    pub name: String,
    pub plugin: PluginRef,
    /// The plugin's own configuration, as it gets it.
    pub plugin_config: serde_json::Map<String, serde_json::Value>,
    /// Stands for one plugin and configuration; a higher one takes the table over.
    pub revision: u32,
    pub dead_letters: DeadLetterPolicy,
    /// How often one row is tried before it is set aside.
    pub max_attempts: NonZeroU32,
    /// This many failed rows in a row halt the table.
    pub poison_run_max: NonZeroU32,
    pub on_poison: OnPoison,
    /// Records read, rendered and written together, at most.
    pub batch: NonZeroU32,
    pub too_long: TooLong,
    pub source: FileSourceConfig,
    pub index: IndexConfig,
}

/// What becomes of a text over the model's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// Cut at a character, and flagged in the metadata.
    Cut,
    DeadLetter,
}

/// JSON lines in Keyspaces' record form.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSourceConfig {
    pub file: PathBuf,
    /// The table's CREATE TABLE statement.
    pub schema: PathBuf,
    /// `None`: told from the first records.
    pub view: Option<ViewType>,
    pub on_gap: OnGap,
    /// The file is the shipped film table, to be written out where it is missing.
    pub shipped: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IndexConfig {
    pub name: String,
    pub model: PluginRef,
    pub model_config: serde_json::Map<String, serde_json::Value>,
}

/// A plugin as the user names it: a path, or the name of a shipped one, perhaps pinned to a digest.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRef {
    /// As written, without the pin.
    pub name: String,
    /// Where it lies if it is a file: the name, from the folder of the file that names it.
    pub path: PathBuf,
    /// The digest that the bytes must have: 64 lower-case hexadecimal digits.
    pub sha256: Option<String>,
}

impl PluginRef {
    /// Reads `movies`, `plugins/movies.wasm` or either with `@sha256:` and 64 hexadecimal digits.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let (name, sha256) = match text.rsplit_once("@sha256:") {
            None => (text, None),
            Some((name, digits)) => {
                let digest = parse_digest(digits)
                    .ok_or_else(|| format!("{digits:?} is no SHA-256 digest: 64 hexadecimal digits"))?;
                (name, Some(digest))
            }
        };
        if name.trim().is_empty() {
            return Err(format!("{text:?} names no plugin"));
        }
        Ok(Self { name: name.to_owned(), path: folder.join(name), sha256 })
    }

    /// The name without folders and ending.
    pub fn stem(&self) -> &str {
        Path::new(&self.name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(&self.name)
    }
}

/// The digest in lower case.
fn parse_digest(digits: &str) -> Option<String> {
    let whole = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| digits.to_ascii_lowercase())
}

impl fmt::Display for PluginRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.sha256.iter().try_for_each(|digest| write!(f, "@sha256:{digest}"))
    }
}

/// A value that was refused, where it was written, and why.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Error {
    place: String,
    message: String,
}

impl Error {
    fn new(origin: &tree::Origin, message: impl Into<String>) -> Self {
        Self { place: origin.to_string(), message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(Code::BadConfig, error)
    }
}
