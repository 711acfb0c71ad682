//! Files that are no plugin of this host, of every kind: none is run, and each is refused in one line that says why.

use std::time::{Duration, Instant};

use keyvector_sandbox::{Limits, LocalModel, OpenError, RemoteModel, TablePlugin, plugin_api_version};

use crate::start::{table_module, table_module_of};
use crate::{built_plugin, engine, hasty};

/// A kind of file, its bytes, and words of the refusal.
struct Case {
    kind: &'static str,
    bytes: Vec<u8>,
    says: Vec<String>,
}

fn case(kind: &'static str, bytes: impl Into<Vec<u8>>, says: &[&str]) -> Case {
    Case { kind, bytes: bytes.into(), says: says.iter().map(|&part| part.to_owned()).collect() }
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {text})")).unwrap()
}

/// A component that exports our `table` of this version, empty.
fn table(more: &str) -> Vec<u8> {
    let version = plugin_api_version();
    component(&format!(r#"{more} (instance $t) (export "keyvector:plugin/table@{version}" (instance $t))"#))
}

fn cases() -> Vec<Case> {
    let host = plugin_api_version().to_string();
    let exports = |name: &str| component(&format!(r#"(instance $t) (export "{name}" (instance $t))"#));
    let imports = |name: &str| table(&format!(r#"(import "{name}" (instance))"#));
    let module = wat::parse_str("(module)").unwrap();
    // What `wasmtime compile` makes: it would be run without a check if it were taken.
    let compiled = wasmtime::Engine::default().precompile_component(&component("")).unwrap();
    let mut with_magic = b"\0asm".to_vec();
    with_magic.extend_from_slice(&compiled);
    let secrets = format!("keyvector:plugin/secrets@{host}");
    vec![
        case("empty", "", &["is empty"]),
        case("text", "(component)", &["is not WebAssembly"]),
        case("a script", "#!/bin/sh\n", &["is not WebAssembly"]),
        case("a .cwasm", compiled, &["compiled code (.cwasm)", "never accepted"]),
        case("a .cwasm behind four bytes", with_magic, &["cut off or damaged at byte 4"]),
        case("the magic alone", "\0asm", &["cut off or damaged at byte 4"]),
        case("a version of the future", "\0asm\x7f\0\0\0", &["cut off or damaged at byte 4"]),
        case("a core module", module, &["core module without component types"]),
        case(
            "a newer boundary",
            exports("keyvector:plugin/table@0.3.0"),
            &["speaks keyvector:plugin 0.3.0", &host, "upgrade the host"],
        ),
        case(
            "a newer draft",
            exports("keyvector:plugin/table@0.1.0-draft.99"),
            &["0.1.0-draft.99", &host, "upgrade the host"],
        ),
        case(
            "an older boundary",
            exports("keyvector:plugin/table@0.0.9"),
            &["0.0.9", &host, "build the plugin against"],
        ),
        case(
            "an older draft",
            exports("keyvector:plugin/table@0.1.0-draft.0"),
            &["0.1.0-draft.0", &host, "build the plugin against"],
        ),
        case(
            "two boundaries",
            table(r#"(import "keyvector:plugin/log@0.3.0" (instance))"#),
            &["0.3.0", &host],
        ),
        case("something else of ours", imports(&secrets), &["imports keyvector:plugin/secrets"]),
        case(
            "something of others",
            imports("acme:db/query@1.0.0"),
            &["imports acme:db/query@1.0.0, which no plugin gets"],
        ),
        case(
            "HTTP",
            imports("wasi:http/outgoing-handler@0.2.0"),
            &["imports wasi:http/outgoing-handler@0.2.0"],
        ),
        case(
            "a later WASI",
            imports("wasi:clocks/wall-clock@0.3.0"),
            &["imports wasi:clocks/wall-clock@0.3.0"],
        ),
        case("a bare function", table(r#"(import "secrets" (func))"#), &["imports secrets"]),
        case(
            "unknown in WASI",
            table(r#"(import "wasi:clocks/sundial@0.2.0" (instance (export "shadow" (func))))"#),
            &["does not fit this host", "sundial"],
        ),
        case("no role", component(""), &["is no plugin: it exports none of"]),
        case("another's role", exports("acme:db/query@1.0.0"), &["is no plugin: it exports none of"]),
    ]
}

#[test]
fn each_kind_of_file_is_refused_with_its_reason() {
    let host = engine(Limits::default());
    for Case { kind, bytes, says } in cases() {
        // The name of a file means nothing.
        for name in ["p.wasm", "p.cwasm", "p"] {
            match host.load(name, &bytes) {
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.starts_with(&format!("{name} ")), "{kind}: {error}");
                    assert!(
                        !error.contains(keyvector_core::text::acts) && error.len() < 600,
                        "{kind}: {error}"
                    );
                    for part in &says {
                        assert!(error.contains(part), "{kind}: {part:?} is not in {error}");
                    }
                }
                Ok(_) => panic!("{kind} was accepted as {name}"),
            }
        }
    }
}

#[test]
fn a_rude_import_is_named_politely() {
    // A kebab name that a file may hold although no compiler writes it: the bytes of `secrets` overwritten.
    let mut bytes = table(r#"(import "secrets" (func))"#);
    let at = bytes.windows(7).position(|window| window == b"secrets").unwrap();
    bytes[at..at + 7].copy_from_slice(b"a\x1b[2J\n.");
    let error = engine(Limits::default()).load("p.wasm", &bytes).unwrap_err().to_string();
    assert!(!error.contains(keyvector_core::text::acts), "{error:?}");
    assert!(error.contains("\\u{1b}[2J"), "{error}");
}

#[test]
fn a_plugin_of_another_role_is_refused() {
    let host = engine(Limits::default());
    let load = |name: &str| host.load(name, &built_plugin(name)).unwrap();
    let movies = load("movies.wasm");
    let error = LocalModel::open(&movies, "{}").err().unwrap();
    assert_eq!(error.to_string(), "movies.wasm is no local-model plugin: it is table");
    let error = RemoteModel::describe(&movies, "{}").unwrap_err();
    assert_eq!(error.to_string(), "movies.wasm is no remote-model plugin: it is table");
    let fake = load("fake.wasm");
    let error = TablePlugin::describe(&fake, "{}").unwrap_err();
    assert_eq!(error.to_string(), "fake.wasm is no table plugin: it is local-model");
}

/// Cut anywhere, a file is refused; none is half run.
#[test]
fn a_file_that_was_cut_off_is_refused() {
    let host = engine(Limits::default());
    let module = built_plugin("wasi-caller.wasm");
    let made = wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap();
    for whole in [&module, &made] {
        assert!(host.load("p.wasm", whole).is_ok());
        let lengths =
            (0..64).chain((64..whole.len()).step_by(whole.len() / 100)).chain(whole.len() - 8..whole.len());
        let mut refused = 0;
        for length in lengths {
            // A core module whose last section is a custom one may lose it and still be whole.
            match host.load("p.wasm", &whole[..length]) {
                Ok(plugin) => assert_ne!(plugin.size_bytes(), whole.len()),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 160, "{refused}");
    }
}

#[test]
fn memory_that_is_taken_before_the_first_call_is_bounded() {
    let grows = "(func $grow (drop (memory.grow (i32.const 2000)))) (start $grow)";
    // 1100 pages are 68.75 MiB; the last byte is a data segment.
    let is_large = "(data (i32.const 72089599) \"x\")";
    for module in [table_module("unreachable", grows), table_module_of(1100, "unreachable", is_large)] {
        let plugin = engine(hasty()).load("p.wasm", &module).unwrap();
        let error = TablePlugin::describe(&plugin, "{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.wasm is broken: cannot be opened: asked for more than 67108864 bytes of memory"
        );
    }
}

#[test]
fn a_component_of_ten_thousand_parts_is_bounded() {
    let host = engine(Limits::default());
    let exports: String =
        (0..10_000).map(|n| format!(r#"(export "acme:many/part-a{n}@1.0.0" (instance $t))"#)).collect();
    let refused = host.load("p.wasm", &component(&format!("(instance $t) {exports}"))).unwrap_err();
    assert!(refused.to_string().contains("is no plugin"), "{refused}");
    let refused =
        host.load("p.wasm", &table(&exports.replace("$t", "$u").replacen("(", "(instance $u) (", 1)));
    assert!(refused.unwrap_err().to_string().contains("exceeds limit of 1000"));

    // A component has at most 1,000 parts, but so may each of its parts.
    for (module, count, what) in [("", 500, "instance count"), ("(memory 0)", 20, "memory count")] {
        let started = Instant::now();
        let parts = "(core instance (instantiate $m))".repeat(count);
        let parts = component(&format!("(core module $m {module}) {parts}"));
        let plugin = host.load("p.wasm", &with_parts(&parts, 20)).unwrap();
        let error = TablePlugin::describe(&plugin, "{}").unwrap_err();
        assert!(matches!(error, OpenError::Broken(_)), "{error}");
        assert!(error.to_string().contains(what), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}

/// A whole plugin that also makes `count` instances of the component `parts`.
fn with_parts(parts: &[u8], count: u8) -> Vec<u8> {
    let mut bytes = wit_component::ComponentEncoder::default()
        .module(&table_module("unreachable", ""))
        .unwrap()
        .encode()
        .unwrap();
    let components = wasmparser::Parser::new(0)
        .parse_all(&bytes)
        .filter(|payload| matches!(payload, Ok(wasmparser::Payload::ComponentSection { .. })))
        .count();
    let instance = [0, u8::try_from(components).unwrap(), 0];
    push_section(&mut bytes, 4, parts);
    push_section(&mut bytes, 5, &[&[count], instance.repeat(count.into()).as_slice()].concat());
    bytes
}

fn push_section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
}
