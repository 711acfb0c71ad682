//! Any answer of a table, through the real boundary: the guest's mode `puppet` says what its first cell dictates.

use keyvector_core::document::Rendered;
use keyvector_sandbox::{TablePlugin, push_cell};

use crate::block_on;

/// What the guest is to answer; nothing is checked on the way.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    /// 0 document, 1 skipped, 2 failed.
    pub(crate) states: Vec<u8>,
    pub(crate) texts: Packed,
    pub(crate) metadata: Packed,
}

#[derive(Clone, Default)]
pub(crate) struct Packed {
    pub(crate) data: Vec<u8>,
    pub(crate) ends: Vec<u32>,
}

impl Packed {
    fn push(&mut self, item: &[u8]) {
        self.data.extend_from_slice(item);
        self.ends.push(number(self.data.len()));
    }
}

impl Answer {
    /// A document for each text and metadata.
    pub(crate) fn documents(rows: &[(&str, &str)]) -> Self {
        let mut answer = Self::default();
        for (text, metadata) in rows {
            answer.push(0, text.as_bytes(), metadata.as_bytes());
        }
        answer
    }

    pub(crate) fn push(&mut self, state: u8, text: &[u8], metadata: &[u8]) {
        self.states.push(state);
        self.texts.push(text);
        self.metadata.push(metadata);
    }

    /// Renders as many rows as there are states; all but the first hold nothing.
    pub(crate) fn render_in(&self, table: &TablePlugin) -> Vec<Rendered> {
        self.render_rows(table, self.states.len())
    }

    /// Renders `rows` rows with this answer, whether it fits or not.
    pub(crate) fn render_rows(&self, table: &TablePlugin, rows: usize) -> Vec<Rendered> {
        let mut cells = Vec::new();
        push_cell(&mut cells, Some(&self.to_bytes()));
        for _ in 1..rows {
            push_cell(&mut cells, None);
        }
        block_on(table.render(number(rows), cells)).unwrap()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_part(&mut bytes, &self.states);
        for packed in [&self.texts, &self.metadata] {
            push_part(&mut bytes, &packed.data);
            bytes.extend(number(packed.ends.len()).to_le_bytes());
            bytes.extend(packed.ends.iter().flat_map(|end| end.to_le_bytes()));
        }
        bytes
    }
}

fn push_part(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(number(part.len()).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn number(count: usize) -> u32 {
    count.try_into().unwrap()
}
