//! From a file's bytes to a component that speaks our language, refused in one line before anything is compiled.

use std::borrow::Cow;
use std::fmt;

use semver::Version;
use wasmparser::{Encoding, Parser, Payload};

use crate::bindings::draft;
use crate::log::quoted;
use crate::wasi;

/// What a plugin can be, by the interface that it exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Rows to documents.
    Table,
    /// A model behind HTTP.
    RemoteModel,
    /// A model that computes inside the plugin.
    LocalModel,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Table, Self::RemoteModel, Self::LocalModel];

    /// The interface's name in WIT.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::RemoteModel => "remote-model",
            Self::LocalModel => "local-model",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a file is no plugin of this host, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} {reason}")]
pub struct LoadError {
    plugin: String,
    reason: String,
}

impl LoadError {
    pub(crate) fn new(plugin: &str, reason: impl Into<String>) -> Self {
        // Names in the file may be anybody's words.
        Self { plugin: plugin.to_owned(), reason: quoted(&reason.into()) }
    }
}

const MAGIC: &[u8] = b"\0asm";
const ELF: &[u8] = b"\x7fELF";

/// The component in `bytes`, made here where they hold a core module with its component types.
pub(crate) fn to_component<'a>(plugin: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    let refuse = |reason: String| LoadError::new(plugin, reason);
    if bytes.starts_with(ELF) {
        return Err(refuse(
            "is compiled code (.cwasm), which is never accepted: give the .wasm file".to_owned(),
        ));
    }
    if !bytes.starts_with(MAGIC) {
        let what = if bytes.is_empty() { "is empty" } else { "is not WebAssembly" };
        return Err(refuse(format!("{what}: a plugin is a component, or a core module built with the SDK")));
    }
    let mut encoding = None;
    let mut has_component_type = false;
    let mut adapted = None;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| refuse(damaged(&error)))? {
            Payload::Version { encoding: found, .. } => {
                encoding.get_or_insert(found);
            }
            Payload::CustomSection(section) => {
                has_component_type |= section.name().starts_with("component-type")
            }
            Payload::ImportSection(imports) if encoding == Some(Encoding::Module) => {
                for import in imports.into_imports() {
                    let import = import.map_err(|error| refuse(damaged(&error)))?;
                    if import.module.starts_with("wasi_") {
                        adapted = Some(import.module);
                    }
                }
            }
            _ => {}
        }
    }
    match encoding {
        Some(Encoding::Component) => return Ok(Cow::Borrowed(bytes)),
        _ if !has_component_type => {
            return Err(refuse(
                "is a core module without component types: export a role with the SDK's macro, or give a component"
                    .to_owned(),
            ));
        }
        _ => {}
    }
    if let Some(module) = adapted {
        return Err(refuse(format!(
            "is a core module that imports {module}: build it for wasm32-unknown-unknown or wasm32-wasip2"
        )));
    }
    wit_component::ComponentEncoder::default()
        .module(bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .map(Cow::Owned)
        .map_err(|error| {
            let causes = format!("{error:#}");
            refuse(format!(
                "cannot be made a component: {}",
                causes.split_whitespace().collect::<Vec<_>>().join(" ")
            ))
        })
}

fn damaged(error: &wasmparser::BinaryReaderError) -> String {
    format!("is cut off or damaged at byte {}: {}", error.offset(), error.message())
}

/// What a component imports and exports, as names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

impl Names {
    /// Reads the names without compiling.
    pub(crate) fn read(plugin: &str, component: &[u8]) -> Result<Self, LoadError> {
        let refuse = |error: wasmparser::BinaryReaderError| LoadError::new(plugin, damaged(&error));
        let mut names = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload.map_err(refuse)? {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                // Deeper ones are between the component's own parts.
                Payload::ComponentImportSection(imports) if depth == 1 => {
                    for import in imports {
                        names.imports.push(import.map_err(refuse)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 1 => {
                    for export in exports {
                        names.exports.push(export.map_err(refuse)?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(names)
    }

    pub(crate) fn imports_wasi(&self) -> bool {
        self.imports.iter().any(|import| import.starts_with("wasi:"))
    }

    /// The component's roles, if it speaks this host's version and imports only what is offered.
    pub(crate) fn check(&self, plugin: &str) -> Result<Vec<Role>, LoadError> {
        let (package, host_version) = &*draft::PACKAGE;
        let spoken = |name: &str| {
            let (interface, version) = name.strip_prefix(package)?.strip_prefix('/')?.split_once('@')?;
            Some((interface.to_owned(), Version::parse(version).ok()?))
        };
        for (_, version) in self.exports.iter().chain(&self.imports).filter_map(|name| spoken(name)) {
            if version != *host_version {
                let remedy = if version > *host_version {
                    "upgrade the host".to_owned()
                } else {
                    format!("build the plugin against {host_version}")
                };
                return Err(LoadError::new(
                    plugin,
                    format!("speaks {package} {version}, this host {host_version}: {remedy}"),
                ));
            }
        }
        for import in &self.imports {
            let ours =
                spoken(import).is_some_and(|(interface, _)| interface == "log" || interface == "types");
            if !ours && !wasi::is_offered(import) {
                return Err(LoadError::new(
                    plugin,
                    format!(
                        "imports {import}, which no plugin gets: only log of {package} and an inert WASI 0.2 are there"
                    ),
                ));
            }
        }
        let exported: Vec<_> = self.exports.iter().filter_map(|name| spoken(name)).collect();
        let roles: Vec<_> = Role::ALL
            .into_iter()
            .filter(|role| exported.iter().any(|(interface, _)| interface == role.as_str()))
            .collect();
        if roles.is_empty() {
            return Err(LoadError::new(
                plugin,
                format!("is no plugin: it exports none of {package}'s table, remote-model and local-model"),
            ));
        }
        Ok(roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(imports: &[&str], exports: &[&str]) -> Names {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Names { imports: owned(imports), exports: owned(exports) }
    }

    fn ours(interface: &str) -> String {
        let (package, version) = &*draft::PACKAGE;
        format!("{package}/{interface}@{version}")
    }

    #[test]
    fn roles_are_found_by_exports() {
        let (log, types) = (ours("log"), ours("types"));
        let (table, model) = (ours("table"), ours("local-model"));
        let names =
            names(&[&log, &types, "wasi:cli/stderr@0.2.3"], &[&table, &model, "acme:extra/thing@1.0.0"]);
        assert_eq!(names.check("p.wasm").unwrap(), [Role::Table, Role::LocalModel]);
        assert!(names.imports_wasi());
    }

    #[test]
    fn another_version_is_named_with_the_remedy() {
        let host = &draft::PACKAGE.1;
        let newer = names(&[], &["keyvector:plugin/table@0.3.0"]).check("movies.wasm").unwrap_err();
        assert_eq!(
            newer.to_string(),
            format!("movies.wasm speaks keyvector:plugin 0.3.0, this host {host}: upgrade the host")
        );
        let older = names(&["keyvector:plugin/log@0.0.1"], &[]).check("movies.wasm").unwrap_err();
        assert!(older.to_string().ends_with(&format!("build the plugin against {host}")), "{older}");
    }

    #[test]
    fn other_imports_are_refused_by_name() {
        let table = ours("table");
        for import in
            ["wasi:http/outgoing-handler@0.2.0", "acme:db/query@1.0.0", "env", "keyvector:plugin/secrets"]
        {
            let error = names(&[import], &[&table]).check("p.wasm").unwrap_err().to_string();
            assert!(error.starts_with(&format!("p.wasm imports {import}, ")), "{error}");
        }
    }

    #[test]
    fn a_component_without_a_role_is_no_plugin() {
        let error = names(&[], &["wasi:cli/run@0.2.0"]).check("p.wasm").unwrap_err().to_string();
        assert!(error.starts_with("p.wasm is no plugin"), "{error}");
    }
}
