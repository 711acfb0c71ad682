//! Running other programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The cargo that runs this, in a folder whose `rust-toolchain.toml` counts.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    forget_this_build(&mut command);
    command
}

/// Takes away what `cargo run` says of xtask itself, so that builds inside do not take it for their own.
pub(crate) fn forget_this_build(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let told_of_xtask = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if told_of_xtask {
            command.env_remove(name);
        }
    }
}

/// Says what is run, runs it without standard input, and fails if it does.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let words = words(&command);
    eprintln!("+ {words}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start: {words}"))?;
    if !status.success() {
        bail!("{words}: {status}");
    }
    Ok(())
}

/// As [`run`], but kills what takes too long.
pub(crate) fn run_within(mut command: Command, limit: Duration) -> Result<()> {
    let words = words(&command);
    eprintln!("+ {words}");
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start: {words}"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("{words}: {status}");
            }
            return Ok(());
        }
        if started.elapsed() > limit {
            child.kill().context("cannot stop it")?;
            child.wait()?;
            bail!("{words}: stopped after {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Becomes the other program, so that signals and exit code are its own. Returns only if that fails.
pub(crate) fn become_it(mut command: Command) -> Result<()> {
    let words = words(&command);
    eprintln!("+ {words}");
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        Err(command.exec()).with_context(|| format!("cannot start: {words}"))
    }
    #[cfg(not(unix))]
    {
        let status = command.status().with_context(|| format!("cannot start: {words}"))?;
        std::process::exit(status.code().unwrap_or(1));
    }
}

/// Standard output as one trimmed text.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let words = words(&command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start: {words}"))?;
    if !output.status.success() {
        bail!("{words}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The same on one core for all its threads, where the system has a command for that.
pub(crate) fn on_one_core(command: Command) -> Command {
    let Some(taskset) = find_program("taskset") else {
        eprintln!("taskset (Debian: util-linux) is missing: this runs on all cores");
        return command;
    };
    let mut pinned = Command::new(taskset);
    pinned.args(["-c", "0"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        pinned.current_dir(folder);
    }
    pinned
}

/// The program's place on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}
