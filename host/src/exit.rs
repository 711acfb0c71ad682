//! How the process ends: an exit code, and one or two lines that say what failed and what to do next.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use keyvector_core::port;
use keyvector_core::text::push_escaped;

/// Exit codes. 0 is also done, 2 is wrong usage (clap's), the rest are here; `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No failure: a later revision has the table, and this host has nothing to do.
    Superseded = 0,
    /// Anything without a code of its own.
    Failed = 1,
    /// Dead letters are left.
    LettersLeft = 3,
    /// The configuration is wrong or does not fit what is stored.
    BadConfig = 64,
    /// An endpoint, a file or a store cannot be reached.
    Unreachable = 69,
    /// The plugin is broken.
    PluginBroken = 75,
}

impl Code {
    /// Of an error behind a port: what may pass cannot be reached now.
    pub fn of(error: &port::Error) -> Self {
        match error {
            port::Error::Transient { .. } => Self::Unreachable,
            port::Error::Rejected(_) | port::Error::Fatal(_) => Self::Failed,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error for the terminal: what failed on what, the exit code, and the next step if there is one.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    /// A command or an edit that helps.
    pub next: Option<String>,
}

impl Failure {
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), next: None }
    }

    pub fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Gives an error its exit code.
pub trait WithCode<T> {
    fn code(self, code: Code) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> WithCode<T> for Result<T, E> {
    fn code(self, code: Code) -> Result<T, Failure> {
        // `{:#}` is an anyhow error with all its causes in one line.
        self.map_err(|error| Failure::new(code, format!("{error:#}")))
    }
}

/// Writes a message for people to standard error. Nobody can be told that it cannot be written, and the work goes on all
/// the same.
pub fn tell(message: fmt::Arguments<'_>) {
    io::stderr().lock().write_fmt(message).ok();
}

/// A line for people on standard error, where `eprintln!` would end the process if standard error is full or closed.
macro_rules! say {
    ($($message:tt)*) => {
        $crate::exit::tell(format_args!("{}\n", format_args!($($message)*)))
    };
}
pub(crate) use say;

/// Prints an error for people on standard error and gives the exit code: that of the [`Failure`] in its chain, else 1.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let (text, code) = describe(error);
    say!("{text}");
    code.into()
}

fn describe(error: &anyhow::Error) -> (String, Code) {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let code = failure.map_or(Code::Failed, |failure| failure.code);
    let mut text = one_line(&format!("{error:#}"));
    if code != Code::Superseded {
        text.insert_str(0, "error: ");
    }
    if let Some(next) = failure.and_then(|failure| failure.next.as_deref()) {
        text.push_str("\nnext:  ");
        text.push_str(&one_line(next));
    }
    (text, code)
}

/// An error is one line, whatever a library or a plugin put into it, and cannot steer the terminal.
pub(crate) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut out = String::with_capacity(text.len());
    for (index, line) in lines.enumerate() {
        out.push_str(if index > 0 { "; " } else { "" });
        line.chars().for_each(|character| push_escaped(&mut out, character));
    }
    if out.len() > MESSAGE_BYTES_MAX {
        out.truncate(out.floor_char_boundary(MESSAGE_BYTES_MAX));
        out.push('…');
    }
    out
}

/// A plugin can put a mebibyte into a name.
const MESSAGE_BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_its_code_and_next_step_under_context() {
        let failure = Failure::new(Code::PluginBroken, "movies.wasm traps")
            .next("keyvector-host plugin inspect movies.wasm");
        let error = anyhow::Error::new(failure).context("start the table films");
        let (text, code) = describe(&error);
        assert_eq!(code, Code::PluginBroken);
        assert_eq!(
            text,
            "error: start the table films: movies.wasm traps\nnext:  keyvector-host plugin inspect movies.wasm"
        );
    }

    #[test]
    fn other_errors_are_1_and_one_line() {
        let (text, code) = describe(&anyhow::anyhow!("first\n  second\u{1b}[31m\n"));
        assert_eq!((text.as_str(), code), ("error: first; second\\u{1b}[31m", Code::Failed));
    }
}
