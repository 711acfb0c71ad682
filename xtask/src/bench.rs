//! The benchmarks: the line, a call into a plugin, and memory over a long run.

use std::process::Command;

use anyhow::Result;

use crate::{examples, plugins, root, step};

/// `arguments` go to the benchmarks that are timed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    plugins::build(&plugins::Options::default())?;
    examples::build_bench_guests()?;
    // The plugin call is measured beside the guest's own code without a boundary.
    let mut native = step::cargo(&root().join("plugins"));
    native.args(["build", "--release", "--locked", "--package", "cost", "--example", "native"]);
    step::run(native)?;

    let mut build = step::cargo(&root());
    timed(&mut build).arg("--no-run");
    step::run(build)?;
    let mut run = step::on_one_core(step::cargo(&root()));
    timed(&mut run).arg("--").args(arguments);
    step::run(run)?;

    let mut host = step::cargo(&root());
    host.args(["build", "--release", "--locked", "--workspace", "--bin", "keyvector-host"]);
    step::run(host)?;
    let mut memory = step::cargo(&root());
    memory.args(["test", "--release", "--locked", "--workspace", "--test", "memory", "--", "--nocapture"]);
    memory.env("KEYVECTOR_MEMORY_CHANGES", "1000000");
    step::run(memory)
}

fn timed(cargo: &mut Command) -> &mut Command {
    cargo.args(["bench", "--locked", "--workspace", "--bench", "line", "--bench", "plugin_call"])
}
