//! What both stores hold a dead letter to.

use keyvector_core::letter::{IMAGE_BYTES_MAX, Letter, scrub_reason};

/// A letter within its bounds, whoever wrote it.
pub(crate) fn bounded(letter: &Letter) -> Letter {
    let mut letter = letter.clone();
    letter.reason = scrub_reason(&letter.reason);
    if let Some(image) = letter.image.as_mut().filter(|image| image.len() > IMAGE_BYTES_MAX) {
        image.truncate(IMAGE_BYTES_MAX);
        letter.image_cut = true;
    }
    letter
}
