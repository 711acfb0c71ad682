//! `keyvector-host`: parse, load, run, exit.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use keyvector_host::cli::Cli;
use keyvector_host::{exit, telemetry, verbs};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = telemetry::start(&cli.output, cli.log_filter_default())
        .map_err(Into::into)
        .and_then(|()| verbs::start(&cli));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read standard output has had enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
