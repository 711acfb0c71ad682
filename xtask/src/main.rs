//! The project's own commands: `cargo xtask --help`. CI runs these same steps, so what passes here passes there.

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
        Command::Bench { arguments } => {
            plugins::build(&plugins::Options::default())?;
            examples::build_bench_guests()?;
            // The plugin call is measured beside the guest's own code without a boundary.
            let mut native = step::cargo(&root().join("plugins"));
            native.args(["build", "--release", "--locked", "--package", "cost", "--example", "native"]);
            step::run(native)?;
            let bench = |program: &mut std::process::Command| {
                program.args([
                    "bench",
                    "--locked",
                    "--workspace",
                    "--bench",
                    "line",
                    "--bench",
                    "plugin_call",
                ]);
            };
            let mut build = step::cargo(&root());
            bench(&mut build);
            build.arg("--no-run");
            step::run(build)?;
            let mut run = step::on_one_core(step::cargo(&root()));
            bench(&mut run);
            run.arg("--").args(arguments);
            step::run(run)?;
            let mut host = step::cargo(&root());
            host.args(["build", "--release", "--locked", "--workspace", "--bin", "keyvector-host"]);
            step::run(host)?;
            let mut memory = step::cargo(&root());
            memory.args([
                "test",
                "--release",
                "--locked",
                "--workspace",
                "--test",
                "memory",
                "--",
                "--nocapture",
            ]);
            memory.env("KEYVECTOR_MEMORY_CHANGES", "1000000");
            step::run(memory)
        }
        Command::Setup => setup::run(),
    }
}

/// The project's folder. xtask is only ever run from a checkout, where it was built.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
