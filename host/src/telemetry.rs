//! Logs on standard error: for people on a terminal, JSON lines otherwise.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::cli::{LogFormat, Output};
use crate::exit::{Code, Failure, WithCode};

/// Starts the log; `filter_default` is for where nobody asked for another.
///
/// # Errors
/// A filter that cannot be read.
pub fn start(output: &Output, filter_default: &str) -> Result<(), Failure> {
    let filter = match (&output.log, output.verbose) {
        (Some(filter), _) => filter.as_str(),
        (None, 0) => filter_default,
        (None, 1) => "info",
        (None, _) => "info,keyvector_host=debug,keyvector_sandbox=debug,keyvector_store=debug,plugin=debug",
    };
    let filter = EnvFilter::try_new(filter).code(Code::BadConfig).map_err(|failure| {
        Failure::new(failure.code, format!("the log filter {filter:?}: {failure}"))
            .next("--log info, or --log keyvector_host=debug")
    })?;
    let format = output.log_format.unwrap_or(match io::stderr().is_terminal() {
        true => LogFormat::Human,
        false => LogFormat::Json,
    });
    // A line that cannot be written is lost; saying so would go to the same place.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(crate::progress::LogWriter::default)
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Human => log.with_target(false).with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(Code::Failed, format!("start the log: {error}")))
}
