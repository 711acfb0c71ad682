//! The host: everything that touches the world. ARCHITECTURE.md is the map; [`worker`] is the line.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod counters;
pub mod drift;
pub mod embed;
pub mod exit;
pub mod lease_keeper;
pub mod progress;
pub mod query;
pub mod reload;
pub mod render;
pub mod rerender;
pub mod shipped;
pub mod source;
pub mod state;
pub mod table;
pub mod take_over;
pub mod telemetry;
pub mod vector;
pub mod verbs;
pub mod verified;
pub mod worker;
