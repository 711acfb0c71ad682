//! Every fuzz target on random inputs, bounded in time: part of every test run. `cargo xtask fuzz` runs it longer.
//!
//! | variable | is |
//! |---|---|
//! | `KEYVECTOR_FUZZ_SECONDS` | seconds a target, 2 unless told |
//! | `KEYVECTOR_FUZZ_SEED` | the seed of the random inputs, 1 unless told: the same seed gives the same inputs |

mod component;
mod config;
mod engine;
mod lines;
mod mutate;
mod render;

use keyvector_fuzz::{TARGETS, Target, cql, filter, key, metadata, record, schema, stored};

/// Makes a test of each target.
macro_rules! tests_of_targets {
    ($($test:ident $target:expr;)*) => {
        $(
            #[test]
            fn $test() {
                engine::fuzz(&$target);
            }
        )*

        const TESTED: &[Target] = &[$($target),*];
    };
}

tests_of_targets! {
    cql_type cql::TYPES;
    cql_value cql::VALUES;
    cql_text cql::TEXTS;
    key key::KEYS;
    key_text key::TEXTS;
    record record::RECORDS;
    record_film record::FILMS;
    filter filter::FILTERS;
    metadata metadata::METADATA;
    schema schema::SCHEMAS;
    stored_row stored::ROWS;
    fingerprint stored::FINGERPRINTS;
    reason stored::REASONS;
    config config::CONFIGS;
    init config::ANSWERS;
    lines lines::LINES;
    position lines::POSITIONS;
    render render::DOCUMENTS;
    component component::COMPONENTS;
}

#[test]
fn every_target_has_a_test() {
    for target in TARGETS {
        assert!(TESTED.iter().any(|tested| tested.name == target.name), "{} has no test", target.name);
    }
    let names: std::collections::BTreeSet<_> = TESTED.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TESTED.len(), "two targets have one name");
}
