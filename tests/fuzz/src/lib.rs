//! Fuzz targets: functions that take any bytes and panic where a promise is broken, not only where code panics.
//!
//! Two engines run them. `tests/fuzz` mutates samples at random, on every machine and in every test run;
//! `coverage/`, a workspace of its own, looks for new paths with libFuzzer: `cargo xtask fuzz --coverage`. An input that
//! once failed lies in `regressions/`, and is run first for ever.
//!
//! The targets here need the pure crates only. Those of the configuration, the file source and the plugin boundary are
//! in `tests/fuzz`, since an instrumented build of those would take in all of wasmtime.

pub mod cql;
pub mod filter;
pub mod input;
pub mod key;
pub mod metadata;
pub mod record;
pub mod schema;
pub mod stored;
pub mod value;

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// What is put into inputs now and then: words of the language that the target reads.
    pub words: &'static [&'static str],
}

/// The targets of the pure crates.
pub const TARGETS: [Target; 13] = [
    cql::TYPES,
    cql::VALUES,
    cql::TEXTS,
    key::KEYS,
    key::TEXTS,
    record::RECORDS,
    record::FILMS,
    filter::FILTERS,
    metadata::METADATA,
    schema::SCHEMAS,
    stored::ROWS,
    stored::FINGERPRINTS,
    stored::REASONS,
];
