//! From a file's bytes to a component that speaks our language, refused in one line before anything is compiled.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use semver::Version;
use wasmparser::{Encoding, Parser, Payload};
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::bindings::{PACKAGE, WitVersion, is_compatible};
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
    /// A file's names, and what a parser says of them, may be of any length and hold anything.
    pub(crate) fn new(plugin: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { plugin: plugin.to_owned(), reason: quoted(&reason) }
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
        .map_err(|error| refuse(format!("cannot be made a component: {error:#}")))
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

    /// What the component speaks, if this host binds that and offers all that it imports.
    pub(crate) fn check(&self, plugin: &str) -> Result<Spoken, LoadError> {
        let refuse = |reason: String| Err(LoadError::new(plugin, reason));
        let exported: Vec<_> = self.exports.iter().filter_map(|name| of_ours(name)).collect();
        let imported = self.imports.iter().filter_map(|name| of_ours(name));
        let numbers: BTreeSet<_> =
            exported.iter().cloned().chain(imported).map(|(_, number)| number).collect();
        let Some(number) = numbers.last() else {
            return refuse(format!("is no plugin: it exports none of {PACKAGE}'s {ROLES}"));
        };
        if let Some(other) = numbers.iter().find(|other| !is_compatible(other, number)) {
            return refuse(format!("speaks {PACKAGE} {other} and {number} at once: build it against one"));
        }
        let Some(bound) = WitVersion::meeting(number) else { return refuse(not_bound(number)) };

        for import in &self.imports {
            let ours = of_ours(import);
            let offered = match &ours {
                Some((interface, _)) => *interface == "log" || *interface == "types",
                None => wasi::is_offered(import),
            };
            if !offered && ours.is_some() && number > bound.number() {
                return refuse(format!(
                    "imports {import}, which came after this host's {}: upgrade the host",
                    bound.number()
                ));
            }
            if !offered {
                return refuse(format!(
                    "imports {import}, which no plugin gets: only log of {PACKAGE} and an inert WASI 0.2 are there"
                ));
            }
        }

        let is_role = |interface: &str| Role::ALL.into_iter().find(|role| role.as_str() == interface);
        let mut roles: Vec<_> = exported.iter().filter_map(|(interface, _)| is_role(interface)).collect();
        roles.sort_unstable();
        roles.dedup();
        let unknown = exported.iter().filter(|(interface, _)| is_role(interface).is_none());
        let unknown_exports: Vec<_> = unknown.map(|(interface, _)| (*interface).to_owned()).collect();
        if roles.is_empty() && !unknown_exports.is_empty() {
            return refuse(format!(
                "exports only {} of {PACKAGE} {number}, which this host ({}) does not know: upgrade the host",
                unknown_exports.join(" and "),
                bound.number()
            ));
        }
        if roles.is_empty() {
            return refuse(format!("is no plugin: it exports none of {PACKAGE}'s {ROLES}"));
        }
        Ok(Spoken { number: number.clone(), bound, roles, unknown_exports })
    }
}

const ROLES: &str = "table, remote-model and local-model";

/// What a component says in its names.
#[derive(Debug)]
pub(crate) struct Spoken {
    /// The version that it was built against.
    pub(crate) number: Version,
    /// The version of this host that it meets.
    pub(crate) bound: WitVersion,
    pub(crate) roles: Vec<Role>,
    /// Interfaces of a later release: an ability that this host does without.
    pub(crate) unknown_exports: Vec<String>,
}

/// Interface and version of a name of our package.
fn of_ours(name: &str) -> Option<(&str, Version)> {
    let (interface, number) = name.strip_prefix(PACKAGE)?.strip_prefix('/')?.split_once('@')?;
    Some((interface, Version::parse(number).ok()?))
}

fn not_bound(number: &Version) -> String {
    let numbers: Vec<_> = WitVersion::ALL.iter().map(|version| version.number()).collect();
    let newest = WitVersion::NEWEST.number();
    let host = match numbers.as_slice() {
        [oldest, .., newest] => format!("{oldest}–{newest}"),
        _ => newest.to_string(),
    };
    let drafts = if number.pre.is_empty() { "" } else { ", and a draft meets none but itself" };
    let remedy = if number > newest {
        "upgrade the host".to_owned()
    } else {
        format!("build the plugin against {newest}")
    };
    format!("speaks {PACKAGE} {number}, this host {host}{drafts}: {remedy}")
}

/// Refuses a component that calls a function of `log` which the version it meets lacks: a later release of the same track
/// may have added it.
pub(crate) fn check_log(plugin: &str, component: &Component, spoken: &Spoken) -> Result<(), LoadError> {
    let (engine, component_type) = (component.engine(), component.component_type());
    for (name, import) in component_type.imports(engine) {
        let ComponentItem::ComponentInstance(log) = import.ty else { continue };
        if of_ours(name).is_none_or(|(interface, _)| interface != "log") {
            continue;
        }
        for (function, export) in log.exports(engine) {
            let known = spoken.bound.log_functions().contains(&function);
            if !known && matches!(export.ty, ComponentItem::ComponentFunc(_)) {
                let host = spoken.bound.number();
                return Err(LoadError::new(
                    plugin,
                    format!(
                        "calls {function} of {name}, which log has not got in this host's {host}: upgrade the host"
                    ),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(imports: &[&str], exports: &[&str]) -> Names {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Names { imports: owned(imports), exports: owned(exports) }
    }

    fn ours(interface: &str) -> String {
        format!("{PACKAGE}/{interface}@{}", WitVersion::NEWEST.number())
    }

    #[track_caller]
    fn refusal(imports: &[&str], exports: &[&str]) -> String {
        names(imports, exports).check("movies.wasm").unwrap_err().to_string()
    }

    #[test]
    fn roles_are_found_by_exports() {
        let (log, types) = (ours("log"), ours("types"));
        let (table, model) = (ours("table"), ours("local-model"));
        let names =
            names(&[&log, &types, "wasi:cli/stderr@0.2.3"], &[&model, &table, "acme:extra/thing@1.0.0"]);
        let spoken = names.check("p.wasm").unwrap();
        assert_eq!(spoken.roles, [Role::Table, Role::LocalModel]);
        assert_eq!((spoken.bound, &spoken.number), (WitVersion::NEWEST, WitVersion::NEWEST.number()));
        assert!(spoken.unknown_exports.is_empty());
        assert!(names.imports_wasi());
    }

    #[test]
    fn every_bound_version_is_met_under_its_own_number() {
        for &version in WitVersion::ALL {
            let number = version.number();
            let (log, table) = (format!("{PACKAGE}/log@{number}"), format!("{PACKAGE}/table@{number}"));
            let spoken = names(&[&log], &[&table]).check("p.wasm").unwrap();
            assert_eq!((spoken.bound, &spoken.number), (version, number));
        }
    }

    /// Tests bind a made-up 0.0.9 beside the draft.
    #[test]
    fn another_version_is_named_with_the_remedy() {
        let newest = WitVersion::NEWEST.number();
        assert_eq!(
            refusal(&[], &["keyvector:plugin/table@0.3.0"]),
            format!("movies.wasm speaks keyvector:plugin 0.3.0, this host 0.0.9–{newest}: upgrade the host")
        );
        let older = format!(
            "movies.wasm speaks keyvector:plugin 0.0.8, this host 0.0.9–{newest}: build the plugin against {newest}"
        );
        assert_eq!(refusal(&[], &["keyvector:plugin/table@0.0.8"]), older);
        assert_eq!(refusal(&["keyvector:plugin/log@0.0.8"], &[]), older);
    }

    #[test]
    fn a_draft_meets_none_but_itself() {
        let newest = WitVersion::NEWEST.number();
        for (draft, remedy) in [
            ("0.1.0-draft.999", "upgrade the host".to_owned()),
            ("0.1.0-draft.0", format!("build the plugin against {newest}")),
            ("0.0.9-draft.1", format!("build the plugin against {newest}")),
        ] {
            assert_eq!(
                refusal(&[], &[&format!("keyvector:plugin/table@{draft}")]),
                format!(
                    "movies.wasm speaks keyvector:plugin {draft}, this host 0.0.9–{newest}, and a draft meets none but \
                     itself: {remedy}"
                )
            );
        }
    }

    #[test]
    fn two_versions_in_one_component_are_refused() {
        let newest = WitVersion::NEWEST.number();
        let mixed =
            format!("movies.wasm speaks keyvector:plugin 0.0.9 and {newest} at once: build it against one");
        assert_eq!(refusal(&[], &["keyvector:plugin/table@0.0.9", &ours("local-model")]), mixed);
        assert_eq!(refusal(&["keyvector:plugin/log@0.0.9"], &[&ours("table")]), mixed);
        let both_unknown = refusal(&[], &["keyvector:plugin/table@0.3.0", "keyvector:plugin/table@0.4.0"]);
        assert!(both_unknown.contains("speaks keyvector:plugin 0.3.0 and 0.4.0 at once"), "{both_unknown}");
    }

    #[test]
    fn an_ability_that_the_host_does_not_know_is_left_alone() {
        let (table, ability) = (ours("table"), ours("later-ability"));
        let spoken = names(&[], &[&table, &ability]).check("p.wasm").unwrap();
        assert_eq!(spoken.roles, [Role::Table]);
        assert_eq!(spoken.unknown_exports, ["later-ability"]);

        let alone = refusal(&[], &[&ability]);
        assert!(alone.starts_with("movies.wasm exports only later-ability of keyvector:plugin "), "{alone}");
        assert!(alone.ends_with(": upgrade the host"), "{alone}");
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
