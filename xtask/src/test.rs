//! Every test of both workspaces.
//!
//! A test whose tools are missing passes, having appended a line to the file named by `KEYVECTOR_SKIPPED`: its name, a tab,
//! and the command that installs what it needs. The lines are shown last.

use std::fs;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{examples, plugins, root, step};

/// Tests of the SDKs of other languages, without WebAssembly.
const OTHER_LANGUAGES: [(&str, &[&str]); 2] =
    [("python3", &["sdk/tests/python_cells.py"]), ("node", &["--test", "sdk/tests/javascript_cells.js"])];

pub(crate) fn run(no_skip: bool) -> Result<()> {
    plugins::build(&plugins::Options::default())?;
    examples::build(&examples::Options::default())?;
    let skipped = root().join("target/skipped-tests");
    fs::create_dir_all(root().join("target"))?;
    fs::write(&skipped, "").with_context(|| format!("cannot write {}", skipped.display()))?;
    let mut failures = Vec::new();
    for folder in ["", "plugins"] {
        let mut tests = step::cargo(&root().join(folder));
        tests.args(["test", "--release", "--locked", "--workspace", "--no-fail-fast"]);
        tests.env("KEYVECTOR_SKIPPED", &skipped);
        if let Err(error) = step::run(tests) {
            failures.push(format!("{}: {error}", if folder.is_empty() { "host" } else { folder }));
        }
    }
    for (program, arguments) in OTHER_LANGUAGES {
        if step::find_program(program).is_none() {
            let skip = format!("{}\tinstall {program}\n", arguments.last().unwrap_or(&program));
            let mut list = fs::OpenOptions::new().append(true).open(&skipped)?;
            list.write_all(skip.as_bytes()).with_context(|| format!("cannot write {}", skipped.display()))?;
            continue;
        }
        let mut tests = Command::new(program);
        tests.current_dir(root()).args(arguments);
        if let Err(error) = step::run(tests) {
            failures.push(error.to_string());
        }
    }
    let skips = fs::read_to_string(&skipped).with_context(|| format!("cannot read {}", skipped.display()))?;
    let skips = report(&skips);
    skips.iter().for_each(|line| eprintln!("{line}"));
    if !failures.is_empty() {
        bail!("tests failed (see above): {}", failures.join("; "));
    }
    if no_skip && !skips.is_empty() {
        bail!("tests were skipped, which --no-skip does not allow");
    }
    Ok(())
}

/// One line for each skipped test, by name, each once.
fn report(skips: &str) -> Vec<String> {
    let mut lines: Vec<_> = skips.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    let line = |line: &str| match line.split_once('\t') {
        Some((name, command)) => format!("skipped: {name} (to run it: {command})"),
        None => format!("skipped: {line}"),
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::report;

    #[test]
    fn skips_are_listed_once_with_their_remedy() {
        assert!(report("\n").is_empty());
        assert_eq!(
            report("b\tapt-get install x\na\tcargo xtask setup\nb\tapt-get install x\nc\n"),
            [
                "skipped: a (to run it: cargo xtask setup)",
                "skipped: b (to run it: apt-get install x)",
                "skipped: c"
            ]
        );
    }
}
