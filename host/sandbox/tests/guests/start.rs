//! Guests written by hand, for what no compiler makes: a start function that loops, and an answer that names the same
//! bytes many times over.

use std::path::Path;

use keyvector_sandbox::{Limits, Role, TablePlugin, plugin_api_version};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::{engine, hasty};

/// A core module that exports the table role.
pub(crate) fn table_module(describe: &str, start: &str) -> Vec<u8> {
    table_module_of(32, describe, start)
}

/// The same with a memory of `pages` at the beginning.
pub(crate) fn table_module_of(pages: u32, describe: &str, start: &str) -> Vec<u8> {
    let interface = format!("keyvector:plugin/table@{}", plugin_api_version());
    let text = format!(
        r#"(module
            (memory (export "memory") {pages})
            {start}
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1048576)
            (func (export "{interface}#describe") (param i32 i32) (result i32) {describe})
            (func (export "{interface}#open") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "{interface}#render") (param i32 i32 i32) (result i32) unreachable))"#
    );
    let mut module = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/draft"));
    let (package, _) = resolve.push_dir(folder).unwrap();
    let world = resolve.select_world(&[package], Some("table-plugin")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

#[test]
fn loop_in_start() {
    let module = table_module("unreachable", "(func $start (loop $again (br $again))) (start $start)");
    let plugin = engine(hasty()).load("start.wasm", &module).unwrap();
    assert_eq!(plugin.roles(), [Role::Table]);
    let error = TablePlugin::describe(&plugin, "{}").unwrap_err();
    assert_eq!(error.to_string(), "start.wasm is broken: cannot be opened: ran for more than 240 ms");
}

#[test]
fn ten_thousand_names_of_the_same_mebibyte() {
    // ok({ reads: 10,000 times (0, 1 MiB), metadata: [] }), the list at 1.5 MiB, the result at 1 MiB.
    let describe = r"
        (local $at i32)
        (local.set $at (i32.const 1572864))
        (loop $again
            (i32.store (local.get $at) (i32.const 0))
            (i32.store offset=4 (local.get $at) (i32.const 1048576))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $again (i32.lt_u (local.get $at) (i32.const 1652864))))
        (i32.store (i32.const 1048576) (i32.const 0))
        (i32.store (i32.const 1048580) (i32.const 1572864))
        (i32.store (i32.const 1048584) (i32.const 10000))
        (i32.store (i32.const 1048588) (i32.const 0))
        (i32.store (i32.const 1048592) (i32.const 0))
        (i32.const 1048576)";
    let plugin = engine(Limits::default()).load("names.wasm", &table_module(describe, "")).unwrap();
    let error = TablePlugin::describe(&plugin, "{}").unwrap_err();
    assert!(error.to_string().contains("answered more than 1048576 bytes"), "{error}");
}
