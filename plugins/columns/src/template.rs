//! A text template: `{column}` stands for a cell, `{{` and `}}` for braces.

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Literal(String),
    /// A column by name, as the table spells it.
    Column(String),
}

/// Cuts a template into pieces, no two literals side by side.
///
/// # Errors
/// A brace without its partner, or no name between two: says where, in characters from 1.
pub(crate) fn parse(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let place = |byte: usize| template[..byte].chars().count() + 1;
    let mut characters = template.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '{' | '}' if characters.next_if(|&(_, next)| next == character).is_some() => {
                literal.push(character)
            }
            '{' => {
                let rest = &template[at + 1..];
                let Some(length) = rest.find(['{', '}']).filter(|&end| rest.as_bytes()[end] == b'}') else {
                    return Err(format!(
                        "the `{{` at character {} has no `}}`; write `{{{{` for a brace",
                        place(at)
                    ));
                };
                if length == 0 {
                    return Err(format!("the `{{}}` at character {} names no column", place(at)));
                }
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Column(rest[..length].to_owned()));
                while characters.next_if(|&(next, _)| next <= at + 1 + length).is_some() {}
            }
            '}' => {
                return Err(format!(
                    "the `}}` at character {} has no `{{`; write `}}}}` for a brace",
                    place(at)
                ));
            }
            _ => literal.push(character),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.to_owned())
    }
    fn column(name: &str) -> Piece {
        Piece::Column(name.to_owned())
    }

    #[test]
    fn templates_are_cut() {
        assert_eq!(
            parse("{a} ({b})\n{c}"),
            Ok(vec![column("a"), literal(" ("), column("b"), literal(")\n"), column("c")])
        );
        assert_eq!(parse("{{{a}}} }}{{"), Ok(vec![literal("{"), column("a"), literal("} }{")]));
        assert_eq!(parse("{Ünï cødé}é"), Ok(vec![column("Ünï cødé"), literal("é")]));
        assert_eq!(parse("{a}{b}"), Ok(vec![column("a"), column("b")]));
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn lonely_braces_are_named_by_place() {
        for (template, words) in [
            ("é{a", "`{` at character 2 has no `}`"),
            ("{a{b}}", "`{` at character 1 has no `}`"),
            ("a}", "`}` at character 2 has no `{`"),
            ("a{}", "`{}` at character 2 names no column"),
            ("{", "`{` at character 1"),
        ] {
            let refusal = parse(template).unwrap_err();
            assert!(refusal.contains(words), "{template}: {refusal}");
        }
    }

    proptest! {
        #[test]
        fn pieces_written_again_are_the_template(pieces in prop::collection::vec(("[^{}]{1,5}", "[{}é ]{0,3}"), 0..6)) {
            let escape = |text: &str| text.replace('{', "{{").replace('}', "}}");
            let template: String = pieces.iter().map(|(name, text)| format!("{{{name}}}{}", escape(text))).collect();
            let expected: Vec<Piece> = pieces
                .iter()
                .flat_map(|(name, text)| [column(name), literal(text)])
                .filter(|piece| *piece != literal(""))
                .collect();
            prop_assert_eq!(parse(&template).unwrap(), expected);
        }

        #[test]
        fn any_text_is_cut_or_refused(template in "[{}a-cé]{0,12}") {
            let _answer = parse(&template);
        }
    }
}
