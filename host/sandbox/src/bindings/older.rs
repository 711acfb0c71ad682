//! A version that never was: `tests/guests/old-version/wit`. It stands for an older release until there is one, and only
//! tests bind it. A real one has a module like this, without the `cfg(test)` around its arms.

use wasmtime::component::{HasSelf, Linker};

use super::draft as newest;
use crate::packed;
use crate::state::State;

mod table_world {
    wasmtime::component::bindgen!({ path: "../../tests/guests/old-version/wit", world: "table-plugin" });
}

mod remote_model_world {
    wasmtime::component::bindgen!({
        path: "../../tests/guests/old-version/wit",
        world: "remote-model-plugin",
        with: { "keyvector:plugin/log": super::table_world::keyvector::plugin::log },
    });
}

mod local_model_world {
    wasmtime::component::bindgen!({
        path: "../../tests/guests/old-version/wit",
        world: "local-model-plugin",
        with: {
            "keyvector:plugin/types": super::remote_model_world::keyvector::plugin::types,
            "keyvector:plugin/log": super::table_world::keyvector::plugin::log,
        },
    });
}

pub(crate) use local_model_world::{LocalModelPlugin, LocalModelPluginPre};
pub(crate) use remote_model_world::exports::keyvector::plugin::remote_model;
pub(crate) use remote_model_world::keyvector::plugin::types;
pub(crate) use remote_model_world::{RemoteModelPlugin, RemoteModelPluginPre};
pub(crate) use table_world::exports::keyvector::plugin::table;
pub(crate) use table_world::keyvector::plugin::log;
pub(crate) use table_world::{TablePlugin, TablePluginPre};

pub(crate) const WIT: &str = include_str!("../../../../tests/guests/old-version/wit/keyvector.wit");

/// The functions of `log`.
pub(crate) const LOG_FUNCTIONS: &[&str] = &["write"];

/// Links all that the package lets a plugin import: its types and `log`.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    RemoteModelPlugin::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

impl types::Host for State {}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Error => newest::log::Level::Error,
            log::Level::Warn => newest::log::Level::Warn,
            log::Level::Info => newest::log::Level::Info,
            log::Level::Debug => newest::log::Level::Debug,
        };
        newest::log::Host::write(self, level, message);
    }
}

// Upward: what guests answer.

/// What the newest version calls `filterable` all keys were.
impl From<table::TableInfo> for newest::table::TableInfo {
    fn from(info: table::TableInfo) -> Self {
        let key = |key: table::MetadataKey| newest::table::MetadataKey {
            name: key.name,
            value_type: match key.value_type {
                table::MetadataType::Text => newest::table::MetadataType::Text,
                table::MetadataType::Number => newest::table::MetadataType::Number,
                table::MetadataType::Boolean => newest::table::MetadataType::Boolean,
                table::MetadataType::TextList => newest::table::MetadataType::TextList,
                table::MetadataType::NumberList => newest::table::MetadataType::NumberList,
            },
            filterable: true,
        };
        Self { reads: info.reads, metadata: info.metadata.into_iter().map(key).collect() }
    }
}

type Row = Result<Option<table::Document>, String>;

impl From<Vec<Row>> for newest::table::Documents {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            states: rows.iter().map(|row| parts(row).0).collect(),
            texts: packed::pack(rows.iter().map(|row| parts(row).1)),
            metadata: packed::pack(rows.iter().map(|row| parts(row).2)),
        }
    }
}

/// State, text and metadata.
fn parts(row: &Row) -> (newest::table::RowState, &str, &str) {
    use newest::table::RowState;
    match row {
        Ok(Some(document)) => {
            (RowState::Document, &document.text, document.metadata.as_deref().unwrap_or_default())
        }
        Ok(None) => (RowState::Skipped, "", ""),
        Err(reason) => (RowState::Failed, reason, ""),
    }
}

impl From<types::ModelInfo> for newest::types::ModelInfo {
    fn from(info: types::ModelInfo) -> Self {
        Self {
            identity: info.identity,
            dimension: info.dimension,
            metric: match info.metric {
                types::Metric::Cosine => newest::types::Metric::Cosine,
                types::Metric::Euclidean => newest::types::Metric::Euclidean,
            },
            limits: newest::types::Limits {
                texts_per_request: info.texts_per_request,
                bytes_per_request: None,
                tokens_per_request: None,
                tokens_per_text: None,
                characters_per_text: None,
            },
        }
    }
}

impl From<remote_model::Routes> for newest::remote_model::Routes {
    fn from(routes: remote_model::Routes) -> Self {
        let route = |route: remote_model::Route| newest::remote_model::Route {
            path: route.path,
            headers: route
                .headers
                .into_iter()
                .map(|header| newest::remote_model::Header { name: header.name, value: header.value })
                .collect(),
        };
        Self { embed: route(routes.embed), info: routes.info.map(route) }
    }
}

impl From<remote_model::Failure> for newest::remote_model::Failure {
    fn from(failure: remote_model::Failure) -> Self {
        Self {
            kind: match failure.kind {
                remote_model::FailureKind::Throttled => newest::remote_model::FailureKind::Throttled,
                remote_model::FailureKind::Transient => newest::remote_model::FailureKind::Transient,
                remote_model::FailureKind::TooLong => newest::remote_model::FailureKind::TooLong,
                remote_model::FailureKind::Rejected => newest::remote_model::FailureKind::Rejected,
                remote_model::FailureKind::Unusable => newest::remote_model::FailureKind::Unusable,
            },
            message: failure.message,
            retry_after_ms: None,
        }
    }
}

// Downward: what guests are given.

impl From<&newest::table::Column> for table::Column {
    fn from(column: &newest::table::Column) -> Self {
        Self {
            name: column.name.clone(),
            cql_type: column.cql_type.clone(),
            kind: match column.kind {
                newest::table::ColumnKind::PartitionKey => table::ColumnKind::PartitionKey,
                newest::table::ColumnKind::ClusteringKey => table::ColumnKind::ClusteringKey,
                newest::table::ColumnKind::StaticColumn => table::ColumnKind::StaticColumn,
                newest::table::ColumnKind::Regular => table::ColumnKind::Regular,
            },
        }
    }
}

impl From<&newest::types::Packed> for types::Packed {
    fn from(packed: &newest::types::Packed) -> Self {
        Self { data: packed.data.clone(), ends: packed.ends.clone() }
    }
}

impl From<newest::types::Purpose> for types::Purpose {
    fn from(purpose: newest::types::Purpose) -> Self {
        match purpose {
            newest::types::Purpose::Document => Self::Document,
            newest::types::Purpose::Query => Self::Query,
        }
    }
}

impl From<&newest::remote_model::Response> for remote_model::Response {
    fn from(response: &newest::remote_model::Response) -> Self {
        let header = |header: &newest::remote_model::Header| remote_model::Header {
            name: header.name.clone(),
            value: header.value.clone(),
        };
        Self {
            status: response.status,
            headers: response.headers.iter().map(header).collect(),
            body: response.body.clone(),
        }
    }
}
