//! What the suites share: random changes of an invented table, and a reference fold of them.
//!
//! The fold is the oracle: it reads the records as plain JSON and depends on none of the host's crates, so that it can
//! disagree with them.

pub mod changes;
pub mod faulty;
pub mod fold;
pub mod line;
