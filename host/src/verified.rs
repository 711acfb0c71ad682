//! The verified write: brings one row's vector up to the row's current state, whatever came before. Serves everything
//! that starts from the table rather than from the stream.

use keyvector_core::change::{Before, SequenceNumber};
use keyvector_core::collapse::NetChange;
use keyvector_core::document::{FailureClass, RowFailure};
use keyvector_core::fingerprint::hash_shard;
use keyvector_core::index::check_vector;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::plan::{Action, DocumentAfter, DocumentBefore, plan};
use keyvector_core::port::{self, LeaseTable};
use keyvector_core::row::Row;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::embed::{Embedding, Interrupted, Purpose};
use crate::render::{AfterDocument, render_row};
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

/// Reads the row, plans with nothing known of before, puts or deletes, and reads again until the row stood still.
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
    let mut row = read(table, key).await?;
    let mut first = None;
    for _ in 0..ROUNDS_MAX {
        let written = write_once(table, tenure, key, row.as_ref(), sequence_number, stop).await?;
        let did = first.get_or_insert(written.clone()).clone();
        if written == Written::Nothing {
            return Ok(did);
        }
        let again = read(table, key).await?;
        if again == row {
            return Ok(written);
        }
        row = again;
    }
    Err(Error::Restless)
}

async fn read(table: &Table, key: &RowKey) -> Result<Option<Row>, Error> {
    Ok(table.rows.read(&[key.as_str()], clock::now_ms()).await?.pop().flatten())
}

async fn write_once(
    table: &Table,
    tenure: &Tenure,
    key: &RowKey,
    row: Option<&Row>,
    sequence_number: &SequenceNumber,
    stop: &CancellationToken,
) -> Result<Written, Error> {
    let after = match row {
        Some(row) => render_row(table, row).await.map_err(|broken| Error::Broken(broken.to_string()))?,
        None => AfterDocument::Gone,
    };
    let document = match after {
        AfterDocument::Failed(failure) => return Ok(Written::Failed(failure)),
        AfterDocument::Document(document) => document,
        AfterDocument::Gone | AfterDocument::Skipped | AfterDocument::Blank | AfterDocument::Unchanged => {
            let had = table.index.get(&[key], false).await?.pop().flatten().is_some();
            fence(table.index.delete(tenure, std::slice::from_ref(key)).await?)?;
            return Ok(if had { Written::Deleted } else { Written::Nothing });
        }
    };
    let stored = table.index.get(&[key], true).await?.pop().flatten();
    let action = plan(
        DocumentBefore::Unknown,
        DocumentAfter::Document(&document),
        false,
        stored,
        table.embedder.identity_hash,
    );
    let (data, cut_from, written) = match action {
        Action::Nothing | Action::Delete => return Ok(Written::Nothing),
        Action::PutStored { data, cut_from } => (data, cut_from, Written::MetadataOnly),
        Action::Embed => {
            let embedded = table.embedder.embed(&[document.text.as_str()], Purpose::Document, stop).await;
            match embedded.map_err(interrupted)?.pop().expect("one outcome for each text") {
                Ok(Embedding { data, cut_from }) => (data, cut_from, Written::Embedded),
                Err(failure) => return Ok(Written::Failed(failure)),
            }
        }
    };
    let change = NetChange {
        key: key.clone(),
        sequence_number: sequence_number.clone(),
        created_at_ms: None,
        before: Before::Unknown,
        after: None,
        position: 0,
        changes: 1,
        replicated: false,
    };
    let vector = vector::build(table, hash_shard(&tenure.lease_key), &change, data, cut_from, document);
    if let Err(reason) = check_vector(&table.description, &table.index_limits, &vector) {
        let failure = RowFailure { class: FailureClass::IndexRejected, reason, attempts: 1 };
        return Ok(Written::Failed(failure));
    }
    fence(table.index.put(tenure, std::slice::from_ref(&vector)).await?)?;
    Ok(written)
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
