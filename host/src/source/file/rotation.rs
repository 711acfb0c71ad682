//! Which file comes before and after another one: found by what stands beside it, when the file at the path is no
//! longer the one that was read.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::position::{FileId, Mark};

/// An open regular file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) size: u64,
    modified: SystemTime,
}

/// Opens a regular file; `None` where there is nothing, for example between the two steps of a rotation.
pub(super) fn open(path: &Path) -> io::Result<Option<Opened>> {
    let found = |result: io::Result<Metadata>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let Some(metadata) = found(std::fs::metadata(path))? else { return Ok(None) };
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file, so it cannot be read again after a crash"));
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let metadata = file.metadata()?;
    let (id, size, modified) = (FileId::of(&metadata), metadata.len(), metadata.modified()?);
    Ok(Some(Opened { path: path.to_owned(), file, id, size, modified }))
}

/// The files `NAME.*` and `NAME-*` beside the path that can be opened, the path itself apart.
fn siblings(path: &Path) -> io::Result<Vec<Opened>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if suffix(path, &entry.file_name()).is_some() {
            // What cannot be opened is no candidate: a folder, a file of somebody else's.
            found.extend(open(&entry.path()).unwrap_or(None));
        }
    }
    Ok(found)
}

/// What a sibling's name has after the path's name and a dot or hyphen.
fn suffix(path: &Path, sibling: &OsStr) -> Option<Vec<u8>> {
    let name = path.file_name()?.as_encoded_bytes();
    let rest = sibling.as_encoded_bytes().strip_prefix(name)?;
    let rest = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b"-"))?;
    (!rest.is_empty()).then(|| rest.to_vec())
}

/// A name that rotation gives: a number or a date. Only such files are read because of their name; a `.bak` is not.
fn numbered(path: &Path, sibling: &Path) -> bool {
    sibling
        .file_name()
        .and_then(|name| suffix(path, name))
        .is_some_and(|suffix| suffix.iter().all(|byte| byte.is_ascii_digit() || b"-_.:T".contains(byte)))
}

/// Finds the file that was read up to `offset`, wherever it is by now: the very file if it still has the content,
/// else one with the content, the path first.
///
/// `not` is a file that is known not to be it.
pub(super) fn find(
    path: &Path,
    id: Option<FileId>,
    offset: u64,
    not: Option<FileId>,
    is_it: &dyn Fn(&Mark) -> bool,
) -> io::Result<Option<Opened>> {
    let mut copies = Vec::new();
    for candidate in open(path)?.into_iter().chain(siblings(path)?) {
        if Some(candidate.id) == not {
            continue;
        }
        let marked = Mark::read(&candidate.file, offset)?.is_some_and(|mark| is_it(&mark));
        if marked && Some(candidate.id) == id {
            return Ok(Some(candidate));
        }
        // Of nothing read, every file is a copy.
        if marked && offset > 0 {
            copies.push(candidate);
        }
    }
    // Of several copies the longest: it holds what the others hold.
    Ok(copies.into_iter().max_by_key(|copy| (copy.path == path, copy.size)))
}

/// What comes after a file that was read to its end.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing yet: it is the file at the path, or there is no other, or the other is still empty.
    Nothing,
    /// This file. It begins with all that the earlier one holds where `continued`: an editor saved it anew.
    File { opened: Opened, continued: bool },
    /// The file at the path, but others may have been in between.
    Unclear { opened: Opened, reason: String },
}

/// Finds what comes after `current`: the files that rotation named and that were written later, oldest first, and the
/// file at the path last.
///
/// An empty file at the path is nothing yet. Its writer may still hold the earlier file open; once it has written to the
/// new one, the earlier one is at its end.
pub(super) fn next(path: &Path, current: &File, id: FileId) -> io::Result<Next> {
    let Some(at_path) = open(path)? else { return Ok(Next::Nothing) };
    if at_path.id == id {
        return Ok(Next::Nothing);
    }
    let metadata = current.metadata()?;
    let modified = metadata.modified()?;
    let mut later: Vec<Opened> = siblings(path)?
        .into_iter()
        .filter(|sibling| numbered(path, &sibling.path) && sibling.size > 0 && sibling.modified >= modified)
        .filter(|sibling| sibling.id != id && sibling.id != at_path.id)
        .collect();
    later.sort_by_key(|sibling| sibling.modified);
    let ties = later.windows(2).find(|pair| pair[0].modified == pair[1].modified).map(|pair| &pair[1]);
    let unclear = ties.or_else(|| later.first().filter(|sibling| sibling.modified == modified));
    if let Some(sibling) = unclear {
        let reason = format!(
            "{} has the same time of change as another rotated file: their order is not known",
            sibling.path.display()
        );
        return Ok(if at_path.size == 0 { Next::Nothing } else { Next::Unclear { opened: at_path, reason } });
    }
    if let Some(opened) = later.into_iter().next() {
        return Ok(Next::File { opened, continued: false });
    }
    if at_path.size == 0 {
        return Ok(Next::Nothing);
    }
    let continued = begins_with(&at_path.file, current, metadata.len())?;
    Ok(Next::File { opened: at_path, continued })
}

/// Whether `file` begins with the first `length` bytes of `start`. Two different files differ early.
fn begins_with(file: &File, start: &File, length: u64) -> io::Result<bool> {
    let mut chunks = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut compared = 0;
    while compared < length {
        let size = chunks.0.len().min(usize::try_from(length - compared).unwrap_or(usize::MAX));
        for (chunk, file) in [(&mut chunks.0, file), (&mut chunks.1, start)] {
            match file.read_exact_at(&mut chunk[..size], compared) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                result => result?,
            }
        }
        if chunks.0[..size] != chunks.1[..size] {
            return Ok(false);
        }
        compared += size as u64;
    }
    Ok(length > 0)
}
