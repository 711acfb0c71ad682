//! Write keyvector-host plugins in Rust.
//!
//! A plugin is a WebAssembly component that computes and does nothing else: no files, sockets, clock, random numbers or
//! environment. There are three roles, each a trait and an export macro:
//!
//! | role | trait | macro | does |
//! |---|---|---|---|
//! | table | [`Table`] | [`export_table!`] | turns one table's rows into texts and metadata |
//! | local model | [`LocalModel`] | [`export_local_model!`] | turns texts into vectors by itself |
//! | remote model | [`RemoteModel`] | [`export_remote_model!`] | speaks the protocol of a model behind HTTP |
//!
//! # A table plugin from nothing
//! `Cargo.toml`:
//! ```toml
//! [package]
//! name = "books"
//! version = "0.1.0"
//! edition = "2024"
//!
//! [lib]
//! crate-type = ["cdylib", "rlib"]   # cdylib: the plugin; rlib: its tests
//!
//! [dependencies]
//! keyvector-sdk = { path = "…/keyvector-host/sdk" }
//! serde = { version = "1", features = ["derive"] }
//!
//! [profile.release]
//! lto = true
//! panic = "abort"
//! strip = true
//! ```
//! `src/lib.rs`, whole, with a test that needs no host:
//! ```
//! use keyvector_sdk::{Column, Columns, Document, Integer, Metadata, MetadataKey, MetadataType, Row, Table, Text};
//!
//! struct Books {
//!     title: Column<Text>,
//!     blurb: Column<Text>,
//!     pages: Column<Integer>,
//!     with_blurb_only: bool,
//! }
//!
//! /// `{"with_blurb_only": true}`
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config {
//!     #[serde(default)]
//!     with_blurb_only: bool,
//! }
//!
//! impl Table for Books {
//!     type Config = Config;
//!     const READS: &'static [&'static str] = &["title", "blurb", "pages"];
//!
//!     fn metadata(_: &Config) -> Vec<MetadataKey> {
//!         vec![
//!             MetadataKey::new("title", MetadataType::Text).not_filterable(),
//!             MetadataKey::new("pages", MetadataType::Number),
//!         ]
//!     }
//!
//!     fn open(config: Config, columns: &Columns) -> Result<Self, String> {
//!         Ok(Self {
//!             title: columns.column("title")?, // refuses a table whose `title` is no text
//!             blurb: columns.column("blurb")?,
//!             pages: columns.column("pages")?,
//!             with_blurb_only: config.with_blurb_only,
//!         })
//!     }
//!
//!     fn document(&self, row: &Row) -> Result<Option<Document>, String> {
//!         let title = row.get(&self.title)?;
//!         let blurb = row.get(&self.blurb)?;
//!         let pages = row.get(&self.pages)?;
//!         if self.with_blurb_only && blurb.is_none() {
//!             return Ok(None); // filtered out: no vector
//!         }
//!         if let Some(pages) = pages.filter(|&pages| pages < 0) {
//!             return Err(format!("column `pages` is {pages}")); // this row becomes a dead letter
//!         }
//!         let text = format!("{}\n{}", title.unwrap_or_default(), blurb.unwrap_or_default());
//!         let metadata = Metadata::new().text("title", title).integer("pages", pages); // None is left out
//!         Ok(Some(Document { text, metadata }))
//!     }
//! }
//!
//! keyvector_sdk::export_table!(Books);
//!
//! # fn main() {
//! // in #[test] fn books() { … }
//! use keyvector_sdk::testing::{Rendered, test};
//! test::<Books>(
//!     r#"{"with_blurb_only": true}"#,
//!     &[("title", "text"), ("blurb", "text"), ("pages", "int")],
//!     &[
//!         (
//!             &[("title", "Salt"), ("blurb", "A ship is late."), ("pages", "212")],
//!             Rendered::document("Salt\nA ship is late.", r#"{"title":"Salt","pages":212}"#),
//!         ),
//!         (&[("title", "Rope")], Rendered::Skipped),
//!         (&[("blurb", "x"), ("pages", "-1")], Rendered::failed("column `pages` is -1")),
//!     ],
//! );
//! # }
//! ```
//! Build and look:
//! ```text
//! rustup target add wasm32-unknown-unknown
//! cargo test && cargo build --release --target wasm32-unknown-unknown
//! keyvector-host plugin inspect target/wasm32-unknown-unknown/release/books.wasm
//! keyvector-host --plugin target/wasm32-unknown-unknown/release/books.wasm --source books.jsonl
//! ```
//!
//! # Cells
//! [`Columns::column`] resolves a column once and checks its type; [`Row::get`] decodes a cell when asked. What it is
//! read as stands in the type: [`Text`], [`Integer`], [`Number`], [`Boolean`], [`Timestamp`] (milliseconds since
//! 1970), [`Uuid`], [`Blob`], [`TextList`] and [`NumberList`] for collections of scalars, [`Canonical`] for the one text
//! that the host has for each value of any type, and [`Value`] for maps, tuples and user-defined types, as [`CqlValue`].
//! Null, absent and empty collections read as `None`.
//!
//! # Rules
//! - A document depends on the row and the configuration only. Instances are reused, replaced and run side by side. The
//!   host renders samples twice and reports a plugin that contradicts itself (iterating a `HashMap` will do that).
//! - Read few columns: a change in a column that is not read costs nothing.
//! - A bad row is an `Err` with a reason that names column and value. A panic ends the instance: its message goes to the
//!   host's log, and the host tries again in smaller batches until the row is found. That is slow, so prefer `Err`.
//! - Limits: 64 MiB of memory (128 for a component over 4 MiB), 250 ms + 5 ms a row, output 8 × input + 64 KiB a row.
//! - Metadata: 47 keys at most, 9 of them not filterable; the filterable ones of a row share 2 KB. Names beginning with
//!   `_` are the host's. Whole numbers beyond 2^53 are given as text.
//! - Changing what a plugin says of rows is a new revision of the table: raise `revision` in the configuration.
//!
//! # Models
//! A model names itself by [`ModelInfo::identity`]: all that changes a vector belongs into it. Where a text has no
//! vector, give NaNs in its place. A remote model never sees address or credentials; [`failure_from_status`] says what a
//! refusal means, and [`FloatArray`] reads vectors fast.
//! ```
//! use keyvector_sdk::{Embeddings, Limits, LocalModel, Metric, ModelInfo, Purpose, Texts};
//!
//! /// Two numbers: characters and words. Not a good model.
//! struct Lengths;
//!
//! #[derive(serde::Deserialize)]
//! struct NoConfig {}
//!
//! impl LocalModel for Lengths {
//!     type Config = NoConfig;
//!
//!     fn open(_: NoConfig) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//!
//!     fn info(&self) -> ModelInfo {
//!         ModelInfo {
//!             identity: "lengths 1 dimension=2 prompts=none".to_owned(),
//!             dimension: Some(2),
//!             metric: Metric::Euclidean,
//!             limits: Limits {
//!                 texts_per_request: 256,
//!                 bytes_per_request: None,
//!                 tokens_per_request: None,
//!                 tokens_per_text: None,
//!                 characters_per_text: None,
//!             },
//!         }
//!     }
//!
//!     fn embed(&self, texts: Texts, _: Purpose) -> Embeddings {
//!         let lengths = |text: &str| [text.chars().count() as f32, text.split_whitespace().count() as f32];
//!         Embeddings { vectors: texts.iter().flat_map(lengths).collect(), tokens: None }
//!     }
//! }
//!
//! keyvector_sdk::export_local_model!(Lengths);
//! # fn main() {}
//! ```

#![warn(missing_docs)]

#[doc(hidden)]
pub mod bindings;
mod cells;
mod config;
mod failure;
mod floats;
pub mod log;
mod metadata;
mod model;
mod table;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use keyvector_cql::{CqlType, CqlValue};

pub use cells::{
    Blob, Boolean, Canonical, Column, ColumnInfo, ColumnKind, Columns, Integer, Kind, Number, NumberList,
    Row, Text, TextList, Timestamp, Uuid, Value,
};
pub use failure::failure_from_status;
pub use floats::{FloatArray, read_floats};
pub use metadata::{INTEGER_MAX, KEYS_MAX, KEYS_NON_FILTERABLE_MAX, Metadata, MetadataKey, MetadataType};
pub use model::{
    Embeddings, Failure, FailureKind, Header, Limits, LocalModel, Metric, ModelInfo, Purpose, RemoteModel,
    Response, Route, Routes, Texts,
};
pub use table::{Document, Table};

/// What the export macros call; no part of the SDK's interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::model::{describe_remote, open_local, open_remote};
    pub use crate::table::{Opened, describe, open, render};
}

/// Makes a [`Table`] the plugin that this crate builds. Outside WebAssembly it only checks the type.
#[macro_export]
macro_rules! export_table {
    ($table:ty) => {
        const _: fn() = || {
            fn is_a_table<T: $crate::Table>() {}
            is_a_table::<$table>();
        };
        #[cfg(target_arch = "wasm32")]
        mod keyvector_export {
            use super::*;
            use $crate::bindings::table::exports::keyvector::plugin::table as wit;

            ::std::thread_local! {
                static OPENED: ::std::cell::RefCell<::std::option::Option<$crate::__private::Opened<$table>>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }
            struct Exported;
            impl wit::Guest for Exported {
                fn describe(config: ::std::string::String) -> ::std::result::Result<wit::TableInfo, ::std::string::String> {
                    $crate::__private::describe::<$table>(&config)
                }
                fn open(
                    config: ::std::string::String,
                    columns: ::std::vec::Vec<wit::Column>,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    let opened = $crate::__private::open::<$table>(&config, columns)?;
                    OPENED.set(::std::option::Option::Some(opened));
                    ::std::result::Result::Ok(())
                }
                fn render(rows: u32, cells: ::std::vec::Vec<u8>) -> wit::Documents {
                    OPENED.with_borrow(|opened| match opened {
                        ::std::option::Option::Some(opened) => $crate::__private::render(opened, rows, &cells),
                        ::std::option::Option::None => ::std::panic!("the host called render before open"),
                    })
                }
            }
            $crate::bindings::table::export_table_world!(Exported with_types_in $crate::bindings::table);
        }
    };
}

/// Makes a [`LocalModel`] the plugin that this crate builds. Outside WebAssembly it only checks the type.
#[macro_export]
macro_rules! export_local_model {
    ($model:ty) => {
        const _: fn() = || {
            fn is_a_local_model<M: $crate::LocalModel>() {}
            is_a_local_model::<$model>();
        };
        #[cfg(target_arch = "wasm32")]
        mod keyvector_export {
            use super::*;
            use $crate::bindings::local_model::exports::keyvector::plugin::local_model as wit;

            ::std::thread_local! {
                static OPENED: ::std::cell::RefCell<::std::option::Option<$model>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }
            struct Exported;
            impl wit::Guest for Exported {
                fn open(config: ::std::string::String) -> ::std::result::Result<wit::ModelInfo, ::std::string::String> {
                    let (model, info) = $crate::__private::open_local::<$model>(&config)?;
                    OPENED.set(::std::option::Option::Some(model));
                    ::std::result::Result::Ok(info)
                }
                fn embed(texts: wit::Packed, purpose: wit::Purpose) -> wit::Embeddings {
                    OPENED.with_borrow(|opened| match opened {
                        ::std::option::Option::Some(model) => {
                            $crate::LocalModel::embed(model, $crate::Texts::new(&texts), purpose)
                        }
                        ::std::option::Option::None => ::std::panic!("the host called embed before open"),
                    })
                }
            }
            $crate::bindings::local_model::export_local_model_world!(Exported with_types_in $crate::bindings::local_model);
        }
    };
}

/// Makes a [`RemoteModel`] the plugin that this crate builds. Outside WebAssembly it only checks the type.
#[macro_export]
macro_rules! export_remote_model {
    ($model:ty) => {
        const _: fn() = || {
            fn is_a_remote_model<M: $crate::RemoteModel>() {}
            is_a_remote_model::<$model>();
        };
        #[cfg(target_arch = "wasm32")]
        mod keyvector_export {
            use super::*;
            use $crate::bindings::remote_model::exports::keyvector::plugin::remote_model as wit;

            ::std::thread_local! {
                static OPENED: ::std::cell::RefCell<::std::option::Option<$model>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }
            fn opened<R>(call: impl ::std::ops::FnOnce(&$model) -> R) -> R {
                OPENED.with_borrow(|opened| match opened {
                    ::std::option::Option::Some(model) => call(model),
                    ::std::option::Option::None => ::std::panic!("the host called encode or decode before open"),
                })
            }
            struct Exported;
            impl wit::Guest for Exported {
                fn describe(config: ::std::string::String) -> ::std::result::Result<wit::Routes, ::std::string::String> {
                    $crate::__private::describe_remote::<$model>(&config)
                }
                fn open(
                    config: ::std::string::String,
                    info: ::std::option::Option<wit::Response>,
                ) -> ::std::result::Result<wit::ModelInfo, ::std::string::String> {
                    let (model, info) = $crate::__private::open_remote::<$model>(&config, info)?;
                    OPENED.set(::std::option::Option::Some(model));
                    ::std::result::Result::Ok(info)
                }
                fn encode(texts: wit::Packed, purpose: wit::Purpose, cut: bool) -> ::std::vec::Vec<u8> {
                    opened(|model| $crate::RemoteModel::encode(model, $crate::Texts::new(&texts), purpose, cut))
                }
                fn decode(count: u32, response: wit::Response) -> ::std::result::Result<wit::Embeddings, wit::Failure> {
                    opened(|model| $crate::RemoteModel::decode(model, count as usize, &response))
                }
            }
            $crate::bindings::remote_model::export_remote_model_world!(Exported with_types_in $crate::bindings::remote_model);
        }
    };
}
