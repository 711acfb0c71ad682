//! What only the system's package manager can give. Nothing else in the project calls it.

use std::process::Command;

use anyhow::{Result, bail};

use crate::step;

/// What the example plugins in Python and JavaScript are built with, by the program that shows that it is there.
const LANGUAGE_PACKAGES: [(&str, &[&str]); 2] =
    [("python3", &["python3", "python3-venv"]), ("npm", &["nodejs", "npm"])];

/// Debian's compiler, cargo and standard library for WebAssembly: the second way to build plugins.
pub(crate) const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

pub(crate) fn run() -> Result<()> {
    if step::find_program("apt-get").is_none() {
        eprintln!(
            "there is no apt-get here. Needed: `rustup target add wasm32-unknown-unknown` (cargo xtask does it by \
             itself), and for the example plugins in other languages python3 with venv, Node.js with npm, and a C \
             compiler"
        );
        return Ok(());
    }
    let mut missing: Vec<_> = DEBIAN_PACKAGES.into_iter().filter(|package| !is_installed(package)).collect();
    // However they were installed: a language that is here is left as it is.
    for (program, packages) in LANGUAGE_PACKAGES {
        if step::find_program(program).is_none() {
            missing.extend(packages);
        }
    }
    if missing.is_empty() {
        eprintln!("installed already: {}, Python and Node.js", DEBIAN_PACKAGES.join(", "));
        return Ok(());
    }
    step::run(apt_get(&["update"])?)?;
    let mut install = apt_get(&["install", "--yes", "--no-install-recommends"])?;
    install.args(missing);
    step::run(install)
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    step::output(query).is_ok_and(|status| status == "installed")
}

fn apt_get(arguments: &[&str]) -> Result<Command> {
    let mut user = Command::new("id");
    user.arg("-u");
    let mut command = if step::output(user)? == "0" {
        Command::new("apt-get")
    } else if step::find_program("sudo").is_some() {
        let mut sudo = Command::new("sudo");
        sudo.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    } else {
        bail!("root's rights are needed: run as root `apt-get install {}`", DEBIAN_PACKAGES.join(" "));
    };
    command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
    Ok(command)
}
