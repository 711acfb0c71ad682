//! What a guest says: capped, sent to the host's log, and its last words kept for the reason of a trap.
//!
//! A plugin's words are row data. The log gets their length and where they came from; the words themselves only where
//! the operator asked for them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyvector_core::text::{one_line, one_line_of_both_ends};

/// A longer line is cut at a character.
const LINE_BYTES_MAX: usize = 1024;
/// Further lines of the same call are counted, and said to be dropped.
const LINES_PER_CALL_MAX: u32 = 100;
/// How much of what a guest said last is joined to the reason of its trap.
const LAST_WORDS_BYTES_MAX: usize = 4096;

/// Words of a plugin, or of a library about one, as a message may hold them: one line, in which nothing acts.
pub(crate) fn quoted(text: &str) -> String {
    one_line(text, QUOTED_BYTES_MAX)
}

/// The same where the last words count most: a traceback ends with what was raised.
pub(crate) fn quoted_with_its_end(text: &str) -> String {
    one_line_of_both_ends(text, QUOTED_BYTES_MAX)
}

const QUOTED_BYTES_MAX: usize = 4096;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Error,
    Warn,
    Info,
    Debug,
    Stdout,
    Stderr,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        })
    }
}

/// One instance's log; clones share it.
#[derive(Clone)]
pub(crate) struct PluginLog(Arc<Mutex<Inner>>);

struct Inner {
    plugin: String,
    with_text: bool,
    lines: u32,
    last_words: VecDeque<u8>,
}

impl PluginLog {
    pub(crate) fn new(plugin: &str, with_text: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            plugin: plugin.to_owned(),
            with_text,
            lines: 0,
            last_words: VecDeque::new(),
        })))
    }

    /// Forgets the last call.
    pub(crate) fn begin_call(&self) {
        let mut inner = self.lock();
        inner.lines = 0;
        inner.last_words.clear();
    }

    /// Takes a line from `log`, or a piece written to standard output or standard error.
    pub(crate) fn line(&self, source: Source, text: &str) {
        let mut inner = self.lock();
        if matches!(source, Source::Error | Source::Stdout | Source::Stderr) {
            inner.remember(text.as_bytes(), source == Source::Error);
        }
        inner.lines = inner.lines.saturating_add(1);
        if inner.lines <= LINES_PER_CALL_MAX {
            emit(&inner.plugin, inner.with_text, source, text);
        } else if inner.lines == LINES_PER_CALL_MAX + 1 {
            tracing::warn!(
                target: "plugin",
                plugin = inner.plugin,
                lines_max = LINES_PER_CALL_MAX,
                "plugin says more than it may in one call: dropping the rest"
            );
        }
    }

    /// What the guest said last in this call: its error lines, standard output and standard error.
    pub(crate) fn last_words(&self) -> String {
        let inner = self.lock();
        let (front, back) = inner.last_words.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).trim().to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remember(&mut self, bytes: &[u8], whole_line: bool) {
        let tail = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES_MAX)..];
        self.last_words.extend(tail);
        if whole_line {
            self.last_words.push_back(b'\n');
        }
        let excess = self.last_words.len().saturating_sub(LAST_WORDS_BYTES_MAX);
        self.last_words.drain(..excess);
    }
}

fn emit(plugin: &str, with_text: bool, source: Source, text: &str) {
    let said = with_text.then(|| one_line(text, LINE_BYTES_MAX));
    // The macros take their level as a constant.
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(target: "plugin", plugin, %source, bytes = text.len(), said, "plugin wrote a line")
        };
    }
    match source {
        Source::Error => event!(error),
        Source::Warn => event!(warn),
        Source::Info | Source::Stdout | Source::Stderr => event!(info),
        Source::Debug => event!(debug),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_a_guest_writes_stays_bounded_and_in_one_line(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..3000)), 0..6),
        ) {
            let log = PluginLog::new("p", true);
            for (whole_line, bytes) in &pieces {
                let text = String::from_utf8_lossy(bytes);
                log.line(if *whole_line { Source::Error } else { Source::Stderr }, &text);
                let shown = one_line(&text, LINE_BYTES_MAX);
                prop_assert!(shown.len() <= LINE_BYTES_MAX && !shown.contains(char::is_control), "{:?}", shown);
            }
            // Where the front was cut inside a character, it became one of three bytes.
            prop_assert!(log.last_words().len() <= LAST_WORDS_BYTES_MAX + 3 * 3);
            if let Some((_, last)) = pieces.last() {
                let last = String::from_utf8_lossy(last).trim().to_owned();
                let end = last.chars().next_back();
                prop_assert!(end.is_none() || log.last_words().ends_with(end.unwrap()), "{:?}", last);
            }
        }
    }

    #[test]
    fn last_words_are_the_last_and_bounded() {
        let log = PluginLog::new("p", false);
        log.line(Source::Info, "not an error");
        log.line(Source::Error, "first");
        log.line(Source::Stderr, "second\n");
        assert_eq!(log.last_words(), "first\nsecond");
        log.line(Source::Stderr, &"x".repeat(10_000));
        assert_eq!(log.last_words(), "x".repeat(LAST_WORDS_BYTES_MAX));
        log.begin_call();
        assert_eq!(log.last_words(), "");
    }
}
