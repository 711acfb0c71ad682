//! One step along a file and from one file to the next. Blocking, and without side effects on the reader: a step takes a
//! place and gives the next one.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use keyvector_core::document::FailureClass;
use keyvector_core::lease::Checkpoint;
use keyvector_core::port;
use keyvector_core::record::{self, BadRecord};

use super::lines::{self, Cursor, Line, Stop};
use super::position::{FileId, Mark, Position, sequence_number};
use super::rotation::{self, Next, Opened};
use super::{FileSource, explain};
use crate::source::SourceRecord;

/// By how much the generation rises over a gap. An earlier run may have read files that are lost by now and numbered
/// their records; the numbers after the gap must be above those.
const GAP_GENERATIONS: u64 = 1000;

/// Where the reader stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    file: Arc<File>,
    id: FileId,
    generation: u64,
    cursor: Cursor,
    /// When the file was last looked at.
    seen: Seen,
    /// Not yet told: what was lost on the way here.
    gap: Option<String>,
}

/// What was seen of a file at the last look.
#[derive(Clone, Debug, Default)]
struct Seen {
    size: u64,
    /// Everything in the file had been given out.
    all_read: bool,
    unfinished: Option<Unfinished>,
}

/// A line without an end at the end of the file.
#[derive(Clone, Debug)]
struct Unfinished {
    bytes: u64,
    since: Instant,
    told: bool,
}

/// What one step gave.
pub(super) struct Step {
    pub(super) place: Place,
    pub(super) records: Vec<SourceRecord>,
    pub(super) at_tip: bool,
    /// Another step can be made at once.
    pub(super) more: bool,
}

impl Place {
    fn new(opened: Opened, generation: u64, cursor: Cursor, gap: Option<String>) -> Self {
        let seen = Seen { size: opened.size, ..Seen::default() };
        Self { file: Arc::new(opened.file), id: opened.id, generation, cursor, seen, gap }
    }

    fn at_start(opened: Opened, generation: u64, gap: Option<String>) -> Self {
        Self::new(opened, generation, Cursor::default(), gap)
    }

    /// The same place in a file of the same content.
    fn moved_to(self, opened: Opened) -> Self {
        let cursor = Cursor::new(self.cursor.offset, self.cursor.line, self.cursor.mark);
        Self::new(opened, self.generation, cursor, self.gap)
    }

    /// The start of a file that came later, over a gap if there is one.
    fn next_generation(self, opened: Opened, gap: Option<String>) -> Self {
        let rise = if gap.is_some() { GAP_GENERATIONS } else { 1 };
        let gap = match (self.gap, gap) {
            (Some(earlier), Some(gap)) => Some(format!("{earlier}; {gap}")),
            (earlier, gap) => earlier.or(gap),
        };
        Self::at_start(opened, self.generation.saturating_add(rise), gap)
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        let position = Position {
            generation: self.generation,
            offset: self.cursor.offset,
            line: self.cursor.line,
            id: self.id,
            mark: self.cursor.mark.hash(),
        };
        Checkpoint::At(position.to_text())
    }

    pub(super) fn take_gap(&mut self) -> Option<String> {
        self.gap.take()
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.cursor.offset
    }

    pub(super) fn bytes_total(&self) -> u64 {
        self.seen.size.max(self.cursor.offset)
    }

    pub(super) fn bytes_unfinished(&self) -> u64 {
        self.seen.unfinished.as_ref().map_or(0, |unfinished| unfinished.bytes)
    }

    /// Whether the file still holds what was read of it.
    fn holds_what_was_read(&self) -> io::Result<bool> {
        holds(&self.file, &self.cursor)
    }

    fn see_unfinished(&mut self, bytes: u64) {
        self.seen.all_read = bytes == 0;
        self.seen.size = self.cursor.offset + bytes;
        match &self.seen.unfinished {
            Some(unfinished) if unfinished.bytes == bytes => {}
            _ => {
                self.seen.unfinished =
                    (bytes > 0).then(|| Unfinished { bytes, since: Instant::now(), told: false });
            }
        }
    }
}

fn holds(file: &File, cursor: &Cursor) -> io::Result<bool> {
    Ok(Mark::read(file, cursor.offset)?.is_some_and(|mark| mark == cursor.mark))
}

/// See [`FileSource::open`].
pub(super) fn open(source: &FileSource, checkpoint: &Checkpoint) -> port::Result<Place> {
    let fatal = |error: io::Error| port::Error::Fatal(explain(&source.path, &error));
    let missing = || {
        port::Error::Fatal(format!(
            "there is no file {}: name a file of records with --source, or create it",
            source.path.display()
        ))
    };
    let position = match checkpoint {
        Checkpoint::TrimHorizon => {
            let opened = rotation::open(&source.path).map_err(fatal)?.ok_or_else(missing)?;
            return Ok(Place::at_start(opened, 0, None));
        }
        Checkpoint::ShardEnd => {
            return Err(port::Error::Fatal(format!(
                "the lease of {} says that the file is closed, but a file never is",
                source.path.display()
            )));
        }
        Checkpoint::At(text) => Position::parse(text)?,
    };
    let is_it = |mark: &Mark| mark.hash() == position.mark;
    let found =
        rotation::find(&source.path, Some(position.id), position.offset, None, &is_it).map_err(fatal)?;
    if let Some(opened) = found {
        let mark = Mark::read(&opened.file, position.offset).map_err(fatal)?.unwrap_or_default();
        let cursor = Cursor::new(position.offset, position.line, mark);
        return Ok(Place::new(opened, position.generation, cursor, None));
    }
    let opened = rotation::open(&source.path).map_err(fatal)?.ok_or_else(missing)?;
    // Nothing was ever read: the same as no position. A moved project or a new container has other inodes.
    if position.generation == 0 && position.offset == 0 {
        return Ok(Place::at_start(opened, 0, None));
    }
    let path = source.path.display();
    let reason = if opened.id == position.id {
        format!("{path} was truncated or its content replaced while nobody read it")
    } else {
        format!("the file that was read as {path} is neither there nor beside it any more")
    };
    let reason = format!("{reason}; what it held after line {} is lost", position.line);
    let generation = position.generation.saturating_add(GAP_GENERATIONS);
    Ok(Place::at_start(opened, generation, Some(reason)))
}

/// Reads on from a place: records if there are any, else a place further on, else the same one.
pub(super) fn step(source: &FileSource, place: Place, records_max: usize) -> port::Result<Step> {
    step_on(source, place, records_max).map_err(|error| port::Error::transient(explain(&source.path, &error)))
}

fn step_on(source: &FileSource, mut place: Place, records_max: usize) -> io::Result<Step> {
    let size = place.file.metadata()?.len();
    let waiting = place.bytes_unfinished();
    // A writer that takes back a line it has not finished changes nothing that was read; the search starts over.
    if size < place.cursor.offset + waiting {
        place.cursor = Cursor::new(place.cursor.offset, place.cursor.line, place.cursor.mark);
        place.seen.unfinished = None;
    }
    let nothing_new = waiting > 0 && size == place.cursor.offset + waiting;
    let stop = if nothing_new {
        if !place.holds_what_was_read()? {
            return after_truncation(source, place);
        }
        Stop::EndOfFile { unfinished: waiting }
    } else {
        match read(source, &mut place, records_max, false)? {
            Read::Changed if place.holds_what_was_read()? => return Ok(nothing(place, false, true)),
            Read::Changed => return after_truncation(source, place),
            Read::Lines(lines, stop) => {
                place.seen.size = size.max(place.cursor.offset);
                if !lines.is_empty() || stop == Stop::Enough {
                    return given(source, place, lines, stop);
                }
                stop
            }
        }
    };
    if let Stop::EndOfFile { unfinished } = stop {
        place.see_unfinished(unfinished);
    }

    let (opened, gap) = match rotation::next(&source.path, &place.file, place.id)? {
        Next::Nothing => {
            let at_tip = quiet(source, &mut place);
            return Ok(nothing(place, at_tip, false));
        }
        Next::File { opened, continued: true } => return Ok(nothing(place.moved_to(opened), false, true)),
        Next::File { opened, continued: false } => (opened, None),
        Next::Unclear { opened, reason } => (opened, Some(reason)),
    };
    // The writer has gone on to another file: this one is read to its very end, a last line without an end included.
    match read(source, &mut place, records_max, true)? {
        Read::Changed if place.holds_what_was_read()? => Ok(nothing(place, false, true)),
        Read::Changed => after_truncation(source, place),
        Read::Lines(lines, stop) if !lines.is_empty() || stop == Stop::Enough => {
            given(source, place, lines, stop)
        }
        Read::Lines(..) => Ok(nothing(place.next_generation(opened, gap), false, true)),
    }
}

enum Read {
    Lines(Vec<Line>, Stop),
    /// The file was truncated or written over while it was read. The place has not moved.
    Changed,
}

fn read(source: &FileSource, place: &mut Place, records_max: usize, finish: bool) -> io::Result<Read> {
    let mut cursor = place.cursor.clone();
    let (lines, stop) = match lines::read(&place.file, &mut cursor, records_max, &source.limits, finish) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Read::Changed),
        result => result?,
    };
    // Looked at after reading: what was read was one file's content only if it is still there.
    if !holds(&place.file, &cursor)? {
        return Ok(Read::Changed);
    }
    place.cursor = cursor;
    Ok(Read::Lines(lines, stop))
}

fn given(source: &FileSource, mut place: Place, lines: Vec<Line>, stop: Stop) -> io::Result<Step> {
    let size = place.file.metadata()?.len();
    match stop {
        Stop::EndOfFile { unfinished } => place.see_unfinished(unfinished),
        Stop::Enough => {
            place.seen.unfinished = None;
            place.seen.all_read = size == place.cursor.offset;
        }
    }
    place.seen.size = size.max(place.cursor.offset);
    let at_tip = size == place.cursor.offset
        && matches!(rotation::next(&source.path, &place.file, place.id)?, Next::Nothing);
    let records = lines.into_iter().map(|line| record(source, place.generation, line)).collect();
    Ok(Step { place, records, at_tip, more: true })
}

fn nothing(place: Place, at_tip: bool, more: bool) -> Step {
    Step { place, records: Vec::new(), at_tip, more }
}

/// Whether the end of the file is the tip: at once if every line is finished, else once the last one stopped growing.
fn quiet(source: &FileSource, place: &mut Place) -> bool {
    let Some(unfinished) = &mut place.seen.unfinished else { return true };
    let quiet = unfinished.since.elapsed() >= source.limits.unfinished_quiet;
    if quiet && !unfinished.told {
        unfinished.told = true;
        tracing::warn!(
            path = %source.path.display(),
            line = place.cursor.line + 1,
            bytes = unfinished.bytes,
            "last line has no line end yet, waiting for it"
        );
    }
    quiet
}

/// Goes on after the content that was read has vanished from the file: in a copy of it beside the path, or else at the
/// start of the file at the path.
fn after_truncation(source: &FileSource, place: Place) -> io::Result<Step> {
    let is_it = |mark: &Mark| *mark == place.cursor.mark;
    if let Some(copy) = rotation::find(&source.path, None, place.cursor.offset, Some(place.id), &is_it)? {
        return Ok(nothing(place.moved_to(copy), false, true));
    }
    let Some(opened) = rotation::open(&source.path)? else { return Ok(nothing(place, true, false)) };
    let gap = (!place.seen.all_read).then(|| {
        format!(
            "{} was truncated or its content replaced before it was read to its end; what it held after line {} is lost",
            source.path.display(),
            place.cursor.line
        )
    });
    Ok(nothing(place.next_generation(opened, gap), false, true))
}

fn record(source: &FileSource, generation: u64, line: Line) -> SourceRecord {
    let sequence_number = sequence_number(generation, line.end);
    let bad = |reason: String| BadRecord { class: FailureClass::BadRecord, key: None, reason };
    let parsed = if let Some(bytes) = line.too_long {
        let limit = source.limits.line_bytes_max;
        Err(bad(format!("the line has {bytes} bytes, more than {limit}")))
    } else if let Err(error) = std::str::from_utf8(&line.raw) {
        Err(bad(format!("the line is not UTF-8 from its byte {} on", error.valid_up_to() + 1)))
    } else if let Some(at) = line.raw.iter().position(|&byte| byte == 0) {
        Err(bad(format!("the line holds a NUL byte, its byte {}", at + 1)))
    } else {
        record::parse(&source.schema, source.view, &line.raw, Some(sequence_number.clone()))
    };
    SourceRecord { sequence_number, line: Some(line.number), raw: line.raw, parsed }
}
