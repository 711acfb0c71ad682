//! Plugin files: what is damaged is refused in one line.

use std::path::PathBuf;
use std::sync::LazyLock;

use keyvector_fuzz::{Target, stored};
use keyvector_sandbox::{Engine, EngineConfig};

/// The bytes of a plugin file.
#[rustfmt::skip]
pub(crate) const COMPONENTS: Target = Target {
    name: "component",
    run: components,
    samples,
    words: &[
        "\0asm\x01\0\0\0", "\0asm\x0d\0\x01\0", "\x7fELF", "keyvector:plugin/table@0.1.0-draft.1",
        "keyvector:plugin/table@0.3.0", "wasi:cli/stderr@0.2.0", "wasi:http/types@0.2.0", "component-type",
        "wasi_snapshot_preview1", "\x1b[2J", "\n", "@999999999999999999999.0.0",
    ],
};

pub(crate) fn built_plugin(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist")),
        PathBuf::from,
    );
    let path = folder.join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: build it with `cargo xtask plugins`", path.display()))
}

static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(EngineConfig { threads: 1, ..EngineConfig::default() }).unwrap());

fn components(data: &[u8]) {
    match ENGINE.load("p.wasm", data) {
        Ok(plugin) => {
            assert!(!plugin.roles().is_empty());
            assert_eq!(plugin.size_bytes(), data.len());
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("p.wasm "), "{message:?}");
            stored::check_line(&message, 5000);
        }
    }
}

/// Small components, whose names are soon met, and a real plugin cut in two.
fn samples() -> Vec<Vec<u8>> {
    let component = |text: &str| wat::parse_str(format!("(component {text})")).unwrap();
    let version = keyvector_sandbox::plugin_api_version();
    let mut samples = vec![
        wat::parse_str("(module)").unwrap(),
        wat::parse_str(
            r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)) (memory 1) (func (export "f")))"#,
        )
        .unwrap(),
        component(""),
        component(r#"(instance $t) (export "keyvector:plugin/table@0.3.0" (instance $t))"#),
        component(&format!(r#"(instance $t) (export "keyvector:plugin/table@{version}" (instance $t))"#)),
        component(&format!(
            r#"(import "wasi:cli/stderr@0.2.0" (instance)) (import "keyvector:plugin/log@{version}" (instance))
               (component $c (import "a" (func))) (core module (func) (memory 1)) (instance $t)
               (export "keyvector:plugin/table@{version}" (instance $t))"#
        )),
    ];
    let plugin = built_plugin("misbehave.wasm");
    samples.push(plugin[..plugin.len() / 2].to_vec());
    samples
}
