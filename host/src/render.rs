//! Net changes through the table plugin: which images need a document, and what the plugin made of them.

use keyvector_core::change::Before;
use keyvector_core::collapse::NetChange;
use keyvector_core::document::{Document, FailureClass, Rendered, RowFailure};
use keyvector_core::plan::{DocumentAfter, DocumentBefore};
use keyvector_core::row::{Cell, Row};
use keyvector_sandbox::{Broken, TablePlugin, push_cell};

use crate::table::Table;

/// One call into the plugin carries at most this many bytes of cells, unless one row alone has more: a guest's memory is
/// bounded, a batch of long rows is not.
const RENDER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A net change's documents.
#[derive(Debug)]
pub struct Documents {
    pub before: BeforeDocument,
    pub after: AfterDocument,
}

#[derive(Debug)]
pub enum BeforeDocument {
    Unknown,
    None,
    Document(Document),
    /// The cells that the plugin reads are the same in both images.
    SameAsAfter,
}

#[derive(Debug)]
pub enum AfterDocument {
    Gone,
    Skipped,
    Blank,
    Document(Document),
    /// One change, and nothing that the plugin reads differs: no call was made.
    Unchanged,
    Failed(RowFailure),
}

impl Documents {
    /// What planning goes by; `None` where there is nothing to plan.
    pub fn for_plan(&self) -> Option<(DocumentBefore<'_>, DocumentAfter<'_>)> {
        let after = match &self.after {
            AfterDocument::Gone => DocumentAfter::Gone,
            AfterDocument::Skipped | AfterDocument::Blank => DocumentAfter::None,
            AfterDocument::Document(document) => DocumentAfter::Document(document),
            AfterDocument::Unchanged | AfterDocument::Failed(_) => return None,
        };
        let before = match (&self.before, after) {
            (BeforeDocument::Unknown, _) => DocumentBefore::Unknown,
            (BeforeDocument::Document(document), _) => DocumentBefore::Document(document),
            (BeforeDocument::SameAsAfter, DocumentAfter::Document(document)) => {
                DocumentBefore::Document(document)
            }
            (BeforeDocument::None | BeforeDocument::SameAsAfter, _) => DocumentBefore::None,
        };
        Some((before, after))
    }
}

/// Renders what planning needs of these net changes, one entry a change. `before_unknown`: no before image is trusted,
/// as while the shard has not reached its tip since the lease was taken.
pub async fn render(
    table: &Table,
    changes: &[NetChange],
    before_unknown: bool,
) -> Result<Vec<Documents>, Broken> {
    let mut calls = Calls::new(&table.reads);
    let slots: Vec<Slots> = changes.iter().map(|change| calls.add(change, before_unknown)).collect();
    let mut rendered = calls.render(&table.plugin).await?;
    Ok(slots.into_iter().map(|slots| slots.fill(&mut rendered)).collect())
}

/// The images of rows, for what starts from the table rather than the stream; `None` is a row that is gone.
pub async fn render_images(table: &Table, images: &[Option<Row>]) -> Result<Vec<AfterDocument>, Broken> {
    let mut calls = Calls::new(&table.reads);
    let slots: Vec<AfterSlot> = images.iter().map(|image| calls.add_image(image.as_ref())).collect();
    let mut rendered = calls.render(&table.plugin).await?;
    Ok(slots.into_iter().map(|slot| slot.fill(&mut rendered)).collect())
}

/// One row alone, for what starts from the table rather than the stream.
pub async fn render_row(table: &Table, row: &Row) -> Result<AfterDocument, Broken> {
    render_image(&table.plugin, &table.reads, row).await
}

/// The same without a whole table. `reads`: positions in the schema of the columns that the plugin reads.
pub async fn render_image(plugin: &TablePlugin, reads: &[usize], row: &Row) -> Result<AfterDocument, Broken> {
    if let Some(failure) = unreadable(row, reads) {
        return Ok(AfterDocument::Failed(failure));
    }
    let mut cells = Vec::new();
    pack(row, reads, &mut cells);
    let rendered = plugin.render(1, cells).await?;
    Ok(rendered.into_iter().next().map_or(AfterDocument::Gone, after_of))
}

/// Where a net change's documents come from.
struct Slots {
    before: BeforeSlot,
    after: AfterSlot,
}

enum BeforeSlot {
    Unknown,
    None,
    SameAsAfter,
    Rendered(usize),
}

enum AfterSlot {
    Gone,
    Unchanged,
    Failed(RowFailure),
    Rendered(usize),
}

struct Calls<'a> {
    reads: &'a [usize],
    cells: Vec<Call>,
    rows: usize,
}

#[derive(Default)]
struct Call {
    rows: u32,
    cells: Vec<u8>,
}

impl<'a> Calls<'a> {
    fn new(reads: &'a [usize]) -> Self {
        Self { reads, cells: Vec::new(), rows: 0 }
    }

    fn add(&mut self, change: &NetChange, before_unknown: bool) -> Slots {
        let Some(after) = &change.after else {
            return Slots { before: BeforeSlot::Unknown, after: AfterSlot::Gone };
        };
        if let Some(failure) = unreadable(after, self.reads) {
            return Slots { before: BeforeSlot::Unknown, after: AfterSlot::Failed(failure) };
        }
        let before = match &change.before {
            _ if before_unknown || change.replicated => BeforeSlot::Unknown,
            Before::Unknown => BeforeSlot::Unknown,
            Before::Absent => BeforeSlot::None,
            Before::Row(before) if before.equal_in(after, self.reads) => {
                if change.changes == 1 {
                    return Slots { before: BeforeSlot::SameAsAfter, after: AfterSlot::Unchanged };
                }
                BeforeSlot::SameAsAfter
            }
            Before::Row(before) if unreadable(before, self.reads).is_some() => BeforeSlot::Unknown,
            Before::Row(before) => BeforeSlot::Rendered(self.push(before)),
        };
        Slots { before, after: AfterSlot::Rendered(self.push(after)) }
    }

    fn add_image(&mut self, image: Option<&Row>) -> AfterSlot {
        let Some(row) = image else { return AfterSlot::Gone };
        match unreadable(row, self.reads) {
            Some(failure) => AfterSlot::Failed(failure),
            None => AfterSlot::Rendered(self.push(row)),
        }
    }

    /// What the plugin makes of all rows, by their slots.
    async fn render(self, plugin: &TablePlugin) -> Result<Vec<Option<Rendered>>, Broken> {
        let mut rendered = Vec::with_capacity(self.rows);
        for call in self.cells {
            rendered.extend(plugin.render(call.rows, call.cells).await?.into_iter().map(Some));
        }
        Ok(rendered)
    }

    fn push(&mut self, row: &Row) -> usize {
        let bytes = packed_bytes(row, self.reads);
        if self.cells.last().is_none_or(|call| call.cells.len() + bytes > RENDER_BYTES_MAX) {
            self.cells.push(Call::default());
        }
        let call = self.cells.last_mut().expect("a call was just pushed");
        pack(row, self.reads, &mut call.cells);
        call.rows += 1;
        self.rows += 1;
        self.rows - 1
    }
}

impl Slots {
    fn fill(self, rendered: &mut [Option<Rendered>]) -> Documents {
        let before = match self.before {
            BeforeSlot::Unknown => BeforeDocument::Unknown,
            BeforeSlot::None => BeforeDocument::None,
            BeforeSlot::SameAsAfter => BeforeDocument::SameAsAfter,
            BeforeSlot::Rendered(slot) => match take(rendered, slot) {
                Rendered::Document(document) => BeforeDocument::Document(document),
                Rendered::Skipped | Rendered::Blank => BeforeDocument::None,
                // Only the after image can be poison.
                Rendered::Failed(_) => BeforeDocument::Unknown,
            },
        };
        Documents { before, after: self.after.fill(rendered) }
    }
}

impl AfterSlot {
    fn fill(self, rendered: &mut [Option<Rendered>]) -> AfterDocument {
        match self {
            Self::Gone => AfterDocument::Gone,
            Self::Unchanged => AfterDocument::Unchanged,
            Self::Failed(failure) => AfterDocument::Failed(failure),
            Self::Rendered(slot) => after_of(take(rendered, slot)),
        }
    }
}

fn take(rendered: &mut [Option<Rendered>], slot: usize) -> Rendered {
    rendered[slot].take().expect("each slot is filled once")
}

fn after_of(rendered: Rendered) -> AfterDocument {
    match rendered {
        Rendered::Document(document) => AfterDocument::Document(document),
        Rendered::Skipped => AfterDocument::Skipped,
        Rendered::Blank => AfterDocument::Blank,
        Rendered::Failed(failure) => AfterDocument::Failed(failure),
    }
}

/// A cell that the plugin reads and that cannot be read fails the row before any call.
fn unreadable(row: &Row, reads: &[usize]) -> Option<RowFailure> {
    reads.iter().find_map(|&column| match row.cell(column) {
        Cell::Fault(reason) => {
            Some(RowFailure { class: FailureClass::BadCell, reason: reason.to_owned(), attempts: 1 })
        }
        Cell::Null | Cell::Bytes(_) => None,
    })
}

fn packed_bytes(row: &Row, reads: &[usize]) -> usize {
    let bytes = |&column: &usize| match row.cell(column) {
        Cell::Bytes(bytes) => 4 + bytes.len(),
        Cell::Null | Cell::Fault(_) => 4,
    };
    reads.iter().map(bytes).sum()
}

/// Cells as the plugin boundary has them: a big-endian i32 length, −1 for null, then the value's bytes.
fn pack(row: &Row, reads: &[usize], out: &mut Vec<u8>) {
    for &column in reads {
        push_cell(
            out,
            match row.cell(column) {
                Cell::Bytes(bytes) => Some(bytes),
                Cell::Null | Cell::Fault(_) => None,
            },
        );
    }
}
