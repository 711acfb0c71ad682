//! Which texts are blank.

/// Whether a text holds nothing but white space and format characters (Unicode's category Cf), such as the zero-width
/// space: it has no meaning to embed.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || is_format(character))
}

/// Unicode 17's category Cf.
fn is_format(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}')
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
