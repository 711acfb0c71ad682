//! The fuzz targets, for as long as one likes: on random inputs, or under libFuzzer, which looks for new paths.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{plugins, root, step};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds a target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of the random inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Under libFuzzer, which needs a C++ compiler: only the targets of the pure crates
    #[arg(long)]
    coverage: bool,
    /// Keep the smallest inputs that cover as much as all that were found, in tests/fuzz/corpus
    #[arg(long, requires = "coverage")]
    keep: bool,
    /// One target instead of all
    target: Option<String>,
}

/// What rustc's own LLVM needs to mark every branch and comparison, without a nightly compiler.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Longer inputs are left out of the corpus: they say little more, and their like is found again.
const KEPT_BYTES_MAX: u64 = 400;
/// So many of a target's are kept at most, from short ones to long ones.
const KEPT_INPUTS_MAX: usize = 60;

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.coverage {
        return run_random(options);
    }
    let names = match &options.target {
        Some(name) => vec![name.clone()],
        None => step::output(instrumented())?.lines().map(str::to_owned).collect(),
    };
    names.iter().try_for_each(|name| run_covering(options, name))
}

fn run_random(options: &Options) -> Result<()> {
    plugins::build(&plugins::Options::default())?;
    let targets = || {
        let mut test = step::cargo(&root());
        test.args(["test", "--release", "--locked", "--workspace", "--test", "fuzz", "--"]);
        test
    };
    let mut test = targets();
    test.arg("--nocapture");
    if let Some(target) = &options.target {
        let mut list = targets();
        list.arg("--list");
        let list = step::output(list)?;
        let names: Vec<_> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        // The test runner calls it a success to run none.
        if !names.contains(&target.as_str()) {
            bail!("there is no fuzz target `{target}`; there are: {}", names.join(", "));
        }
        test.args(["--exact", target]);
    }
    test.env("KEYVECTOR_FUZZ_SECONDS", options.seconds.to_string());
    test.env("KEYVECTOR_FUZZ_SEED", options.seed.to_string());
    step::run(test)
}

/// Runs one target; an input that fails is put where every test run finds it.
fn run_covering(options: &Options, name: &str) -> Result<()> {
    let folder = target_folder().join(name);
    let failed = root().join("tests/fuzz/regressions").join(name);
    for made in [&folder.join("samples"), &folder.join("corpus"), &failed] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    let on_target = || {
        let mut fuzzer = instrumented();
        fuzzer.env("KEYVECTOR_FUZZ_TARGET", name).env("KEYVECTOR_FUZZ_FOLDER", &folder).arg("--");
        fuzzer
    };
    let mut fuzzer = on_target();
    fuzzer.args([&folder.join("corpus"), &folder.join("samples")]);
    fuzzer.arg(format!("-dict={}", folder.join("words").display()));
    fuzzer.arg(format!("-artifact_prefix={}/", failed.display()));
    fuzzer.arg(format!("-max_total_time={}", options.seconds));
    fuzzer.args(["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=8192"]);
    fuzzer.arg("-print_final_stats=1");
    let outcome = step::run(fuzzer);
    // A folder that stayed empty says nothing.
    fs::remove_dir(&failed).ok();
    outcome?;
    if options.keep {
        let smallest = folder.join("smallest");
        fs::remove_dir_all(&smallest).ok();
        fs::create_dir_all(&smallest)?;
        let mut merge = on_target();
        merge.arg("-merge=1").args([&smallest, &folder.join("corpus")]);
        step::run(merge)?;
        keep(&smallest, &root().join("tests/fuzz/corpus").join(name).with_extension("hex"))?;
    }
    Ok(())
}

/// Writes the inputs of a folder into one file, shortest first, an input a line, in hexadecimal.
fn keep(inputs: &Path, file: &Path) -> Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(inputs)? {
        let entry = entry?;
        if (1..=KEPT_BYTES_MAX).contains(&entry.metadata()?.len()) {
            kept.push(fs::read(entry.path())?);
        }
    }
    kept.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    let step = kept.len().div_ceil(KEPT_INPUTS_MAX).max(1);
    let mut text = String::new();
    for input in kept.iter().step_by(step) {
        input.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
        text.push('\n');
    }
    fs::create_dir_all(file.parent().context("the corpus has a folder")?)?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The coverage workspace's program. Only with a target named are its flags kept from build scripts and macros.
fn instrumented() -> Command {
    let mut command = step::cargo(&root().join("tests/fuzz/coverage"));
    command.args(["run", "--quiet", "--release", "--locked", "--target", "host-tuple"]);
    command.env("RUSTFLAGS", INSTRUMENTED).env("CARGO_TARGET_DIR", target_folder());
    command
}

fn target_folder() -> PathBuf {
    root().join("target/fuzz-coverage")
}
