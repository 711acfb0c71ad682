//! Every version of `keyvector:plugin` that this host binds, in one list: [`WitVersion`]. A version has a folder of WIT, a
//! module here that generates its bindings, and an arm in each role of [`roles`].
//!
//! The rest of the crate knows the types of the newest version alone. An older version's module converts what its guests
//! answer upward with `From`, and what they are given downward; the newest version's calls pass through as they are.

mod draft;
#[cfg(test)]
mod older;
#[cfg(test)]
mod older_tests;
mod roles;

use std::sync::LazyLock;

use semver::Version;
use wasmtime::component::Linker;

pub(crate) use draft::{remote_model, table, types};
pub(crate) use roles::{LocalModel, LocalModelPre, RemoteModel, RemoteModelPre, Table, TablePre};

use crate::state::State;

/// The package's name, the same in all versions.
pub(crate) const PACKAGE: &str = "keyvector:plugin";

/// A version that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WitVersion {
    /// Made up, for tests.
    #[cfg(test)]
    Older,
    /// `wit/draft`.
    Draft,
}

impl WitVersion {
    /// Oldest first.
    pub(crate) const ALL: &[Self] = &[
        #[cfg(test)]
        Self::Older,
        Self::Draft,
    ];
    /// The one whose types the rest of the crate knows.
    pub(crate) const NEWEST: Self = Self::Draft;

    /// As its WIT says, so that the two cannot differ.
    pub(crate) fn number(self) -> &'static Version {
        match self {
            #[cfg(test)]
            Self::Older => {
                static NUMBER: LazyLock<Version> = LazyLock::new(|| number_in(older::WIT));
                &NUMBER
            }
            Self::Draft => {
                static NUMBER: LazyLock<Version> = LazyLock::new(|| number_in(draft::WIT));
                &NUMBER
            }
        }
    }

    /// The functions of `log`, all that a plugin may call.
    pub(crate) fn log_functions(self) -> &'static [&'static str] {
        match self {
            #[cfg(test)]
            Self::Older => older::LOG_FUNCTIONS,
            Self::Draft => draft::LOG_FUNCTIONS,
        }
    }

    /// The bound version that a plugin which speaks `number` meets.
    pub(crate) fn meeting(number: &Version) -> Option<Self> {
        Self::ALL.iter().rev().copied().find(|bound| is_compatible(bound.number(), number))
    }

    /// Links all that the version lets a plugin import: its types and `log`.
    pub(crate) fn add_to_linker(self, linker: &mut Linker<State>) -> wasmtime::Result<()> {
        match self {
            #[cfg(test)]
            Self::Older => older::add_to_linker(linker),
            Self::Draft => draft::add_to_linker(linker),
        }
    }
}

/// Whether plugins of two versions are bound alike: under one number, or as releases between which the WIT only gained
/// interfaces and functions of `log`. The same rule lets wasmtime link the one's names to the other's.
pub(crate) fn is_compatible(one: &Version, other: &Version) -> bool {
    let track = |version: &Version| match (version.major, version.minor) {
        (0, 0) => (0, 0, version.patch),
        (0, minor) => (0, minor, 0),
        (major, _) => (major, 0, 0),
    };
    one == other || (one.pre.is_empty() && other.pre.is_empty() && track(one) == track(other))
}

/// The number in a WIT file's package line.
fn number_in(wit: &str) -> Version {
    wit.lines()
        .find_map(|line| {
            line.strip_prefix("package ")?.strip_prefix(PACKAGE)?.strip_prefix('@')?.strip_suffix(';')
        })
        .and_then(|number| Version::parse(number).ok())
        .expect("a line of the WIT says the package and its version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_and_the_last_is_the_newest() {
        assert!(WitVersion::ALL.is_sorted_by(|one, next| one.number() < next.number()));
        assert_eq!(WitVersion::ALL.last(), Some(&WitVersion::NEWEST));
    }

    #[test]
    fn log_functions_are_those_of_the_wit() {
        for (version, wit) in [(WitVersion::Older, older::WIT), (WitVersion::Draft, draft::WIT)] {
            let mut resolve = wit_parser::Resolve::default();
            let package = resolve.push_str("keyvector.wit", wit).unwrap();
            let log = &resolve.interfaces[resolve.packages[package].interfaces["log"]];
            assert!(log.functions.keys().eq(version.log_functions()), "{version:?}");
        }
    }

    #[test]
    fn releases_are_compatible_within_a_track_and_drafts_with_themselves() {
        let compatible =
            |one, other| is_compatible(&Version::parse(one).unwrap(), &Version::parse(other).unwrap());
        for (one, other) in
            [("0.1.0", "0.1.3"), ("0.0.9", "0.0.9"), ("1.2.0", "1.4.1"), ("0.1.0-draft.1", "0.1.0-draft.1")]
        {
            assert!(compatible(one, other) && compatible(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("0.1.0", "0.2.0"),
            ("0.0.9", "0.0.8"),
            ("1.0.0", "2.0.0"),
            ("0.1.0-draft.1", "0.1.0-draft.2"),
            ("0.1.0-draft.1", "0.1.0"),
        ] {
            assert!(!compatible(one, other) && !compatible(other, one), "{one} {other}");
        }
    }

    /// A host that binds 0.1.0 serves a plugin of 0.1.3, and the other way round; a draft is served by itself alone.
    #[test]
    fn wasmtime_links_names_by_the_same_rule() {
        let engine = wasmtime::Engine::default();
        let links = |bound: &str, imported: &str| {
            let text = format!(
                r#"(component (import "keyvector:plugin/log@{imported}" (instance (export "write" (func)))))"#
            );
            let component =
                wasmtime::component::Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
            let mut linker = Linker::<()>::new(&engine);
            let mut log = linker.instance(&format!("keyvector:plugin/log@{bound}")).unwrap();
            log.func_wrap("write", |_, (): ()| Ok(())).unwrap();
            linker.instantiate_pre(&component).is_ok()
        };
        let finds = |bound: &str, exported: &str| {
            let text = format!(
                r#"(component (instance $t) (export "keyvector:plugin/table@{exported}" (instance $t)))"#
            );
            let component =
                wasmtime::component::Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
            component.get_export_index(None, format!("keyvector:plugin/table@{bound}")).is_some()
        };
        for bound in ["0.0.9", "0.1.0", "0.1.3", "0.1.0-draft.1", "0.1.0-draft.2", "0.2.0"] {
            for imported in ["0.0.9", "0.1.0", "0.1.3", "0.1.0-draft.1", "0.1.0-draft.2", "0.2.0"] {
                let expected =
                    is_compatible(&Version::parse(bound).unwrap(), &Version::parse(imported).unwrap());
                assert_eq!(links(bound, imported), expected, "{imported} on {bound}");
                assert_eq!(finds(bound, imported), expected, "{imported} on {bound}");
            }
        }
    }
}
