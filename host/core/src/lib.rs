//! The pure part of keyvector-host: no I/O, no clock, no threads, no randomness.
//!
//! A change travels through these types, in this order:
//!
//! | type | module | is |
//! |---|---|---|
//! | [`Record`](record::Record) | `record` | one line or one stream record, read against the table's schema |
//! | [`Change`](change::Change) | `change` | one change of one row: before, after, origin, sequence number |
//! | [`NetChange`](collapse::NetChange) | `collapse` | all changes of one row in a batch, folded into one |
//! | [`Document`](document::Document) | `document` | what the table plugin makes of a row: text and metadata |
//! | [`Action`](plan::Action) | `plan` | what the index needs for that row |
//! | [`Vector`](index::Vector) | `index` | what is written to the index, with its fingerprint |
//! | [`Checkpoint`](lease::Checkpoint) | `lease` | how far one shard's changes are in the index |
//!
//! [`port`] holds the few traits behind which a service or the embedded store stands.

pub mod change;
pub mod collapse;
pub mod document;
pub mod filter;
pub mod fingerprint;
pub mod index;
pub mod key;
pub mod lease;
pub mod letter;
pub mod plan;
pub mod poison;
pub mod port;
pub mod record;
pub mod row;
pub mod schema;
pub mod text;
