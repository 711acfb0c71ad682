//! The folder of compiled code. Whoever can write there runs code in the host, so the folder and all above it are looked
//! at first; wasmtime itself does not.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use wasmtime::{Cache, CacheConfig};

/// Opens the cache in `folder`, which is made with mode 0700 if it is missing.
///
/// # Errors
/// One line that says why there is no cache; the host goes on without.
pub(crate) fn open(folder: &Path) -> Result<Cache, String> {
    let folder = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let folder = guarded(&folder)?;
    let mut config = CacheConfig::new();
    config.with_directory(folder);
    Cache::new(config).map_err(|error| error.to_string())
}

/// The folder's canonical path, if nobody else can write there or put another folder in its place.
fn guarded(folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let own_uid = rustix::process::geteuid().as_raw();
    for (depth, ancestor) in folder.ancestors().enumerate() {
        let metadata = ancestor.metadata().map_err(|error| format!("{}: {error}", ancestor.display()))?;
        if let Some(danger) = danger(&metadata, own_uid, depth == 0) {
            return Err(format!(
                "{} {danger}: whoever can write there could put code into this process",
                ancestor.display()
            ));
        }
    }
    Ok(folder)
}

fn danger(metadata: &Metadata, own_uid: u32, is_folder_itself: bool) -> Option<String> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let (uid, mode) = (metadata.uid(), metadata.mode());
    let trusted = uid == own_uid || (uid == 0 && !is_folder_itself);
    // In a sticky folder such as /tmp nobody can replace what another owns.
    let replaceable = mode & WRITABLE_BY_OTHERS != 0 && (is_folder_itself || mode & STICKY == 0);
    if !metadata.is_dir() {
        Some("is not a folder".to_owned())
    } else if !trusted {
        Some(format!("belongs to user {uid}"))
    } else if replaceable {
        Some(format!("has mode {:04o}", mode & 0o7777))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_missing_folder_is_made_for_the_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        open(&folder).unwrap();
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o770, 0o707, 0o1777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let error = open(folder.path()).unwrap_err();
            assert!(error.contains(&format!("has mode {mode:04o}")), "{error}");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        open(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_replace_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("cache");
        open(&folder).unwrap();
        fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(open(&folder).unwrap_err().contains("has mode 0777"));
        fs::set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
        open(&folder).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = folder.path().metadata().unwrap();
        assert!(danger(&metadata, metadata.uid() + 1, true).unwrap().contains("belongs to user"));
    }
}
