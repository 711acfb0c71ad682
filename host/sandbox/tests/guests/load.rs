//! Files that were damaged, and what is known of a plugin that is whole.

use keyvector_sandbox::{
    Engine, EngineConfig, Limits, LocalModel, OpenError, Role, plugin_api_version, plugin_api_versions,
    sha256_hex,
};

use crate::{built_plugin, config, engine, load};

const GUEST: &str = "misbehave.wasm";

#[track_caller]
fn refused(bytes: &[u8], parts: &[&str]) {
    let error = engine(Limits::default()).load("p.wasm", bytes).unwrap_err().to_string();
    assert!(error.starts_with("p.wasm "), "{error}");
    assert!(!error.contains('\n'), "{error}");
    for part in parts {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_plugin_is_known_before_it_is_opened() {
    let plugin = load(GUEST, Limits::default());
    let bytes = built_plugin(GUEST);
    assert_eq!(plugin.name(), GUEST);
    assert_eq!(plugin.digest(), sha256_hex(&bytes));
    assert_eq!(plugin.size_bytes(), bytes.len());
    assert_eq!(plugin.speaks(), plugin_api_version());
    assert!(plugin.unknown_exports().is_empty());
    assert_eq!(plugin.roles(), [Role::Table, Role::RemoteModel, Role::LocalModel]);
    assert!(plugin.imports().contains(&format!("keyvector:plugin/log@{}", plugin_api_version())));
    assert_eq!(plugin.memory_bytes_max(), 64 << 20);
    assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn what_is_not_webassembly_is_refused() {
    refused(b"", &["is empty"]);
    refused(b"(component)", &["is not WebAssembly"]);
    refused(b"\x7fELF\x02\x01\x01", &["compiled code (.cwasm)", "never accepted"]);
    let module = built_plugin(GUEST);
    for length in [5, 8, 100, module.len() / 2, module.len() - 1] {
        refused(&module[..length], &[]);
    }
    refused(&module[..module.len() / 2], &["cut off or damaged at byte"]);
}

#[test]
fn a_component_that_was_damaged_is_refused() {
    let component =
        wit_component::ComponentEncoder::default().module(&built_plugin(GUEST)).unwrap().encode().unwrap();
    let host = engine(Limits::default());
    assert_eq!(host.load("p.wasm", &component).unwrap().roles().len(), 3, "components are taken as they are");
    for length in [9, component.len() / 3, component.len() - 1] {
        refused(&component[..length], &[]);
    }
    for at in (8..component.len()).step_by(component.len() / 40) {
        let mut damaged = component.clone();
        damaged[at] ^= 0xff;
        // Some bytes do not matter; none may panic.
        drop(host.load("p.wasm", &damaged));
    }
}

#[test]
fn core_modules_of_other_kinds_are_refused() {
    refused(&wat::parse_str("(module)").unwrap(), &["core module without component types"]);
    let mut plain = built_plugin(GUEST);
    // An import that only a command-line adapter could answer.
    let wasi = wat::parse_str(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#).unwrap();
    plain.splice(..8, wasi);
    refused(&plain, &[]);
}

/// The host binds this one in its own unit tests alone.
#[test]
fn an_older_version_that_is_not_bound_is_refused() {
    let version = plugin_api_version();
    assert_eq!(plugin_api_versions(), [version.as_str()]);
    refused(
        &built_plugin("old-version.wasm"),
        &[&format!("speaks keyvector:plugin 0.0.9, this host {version}: build the plugin against {version}")],
    );
}

#[test]
fn an_ability_that_the_host_does_not_know_is_left_alone() {
    let version = plugin_api_version();
    let text = format!(
        r#"(component (instance $i)
            (export "keyvector:plugin/table@{version}" (instance $i))
            (export "keyvector:plugin/later-ability@{version}" (instance $i)))"#
    );
    let plugin = engine(Limits::default()).load("p.wasm", &wat::parse_str(text).unwrap()).unwrap();
    assert_eq!(plugin.roles(), [Role::Table]);
    assert_eq!(plugin.unknown_exports(), ["later-ability"]);
}

#[test]
fn a_log_function_that_the_host_has_not_got_is_named() {
    let version = plugin_api_version();
    let text = format!(
        r#"(component (instance $i)
            (import "keyvector:plugin/log@{version}" (instance (export "trace" (func (param "message" string)))))
            (export "keyvector:plugin/table@{version}" (instance $i)))"#
    );
    let log = format!("calls trace of keyvector:plugin/log@{version}");
    refused(&wat::parse_str(text).unwrap(), &[&log, "upgrade the host"]);
}

#[test]
fn a_role_without_its_functions_is_refused_when_opened() {
    let version = plugin_api_version();
    let text = format!(
        r#"(component (instance $m) (export "keyvector:plugin/local-model@{version}" (instance $m)))"#
    );
    let plugin = engine(Limits::default()).load("p.wasm", &wat::parse_str(text).unwrap()).unwrap();
    let error = LocalModel::open(&plugin, "{}").err().unwrap();
    assert!(matches!(error, OpenError::Declaration { .. }), "{error}");
    let error = keyvector_sandbox::TablePlugin::describe(&plugin, "{}").unwrap_err();
    assert_eq!(error.to_string(), "p.wasm is no table plugin: it is local-model");
}

#[test]
fn a_file_over_the_cap_is_refused() {
    let bytes = built_plugin(GUEST);
    let host = engine(Limits { component_bytes_max: bytes.len() - 1, ..Limits::default() });
    let error = host.load(GUEST, &bytes).unwrap_err().to_string();
    assert!(error.contains("more than the"), "{error}");
}

#[test]
fn large_components_get_more_memory() {
    let plugin = load(GUEST, Limits { large_component_bytes: 1000, ..Limits::default() });
    assert_eq!(plugin.memory_bytes_max(), 128 << 20);
}

#[test]
fn compiled_code_is_kept_in_a_folder_of_ones_own() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cache");
    let config_with = |folder: &std::path::Path| EngineConfig {
        cache_folder: Some(folder.to_owned()),
        threads: 1,
        ..EngineConfig::default()
    };
    for _ in 0..2 {
        let host = Engine::new(config_with(&folder)).unwrap();
        assert_eq!(host.cache_refused(), None);
        let plugin = host.load(GUEST, &built_plugin(GUEST)).unwrap();
        LocalModel::open(&plugin, &config("lengths")).unwrap();
    }
    assert!(folder.read_dir().unwrap().count() > 0);

    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let host = Engine::new(config_with(&folder)).unwrap();
    assert!(host.cache_refused().unwrap().contains("has mode 0777"));
    assert!(host.load(GUEST, &built_plugin(GUEST)).is_ok(), "it goes on without");
}
