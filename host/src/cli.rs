//! The command line. Parsing only: what the flags say of the configuration goes to `config`, verbs to `verbs`.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Given, Setting, SettingValue};

const EXAMPLES: &str = "\
Examples:
  keyvector-host demo                   the whole line on a shipped table
  keyvector-host --plugin movies.wasm   follow that table until stopped
  keyvector-host init                   write keyvector.toml for your own
  keyvector-host query \"a heist that goes wrong\"

Without a verb the host follows its table. Configuration comes from
./keyvector.toml, else from flags, else from what ./keyvector.db remembers.

Exit codes:
   0  done, drained, stopped or superseded by a higher revision
   1  failed
   2  wrong usage
   3  dead letters left (dlq list --exit-code, --until-drained --strict)
  64  the configuration is wrong, or does not fit what is stored
  69  an endpoint, a file or a store cannot be reached
  75  the plugin is broken";

/// With what a plugin may be built against.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let plugin_versions = keyvector_sandbox::plugin_api_versions().join(", ");
    format!("{}\nplugins: keyvector:plugin {plugin_versions}", env!("CARGO_PKG_VERSION"))
});

/// Keeps a vector index true to a Cassandra-style table.
#[derive(Debug, Parser)]
#[command(name = "keyvector-host", version, long_version = LONG_VERSION.as_str(), after_help = EXAMPLES)]
#[command(subcommand_help_heading = "Verbs", subcommand_value_name = "VERB", max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub output: Output,
}

impl Cli {
    /// What is logged where nobody asks: the demo's letters are part of its screen, and no news.
    pub fn log_filter_default(&self) -> &'static str {
        match self.verb {
            Some(Verb::Demo(_)) => "error",
            _ => "warn",
        }
    }
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RunArgs {
    /// Stop once everything that is there has been followed
    #[arg(long)]
    pub until_drained: bool,
    /// With --until-drained: exit 3 if dead letters are left
    #[arg(long, requires = "until_drained")]
    pub strict: bool,
    /// Take a changed plugin over by itself, as soon as its file changes; so on a terminal unless --no-reload
    #[arg(long, overrides_with = "no_reload")]
    pub reload: bool,
    /// A changed plugin waits for the next start and a higher revision
    #[arg(long, overrides_with = "reload", hide_short_help = true)]
    pub no_reload: bool,
}

/// What the host says on standard error.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Log more: -v what the host does, -vv every batch
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Log filter, as in info,keyvector_host::worker=debug; beats -v
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", global = true, hide_short_help = true)]
    pub log: Option<String>,
    /// Form of the log: human on a terminal and json otherwise, unless told
    #[arg(long, value_name = "FORM", env = "KEYVECTOR_LOG_FORMAT", global = true, hide_short_help = true)]
    pub log_format: Option<LogFormat>,
    /// No progress bars; there are none where standard error is no terminal
    #[arg(long, global = true, hide_short_help = true)]
    pub no_progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Human,
    Json,
}

/// Configuration by flag; each beats the file.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration (beats keyvector.toml)")]
pub struct Options {
    /// Configuration file [default: ./keyvector.toml if it exists]
    #[arg(long, value_name = "FILE", env = "KEYVECTOR_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// The embedded store's file [default: ./keyvector.db]
    #[arg(long, value_name = "FILE", env = "KEYVECTOR_STORE", global = true)]
    pub store: Option<String>,
    /// Table plugin: a .wasm file or a shipped name, perhaps with @sha256:HEX
    #[arg(long, value_name = "PLUGIN", env = "KEYVECTOR_PLUGIN", global = true)]
    pub plugin: Option<String>,
    /// Model plugin: a .wasm file or a shipped name [default: static]
    #[arg(long, value_name = "MODEL", env = "KEYVECTOR_MODEL", global = true)]
    pub model: Option<String>,
    /// Changes to follow: JSON lines in Keyspaces' record form
    #[arg(long, value_name = "FILE", env = "KEYVECTOR_SOURCE", global = true)]
    pub source: Option<String>,
    /// The table's CREATE TABLE statement [default: table.cql beside the source]
    #[arg(long, value_name = "FILE", env = "KEYVECTOR_SCHEMA", global = true)]
    pub schema: Option<String>,
    /// Name of the table in logs, letters and the store [default: the source's name]
    #[arg(long, value_name = "NAME", env = "KEYVECTOR_TABLE", global = true, hide_short_help = true)]
    pub table: Option<String>,
    /// Stands for one plugin and configuration; a higher one takes the table over [default: 1]
    #[arg(long, value_name = "N", env = "KEYVECTOR_REVISION", global = true, hide_short_help = true)]
    pub revision: Option<u64>,
    /// Changes read, rendered and written together [default: 256]
    #[arg(long, value_name = "N", env = "KEYVECTOR_BATCH", global = true, hide_short_help = true)]
    pub batch: Option<u64>,
    /// A dead host's work is taken over after this long [default: 2s]
    #[arg(long, value_name = "DURATION", env = "KEYVECTOR_FAILOVER", global = true, hide_short_help = true)]
    pub failover: Option<String>,
    /// Where failed rows go; none: the stream waits at them [default: store]
    #[arg(long, value_name = "WHERE", env = "KEYVECTOR_DEAD_LETTERS", global = true, hide_short_help = true)]
    #[arg(value_parser = PossibleValuesParser::new(["store", "none"]))]
    pub dead_letters: Option<String>,
    /// Tries of one row before it is set aside [default: 5]
    #[arg(long, value_name = "N", env = "KEYVECTOR_MAX_ATTEMPTS", global = true, hide_short_help = true)]
    pub max_attempts: Option<u64>,
    /// This many failed rows in a row halt the table [default: 50]
    #[arg(long, value_name = "N", env = "KEYVECTOR_POISON_RUN_MAX", global = true, hide_short_help = true)]
    pub poison_run_max: Option<u64>,
    /// The vector that a failed row had before [default: keep]
    #[arg(long, value_name = "WHAT", env = "KEYVECTOR_ON_POISON", global = true, hide_short_help = true)]
    #[arg(value_parser = PossibleValuesParser::new(["keep", "delete"]))]
    pub on_poison: Option<String>,
    /// When data between checkpoint and stream is lost [default: stop]
    #[arg(long, value_name = "WHAT", env = "KEYVECTOR_ON_GAP", global = true, hide_short_help = true)]
    #[arg(value_parser = PossibleValuesParser::new(["stop", "continue"]))]
    pub on_gap: Option<String>,
    /// A text over the model's limit [default: cut]
    #[arg(long, value_name = "WHAT", env = "KEYVECTOR_TOO_LONG", global = true, hide_short_help = true)]
    #[arg(value_parser = PossibleValuesParser::new(["cut", "dead_letter"]))]
    pub too_long: Option<String>,
    /// Threads that run plugins [default: one for each core]
    #[arg(long, value_name = "N", env = "KEYVECTOR_PLUGIN_THREADS", global = true, hide_short_help = true)]
    pub plugin_threads: Option<u64>,
    /// Where compiled plugins are kept [default: the user's cache folder]
    #[arg(long, value_name = "FOLDER", env = "KEYVECTOR_CACHE_DIR", global = true, hide_short_help = true)]
    pub cache_dir: Option<String>,
    /// Log row keys as they are rather than hashed
    #[arg(long, value_name = "BOOL", env = "KEYVECTOR_LOG_KEYS", global = true, hide_short_help = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub log_keys: Option<bool>,
    /// Log what plugins say, which may be row data
    #[arg(
        long,
        value_name = "BOOL",
        env = "KEYVECTOR_LOG_PLUGIN_TEXT",
        global = true,
        hide_short_help = true
    )]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub log_plugin_text: Option<bool>,
    /// Any option by its dotted name, as in --set table.batch=64; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", global = true, value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write KEY=VALUE, for example table.batch=64".to_owned()),
    }
}

impl Options {
    /// What these flags say, in rising precedence: `--set` comes last.
    pub fn given(&self) -> Given {
        let mut settings = Vec::new();
        let mut text = |flag: &str, path: &str, value: &Option<String>| {
            settings.extend(
                value.iter().map(|value| Setting::new(flag, path, SettingValue::Text(value.clone()))),
            );
        };
        text("--store", "store.path", &self.store);
        text("--plugin", "table.plugin", &self.plugin);
        text("--model", "table.index.model", &self.model);
        text("--source", "table.source.file", &self.source);
        text("--schema", "table.source.schema", &self.schema);
        text("--table", "table.name", &self.table);
        text("--failover", "host.failover", &self.failover);
        text("--dead-letters", "table.dead_letters", &self.dead_letters);
        text("--on-poison", "table.on_poison", &self.on_poison);
        text("--on-gap", "table.source.on_gap", &self.on_gap);
        text("--too-long", "table.too_long", &self.too_long);
        text("--cache-dir", "host.cache_dir", &self.cache_dir);
        let mut integer = |flag: &str, path: &str, value: Option<u64>| {
            settings.extend(value.map(|value| Setting::new(flag, path, SettingValue::Integer(value))));
        };
        integer("--revision", "table.revision", self.revision);
        integer("--batch", "table.batch", self.batch);
        integer("--max-attempts", "table.max_attempts", self.max_attempts);
        integer("--poison-run-max", "table.poison_run_max", self.poison_run_max);
        integer("--plugin-threads", "host.plugin_threads", self.plugin_threads);
        let mut boolean = |flag: &str, path: &str, value: Option<bool>| {
            settings.extend(value.map(|value| Setting::new(flag, path, SettingValue::Boolean(value))));
        };
        boolean("--log-keys", "host.log_keys", self.log_keys);
        boolean("--log-plugin-text", "host.log_plugin_text", self.log_plugin_text);
        settings.extend(self.set.iter().map(|(key, value)| {
            Setting::new(&format!("--set {key}={value}"), key, SettingValue::Toml(value.clone()))
        }));
        Given { file: self.config.clone(), settings }
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The whole line on a shipped film table: follow, check, ask; no account, no server
    Demo(DemoArgs),
    /// Write a commented keyvector.toml; asks what it is not told
    Init(InitArgs),
    /// Load everything, open everything read-only, and say what to fix
    Check(CheckArgs),
    /// A few real rows as text and metadata, against the limits; costs nothing, writes nothing
    Preview(PreviewArgs),
    /// Rows nearest to a question
    Query(QueryArgs),
    /// Rows that were set aside: list, look, try again, drop
    Dlq {
        #[command(subcommand)]
        verb: DlqVerb,
    },
    /// The vector index
    Index {
        #[command(subcommand)]
        verb: IndexVerb,
    },
    /// Row keys: from records, and back
    Keys {
        #[command(subcommand)]
        verb: KeysVerb,
    },
    /// Plugin files
    Plugin {
        #[command(subcommand)]
        verb: PluginVerb,
    },
    /// Lift the halt of a table whose plugin failed row after row
    Resume,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Uses ./keyvector-demo.db (or --store), which starts anew each time unless --keep; a store that no demo made is left
alone. Ask it more afterwards:
  keyvector-host query \"lost at sea\"")]
pub struct DemoArgs {
    /// Go on with the store of the last demo rather than start anew
    #[arg(long)]
    pub keep: bool,
    /// Keep following the file when done; stop with Ctrl-C
    #[arg(long)]
    pub follow: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  keyvector-host init                                            asks
  keyvector-host init --source films.jsonl --text '{title}\\n{plot}' --metadata year,genre
  keyvector-host init --source films.jsonl --plugin movies.wasm")]
pub struct InitArgs {
    /// Where to write
    #[arg(long, value_name = "FILE", default_value = crate::config::CONFIG_FILE)]
    pub output: PathBuf,
    /// Text template for the shipped columns plugin, as in '{title} ({year})'
    #[arg(long, value_name = "TEMPLATE")]
    pub text: Option<String>,
    /// Columns that go into the metadata, by comma
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub metadata: Option<Vec<String>>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Parse and compile only: open no store and no source
    #[arg(long)]
    pub offline: bool,
}

#[derive(Args, Debug)]
pub struct PreviewArgs {
    /// How many rows
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "key")]
    pub limit: usize,
    /// These rows, by row key; repeatable
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// JSON lines for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  keyvector-host query \"a heist that goes wrong\"
  keyvector-host query \"lost at sea\" --filter '{\"year\":{\"$gte\":1990}}' --top 3 --json")]
pub struct QueryArgs {
    /// The question
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Only rows whose metadata passes, in S3 Vectors' filter language
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// How many rows
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub top: u32,
    /// One JSON object for programs
    #[arg(long, conflicts_with = "keys_only")]
    pub json: bool,
    /// Only the row keys, one a line
    #[arg(long)]
    pub keys_only: bool,
}

#[derive(Debug, Subcommand)]
pub enum DlqVerb {
    /// List letters, oldest first
    List(DlqListArgs),
    /// One letter: which row, what went wrong, and the record where it could not be read
    Show {
        #[arg(value_name = "ID")]
        id: u64,
        #[arg(long)]
        json: bool,
    },
    /// Try rows again in their current state; letters of rows that are well are removed
    #[command(after_help = "Example: keyvector-host dlq replay --class plugin-refused")]
    Replay(DlqReplayArgs),
    /// Remove letters for good; their rows are not tried again
    Drop(DlqPickArgs),
}

/// Which letters.
#[derive(Args, Clone, Debug, Default)]
pub struct LetterFilterArgs {
    /// Only this class, as in plugin-refused
    #[arg(long, value_name = "CLASS")]
    #[arg(value_parser = PossibleValuesParser::new(keyvector_core::document::FailureClass::ALL.map(|class| class.as_str())))]
    pub class: Option<String>,
    /// Not older than this: 2026-11-30T12:00:00Z, 2026-11-30, or 2h ago as 2h
    #[arg(long, value_name = "TIME", value_parser = time_ms)]
    pub since: Option<i64>,
    /// Older than this
    #[arg(long, value_name = "TIME", value_parser = time_ms)]
    pub until: Option<i64>,
}

#[derive(Args, Debug)]
pub struct DlqListArgs {
    #[command(flatten)]
    pub filter: LetterFilterArgs,
    /// JSON lines for programs
    #[arg(long)]
    pub json: bool,
    /// Exit 3 if there is any
    #[arg(long)]
    pub exit_code: bool,
}

#[derive(Args, Debug)]
pub struct DlqPickArgs {
    /// These letters
    #[arg(value_name = "ID", required_unless_present_any = ["all", "class", "since", "until"])]
    pub ids: Vec<u64>,
    /// All of them
    #[arg(long, conflicts_with_all = ["ids", "class", "since", "until"])]
    pub all: bool,
    #[command(flatten)]
    pub filter: LetterFilterArgs,
}

#[derive(Args, Debug)]
pub struct DlqReplayArgs {
    #[command(flatten)]
    pub pick: DlqPickArgs,
    /// Also letters that have only their record: its row is written as it says, though a newer change may have come
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
pub enum IndexVerb {
    /// All vectors as JSON lines: key, metadata, fingerprint
    Dump {
        /// With the vectors themselves
        #[arg(long)]
        vectors: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// Records on standard input, one a line, to row keys; a bad one gives "error: …"
    #[command(
        after_help = "Types come from --schema table.cql where it is given, else from the records themselves."
    )]
    Encode {
        /// Lines {"columns":[{"name","type","role":"partition|clustering","bytes":"hex"}]} in native-protocol bytes
        #[arg(long)]
        cql: bool,
    },
    /// A row key to typed values and its WHERE clause; types come from --schema table.cql
    Decode {
        #[arg(value_name = "KEY")]
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// What a plugin file is: roles, imports, columns, metadata, digest
    Inspect {
        #[arg(value_name = "FILE")]
        file: String,
        /// JSON for programs
        #[arg(long)]
        json: bool,
    },
}

/// A moment as RFC 3339, as a day (UTC), or as a duration before now; milliseconds since 1970.
fn time_ms(text: &str) -> Result<i64, String> {
    let midnight = format!("{text}T00:00:00Z");
    if let Ok(moment) = text.parse::<jiff::Timestamp>().or_else(|_| midnight.parse()) {
        return Ok(moment.as_millisecond());
    }
    let ago: jiff::SignedDuration = text.trim_end_matches("ago").trim().parse().map_err(|_| {
        "write 2026-11-30T12:00:00Z, 2026-11-30, or a duration before now such as 2h".to_owned()
    })?;
    let then = jiff::Timestamp::now().checked_sub(ago.abs()).map_err(|error| error.to_string())?;
    Ok(then.as_millisecond())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_become_settings_and_set_comes_last() {
        let arguments =
            ["keyvector-host", "query", "x", "--batch", "7", "--set", "table.batch=8", "--log-keys"];
        let given = Cli::try_parse_from(arguments).unwrap().options.given();
        let paths: Vec<&str> = given.settings.iter().map(|setting| setting.path.as_str()).collect();
        assert_eq!(paths, ["table.batch", "host.log_keys", "table.batch"]);
        assert_eq!(given.settings[1].value, SettingValue::Boolean(true));
        assert_eq!(given.settings[2].value, SettingValue::Toml("8".into()));
    }

    #[test]
    fn times_in_three_forms() {
        assert_eq!(time_ms("2026-11-30T12:00:00Z"), Ok(1_796_040_000_000));
        assert_eq!(time_ms("2026-11-30"), Ok(1_795_996_800_000));
        let now = jiff::Timestamp::now().as_millisecond();
        for text in ["2h", "2h ago", "2 hours ago"] {
            let two_hours_ago = time_ms(text).unwrap();
            assert!((7_190_000..7_210_000).contains(&(now - two_hours_ago)), "{text}");
        }
        assert!(time_ms("yesterday-ish").is_err());
    }
}
