//! A row image: one cell a column of the table's schema, in the schema's order.

use std::fmt;

use crate::schema::TableSchema;

/// A row's cells in two allocations: all bytes end to end, and a span a column.
#[derive(Clone, PartialEq)]
pub struct Row {
    data: Vec<u8>,
    spans: Box<[Span]>,
    /// When the whole row expires, milliseconds since 1970.
    pub expires_at_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Span {
    Null,
    Bytes { start: u32, end: u32 },
    Fault { start: u32, end: u32 },
}

/// One cell of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Null, or absent.
    Null,
    /// The value in CQL's native-protocol bytes (version 5).
    Bytes(&'a [u8]),
    /// What came cannot be read as the column's type. It matters only where the key or the plugin reads the column.
    Fault(&'a str),
}

impl Row {
    /// Packs cells given in the schema's column order.
    ///
    /// # Panics
    /// When the cells hold more than 4 GiB together, which no source lets through.
    pub fn new<'a>(cells: impl IntoIterator<Item = Cell<'a>>) -> Self {
        let mut data = Vec::new();
        let spans = cells
            .into_iter()
            .map(|cell| {
                let start = offset(&data);
                match cell {
                    Cell::Null => Span::Null,
                    Cell::Bytes(bytes) => {
                        data.extend_from_slice(bytes);
                        Span::Bytes { start, end: offset(&data) }
                    }
                    Cell::Fault(reason) => {
                        data.extend_from_slice(reason.as_bytes());
                        Span::Fault { start, end: offset(&data) }
                    }
                }
            })
            .collect();
        Self { data, spans, expires_at_ms: None }
    }

    /// The cell of the schema's column `index`; null where this row has fewer columns.
    pub fn cell(&self, index: usize) -> Cell<'_> {
        match self.spans.get(index) {
            None | Some(Span::Null) => Cell::Null,
            Some(&Span::Bytes { start, end }) => Cell::Bytes(&self.data[start as usize..end as usize]),
            Some(&Span::Fault { start, end }) => Cell::Fault(
                std::str::from_utf8(&self.data[start as usize..end as usize]).unwrap_or("unreadable cell"),
            ),
        }
    }

    pub fn cells(&self) -> impl ExactSizeIterator<Item = Cell<'_>> {
        (0..self.spans.len()).map(|index| self.cell(index))
    }

    /// Whether both rows have the same cells in these columns: then one document stands for both.
    pub fn equal_in(&self, other: &Row, columns: &[usize]) -> bool {
        columns.iter().all(|&index| self.cell(index) == other.cell(index))
    }
}

fn offset(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("a row is far below 4 GiB")
}

/// Shows the shape only: cells are the user's data and never belong in a log.
impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} cells, {} bytes)", self.spans.len(), self.data.len())
    }
}

/// The number of the durable form of a row. A newer one is refused.
pub const ROW_FORMAT: u8 = 1;

/// Why a stored row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredRowError {
    #[error("a stored row has format {found}, this host knows {ROW_FORMAT}: upgrade the host")]
    Format { found: u8 },
    #[error("a stored row ends in the middle: the store is damaged")]
    Damaged,
}

/// A cell's mark in the durable form; null cells are left out.
const STORED_BYTES: u8 = 1;
const STORED_FAULT: u8 = 2;

impl Row {
    /// The durable form: format number, expiry (a mark byte, then i64), then for each cell that is not null a mark
    /// byte, the column's name and the content, each behind its u32 length. All numbers are big-endian. Cells go by
    /// name, so that a table that got or lost columns since still reads.
    pub fn to_stored(&self, schema: &TableSchema) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.data.len() + 24 * self.spans.len() + 10);
        out.push(ROW_FORMAT);
        match self.expires_at_ms {
            None => out.push(0),
            Some(at) => {
                out.push(1);
                out.extend_from_slice(&at.to_be_bytes());
            }
        }
        for (column, cell) in schema.columns.iter().zip(self.cells()) {
            let (mark, content) = match cell {
                Cell::Null => continue,
                Cell::Bytes(bytes) => (STORED_BYTES, bytes),
                Cell::Fault(reason) => (STORED_FAULT, reason.as_bytes()),
            };
            out.push(mark);
            for part in [column.name.as_bytes(), content] {
                out.extend_from_slice(&offset(part).to_be_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// Reads [`Row::to_stored`]'s form. Cells of columns that the schema does not have are dropped, columns that the
    /// form does not name are null.
    ///
    /// # Errors
    /// Another format, or damage.
    pub fn from_stored(schema: &TableSchema, stored: &[u8]) -> Result<Self, StoredRowError> {
        let (&format, mut rest) = stored.split_first().ok_or(StoredRowError::Damaged)?;
        if format != ROW_FORMAT {
            return Err(StoredRowError::Format { found: format });
        }
        let expires_at_ms = match take(&mut rest, 1)? {
            [0] => None,
            [1] => {
                Some(i64::from_be_bytes(take(&mut rest, 8)?.try_into().map_err(|_| StoredRowError::Damaged)?))
            }
            _ => return Err(StoredRowError::Damaged),
        };
        let mut cells = vec![Cell::Null; schema.columns.len()];
        // Cells are written in the schema's order, so the next column is usually the next cell's.
        let mut next = 0;
        while !rest.is_empty() {
            let mark = take(&mut rest, 1)?;
            let name = take_with_length(&mut rest)?;
            let content = take_with_length(&mut rest)?;
            let cell = match mark {
                [STORED_BYTES] => Cell::Bytes(content),
                [STORED_FAULT] => {
                    Cell::Fault(std::str::from_utf8(content).map_err(|_| StoredRowError::Damaged)?)
                }
                _ => return Err(StoredRowError::Damaged),
            };
            let named = |index: &usize| schema.columns[*index].name.as_bytes() == name;
            if let Some(index) = (next..cells.len()).chain(0..next).find(named) {
                cells[index] = cell;
                next = index + 1;
            }
        }
        let mut row = Self::new(cells);
        row.expires_at_ms = expires_at_ms;
        Ok(row)
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], StoredRowError> {
    let (taken, after) = rest.split_at_checked(length).ok_or(StoredRowError::Damaged)?;
    *rest = after;
    Ok(taken)
}

fn take_with_length<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], StoredRowError> {
    let length = u32::from_be_bytes(take(rest, 4)?.try_into().map_err(|_| StoredRowError::Damaged)?);
    take(rest, length as usize)
}
