//! The project's own commands: `cargo xtask --help`. CI runs these same steps, so what passes here passes there.

mod bench;
mod check;
mod examples;
mod frozen;
mod fuzz;
mod plugins;
mod setup;
mod step;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Builds, tests, demo and checks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything and run the demo on the shipped film table
    Demo {
        /// Passed on to `keyvector-host demo`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Build the plugins, then install keyvector-host with them inside
    Install,
    /// Build the plugins, and the guests that tests run, to WebAssembly
    Plugins(plugins::Options),
    /// Build the example plugins in Python, JavaScript and C, where those languages are installed
    Examples(examples::Options),
    /// Run every test; those whose tools are missing are listed at the end
    Test {
        /// Fail if a test was skipped
        #[arg(long)]
        no_skip: bool,
    },
    /// Run the fuzz targets for longer than a test run does
    Fuzz(fuzz::Options),
    /// Formatting, lints, the WIT's versions, and dependency rules where cargo-deny is installed
    Check {
        /// Fail if cargo-deny is not installed
        #[arg(long)]
        no_skip: bool,
    },
    /// Run the benchmarks
    Bench {
        /// Passed on to the benchmarks
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Install what the system's package manager has to give (asks for root's rights)
    Setup,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo { arguments } => {
            plugins::build(&plugins::Options::default())?;
            let mut demo = step::cargo(&root());
            demo.args(["run", "--release", "--locked", "--package", "keyvector-host", "--", "demo"])
                .args(arguments);
            step::become_it(demo)
        }
        Command::Install => {
            plugins::build(&plugins::Options::default())?;
            let mut install = step::cargo(&root());
            install.args(["install", "--locked", "--path", "host"]);
            step::run(install)
        }
        Command::Plugins(options) => plugins::build(&options),
        Command::Examples(options) => examples::build(&options),
        Command::Test { no_skip } => test::run(no_skip),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Check { no_skip } => check::run(no_skip),
        Command::Bench { arguments } => bench::run(&arguments),
        Command::Setup => setup::run(),
    }
}

/// The project's folder. xtask is only ever run from a checkout, where it was built.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
