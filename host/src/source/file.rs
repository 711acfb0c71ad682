//! The file source: JSON lines in Keyspaces' record form, followed across appends and rotation.
//!
//! One file is one shard. Its lines are read in order, one record a line:
//!
//! | what is met | what happens |
//! |---|---|
//! | a blank line | skipped, and counted |
//! | CRLF; a byte order mark at the file's start | read as if it were not there |
//! | a line that is no record, not UTF-8, or longer than the limit | a bad record with its line number |
//! | a last line without an end | waits until it has one; the position stays before it, across restarts too |
//! | the file at the path is another one (rotation) | the old one is read to its end, then the new one from its start |
//! | the file at the path is another one that begins with all of the old one (an editor's save) | goes on where it was |
//! | the file was truncated, or its content replaced | goes on at its start; in a copy beside it first, if there is one |
//! | the file at the path is missing | at start an error; later it is waited for |
//!
//! After a restart the file of the checkpoint is looked for at the path and beside it (`NAME.*`, `NAME-*`), by inode
//! and by what was read of it. If it is nowhere, or it cannot be told what came after it, the next batch says that
//! there is a gap. Compressed files are not looked into, and a file that was truncated before anything was read of it
//! cannot be told from one that was never longer. Reading starts at the file at the path, not at files that
//! were rotated away before.
//!
//! Every file is a *generation*. A record's sequence number is its generation × 10^18 + the offset of its line's end,
//! so it rises over rotations and is the same when the line is read again; what the record itself says is ignored,
//! since a file may hold records of several streams.

mod lines;
mod position;
mod rotation;
mod tail;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use keyvector_core::change::ViewType;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::schema::TableSchema;
use tokio::time::Instant;

use super::{Batch, ShardReader};
pub use position::POSITION_FORMAT;
use tail::Place;
pub use view::refuse_view;

/// A file that is read as a change stream.
#[derive(Clone, Debug)]
pub struct FileSource {
    pub path: PathBuf,
    pub schema: Arc<TableSchema>,
    /// What [`refuse_view`] gave for this file.
    pub view: ViewType,
    pub limits: Limits,
}

/// Bounds of the file source. All bytes and times are the defaults of a host; tests take smaller ones.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A longer line is a bad record, and never held in memory. 16 MiB: a row of Keyspaces is at most 1 MB, twice in a
    /// record, in JSON and base64.
    pub line_bytes_max: u64,
    /// A batch is cut once it has read so many bytes, however many records were asked for.
    pub batch_bytes_max: u64,
    /// How long a call waits for the first record.
    pub wait: Duration,
    /// How often the file is looked at while waiting: first, and at most.
    pub poll: (Duration, Duration),
    /// A last line without an end that has not grown for so long no longer keeps the reader from being at the tip.
    pub unfinished_quiet: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 16 * 1024 * 1024,
            batch_bytes_max: 8 * 1024 * 1024,
            wait: Duration::from_secs(1),
            poll: (Duration::from_millis(50), Duration::from_millis(250)),
            unfinished_quiet: Duration::from_millis(500),
        }
    }
}

impl FileSource {
    pub fn new(path: impl Into<PathBuf>, schema: Arc<TableSchema>, view: ViewType) -> Self {
        Self { path: path.into(), schema, view, limits: Limits::default() }
    }

    /// The file's shard, also its lease's key: `file:` and the file's name, without its folder, so that a project can
    /// be moved. Two files of one name need two stores.
    pub fn shard_id(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        format!("file:{}", name.to_string_lossy())
    }

    /// Opens the file where the checkpoint says. `TrimHorizon` is the start of the file at the path.
    ///
    /// # Errors
    /// `Fatal` where there is no file, where it cannot be read, where it is a pipe or folder, and for a checkpoint of
    /// another format or source.
    pub fn open(&self, checkpoint: &Checkpoint) -> port::Result<FileReader> {
        let place = tail::open(self, checkpoint)?;
        let progress = Arc::new(Progress::default());
        progress.set(&place);
        Ok(FileReader { source: Arc::new(self.clone()), place, progress })
    }
}

/// Reads a [`FileSource`].
#[derive(Debug)]
pub struct FileReader {
    source: Arc<FileSource>,
    place: Place,
    progress: Arc<Progress>,
}

impl FileReader {
    /// Where the shard stands: before the first batch where it starts, later what the last batch said.
    ///
    /// A checkpoint of it before anything is read lets the host find the file again if it is rotated before the first
    /// batch is done.
    pub fn position(&self) -> Checkpoint {
        self.place.checkpoint()
    }

    /// How far the current file has been read; stays true while the reader moves on.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

/// How far the current file has been read, for a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: AtomicU64,
    unfinished: AtomicU64,
}

impl Progress {
    /// Bytes of the current file that were given out.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of the current file when it was last looked at.
    pub fn bytes_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes at the end of the current file that wait for their line end; 0 if there are none.
    pub fn bytes_unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }

    fn set(&self, place: &Place) {
        self.read.store(place.bytes_read(), Ordering::Relaxed);
        self.total.store(place.bytes_total(), Ordering::Relaxed);
        self.unfinished.store(place.bytes_unfinished(), Ordering::Relaxed);
    }
}

#[async_trait]
impl ShardReader for FileReader {
    async fn next(&mut self, records_max: usize) -> port::Result<Batch> {
        let limits = &self.source.limits;
        let deadline = Instant::now() + limits.wait;
        let (mut pause, pause_max) = limits.poll;
        loop {
            let (source, place) = (Arc::clone(&self.source), self.place.clone());
            // The step works on a copy of the place, which is put back in one go: a call that is dropped while it waits
            // here has moved nothing.
            let step = tokio::task::spawn_blocking(move || tail::step(&source, place, records_max.max(1)))
                .await
                .map_err(|error| port::Error::Fatal(format!("the file's reader failed: {error}")))??;
            self.place = step.place;
            self.progress.set(&self.place);
            let now = Instant::now();
            if !step.records.is_empty() || now >= deadline {
                return Ok(Batch {
                    records: step.records,
                    position: self.place.checkpoint(),
                    at_tip: step.at_tip,
                    gap: self.place.take_gap(),
                });
            }
            if !step.more {
                tokio::time::sleep_until(deadline.min(now + pause)).await;
                pause = (pause * 2).min(pause_max);
            }
        }
    }
}

/// An I/O error in words that name the file.
fn explain(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
