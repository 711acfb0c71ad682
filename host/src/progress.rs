//! Progress on a terminal: one line that moves. Where standard error is no terminal, nothing.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// All bars of the process: log lines are printed above them, never through them.
static BARS: OnceLock<MultiProgress> = OnceLock::new();

/// Whether bars may be shown: standard error is a terminal and nobody said `--no-progress`.
pub fn wanted(no_progress: bool) -> bool {
    !no_progress && io::stderr().is_terminal()
}

/// One table's progress.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for `table`, if `shown`; its length grows as the source does.
    pub fn new(table: &str, shown: bool) -> Self {
        if !shown {
            return Self { bar: None };
        }
        let bars =
            BARS.get_or_init(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        let bar = bars.add(ProgressBar::new(1));
        bar.set_style(style());
        bar.set_prefix(format!("{table:<8}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(bar) }
    }

    /// `done` of `total` bytes of the source have been read; `note` is what is going on.
    pub fn at(&self, done: u64, total: u64, note: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(note.to_owned());
        }
    }

    /// Takes the bar away; what is to stay is printed by whoever knows it.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Bytes of the source move the bar; the text before it counts changes.
fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix} {msg:<38} {bar:20} {percent}%  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

/// Back to the line's start, and nothing on it.
const ERASE_LINE: &[u8] = b"\r\x1b[2K";

/// Standard error for the log: takes the bars away for a line, and they are drawn again below it.
#[derive(Default)]
pub struct LogWriter {
    line: Vec<u8>,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(());
        }
        let Some(bars) = BARS.get() else { return io::stderr().write_all(&line) };
        // Not `suspend`, which panics where the terminal is gone. A bar drawn since `clear` is erased by the line itself.
        bars.clear().ok();
        io::stderr().write_all(&[ERASE_LINE, &line].concat())
    }
}

/// A line for people, above the bars.
pub fn say_above(line: fmt::Arguments<'_>) {
    let mut out = LogWriter::default();
    // Nobody can be told that it cannot be written; it is flushed when dropped.
    writeln!(out, "{line}").ok();
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        // A log that cannot be written has nowhere to say so.
        self.flush().ok();
    }
}
