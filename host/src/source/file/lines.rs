//! Lines from a place in a file on, in bounded memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Limits;
use super::position::Mark;

const CHUNK_BYTES: usize = 128 * 1024;
/// What is kept of a line over the limit, for its dead letter.
const LONG_LINE_KEPT: usize = 4 * 1024;
/// How far a line over the limit is searched for its end in one call, so that a call stays short.
const SEARCH_BYTES_MAX: u64 = 256 * 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Where reading stands in one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// Bytes done, up to the end of a line.
    pub(super) offset: u64,
    /// Lines done, blank ones counted.
    pub(super) line: u64,
    /// Of the bytes done.
    pub(super) mark: Mark,
    /// Bytes after the offset that are known to hold no line end. Kept for a line over the limit only, which must not
    /// be searched from its beginning each time it has grown.
    searched: u64,
}

impl Cursor {
    pub(super) fn new(offset: u64, line: u64, mark: Mark) -> Self {
        Self { offset, line, mark, searched: 0 }
    }
}

/// One line that is not blank.
#[derive(Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// The offset after its line end.
    pub(super) end: u64,
    /// Without line end and byte order mark; only the beginning where the line is over the limit.
    pub(super) raw: Vec<u8>,
    /// The length in bytes of a line over the limit.
    pub(super) too_long: Option<u64>,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Enough for one call; there may be more.
    Enough,
    /// At the end of the file; so many bytes of a line without an end are left.
    EndOfFile { unfinished: u64 },
}

/// Reads at most `lines_max` lines that are not blank, moving the cursor over what is given. With `finish`, what
/// stands at the end of the file without a line end is a line too.
pub(super) fn read(
    file: &File,
    cursor: &mut Cursor,
    lines_max: usize,
    limits: &Limits,
    finish: bool,
) -> io::Result<(Vec<Line>, Stop)> {
    let mut lines = Vec::new();
    let mut done = 0;
    // The bytes from the cursor's offset on that are in memory: at most a chunk over the longest line.
    let mut buffer: Vec<u8> = Vec::new();
    // Bytes of the first line in the buffer that hold no line end.
    let mut searched = 0;
    loop {
        let mut start = 0;
        let enough = loop {
            if lines.len() >= lines_max || done + start as u64 >= limits.batch_bytes_max {
                break true;
            }
            let Some(length) = buffer[start + searched..].iter().position(|&byte| byte == b'\n') else {
                searched = buffer.len() - start;
                break false;
            };
            let end = start + searched + length;
            cursor.line += 1;
            let raw = &buffer[start..end];
            let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
            let at_start = cursor.offset == 0 && start == 0;
            let line_end = cursor.offset + end as u64 + 1;
            if raw.len() as u64 > limits.line_bytes_max {
                lines.push(long_line(cursor.line, line_end, raw, raw.len() as u64));
            } else {
                lines.extend(line(cursor.line, line_end, raw, at_start));
            }
            start = end + 1;
            searched = 0;
        };
        cursor.mark.feed(&buffer[..start]);
        cursor.offset += start as u64;
        done += start as u64;
        buffer.drain(..start);
        if enough {
            return Ok((lines, Stop::Enough));
        }

        if (buffer.len() as u64).max(cursor.searched) > limits.line_bytes_max {
            buffer = Vec::new();
            searched = 0;
            match skip_long_line(file, cursor, limits, finish)? {
                Skipped::Line(line, length) => {
                    lines.push(line);
                    done += length;
                    continue;
                }
                Skipped::Stop(stop) => return Ok((lines, stop)),
            }
        }
        let held = buffer.len();
        buffer.resize(held + CHUNK_BYTES, 0);
        let read = read_at(file, &mut buffer[held..], cursor.offset + held as u64)?;
        buffer.truncate(held + read);
        if read == 0 {
            let unfinished = held as u64;
            if !finish || held == 0 {
                return Ok((lines, Stop::EndOfFile { unfinished }));
            }
            let at_start = cursor.offset == 0;
            cursor.line += 1;
            cursor.offset += unfinished;
            cursor.mark.feed(&buffer);
            let raw = buffer.strip_suffix(b"\r").unwrap_or(&buffer);
            lines.extend(line(cursor.line, cursor.offset, raw, at_start));
            return Ok((lines, Stop::EndOfFile { unfinished: 0 }));
        }
    }
}

fn line(number: u64, end: u64, raw: &[u8], at_start: bool) -> Option<Line> {
    let raw = if at_start { raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(raw) } else { raw };
    let blank = raw.iter().all(u8::is_ascii_whitespace);
    (!blank).then(|| Line { number, end, raw: raw.to_vec(), too_long: None })
}

fn long_line(number: u64, end: u64, raw: &[u8], length: u64) -> Line {
    Line { number, end, raw: raw[..raw.len().min(LONG_LINE_KEPT)].to_vec(), too_long: Some(length) }
}

enum Skipped {
    /// A line over the limit, and how many bytes of the file it takes.
    Line(Line, u64),
    Stop(Stop),
}

/// Finds the end of a line over the limit without holding it.
fn skip_long_line(file: &File, cursor: &mut Cursor, limits: &Limits, finish: bool) -> io::Result<Skipped> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let from = cursor.searched.max(limits.line_bytes_max);
    let mut searched = from;
    let (length, taken) = loop {
        if searched - from >= SEARCH_BYTES_MAX {
            cursor.searched = searched;
            return Ok(Skipped::Stop(Stop::Enough));
        }
        let read = read_at(file, &mut chunk, cursor.offset + searched)?;
        if read == 0 && !finish {
            cursor.searched = searched;
            return Ok(Skipped::Stop(Stop::EndOfFile { unfinished: searched }));
        }
        if read == 0 {
            break (searched, searched);
        }
        if let Some(length) = chunk[..read].iter().position(|&byte| byte == b'\n') {
            let length = searched + length as u64;
            break (length, length + 1);
        }
        searched += read as u64;
    };
    let end = cursor.offset + taken;
    let mut head = vec![0; LONG_LINE_KEPT.min(length as usize)];
    file.read_exact_at(&mut head, cursor.offset)?;
    let Some(mark) = Mark::read(file, end)? else {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    };
    cursor.line += 1;
    let line = long_line(cursor.line, end, &head, length);
    cursor.offset = end;
    cursor.mark = mark;
    cursor.searched = 0;
    Ok(Skipped::Line(line, taken))
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
