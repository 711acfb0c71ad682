//! What the binary carries: the shipped plugins and the film table.

use std::borrow::Cow;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::config::{FileSourceConfig, PluginRef, units};
use crate::exit::{Code, Failure};

mod files {
    include!(concat!(env!("OUT_DIR"), "/shipped_files.rs"));
}

/// A plugin's bytes and where they came from.
#[derive(Clone, Debug)]
pub struct PluginFile {
    /// For messages and logs: the path, or the shipped name.
    pub name: String,
    pub bytes: Cow<'static, [u8]>,
    /// Comes with the binary.
    pub shipped: bool,
}

/// The names of the shipped plugins in this build.
pub fn plugin_names() -> Vec<&'static str> {
    files::PLUGINS.iter().map(|(name, _)| *name).collect()
}

/// Finds a plugin: the file if there is one, else the shipped one of that name.
///
/// # Errors
/// Neither is there, the file cannot be read or has more than `bytes_max`, or the digest is not the pinned one.
pub fn find_plugin(wanted: &PluginRef, bytes_max: usize) -> Result<PluginFile, Failure> {
    let found = match fs::metadata(&wanted.path) {
        Ok(metadata) if metadata.is_file() => read_plugin(&wanted.path, bytes_max)?,
        other => shipped_plugin(wanted, other.is_ok())?,
    };
    if let Some(expected) = &wanted.sha256 {
        check_digest(&found, expected)?;
    }
    Ok(found)
}

/// Reads a plugin's file: no more than `bytes_max`, whatever is at the path by now.
///
/// # Errors
/// The file cannot be read, or is larger.
pub fn read_plugin(path: &Path, bytes_max: usize) -> Result<PluginFile, Failure> {
    let name = path.display().to_string();
    let failed = |error| Failure::new(Code::BadConfig, format!("read the plugin {name}: {error}"));
    let file = fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let is_too_large = match file.metadata().map_err(failed)?.len() > bytes_max as u64 {
        true => true,
        false => file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)? > bytes_max,
    };
    if is_too_large {
        let most = units::show_size(bytes_max as u64);
        return Err(Failure::new(
            Code::BadConfig,
            format!("{name} is larger than the {most} that a plugin may have"),
        )
        .next("name another file, or raise plugin_size in [plugin_limits]"));
    }
    Ok(PluginFile { name, bytes: bytes.into(), shipped: false })
}

/// Whether these are the bytes of a shipped plugin, whatever the file is called.
pub fn is_shipped(found: &PluginFile, name: &str) -> bool {
    files::PLUGINS.iter().any(|(shipped, bytes)| *shipped == name && *bytes == &*found.bytes)
}

fn shipped_plugin(wanted: &PluginRef, is_something_else: bool) -> Result<PluginFile, Failure> {
    let name = wanted.name.strip_suffix(".wasm").unwrap_or(&wanted.name);
    if let Some((name, bytes)) = files::PLUGINS.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(PluginFile { name: (*name).to_owned(), bytes: Cow::Borrowed(bytes), shipped: true });
    }
    if is_something_else {
        // A folder, a pipe or a device: reading it might never end.
        let message = format!("{} is not a file: a plugin is a .wasm file", wanted.path.display());
        return Err(Failure::new(Code::BadConfig, message));
    }
    Err(refuse_missing(wanted, &plugin_names()))
}

fn refuse_missing(wanted: &PluginRef, shipped: &[&str]) -> Failure {
    let missing = format!("no plugin {:?}: there is no file {}", wanted.name, wanted.path.display());
    if shipped.is_empty() {
        let message = format!("{missing}, and this build carries no plugins");
        return Failure::new(Code::BadConfig, message).next("cargo xtask plugins, then build again");
    }
    Failure::new(Code::BadConfig, format!("{missing}, and the shipped ones are {}", shipped.join(", ")))
}

fn check_digest(found: &PluginFile, expected: &str) -> Result<(), Failure> {
    let digest = keyvector_sandbox::sha256_hex(&found.bytes);
    if digest == expected {
        return Ok(());
    }
    let message = format!("{} is not the pinned plugin: its digest is sha256:{digest}", found.name);
    Err(Failure::new(Code::BadConfig, message)
        .next("pin that digest if you trust the file, or restore the file"))
}

/// Whether this build carries the film table.
pub fn has_films() -> bool {
    !files::FILMS.is_empty()
}

/// Writes the film table out where the source says, unless it is there already: lines added by hand stay.
///
/// # Errors
/// This build carries no film table, or the folder cannot be written.
pub fn write_films(source: &FileSourceConfig) -> Result<(), Failure> {
    if !has_films() {
        return Err(Failure::new(Code::BadConfig, "this build carries no film table")
            .next("cargo xtask plugins, then build again"));
    }
    for (name, bytes) in files::FILMS {
        let path = source.file.with_file_name(name);
        if !path.exists() {
            write_whole(&path, bytes).map_err(|error| {
                Failure::new(
                    Code::Unreachable,
                    format!("write the film table to {}: {error}", path.display()),
                )
            })?;
        }
    }
    Ok(())
}

/// Writes beside and renames, so that nobody follows half a file.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::create_dir(folder)?;
    }
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_plugins_says_which_command_adds_them() {
        let wanted = PluginRef::parse("movies", Path::new("")).unwrap();
        let refused = refuse_missing(&wanted, &[]);
        assert_eq!(
            refused.message,
            "no plugin \"movies\": there is no file movies, and this build carries no plugins"
        );
        assert_eq!(refused.next.as_deref(), Some("cargo xtask plugins, then build again"));
        assert_eq!(refuse_missing(&wanted, &["columns"]).next, None);
    }

    #[test]
    fn a_file_comes_before_a_shipped_plugin_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("movies.wasm"), b"own").unwrap();
        let found = find_plugin(&PluginRef::parse("movies.wasm", folder.path()).unwrap(), 3).unwrap();
        assert_eq!((&*found.bytes, found.shipped), (&b"own"[..], false));
        let digest = keyvector_sandbox::sha256_hex(b"own");
        let pinned =
            |digest: &str| PluginRef::parse(&format!("movies.wasm@sha256:{digest}"), folder.path()).unwrap();
        assert!(find_plugin(&pinned(&digest.to_uppercase()), 3).is_ok());
        let refused = find_plugin(&pinned(&"0".repeat(64)), 3).unwrap_err();
        assert!(refused.message.contains(&digest), "{refused}");
        let refused = find_plugin(&pinned(&digest), 2).unwrap_err();
        assert!(refused.message.ends_with("is larger than the 2 B that a plugin may have"), "{refused}");
    }
}
