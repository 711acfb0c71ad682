//! Other people's words on their way to a log, a dead letter or a terminal: one line each, and nothing in it that acts.

/// Whether a terminal or a reader could take a character for something else than itself: it ends a line, steers the
/// terminal, or turns or hides what stands beside it. The two joiners do nothing of that, and words need them.
pub fn acts(character: char) -> bool {
    match character {
        '\u{200c}' | '\u{200d}' => false,
        '\u{2028}' | '\u{2029}' => true,
        _ => character.is_control() || is_format(character),
    }
}

/// Unicode 17's category Cf.
pub fn is_format(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}')
}

/// The text in one line, at most `bytes_max` bytes long: characters that [act](acts) are escaped (`\u{1b}`), and `…`
/// stands for what is cut off.
pub fn one_line(text: &str, bytes_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes_max));
    for character in text.chars() {
        let before = out.len();
        push_escaped(&mut out, character);
        if out.len() > bytes_max.saturating_sub('…'.len_utf8()) {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// The same of a text that loses its middle if it is too long: a quarter stays of its beginning, the rest of its end.
pub fn one_line_of_both_ends(text: &str, bytes_max: usize) -> String {
    let whole = escaped_within(text.chars(), bytes_max);
    if whole.len() == text.chars().count() {
        return whole.concat();
    }
    let head_bytes_max = bytes_max / 4;
    let tail_bytes_max = (bytes_max - head_bytes_max).saturating_sub('…'.len_utf8());
    let mut parts = escaped_within(text.chars(), head_bytes_max);
    parts.push('…'.to_string());
    parts.extend(escaped_within(text.chars().rev(), tail_bytes_max).into_iter().rev());
    parts.concat()
}

/// The first characters, as many as are within `bytes_max` when escaped.
fn escaped_within(characters: impl Iterator<Item = char>, bytes_max: usize) -> Vec<String> {
    let mut bytes = 0;
    let escaped = characters.map(|character| {
        let mut escaped = String::new();
        push_escaped(&mut escaped, character);
        escaped
    });
    escaped
        .take_while(|escaped| {
            bytes += escaped.len();
            bytes <= bytes_max
        })
        .collect()
}

/// Appends a character, escaped if it [acts].
pub fn push_escaped(out: &mut String, character: char) {
    match acts(character) {
        true => out.extend(character.escape_unicode()),
        false => out.push(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_escaped_and_words_are_not() {
        assert_eq!(one_line("a\u{1b}[31mb\n", 99), "a\\u{1b}[31mb\\u{a}");
        for acting in [
            "\r",
            "\u{7f}",
            "\u{9b}",
            "\u{ad}",
            "\u{61c}",
            "\u{200b}",
            "\u{202e}",
            "\u{2028}",
            "\u{2066}",
            "\u{feff}",
            "\u{e0041}",
        ] {
            let shown = one_line(acting, 99);
            assert!(shown.starts_with("\\u{") && shown.is_ascii(), "{shown}");
        }
        for word in ["Zoë's \"語\" 🎬", "می\u{200c}خواهم", "👩\u{200d}🚀", "\\u{1b}"] {
            assert_eq!(one_line(word, 99), word);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = one_line(&"語".repeat(1000), 1024);
        assert!(cut.len() <= 1024 && cut.ends_with("語…"));
        assert_eq!(one_line("\u{1b}\u{1b}", 12), "\\u{1b}…", "an escape stays whole");
    }

    #[test]
    fn long_texts_may_lose_their_middle_instead() {
        assert_eq!(one_line_of_both_ends("a\u{1b}[31mb\n", 99), "a\\u{1b}[31mb\\u{a}");
        let just_fits = "é".repeat(512);
        assert_eq!(one_line_of_both_ends(&just_fits, 1024), just_fits);
        let long = format!("trapped: {}\n{}\nthe end", "語".repeat(1000), "語\n".repeat(1000));
        let cut = one_line_of_both_ends(&long, 1024);
        assert!(cut.len() <= 1024 && cut.len() > 1024 - 16, "{}", cut.len());
        assert!(cut.starts_with("trapped: 語") && cut.contains("語…"), "{cut}");
        assert!(cut.ends_with("語\\u{a}\\u{a}the end"), "{cut}");
    }
}
