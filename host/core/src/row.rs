//! A row image: one cell a column of the table's schema, in the schema's order.

use std::fmt;

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
