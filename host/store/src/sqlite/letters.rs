//! Dead letters.

use async_trait::async_trait;
use keyvector_core::change::SequenceNumber;
use keyvector_core::document::FailureClass;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::letter::{Letter, LetterFilter, StoredLetter};
use keyvector_core::port::{DeadLetters, Result};
use rusqlite::{Row, params};

use super::TableScope;
use super::connections::Work;
use super::leases::damaged;
use crate::letters::bounded;

/// The store's dead letters, written under one scope's tenures.
#[derive(Clone)]
pub struct SqliteLetters {
    scope: TableScope,
}

impl SqliteLetters {
    pub(super) fn new(scope: TableScope) -> Self {
        Self { scope }
    }
}

/// Images make letters heavy; this many go into one transaction.
const LETTERS_PER_TRANSACTION: usize = 100;

macro_rules! select_letters {
    ($image:literal, $rest:literal) => {
        concat!(
            "SELECT id, table_name, row_key, shard_id, sequence_number, place, class, reason, attempts, created_at_ms, ",
            "host_version, plugin_digest, ",
            $image,
            ", image_cut FROM letter ",
            $rest
        )
    };
}

#[async_trait]
impl DeadLetters for SqliteLetters {
    async fn write(&self, tenure: &Tenure, letters: &[Letter]) -> Result<Fenced> {
        let letters: Vec<Letter> = letters.iter().map(bounded).collect();
        self.scope
            .connections
            .write_fenced_in_parts(
                "write dead letters",
                &self.scope.name,
                tenure,
                letters,
                LETTERS_PER_TRANSACTION,
                |tx, letter| {
                    tx.prepare_cached(
                        "INSERT INTO letter (table_name, row_key, shard_id, sequence_number, place, class, reason,
                             attempts, created_at_ms, host_version, plugin_digest, image, image_cut)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
                         ON CONFLICT (table_name, shard_id, sequence_number, class) DO UPDATE SET
                             row_key = excluded.row_key, place = excluded.place, reason = excluded.reason,
                             attempts = excluded.attempts, created_at_ms = excluded.created_at_ms,
                             host_version = excluded.host_version, plugin_digest = excluded.plugin_digest,
                             image = excluded.image, image_cut = excluded.image_cut",
                    )?
                    .execute(params![
                        letter.table,
                        letter.key.as_ref().map(RowKey::as_str),
                        letter.shard_id,
                        letter.sequence_number.as_str(),
                        letter.place,
                        letter.class.as_str(),
                        letter.reason,
                        letter.attempts,
                        letter.created_at_ms,
                        letter.host_version,
                        letter.plugin_digest,
                        letter.image,
                        letter.image_cut,
                    ])?;
                    Ok(())
                },
            )
            .await
    }

    async fn list(&self, filter: &LetterFilter) -> Result<Vec<StoredLetter>> {
        let filter = filter.clone();
        self.scope
            .connections
            .read("list dead letters", move |connection| {
                let mut statement = connection.prepare_cached(select_letters!(
                    "NULL",
                    "WHERE (?1 IS NULL OR table_name = ?1) AND (?2 IS NULL OR class = ?2)
                     AND (?3 IS NULL OR created_at_ms >= ?3) AND (?4 IS NULL OR created_at_ms < ?4) ORDER BY id"
                ))?;
                let class = filter.class.map(FailureClass::as_str);
                let mut rows = statement.query(params![filter.table, class, filter.since_ms, filter.until_ms])?;
                let mut letters = Vec::new();
                while let Some(row) = rows.next()? {
                    letters.push(read_letter(row)?);
                }
                Ok(letters)
            })
            .await
    }

    async fn get(&self, id: u64) -> Result<Option<StoredLetter>> {
        let Ok(id) = i64::try_from(id) else { return Ok(None) };
        self.scope
            .connections
            .read("read a dead letter", move |connection| {
                let mut statement = connection.prepare_cached(select_letters!("image", "WHERE id = ?1"))?;
                let mut rows = statement.query([id])?;
                rows.next()?.map(read_letter).transpose()
            })
            .await
    }

    async fn remove(&self, ids: &[u64]) -> Result<usize> {
        let ids: Vec<i64> = ids.iter().filter_map(|&id| i64::try_from(id).ok()).collect();
        self.scope
            .connections
            .write("remove dead letters", move |tx| {
                let mut statement = tx.prepare_cached("DELETE FROM letter WHERE id = ?1")?;
                let mut removed = 0;
                for id in ids {
                    removed += statement.execute([id])?;
                }
                Ok(removed)
            })
            .await
    }
}

fn read_letter(row: &Row<'_>) -> Work<StoredLetter> {
    let id: i64 = row.get(0)?;
    let sequence_number: String = row.get(4)?;
    let class: String = row.get(6)?;
    let letter = Letter {
        table: row.get(1)?,
        key: row.get::<_, Option<String>>(2)?.map(RowKey::from_stored),
        shard_id: row.get(3)?,
        sequence_number: SequenceNumber::new(&sequence_number)
            .ok_or_else(|| damaged("a dead letter's sequence number"))?,
        place: row.get(5)?,
        class: FailureClass::parse(&class).ok_or_else(|| damaged("a dead letter's class"))?,
        reason: row.get(7)?,
        attempts: row.get(8)?,
        created_at_ms: row.get(9)?,
        host_version: row.get(10)?,
        plugin_digest: row.get(11)?,
        image: row.get(12)?,
        image_cut: row.get(13)?,
    };
    Ok(StoredLetter { id: u64::try_from(id).map_err(|_| damaged("a dead letter's id"))?, letter })
}
