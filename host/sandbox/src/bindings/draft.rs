//! `wit/draft`: the package that plugins are written against until it is released as 0.1.0. Its types are the ones that the
//! rest of the crate knows.

use wasmtime::component::{HasSelf, Linker};

use crate::state::State;

mod table_world {
    wasmtime::component::bindgen!({ path: "../../wit/draft", world: "table-plugin" });
}

mod remote_model_world {
    wasmtime::component::bindgen!({
        path: "../../wit/draft",
        world: "remote-model-plugin",
        with: {
            "keyvector:plugin/types": super::table_world::keyvector::plugin::types,
            "keyvector:plugin/log": super::table_world::keyvector::plugin::log,
        },
    });
}

mod local_model_world {
    wasmtime::component::bindgen!({
        path: "../../wit/draft",
        world: "local-model-plugin",
        with: {
            "keyvector:plugin/types": super::table_world::keyvector::plugin::types,
            "keyvector:plugin/log": super::table_world::keyvector::plugin::log,
        },
    });
}

pub(crate) use local_model_world::{LocalModelPlugin, LocalModelPluginPre};
pub(crate) use remote_model_world::exports::keyvector::plugin::remote_model;
pub(crate) use remote_model_world::{RemoteModelPlugin, RemoteModelPluginPre};
pub(crate) use table_world::exports::keyvector::plugin::table;
pub(crate) use table_world::keyvector::plugin::{log, types};
pub(crate) use table_world::{TablePlugin, TablePluginPre};

pub(crate) const WIT: &str = include_str!("../../../../wit/draft/keyvector.wit");

/// The functions of `log`.
pub(crate) const LOG_FUNCTIONS: &[&str] = &["write"];

/// Links all that the package lets a plugin import: its types and `log`.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    TablePlugin::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

impl types::Host for State {}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) {
        let source = match level {
            log::Level::Error => crate::log::Source::Error,
            log::Level::Warn => crate::log::Source::Warn,
            log::Level::Info => crate::log::Source::Info,
            log::Level::Debug => crate::log::Source::Debug,
        };
        self.log.line(source, &message);
    }
}
