//! A loaded plugin: compiled and linked, not yet opened.

use std::fmt;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use wasmtime::component::InstancePre;

use crate::bindings::WitVersion;
use crate::engine::Engine;
use crate::limits::Limits;
use crate::load::{Names, Role, Spoken};
use crate::state::State;

/// A plugin that was accepted by [`Engine::load`]. Clones share the compiled code.
#[derive(Clone)]
pub struct Plugin {
    name: String,
    digest: String,
    size_bytes: usize,
    speaks: String,
    roles: Vec<Role>,
    unknown_exports: Vec<String>,
    imports: Vec<String>,
    with_wasi: bool,
    memory_bytes_max: usize,
    pub(crate) wit_version: WitVersion,
    pub(crate) engine: Engine,
    pub(crate) instance_pre: InstancePre<State>,
}

impl Plugin {
    pub(crate) fn new(
        engine: Engine,
        name: &str,
        bytes: &[u8],
        names: Names,
        spoken: Spoken,
        instance_pre: InstancePre<State>,
        large: bool,
    ) -> Self {
        let limits = &engine.config.limits;
        Self {
            name: name.to_owned(),
            digest: sha256_hex(bytes),
            size_bytes: bytes.len(),
            speaks: spoken.number.to_string(),
            roles: spoken.roles,
            unknown_exports: spoken.unknown_exports,
            with_wasi: names.imports_wasi(),
            imports: names.imports,
            memory_bytes_max: if large { limits.memory_bytes_large } else { limits.memory_bytes },
            wit_version: spoken.bound,
            engine,
            instance_pre,
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256 of the file as it was given, lower-case hex: what `sha256sum` prints and `@sha256:` pins.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The file's size as it was given.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The version of `keyvector:plugin` that it was built against.
    pub fn speaks(&self) -> &str {
        &self.speaks
    }

    /// At least one.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Interfaces of ours that it exports and this host does not know: abilities of a later release, which are not used.
    pub fn unknown_exports(&self) -> &[String] {
        &self.unknown_exports
    }

    /// The component's imports by name.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Memory that one instance may take, in bytes.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    pub(crate) fn with_wasi(&self) -> bool {
        self.with_wasi
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.engine.config.limits
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("digest", &self.digest)
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

/// SHA-256 of `bytes` in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        write!(hex, "{byte:02x}").ok();
        hex
    })
}
