//! Plugins and test guests to WebAssembly, and from there to `plugins/dist`, where the host's build takes them up.
//!
//! There are two ways, since some machines cannot fetch a rustup target: rustup's compiler with its ready-made standard
//! library, or Debian's compiler, cargo and sources (package `rustc-web` and its fellows), which builds the standard
//! library once. Debian's must be used together: rustup's compiler fails on Debian's sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{root, step};

const TARGET: &str = "wasm32-unknown-unknown";
/// A download of about 20 MB; where there is no way to it, connections may hang.
const RUSTUP_LIMIT: Duration = Duration::from_secs(180);
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Build with Debian's compiler (`cargo xtask setup` installs it), even where rustup has the target
    #[arg(long)]
    force_debian: bool,
    /// Build these only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the built plugins go [default: plugins/dist]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// The two ways of building, with what differs between them.
enum Way {
    Rustup,
    Debian { linker: PathBuf },
}

/// Builds what is out of date and copies what has changed.
pub(crate) fn build(options: &Options) -> Result<()> {
    let started = Instant::now();
    let mut names = plugin_names()?;
    for name in &options.only {
        if !names.contains(name) {
            bail!("there is no plugin `{name}`; there are: {}", names.join(", "));
        }
    }
    if !options.only.is_empty() {
        names.retain(|name| options.only.contains(name));
    }
    let way = if options.force_debian { debian()? } else { find_way()? };
    let target = target_folder(&way);
    let mut cargo = cargo(&way)?;
    cargo.args(["build", "--release", "--locked", "--target", TARGET]).arg("--target-dir").arg(&target);
    for name in &names {
        cargo.args(["--package", name]);
    }
    step::run(cargo)?;
    let into = options.into.clone().unwrap_or_else(|| root().join("plugins/dist"));
    fs::create_dir_all(&into).with_context(|| format!("cannot make the folder {}", into.display()))?;
    for name in &names {
        let file = format!("{name}.wasm");
        let built = target.join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
        copy_if_changed(&built, &into.join(&file))?;
    }
    let way = match way {
        Way::Rustup => "rustup's compiler",
        Way::Debian { .. } => "Debian's compiler",
    };
    eprintln!(
        "plugins: {} in {} ({way}, {:.1} s)",
        names.join(", "),
        into.display(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Packages that are built to a component: those of `plugins/` and `tests/guests/` that say `cdylib`. Their folder is
/// their name.
fn plugin_names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for folder in ["plugins", "tests/guests"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
            if manifest.contains("\"cdylib\"") {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

fn find_way() -> Result<Way> {
    if rustup_target_is_installed() {
        return Ok(Way::Rustup);
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(root()).args(["target", "add", TARGET]);
    match step::run_within(rustup, RUSTUP_LIMIT) {
        Ok(()) if rustup_target_is_installed() => return Ok(Way::Rustup),
        Ok(()) => eprintln!("rustup added the target to another compiler than cargo uses here"),
        Err(error) => eprintln!("rustup cannot add the target {TARGET}: {error:#}"),
    }
    debian().context("no compiler for WebAssembly: rustup could not add its target, and Debian's is not here")
}

fn rustup_target_is_installed() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).args(["--print", "target-libdir", "--target", TARGET]);
    step::output(rustc).is_ok_and(|folder| {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

fn debian() -> Result<Way> {
    let sources = Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]).output();
    let sysroot = sources.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let library = |sysroot: &String| Path::new(sysroot).join("lib/rustlib/src/rust/library/std").is_dir();
    if !sysroot.as_ref().is_some_and(library) || !Path::new(DEBIAN_CARGO).is_file() {
        bail!(
            "{DEBIAN_RUSTC} with its sources is needed: run `cargo xtask setup`, or by hand \
             `apt-get install --no-install-recommends {}`",
            crate::setup::DEBIAN_PACKAGES.join(" ")
        );
    }
    Ok(Way::Debian { linker: find_linker(&sysroot.unwrap_or_default())? })
}

/// Debian's compiler comes without a linker for WebAssembly; rustup's has one, and LLVM's packages too.
fn find_linker(debian_sysroot: &str) -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).arg("-vV");
    let version = step::output(rustc)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).args(["--print", "sysroot"]);
    for sysroot in [step::output(rustc)?.as_str(), debian_sysroot] {
        let linker = Path::new(sysroot).join("lib/rustlib").join(host).join("bin/rust-lld");
        if linker.is_file() {
            return Ok(linker);
        }
    }
    step::find_program("wasm-ld")
        .context("no linker for WebAssembly (rust-lld of a rustup toolchain, or wasm-ld of the package lld)")
}

/// Compilers do not share a target folder: each would rebuild what the other built.
fn target_folder(way: &Way) -> PathBuf {
    root().join(match way {
        Way::Rustup => "plugins/target",
        Way::Debian { .. } => "plugins/target/debian",
    })
}

fn cargo(way: &Way) -> Result<Command> {
    let plugins = root().join("plugins");
    match way {
        Way::Rustup => Ok(step::cargo(&plugins)),
        Way::Debian { linker } => {
            let mut cargo = Command::new(DEBIAN_CARGO);
            cargo.current_dir(plugins).env("PATH", "/usr/bin:/bin").env("RUSTC", DEBIAN_RUSTC);
            step::forget_this_build(&mut cargo);
            for name in
                ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTDOC", "RUSTFLAGS", "RUSTC_WRAPPER", "LD_LIBRARY_PATH"]
            {
                cargo.env_remove(name);
            }
            // Building the standard library is an unstable option, which this variable allows.
            cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
            cargo.arg("-Zbuild-std=std,panic_abort");
            Ok(cargo)
        }
    }
}

/// Leaves equal files alone, so that what is built from them need not be built again.
pub(crate) fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let new = fs::read(from).with_context(|| format!("cargo built no {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    // Renamed into place: a test that runs meanwhile reads the old file or the new one.
    let partial = to.with_extension("wasm.partial");
    fs::write(&partial, new).with_context(|| format!("cannot write {}", partial.display()))?;
    fs::rename(&partial, to).with_context(|| format!("cannot write {}", to.display()))
}
