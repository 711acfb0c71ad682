//! Puts the shipped plugins and the film table into the binary where they have been built before it. A build without
//! them works, and says at run time which command adds them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Plugins that are shipped, by name, as `cargo xtask plugins` leaves them in `plugins/dist`. The fake model is not: it
/// is for tests.
const PLUGINS: [&str; 3] = ["columns", "movies", "static"];

/// The film table, from `plugins/movies/data`.
const FILMS: [&str; 2] = ["films.jsonl", "table.cql"];

fn main() -> io::Result<()> {
    let host = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let root = host.parent().ok_or_else(|| io::Error::other("the host lies in the workspace"))?;
    let mut generated = String::new();
    list(
        &mut generated,
        "PLUGINS",
        PLUGINS.map(|name| (name, root.join(format!("plugins/dist/{name}.wasm")))),
    )?;
    list(&mut generated, "FILMS", FILMS.map(|name| (name, root.join("plugins/movies/data").join(name))))?;
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("shipped_files.rs"), generated)
}

fn list<const N: usize>(
    generated: &mut String,
    constant: &str,
    files: [(&str, PathBuf); N],
) -> io::Result<()> {
    writeln!(generated, "pub(super) const {constant}: &[(&str, &[u8])] = &[").map_err(io::Error::other)?;
    for (name, path) in files {
        // A path that is missing is watched too: cargo runs this again once it is there.
        println!("cargo::rerun-if-changed={}", path.display());
        if readable(&path) {
            writeln!(generated, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)?;
        }
    }
    writeln!(generated, "];").map_err(io::Error::other)
}

fn readable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}
