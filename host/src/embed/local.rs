//! A model that computes inside a plugin.

use async_trait::async_trait;
use keyvector_core::document::{FailureClass, RowFailure};
use keyvector_sandbox::{OpenError, Plugin};

use super::{Embeddings, Model, ModelFailure, ModelInfo, Purpose};

/// An open local-model plugin.
pub struct LocalModel {
    model: keyvector_sandbox::LocalModel,
    info: ModelInfo,
}

impl LocalModel {
    /// Opens the plugin under `config`, a JSON object.
    ///
    /// # Errors
    /// It is no local model, refuses its configuration, or is broken.
    pub fn open(plugin: &Plugin, config: &str) -> Result<Self, OpenError> {
        let (model, info) = keyvector_sandbox::LocalModel::open(plugin, config)?;
        Ok(Self { model, info })
    }
}

#[async_trait]
impl Model for LocalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Embeddings, ModelFailure> {
        let embedded = self
            .model
            .embed(texts, purpose)
            .await
            .map_err(|broken| ModelFailure::Broken { message: broken.to_string() })?;
        let failed = embedded
            .failures
            .into_iter()
            .map(|(index, failure)| {
                let reason = format!(
                    "the model stopped on this text ({}): {}",
                    failure.class.as_str(),
                    failure.reason
                );
                (index, RowFailure { class: FailureClass::ModelFailed, reason, attempts: failure.attempts })
            })
            .collect();
        Ok(Embeddings { vectors: embedded.vectors, failed, tokens: embedded.tokens })
    }
}
