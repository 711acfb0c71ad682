use std::ops::Bound;

use async_trait::async_trait;
use keyvector_core::port::{Result, State};

use super::MemoryScope;

/// The items of one scope.
#[derive(Clone)]
pub struct MemoryState {
    pub(super) scope: MemoryScope,
}

#[async_trait]
impl State for MemoryState {
    async fn get(&self, key: &str) -> Result<Option<String>> {
        Ok(self.scope.lock().scopes.get(&self.scope.name).and_then(|scope| scope.items.get(key).cloned()))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let contents = self.scope.lock();
        let Some(scope) = contents.scopes.get(&self.scope.name) else { return Ok(Vec::new()) };
        Ok(scope
            .items
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    async fn put(&self, key: &str, value: &str) -> Result<()> {
        let mut contents = self.scope.lock();
        let scope = contents.scopes.entry(self.scope.name.clone()).or_default();
        scope.items.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    async fn put_if(&self, key: &str, expected: Option<&str>, value: &str) -> Result<bool> {
        let mut contents = self.scope.lock();
        let scope = contents.scopes.entry(self.scope.name.clone()).or_default();
        let is_expected = scope.items.get(key).map(String::as_str) == expected;
        if is_expected {
            scope.items.insert(key.to_owned(), value.to_owned());
        }
        Ok(is_expected)
    }

    async fn remove(&self, key: &str) -> Result<()> {
        if let Some(scope) = self.scope.lock().scopes.get_mut(&self.scope.name) {
            scope.items.remove(key);
        }
        Ok(())
    }
}
