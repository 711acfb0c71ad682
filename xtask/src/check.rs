//! Formatting, lints and dependency rules, in each workspace; and versions of the WIT, which stay as they are.

use anyhow::{Result, bail};

use crate::{frozen, root, step};

const CARGO_DENY: &str = "cargo install cargo-deny --locked --version 0.20.2";

pub(crate) fn run(no_skip: bool) -> Result<()> {
    frozen::run()?;
    let folders = ["", "plugins"].map(|folder| root().join(folder));
    // The coverage workspace is only formatted: its lints would take libFuzzer and a C++ compiler.
    for folder in folders.iter().chain([&root().join("tests/fuzz/coverage")]) {
        let mut fmt = step::cargo(folder);
        fmt.args(["fmt", "--check"]);
        step::run(fmt)?;
    }
    for folder in &folders {
        let mut clippy = step::cargo(folder);
        clippy.args([
            "clippy",
            "--release",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]);
        step::run(clippy)?;
    }
    if step::find_program("cargo-deny").is_none() {
        if no_skip {
            bail!("cargo-deny is not installed: {CARGO_DENY}");
        }
        eprintln!("skipped: dependency rules (to check them: {CARGO_DENY})");
        return Ok(());
    }
    for folder in &folders {
        let mut deny = step::cargo(folder);
        deny.args(["deny", "--all-features", "--locked", "--config"]).arg(root().join("deny.toml"));
        // `advisories` is left out: it needs the network, and fails on a day when nothing here has changed.
        deny.args(["check", "bans", "licenses", "sources"]);
        step::run(deny)?;
    }
    Ok(())
}
