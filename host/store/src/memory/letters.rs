use async_trait::async_trait;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::letter::{Letter, LetterFilter, StoredLetter};
use keyvector_core::port::{DeadLetters, Result};

use super::MemoryScope;
use crate::letters::bounded;

/// The store's dead letters, written under one scope's tenures.
#[derive(Clone)]
pub struct MemoryLetters {
    pub(super) scope: MemoryScope,
}

/// What a letter is the letter of.
fn identity(letter: &Letter) -> impl PartialEq + '_ {
    (&letter.table, &letter.shard_id, &letter.sequence_number, letter.class)
}

fn passes(filter: &LetterFilter, letter: &Letter) -> bool {
    filter.table.as_ref().is_none_or(|table| *table == letter.table)
        && filter.class.is_none_or(|class| class == letter.class)
        && filter.since_ms.is_none_or(|since_ms| letter.created_at_ms >= since_ms)
        && filter.until_ms.is_none_or(|until_ms| letter.created_at_ms < until_ms)
}

#[async_trait]
impl DeadLetters for MemoryLetters {
    async fn write(&self, tenure: &Tenure, letters: &[Letter]) -> Result<Fenced> {
        Ok(self.scope.fenced(tenure, |contents| {
            for letter in letters {
                // Letters are few: a walk is good enough.
                let earlier =
                    contents.letters.iter().find(|(_, stored)| identity(stored) == identity(letter));
                let id = earlier.map(|(&id, _)| id).unwrap_or_else(|| {
                    contents.letters_written += 1;
                    contents.letters_written
                });
                contents.letters.insert(id, bounded(letter));
            }
        }))
    }

    async fn list(&self, filter: &LetterFilter) -> Result<Vec<StoredLetter>> {
        let contents = self.scope.lock();
        let passing = contents.letters.iter().filter(|(_, letter)| passes(filter, letter));
        let without_image = |letter: &Letter| Letter { image: None, ..letter.clone() };
        Ok(passing.map(|(&id, letter)| StoredLetter { id, letter: without_image(letter) }).collect())
    }

    async fn get(&self, id: u64) -> Result<Option<StoredLetter>> {
        Ok(self.scope.lock().letters.get(&id).map(|letter| StoredLetter { id, letter: letter.clone() }))
    }

    async fn remove(&self, ids: &[u64]) -> Result<usize> {
        let mut contents = self.scope.lock();
        Ok(ids.iter().filter(|id| contents.letters.remove(id).is_some()).count())
    }
}
