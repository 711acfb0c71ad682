use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use keyvector_core::document::Metadata;
use keyvector_core::index::{Hit, IndexDescription, IndexQuery, StoredVector, Vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{Result, VectorIndex};

use super::{Contents, MemoryScope};
use crate::nearest::{Nearest, Question, norm};
use crate::vectors::{check_description, check_for_put, check_query, check_same, no_index};

/// One index of the store, written under one scope's tenures.
#[derive(Clone)]
pub struct MemoryIndex {
    pub(super) scope: MemoryScope,
    pub(super) name: Arc<str>,
}

pub(super) struct Index {
    description: Arc<IndexDescription>,
    vectors: BTreeMap<String, Entry>,
}

struct Entry {
    data: Vec<f32>,
    norm: f64,
    metadata: Metadata,
}

impl MemoryIndex {
    fn index<'a>(&self, contents: &'a Contents) -> Result<&'a Index> {
        contents.indexes.get(&self.name).ok_or_else(|| no_index(&self.name))
    }

    /// Checks the index is there, and runs `write` on its vectors if the tenure holds.
    fn write(&self, tenure: &Tenure, write: impl FnOnce(&mut BTreeMap<String, Entry>)) -> Fenced {
        self.scope.fenced(tenure, |contents| {
            // An index never goes away once it is made.
            if let Some(index) = contents.indexes.get_mut(&self.name) {
                write(&mut index.vectors);
            }
        })
    }
}

fn stored_vector(key: &str, entry: &Entry, with_data: bool) -> StoredVector {
    StoredVector {
        key: key.to_owned(),
        data: with_data.then(|| entry.data.clone()),
        metadata: entry.metadata.clone(),
    }
}

#[async_trait]
impl VectorIndex for MemoryIndex {
    async fn describe(&self) -> Result<Option<IndexDescription>> {
        Ok(self.scope.lock().indexes.get(&self.name).map(|index| index.description.as_ref().clone()))
    }

    async fn create(&self, description: &IndexDescription) -> Result<()> {
        check_description(&self.name, description, &self.scope.store.limits)?;
        let mut contents = self.scope.lock();
        if let Some(index) = contents.indexes.get(&self.name) {
            return check_same(&index.description, description);
        }
        let index = Index { description: Arc::new(description.clone()), vectors: BTreeMap::new() };
        contents.indexes.insert(Arc::clone(&self.name), index);
        Ok(())
    }

    async fn get(&self, keys: &[&RowKey], with_data: bool) -> Result<Vec<Option<StoredVector>>> {
        let contents = self.scope.lock();
        let vectors = &self.index(&contents)?.vectors;
        Ok(keys
            .iter()
            .map(|key| vectors.get(key.as_str()).map(|entry| stored_vector(key.as_str(), entry, with_data)))
            .collect())
    }

    async fn put(&self, tenure: &Tenure, vectors: &[Vector]) -> Result<Fenced> {
        let description = Arc::clone(&self.index(&self.scope.lock())?.description);
        // Copied outside the lock.
        let mut entries = Vec::with_capacity(vectors.len());
        for (position, vector) in vectors.iter().enumerate() {
            check_for_put(&description, &self.scope.store.limits, position, vector)?;
            let entry = Entry {
                data: vector.data.clone(),
                norm: norm(&vector.data),
                metadata: vector.metadata.clone(),
            };
            entries.push((vector.key.as_str(), entry));
        }
        Ok(self.write(tenure, |stored| {
            for (key, entry) in entries {
                match stored.get_mut(key) {
                    Some(earlier) => *earlier = entry,
                    None => {
                        stored.insert(key.to_owned(), entry);
                    }
                }
            }
        }))
    }

    async fn delete(&self, tenure: &Tenure, keys: &[RowKey]) -> Result<Fenced> {
        self.index(&self.scope.lock())?;
        Ok(self.write(tenure, |stored| {
            for key in keys {
                stored.remove(key.as_str());
            }
        }))
    }

    async fn query(&self, query: &IndexQuery) -> Result<Vec<Hit>> {
        let contents = self.scope.lock();
        let index = self.index(&contents)?;
        let filter = check_query(&index.description, &self.scope.store.limits, query)?;
        let question = Question::new(index.description.metric, &query.vector);
        let mut nearest = Nearest::new(query.top_k as usize);
        for (key, entry) in &index.vectors {
            let distance = question.distance(&entry.data, entry.norm);
            if nearest.admits(distance, key)
                && filter.as_ref().is_none_or(|filter| filter.matches(&entry.metadata))
            {
                nearest.push(key.clone(), distance, entry.metadata.clone());
            }
        }
        Ok(nearest.into_hits())
    }

    async fn list(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        with_data: bool,
    ) -> Result<Vec<StoredVector>> {
        let contents = self.scope.lock();
        let from = after_exclusive.map_or(Bound::Unbounded, Bound::Excluded);
        let page = self.index(&contents)?.vectors.range::<str, _>((from, Bound::Unbounded)).take(limit);
        Ok(page.map(|(key, entry)| stored_vector(key, entry, with_data)).collect())
    }
}
