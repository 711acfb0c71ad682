//! What the suites share: random changes of an invented table, and a reference fold of them.
//!
//! The fold is the oracle: it reads the records as plain JSON and depends on none of the host's crates, so that it can
//! disagree with them.

#![allow(clippy::unwrap_used, reason = "what only tests use may panic: that is a failed test")]

pub mod changes;
pub mod fold;
pub mod line;
