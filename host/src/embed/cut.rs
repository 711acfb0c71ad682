//! Cuts texts into requests that a model takes, and a text that is too long to its beginning.

use std::ops::Range;

use keyvector_sandbox::ModelLimits;

/// About three bytes a token: English is nearer four, but an estimate that is too high costs only a smaller request.
const BYTES_PER_TOKEN: usize = 3;

pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Consecutive ranges of texts, each within the limits. A text that is over them by itself goes alone.
pub(super) fn cut_requests(texts: &[&str], limits: &ModelLimits) -> Vec<Range<usize>> {
    let over = |limit: Option<u32>, value: usize| limit.is_some_and(|limit| value > limit as usize);
    let mut requests = Vec::new();
    let (mut start, mut bytes, mut tokens) = (0, 0, 0);
    for (index, text) in texts.iter().enumerate() {
        let (text_bytes, text_tokens) = (text.len(), estimate_tokens(text));
        let full = index - start >= limits.texts_per_request.max(1) as usize
            || over(limits.bytes_per_request, bytes + text_bytes)
            || over(limits.tokens_per_request, tokens + text_tokens);
        if full && index > start {
            requests.push(start..index);
            (start, bytes, tokens) = (index, 0, 0);
        }
        bytes += text_bytes;
        tokens += text_tokens;
    }
    if start < texts.len() {
        requests.push(start..texts.len());
    }
    requests
}

/// The first `characters_max` characters: a cut never falls inside one.
pub(super) fn cut_text(text: &str, characters_max: usize) -> &str {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(texts: u32, bytes: Option<u32>, tokens: Option<u32>) -> ModelLimits {
        ModelLimits {
            texts_per_request: texts,
            bytes_per_request: bytes,
            tokens_per_request: tokens,
            tokens_per_text: None,
            characters_per_text: None,
        }
    }

    #[test]
    fn a_cut_never_falls_inside_a_character() {
        let text = format!("{}語", "a".repeat(499));
        assert_eq!(cut_text(&text, 500), text);
        assert_eq!(cut_text(&text, 499), "a".repeat(499));
        assert_eq!(cut_text("語語", 1), "語");
        assert_eq!(cut_text("", 0), "");
    }

    #[test]
    fn cuts_by_count_bytes_and_tokens() {
        assert_eq!(cut_requests(&["a"; 5], &limits(2, None, None)), [0..2, 2..4, 4..5]);
        assert_eq!(cut_requests(&["aaa", "bb", "c"], &limits(9, Some(5), None)), [0..2, 2..3]);
        assert_eq!(cut_requests(&["123456", "1", "1"], &limits(9, None, Some(2))), [0..1, 1..3]);
        assert!(cut_requests(&[], &limits(2, None, None)).is_empty());
    }

    #[test]
    fn a_text_over_the_limit_goes_alone() {
        assert_eq!(cut_requests(&["a", "bbbbbbbbb", "c"], &limits(9, Some(3), None)), [0..1, 1..2, 2..3]);
    }
}
