//! The three roles, whichever version of them a plugin exports: for each a component whose exports were found (`…Pre`) and
//! an instance of it. Versions differ only in here; where there is one version, nothing of this is left in the compiled
//! code.

use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::draft::remote_model::{Failure, Response, Routes};
use super::draft::table::{Column, Documents, TableInfo};
use super::draft::types::{Embeddings, ModelInfo, Packed, Purpose};
#[cfg(test)]
use super::older;
use super::{WitVersion, draft};
use crate::state::State;

/// What a function of the guest gives that may refuse, in words.
type OrRefusal<T> = wasmtime::Result<Result<T, String>>;

pub(crate) enum TablePre {
    #[cfg(test)]
    Older(older::TablePluginPre<State>),
    Draft(draft::TablePluginPre<State>),
}

impl TablePre {
    pub(crate) fn new(version: WitVersion, component: InstancePre<State>) -> wasmtime::Result<Self> {
        Ok(match version {
            #[cfg(test)]
            WitVersion::Older => Self::Older(older::TablePluginPre::new(component)?),
            WitVersion::Draft => Self::Draft(draft::TablePluginPre::new(component)?),
        })
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Table> {
        Ok(match self {
            #[cfg(test)]
            Self::Older(pre) => Table::Older(pre.instantiate(store)?),
            Self::Draft(pre) => Table::Draft(pre.instantiate(store)?),
        })
    }
}

pub(crate) enum Table {
    #[cfg(test)]
    Older(older::TablePlugin),
    Draft(draft::TablePlugin),
}

impl Table {
    pub(crate) fn describe(&self, store: &mut Store<State>, config: &str) -> OrRefusal<TableInfo> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let info = plugin.keyvector_plugin_table().call_describe(store, config)?;
                Ok(info.map(TableInfo::from))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_table().call_describe(store, config),
        }
    }

    pub(crate) fn open(&self, store: &mut Store<State>, config: &str, columns: &[Column]) -> OrRefusal<()> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let columns: Vec<_> = columns.iter().map(older::table::Column::from).collect();
                plugin.keyvector_plugin_table().call_open(store, config, &columns)
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_table().call_open(store, config, columns),
        }
    }

    pub(crate) fn render(
        &self,
        store: &mut Store<State>,
        rows: u32,
        cells: &[u8],
    ) -> wasmtime::Result<Documents> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let rendered = plugin.keyvector_plugin_table().call_render(store, rows, cells)?;
                Ok(Documents::from(rendered))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_table().call_render(store, rows, cells),
        }
    }
}

pub(crate) enum LocalModelPre {
    #[cfg(test)]
    Older(older::LocalModelPluginPre<State>),
    Draft(draft::LocalModelPluginPre<State>),
}

impl LocalModelPre {
    pub(crate) fn new(version: WitVersion, component: InstancePre<State>) -> wasmtime::Result<Self> {
        Ok(match version {
            #[cfg(test)]
            WitVersion::Older => Self::Older(older::LocalModelPluginPre::new(component)?),
            WitVersion::Draft => Self::Draft(draft::LocalModelPluginPre::new(component)?),
        })
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<LocalModel> {
        Ok(match self {
            #[cfg(test)]
            Self::Older(pre) => LocalModel::Older(pre.instantiate(store)?),
            Self::Draft(pre) => LocalModel::Draft(pre.instantiate(store)?),
        })
    }
}

pub(crate) enum LocalModel {
    #[cfg(test)]
    Older(older::LocalModelPlugin),
    Draft(draft::LocalModelPlugin),
}

impl LocalModel {
    pub(crate) fn open(&self, store: &mut Store<State>, config: &str) -> OrRefusal<ModelInfo> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let info = plugin.keyvector_plugin_local_model().call_open(store, config)?;
                Ok(info.map(ModelInfo::from))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_local_model().call_open(store, config),
        }
    }

    pub(crate) fn embed(
        &self,
        store: &mut Store<State>,
        texts: &Packed,
        purpose: Purpose,
    ) -> wasmtime::Result<Embeddings> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let model = plugin.keyvector_plugin_local_model();
                let vectors = model.call_embed(store, &texts.into(), purpose.into())?;
                Ok(Embeddings { vectors, tokens: None })
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_local_model().call_embed(store, texts, purpose),
        }
    }
}

pub(crate) enum RemoteModelPre {
    #[cfg(test)]
    Older(older::RemoteModelPluginPre<State>),
    Draft(draft::RemoteModelPluginPre<State>),
}

impl RemoteModelPre {
    pub(crate) fn new(version: WitVersion, component: InstancePre<State>) -> wasmtime::Result<Self> {
        Ok(match version {
            #[cfg(test)]
            WitVersion::Older => Self::Older(older::RemoteModelPluginPre::new(component)?),
            WitVersion::Draft => Self::Draft(draft::RemoteModelPluginPre::new(component)?),
        })
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<RemoteModel> {
        Ok(match self {
            #[cfg(test)]
            Self::Older(pre) => RemoteModel::Older(pre.instantiate(store)?),
            Self::Draft(pre) => RemoteModel::Draft(pre.instantiate(store)?),
        })
    }
}

pub(crate) enum RemoteModel {
    #[cfg(test)]
    Older(older::RemoteModelPlugin),
    Draft(draft::RemoteModelPlugin),
}

impl RemoteModel {
    pub(crate) fn describe(&self, store: &mut Store<State>, config: &str) -> OrRefusal<Routes> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let routes = plugin.keyvector_plugin_remote_model().call_describe(store, config)?;
                Ok(routes.map(Routes::from))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_remote_model().call_describe(store, config),
        }
    }

    pub(crate) fn open(
        &self,
        store: &mut Store<State>,
        config: &str,
        info: Option<&Response>,
    ) -> OrRefusal<ModelInfo> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let info = info.map(older::remote_model::Response::from);
                let model = plugin.keyvector_plugin_remote_model();
                Ok(model.call_open(store, config, info.as_ref())?.map(ModelInfo::from))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_remote_model().call_open(store, config, info),
        }
    }

    pub(crate) fn encode(
        &self,
        store: &mut Store<State>,
        texts: &Packed,
        purpose: Purpose,
        cut: bool,
    ) -> wasmtime::Result<Vec<u8>> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let model = plugin.keyvector_plugin_remote_model();
                model.call_encode(store, &texts.into(), purpose.into(), cut)
            }
            Self::Draft(plugin) => {
                plugin.keyvector_plugin_remote_model().call_encode(store, texts, purpose, cut)
            }
        }
    }

    pub(crate) fn decode(
        &self,
        store: &mut Store<State>,
        count: u32,
        response: &Response,
    ) -> wasmtime::Result<Result<Embeddings, Failure>> {
        match self {
            #[cfg(test)]
            Self::Older(plugin) => {
                let model = plugin.keyvector_plugin_remote_model();
                let decoded = model.call_decode(store, count, &response.into())?;
                let embeddings = |vectors| Embeddings { vectors, tokens: None };
                Ok(decoded.map(embeddings).map_err(Failure::from))
            }
            Self::Draft(plugin) => plugin.keyvector_plugin_remote_model().call_decode(store, count, response),
        }
    }
}
