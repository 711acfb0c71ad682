//! Generated bindings, one module per version of the WIT package. Only the newest touches the rest of the crate.

pub(crate) mod draft;
