//! What the index needs for one row. Pure: everything it goes by is passed in.
//!
//! | before | after | action |
//! |---|---|---|
//! | any | row gone | delete |
//! | document, or unknown | no document | delete |
//! | no document | no document | nothing; delete if the change was folded |
//! | no document | document | embed |
//! | document | other text | embed |
//! | document | same text, other metadata | put with the stored vector, if it was made from this text by this model; else embed |
//! | document | same text and metadata | nothing; if the change was folded, as unknown |
//! | unknown | document | by the stored fingerprint: same → nothing; same text → put with the stored vector; else embed |

use crate::document::{Document, MetadataValue};
use crate::fingerprint::{Fingerprint, hash_metadata, hash_text};
use crate::index::{CUT_KEY, StoredVector};

/// A row's state before, as far as planning goes.
#[derive(Clone, Copy, Debug)]
pub enum DocumentBefore<'a> {
    /// Whatever it was, only the index can tell.
    Unknown,
    /// No row, or a row without a document.
    None,
    Document(&'a Document),
}

/// A row's state after.
#[derive(Clone, Copy, Debug)]
pub enum DocumentAfter<'a> {
    Gone,
    /// The row has no document: filtered out, or a blank text.
    None,
    Document(&'a Document),
}

/// What the index needs for one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Embed the after document's text and put the vector.
    Embed,
    /// Put this vector again with the after document's metadata: the text is the same, and so is what was cut off it.
    PutStored {
        data: Vec<f32>,
        cut_from: Option<usize>,
    },
    Delete,
    Nothing,
}

/// Whether [`plan`] has to know the stored vector.
pub fn needs_stored(before: DocumentBefore<'_>, after: DocumentAfter<'_>, folded: bool) -> bool {
    let DocumentAfter::Document(after) = after else { return false };
    match before {
        DocumentBefore::Unknown => true,
        DocumentBefore::None => false,
        DocumentBefore::Document(before) => {
            before.text == after.text && (folded || before.metadata != after.metadata)
        }
    }
}

/// Plans one row. `folded`: the change stands for more than one. `stored`: what the index holds, where
/// [`needs_stored`] asked for it. `model`: hash of the model identity that vectors must come from.
pub fn plan(
    before: DocumentBefore<'_>,
    after: DocumentAfter<'_>,
    folded: bool,
    stored: Option<StoredVector>,
    model: u64,
) -> Action {
    let after_document = match (before, after) {
        (_, DocumentAfter::Gone) => return Action::Delete,
        (DocumentBefore::None, DocumentAfter::None) if !folded => return Action::Nothing,
        (_, DocumentAfter::None) => return Action::Delete,
        (_, DocumentAfter::Document(document)) => document,
    };
    match before {
        DocumentBefore::None => Action::Embed,
        DocumentBefore::Document(before) if before.text != after_document.text => Action::Embed,
        DocumentBefore::Document(before) if !folded && before.metadata == after_document.metadata => {
            Action::Nothing
        }
        DocumentBefore::Document(_) | DocumentBefore::Unknown => compare(after_document, stored, model),
    }
}

fn compare(after: &Document, stored: Option<StoredVector>, model: u64) -> Action {
    let Some(stored) = stored else { return Action::Embed };
    let Some(fingerprint) = stored.fingerprint() else { return Action::Embed };
    if !made_from(&fingerprint, after, model) {
        return Action::Embed;
    }
    if fingerprint.metadata == hash_metadata(&after.metadata) {
        return Action::Nothing;
    }
    let cut_from = match stored.metadata.0.get(CUT_KEY) {
        Some(MetadataValue::Number(characters)) => Some(*characters as usize),
        _ => None,
    };
    match stored.data {
        Some(data) => Action::PutStored { data, cut_from },
        None => Action::Embed,
    }
}

fn made_from(fingerprint: &Fingerprint, document: &Document, model: u64) -> bool {
    fingerprint.model == model && fingerprint.text == hash_text(&document.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Metadata;
    use crate::index::FINGERPRINT_KEY;

    const MODEL: u64 = 7;

    fn document(text: &str, year: f64) -> Document {
        Document {
            text: text.to_owned(),
            metadata: Metadata([("year".into(), MetadataValue::Number(year))].into()),
        }
    }

    fn stored(document: &Document, model: u64) -> StoredVector {
        let fingerprint = Fingerprint {
            model,
            text: hash_text(&document.text),
            metadata: hash_metadata(&document.metadata),
            shard: 1,
            sequence_number: 1.into(),
        };
        let text = MetadataValue::Text(fingerprint.to_text());
        StoredVector {
            key: "k".into(),
            data: Some(vec![1.0]),
            metadata: Metadata([(FINGERPRINT_KEY.into(), text)].into()),
        }
    }

    #[test]
    fn every_line_of_the_table() {
        use DocumentAfter as A;
        use DocumentBefore as B;
        let (a, b, a2) = (document("a", 1.0), document("b", 1.0), document("a", 2.0));
        let put = Action::PutStored { data: vec![1.0], cut_from: None };
        let of = |document: &Document| Some(stored(document, MODEL));
        let other_model = || Some(stored(&a, MODEL + 1));
        // before, after, folded, stored, action, whether the stored vector is needed
        let cases = [
            (B::Unknown, A::Gone, false, None, Action::Delete, false),
            (B::None, A::Gone, true, None, Action::Delete, false),
            (B::Document(&a), A::Gone, false, None, Action::Delete, false),
            (B::Document(&a), A::None, false, None, Action::Delete, false),
            (B::Unknown, A::None, false, None, Action::Delete, false),
            (B::None, A::None, false, None, Action::Nothing, false),
            (B::None, A::None, true, None, Action::Delete, false),
            (B::None, A::Document(&a), false, None, Action::Embed, false),
            (B::Document(&b), A::Document(&a), false, None, Action::Embed, false),
            (B::Document(&b), A::Document(&a), true, None, Action::Embed, false),
            (B::Document(&a), A::Document(&a2), false, of(&a), put.clone(), true),
            (B::Document(&a), A::Document(&a2), false, None, Action::Embed, true),
            (B::Document(&a), A::Document(&a2), false, of(&b), Action::Embed, true),
            (B::Document(&a), A::Document(&a2), false, other_model(), Action::Embed, true),
            (B::Document(&a), A::Document(&a), false, None, Action::Nothing, false),
            (B::Document(&a), A::Document(&a), true, of(&a), Action::Nothing, true),
            (B::Document(&a), A::Document(&a), true, of(&b), Action::Embed, true),
            (B::Document(&a), A::Document(&a), true, of(&a2), put.clone(), true),
            (B::Document(&a), A::Document(&a), true, None, Action::Embed, true),
            (B::Unknown, A::Document(&a), false, of(&a), Action::Nothing, true),
            (B::Unknown, A::Document(&a), false, of(&a2), put, true),
            (B::Unknown, A::Document(&a), false, of(&b), Action::Embed, true),
            (B::Unknown, A::Document(&a), false, other_model(), Action::Embed, true),
            (B::Unknown, A::Document(&a), false, None, Action::Embed, true),
        ];
        for (line, (before, after, folded, stored, action, needed)) in cases.into_iter().enumerate() {
            assert_eq!(needs_stored(before, after, folded), needed, "case {line}: lookup");
            assert_eq!(plan(before, after, folded, stored, MODEL), action, "case {line}");
        }
    }

    #[test]
    fn a_vector_that_is_not_ours_is_embedded_again() {
        let a = document("a", 1.0);
        let foreign = StoredVector { key: "k".into(), data: Some(vec![1.0]), metadata: Metadata::default() };
        let action = plan(DocumentBefore::Unknown, DocumentAfter::Document(&a), false, Some(foreign), MODEL);
        assert_eq!(action, Action::Embed);
    }
}
