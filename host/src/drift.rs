//! Compares the whole index with the table: the check behind "one vector for each row, every one current".

use std::collections::BTreeSet;

use keyvector_core::fingerprint::{hash_metadata, hash_text};
use keyvector_core::index::StoredVector;
use keyvector_core::letter::LetterFilter;
use keyvector_core::port;
use keyvector_core::row::Row;

use crate::clock;
use crate::render::{AfterDocument, render_row};
use crate::table::Table;

/// Rows and vectors are read in pages of this many.
const PAGE: usize = 500;

/// What stands in the table, and how the index differs from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Live rows.
    pub rows: u64,
    /// Of these, rows that the plugin gives a text and that are no dead letter.
    pub due: u64,
    /// Vectors in the index.
    pub vectors: u64,
    /// Of these, older vectors that dead-lettered rows have kept.
    pub parked: u64,
    /// Rows that are due a vector and have none.
    pub missing: u64,
    /// Vectors made from another text, other metadata, or by another model.
    pub stale: u64,
    /// Vectors without a row that is due one.
    pub orphaned: u64,
}

impl Drift {
    pub fn is_none(&self) -> bool {
        self.missing == 0 && self.stale == 0 && self.orphaned == 0
    }
}

/// Renders every live row and compares it with its vector, both sides read in key order.
///
/// # Errors
/// What a port says, or that the plugin is broken (as `Fatal`).
pub async fn drift(table: &Table) -> port::Result<Drift> {
    let letters =
        table.letters.list(&LetterFilter { table: Some(table.name.clone()), ..Default::default() }).await?;
    let dead: BTreeSet<String> =
        letters.into_iter().filter_map(|stored| stored.letter.key).map(|key| key.to_string()).collect();
    let mut drift = Drift::default();
    let mut rows = RowPages::new(table, clock::now_ms());
    let mut vectors = VectorPages::new(table);
    let (mut row, mut vector) = (rows.next().await?, vectors.next().await?);
    loop {
        let row_first = match (&row, &vector) {
            (None, None) => return Ok(drift),
            (Some((key, _)), Some(stored)) if *key == stored.key => {
                let (key, image) = row.take().expect("just matched");
                let stored = vector.take().expect("just matched");
                drift.rows += 1;
                drift.vectors += 1;
                compare(table, &key, &image, Some(&stored), &dead, &mut drift).await?;
                (row, vector) = (rows.next().await?, vectors.next().await?);
                continue;
            }
            (Some((key, _)), Some(stored)) => *key < stored.key,
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        if row_first {
            let (key, image) = row.take().expect("it comes first");
            drift.rows += 1;
            compare(table, &key, &image, None, &dead, &mut drift).await?;
            row = rows.next().await?;
        } else {
            drift.vectors += 1;
            drift.orphaned += 1;
            vector = vectors.next().await?;
        }
    }
}

async fn compare(
    table: &Table,
    key: &str,
    row: &Row,
    stored: Option<&StoredVector>,
    dead: &BTreeSet<String>,
    drift: &mut Drift,
) -> port::Result<()> {
    let rendered = render_row(table, row).await.map_err(|broken| port::Error::Fatal(broken.to_string()))?;
    let dead = dead.contains(key);
    if matches!(rendered, AfterDocument::Failed(_)) {
        drift.parked += u64::from(stored.is_some());
        // A row that fails and has no letter has left no trace at all.
        drift.due += u64::from(!dead);
        drift.missing += u64::from(!dead);
        return Ok(());
    }
    let AfterDocument::Document(document) = rendered else {
        drift.orphaned += u64::from(stored.is_some());
        return Ok(());
    };
    let current = stored.and_then(StoredVector::fingerprint).is_some_and(|fingerprint| {
        fingerprint.model == table.embedder.identity_hash
            && fingerprint.text == hash_text(&document.text)
            && fingerprint.metadata == hash_metadata(&document.metadata)
    });
    match (current, dead, stored) {
        (true, _, _) => drift.due += 1,
        (false, true, stored) => drift.parked += u64::from(stored.is_some()),
        (false, false, None) => {
            drift.due += 1;
            drift.missing += 1;
        }
        (false, false, Some(_)) => {
            drift.due += 1;
            drift.stale += 1;
        }
    }
    Ok(())
}

struct RowPages<'a> {
    table: &'a Table,
    now_ms: i64,
    page: std::vec::IntoIter<(String, Row)>,
    last: Option<String>,
}

impl<'a> RowPages<'a> {
    fn new(table: &'a Table, now_ms: i64) -> Self {
        Self { table, now_ms, page: Vec::new().into_iter(), last: None }
    }

    async fn next(&mut self) -> port::Result<Option<(String, Row)>> {
        if self.page.len() == 0 {
            self.page = self.table.rows.scan(self.last.as_deref(), PAGE, self.now_ms).await?.into_iter();
        }
        let next = self.page.next();
        if let Some((key, _)) = &next {
            self.last = Some(key.clone());
        }
        Ok(next)
    }
}

struct VectorPages<'a> {
    table: &'a Table,
    page: std::vec::IntoIter<StoredVector>,
    last: Option<String>,
}

impl<'a> VectorPages<'a> {
    fn new(table: &'a Table) -> Self {
        Self { table, page: Vec::new().into_iter(), last: None }
    }

    async fn next(&mut self) -> port::Result<Option<StoredVector>> {
        if self.page.len() == 0 {
            self.page = self.table.index.list(self.last.as_deref(), PAGE, false).await?.into_iter();
        }
        let next = self.page.next();
        if let Some(stored) = &next {
            self.last = Some(stored.key.clone());
        }
        Ok(next)
    }
}
