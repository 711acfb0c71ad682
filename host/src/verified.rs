//! The verified write: brings rows' vectors up to the rows' current state, whatever came before. Serves everything
//! that starts from the table rather than from the stream.

use keyvector_core::change::{Before, SequenceNumber};
use keyvector_core::collapse::NetChange;
use keyvector_core::document::{Document, FailureClass, RowFailure};
use keyvector_core::fingerprint::hash_shard;
use keyvector_core::index::{Vector, check_vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::plan::{Action, DocumentAfter, DocumentBefore, plan};
use keyvector_core::port::{self, LeaseTable};
use keyvector_core::row::Row;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::embed::{Embedding, Interrupted, Purpose};
use crate::render::{AfterDocument, render_images};
use crate::table::Table;
use crate::vector;

/// The lease under which writes that belong to no shard are made. Each writer takes it anew from whoever has it.
pub const WRITES_LEASE: &str = "verified-writes";

/// A row that changes this often while it is written is left to the stream.
const ROUNDS_MAX: u32 = 10;

/// What a verified write did in the end.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Embedded,
    MetadataOnly,
    /// The row has no vector now: it is gone, or has no document.
    Deleted,
    /// The vector was right already.
    Nothing,
    /// The row still cannot be indexed.
    Failed(RowFailure),
}

/// A verified write that could not be carried through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Port(#[from] port::Error),
    #[error("{0}")]
    Broken(String),
    #[error("another process took over writing: try again when it is done")]
    Overtaken,
    #[error("stopped")]
    Stopped,
    #[error("the row kept changing while it was written: the stream brings its last state")]
    Restless,
}

/// Takes the lease for writes that belong to no shard, from whoever has it.
///
/// # Errors
/// What the lease table says; [`Error::Overtaken`] where another process takes it at the same moment.
pub async fn take_writes(leases: &dyn LeaseTable, owner: &str) -> Result<Tenure, Error> {
    for _ in 0..2 {
        let seen = leases.list().await?.into_iter().find(|lease| lease.lease_key == WRITES_LEASE);
        match seen {
            Some(seen) => return leases.take(&seen, owner).await?.ok_or(Error::Overtaken),
            None => leases.create(WRITES_LEASE, &[], &keyvector_core::lease::Checkpoint::TrimHorizon).await?,
        }
    }
    Err(Error::Overtaken)
}

/// A row to bring up to date, and where in the stream its state came from, as its vector's fingerprint will say.
#[derive(Clone, Copy, Debug)]
pub struct RowToWrite<'a> {
    pub key: &'a RowKey,
    /// Hash of the shard's id.
    pub shard: u32,
    pub sequence_number: &'a SequenceNumber,
}

/// One row alone; see [`verified_writes`].
///
/// # Errors
/// [`Error`]. The row's vector may then be old or current, never of another row.
pub async fn verified_write(
    table: &Table,
    tenure: &Tenure,
    key: &RowKey,
    sequence_number: &SequenceNumber,
    stop: &CancellationToken,
) -> Result<Written, Error> {
    let row = RowToWrite { key, shard: hash_shard(&tenure.lease_key), sequence_number };
    let mut written = verified_writes(table, tenure, &[row], stop).await?;
    Ok(written.pop().expect("one outcome for each row"))
}

/// Reads the rows, plans with nothing known of before, puts or deletes, and reads what was written again until it stood
/// still. Says what became of each row, in their order; each row once.
///
/// # Errors
/// [`Error`]. Each row's vector may then be old or current, never of another row.
pub async fn verified_writes(
    table: &Table,
    tenure: &Tenure,
    rows: &[RowToWrite<'_>],
    stop: &CancellationToken,
) -> Result<Vec<Written>, Error> {
    let mut outcomes: Vec<Option<Written>> = vec![None; rows.len()];
    let mut images = read(table, rows).await?;
    let mut todo: Vec<usize> = (0..rows.len()).collect();
    for _ in 0..ROUNDS_MAX {
        let picked: Vec<RowToWrite<'_>> = todo.iter().map(|&row| rows[row]).collect();
        let did = write_once(table, tenure, &picked, &images, stop).await?;
        let mut tried = Vec::new();
        for ((row, did), image) in todo.into_iter().zip(did).zip(images) {
            let again = did != Written::Nothing;
            // That a later round had nothing to do does not undo what the rounds before it wrote.
            if again || matches!(outcomes[row], None | Some(Written::Failed(_))) {
                outcomes[row] = Some(did);
            }
            if again {
                tried.push((row, image));
            }
        }
        let picked: Vec<RowToWrite<'_>> = tried.iter().map(|&(row, _)| rows[row]).collect();
        let now = read(table, &picked).await?;
        let moved = tried.into_iter().zip(now).filter(|((_, before), now)| before != now);
        (todo, images) = moved.map(|((row, _), now)| (row, now)).unzip();
        if todo.is_empty() {
            return Ok(outcomes.into_iter().map(|outcome| outcome.expect("each row was written")).collect());
        }
    }
    Err(Error::Restless)
}

async fn read(table: &Table, rows: &[RowToWrite<'_>]) -> Result<Vec<Option<Row>>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    Ok(table.rows.read(&keys, clock::now_ms()).await?)
}

/// One round: what these images ask for is done, whatever the index held.
async fn write_once(
    table: &Table,
    tenure: &Tenure,
    rows: &[RowToWrite<'_>],
    images: &[Option<Row>],
    stop: &CancellationToken,
) -> Result<Vec<Written>, Error> {
    // A plugin that loops takes a while to be found out.
    let documents = tokio::select! {
        () = stop.cancelled() => return Err(Error::Stopped),
        documents = render_images(table, images) => documents.map_err(|broken| Error::Broken(broken.to_string()))?,
    };
    let keys: Vec<&RowKey> = rows.iter().map(|row| row.key).collect();
    let stored = table.index.get(&keys, true).await?;

    // What each row comes to; `None` where its text is to be embedded.
    let mut written: Vec<Option<Written>> = Vec::with_capacity(rows.len());
    let (mut deletes, mut puts, mut embeds) = (Vec::new(), Vec::new(), Vec::new());
    for (position, (document, stored)) in documents.into_iter().zip(stored).enumerate() {
        let document = match document {
            AfterDocument::Failed(failure) => {
                written.push(Some(Written::Failed(failure)));
                continue;
            }
            AfterDocument::Document(document) => document,
            AfterDocument::Gone
            | AfterDocument::Skipped
            | AfterDocument::Blank
            | AfterDocument::Unchanged => {
                written.push(Some(if stored.is_some() { Written::Deleted } else { Written::Nothing }));
                deletes.push(rows[position].key.clone());
                continue;
            }
        };
        let after = DocumentAfter::Document(&document);
        match plan(DocumentBefore::Unknown, after, false, stored, table.embedder.identity_hash) {
            Action::Nothing | Action::Delete => written.push(Some(Written::Nothing)),
            Action::PutStored { data, cut_from } => {
                written.push(Some(Written::MetadataOnly));
                puts.push((position, build(table, &rows[position], Embedding { data, cut_from }, document)));
            }
            Action::Embed => {
                written.push(None);
                embeds.push((position, document));
            }
        }
    }
    let texts: Vec<&str> = embeds.iter().map(|(_, document)| document.text.as_str()).collect();
    let embedded = match texts.is_empty() {
        true => Vec::new(),
        false => table.embedder.embed(&texts, Purpose::Document, stop).await.map_err(interrupted)?,
    };
    for ((position, document), embedded) in embeds.into_iter().zip(embedded) {
        written[position] = Some(match embedded {
            Ok(embedding) => {
                puts.push((position, build(table, &rows[position], embedding, document)));
                Written::Embedded
            }
            Err(failure) => Written::Failed(failure),
        });
    }
    for (position, reason) in put(table, tenure, puts).await? {
        let failure = RowFailure { class: FailureClass::IndexRejected, reason, attempts: 1 };
        written[position] = Some(Written::Failed(failure));
    }
    if !deletes.is_empty() {
        fence(table.index.delete(tenure, &deletes).await?)?;
    }
    Ok(written.into_iter().map(|written| written.expect("each text was embedded or failed")).collect())
}

fn build(table: &Table, row: &RowToWrite<'_>, embedding: Embedding, document: Document) -> Vector {
    let change = NetChange {
        key: row.key.clone(),
        sequence_number: row.sequence_number.clone(),
        created_at_ms: None,
        before: Before::Unknown,
        after: None,
        position: 0,
        changes: 1,
        replicated: false,
    };
    vector::build(table, row.shard, &change, embedding.data, embedding.cut_from, document)
}

/// Puts vectors; gives back the positions of those that the index can never take, and why.
async fn put(
    table: &Table,
    tenure: &Tenure,
    vectors: Vec<(usize, Vector)>,
) -> Result<Vec<(usize, String)>, Error> {
    let mut refused = Vec::new();
    let (mut positions, mut accepted) = (Vec::new(), Vec::new());
    for (position, vector) in vectors {
        match check_vector(&table.description, &table.index_limits, &vector) {
            Ok(()) => {
                positions.push(position);
                accepted.push(vector);
            }
            Err(reason) => refused.push((position, reason)),
        }
    }
    if accepted.is_empty() {
        return Ok(refused);
    }
    match table.index.put(tenure, &accepted).await {
        Ok(fenced) => fence(fenced)?,
        // One of them: each alone then, which is rare and slow.
        Err(port::Error::Rejected(_)) => {
            for (position, vector) in positions.into_iter().zip(&accepted) {
                match table.index.put(tenure, std::slice::from_ref(vector)).await {
                    Ok(fenced) => fence(fenced)?,
                    Err(port::Error::Rejected(reason)) => refused.push((position, reason)),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(refused)
}

fn fence(fenced: Fenced) -> Result<(), Error> {
    match fenced {
        Fenced::Written => Ok(()),
        Fenced::Lost => Err(Error::Overtaken),
    }
}

fn interrupted(interrupted: Interrupted) -> Error {
    match interrupted {
        Interrupted::Stopped => Error::Stopped,
        Interrupted::Broken(reason) => Error::Broken(reason),
    }
}
