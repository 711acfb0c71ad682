//! Which texts are blank.

use keyvector_core::text::is_format;

/// Whether a text holds nothing but white space and format characters (Unicode's category Cf), such as the zero-width
/// space: it has no meaning to embed.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || is_format(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_format_characters_are_blank() {
        for blank in ["", " ", "\u{a0}\u{200b}", "\n\t\u{3000}", "\u{feff}", "\u{e0041}\u{ad}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for text in ["a", "\u{200b}.", "語", "\0", "🎬"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
