//! What the binary carries: the shipped plugins and the film table.

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::config::{FileSourceConfig, PluginRef};
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
/// Neither is there, the file cannot be read, or the digest is not the pinned one.
pub fn find_plugin(wanted: &PluginRef) -> Result<PluginFile, Failure> {
    let found = match fs::metadata(&wanted.path) {
        Ok(metadata) if metadata.is_file() => {
            let bytes = fs::read(&wanted.path).map_err(|error| {
                Failure::new(Code::BadConfig, format!("read the plugin {}: {error}", wanted.path.display()))
            })?;
            PluginFile { name: wanted.path.display().to_string(), bytes: bytes.into(), shipped: false }
        }
        Ok(_) | Err(_) => shipped_plugin(wanted)?,
    };
    if let Some(expected) = &wanted.sha256 {
        check_digest(&found, expected)?;
    }
    Ok(found)
}

/// Whether these are the bytes of a shipped plugin, whatever the file is called.
pub fn is_shipped(found: &PluginFile, name: &str) -> bool {
    files::PLUGINS.iter().any(|(shipped, bytes)| *shipped == name && *bytes == &*found.bytes)
}

fn shipped_plugin(wanted: &PluginRef) -> Result<PluginFile, Failure> {
    let name = wanted.name.strip_suffix(".wasm").unwrap_or(&wanted.name);
    if let Some((name, bytes)) = files::PLUGINS.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(PluginFile { name: (*name).to_owned(), bytes: Cow::Borrowed(bytes), shipped: true });
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
        let found = find_plugin(&PluginRef::parse("movies.wasm", folder.path()).unwrap()).unwrap();
        assert_eq!((&*found.bytes, found.shipped), (&b"own"[..], false));
        let digest = keyvector_sandbox::sha256_hex(b"own");
        let pinned =
            |digest: &str| PluginRef::parse(&format!("movies.wasm@sha256:{digest}"), folder.path()).unwrap();
        assert!(find_plugin(&pinned(&digest.to_uppercase())).is_ok());
        let refused = find_plugin(&pinned(&"0".repeat(64))).unwrap_err();
        assert!(refused.message.contains(&digest), "{refused}");
    }
}
