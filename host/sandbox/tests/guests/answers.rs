//! Every part of a table's answer, wrong in every way, through a guest that says what it is told.

use keyvector_core::document::{FailureClass, MetadataValue, Rendered};
use keyvector_sandbox::{Limits, RestartReason, TablePlugin};

use crate::puppet::Answer;
use crate::{failure_of, open_table, text_of};

type BreakIt = fn(&mut Answer);

fn puppet() -> TablePlugin {
    open_table("misbehave.wasm", "puppet", Limits::default()).unwrap()
}

#[test]
fn metadata_that_breaks_the_contract_fails_its_row_alone() {
    let deep = |depth: usize| format!(r#"{{"title":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let cases = [
        // Forged names of the host's, and others that were not declared.
        (r#"{"_fingerprint":"1.0"}"#.to_owned(), r#"key "_fingerprint" is not declared"#),
        (r#"{"_partition":"x"}"#.into(), r#"key "_partition" is not declared"#),
        (r#"{"\u005ffingerprint":"1.0"}"#.into(), r#"key "_fingerprint" is not declared"#),
        (r#"{"director":"x"}"#.into(), r#"key "director" is not declared"#),
        (r#"{"":1}"#.into(), r#"key "" is not declared"#),
        ("{\"a\u{9b}2J\":1}".into(), "key \"a\\u{9b}2J\" is not declared"),
        // Given twice, spelled alike or not.
        (r#"{"year":1,"year":1}"#.into(), r#"key "year" comes twice"#),
        (r#"{"year":1,"\u0079ear":2}"#.into(), r#"key "year" comes twice"#),
        (r#"{"year":null,"year":null}"#.into(), r#"key "year" comes twice"#),
        // Deeper than any declared type.
        (deep(4), "expected text"),
        (deep(5), "expected text"),
        (deep(100_000), "expected text"),
        (r#"{"tags":[["a"]]}"#.into(), "expected text"),
        (format!("{}1{}", r#"{"title":"#.repeat(50_000), "}".repeat(50_000)), "expected text"),
        ("[".repeat(100_000), "expected an object"),
        // Of another type.
        (r#"{"year":"1994"}"#.into(), "expected a number"),
        (r#"{"title":1994}"#.into(), "expected text"),
        (r#"{"seen":"true"}"#.into(), "expected a boolean"),
        (r#"{"seen":0}"#.into(), "expected a boolean"),
        (r#"{"tags":"a"}"#.into(), "expected a list of texts"),
        (r#"{"tags":["a",null]}"#.into(), "may not hold null"),
        (r#"{"scores":[1,"2"]}"#.into(), "expected a number"),
        (r#"{"year":{}}"#.into(), "expected a number"),
        // Numbers that are none, or not the same everywhere.
        (r#"{"year":NaN}"#.into(), "expected value"),
        (r#"{"year":Infinity}"#.into(), "expected value"),
        (r#"{"year":1e400}"#.into(), "number out of range"),
        (r#"{"scores":[-1e400]}"#.into(), "number out of range"),
        (r#"{"year":9007199254740993}"#.into(), "is beyond 2^53"),
        (r#"{"year":-9007199254740993}"#.into(), "is beyond 2^53"),
        (r#"{"year":18446744073709551616}"#.into(), "is beyond 2^53"),
        (r#"{"year":1e300}"#.into(), "is beyond 2^53"),
        (r#"{"year":01}"#.into(), "invalid number"),
        (r#"{"year":0x7c}"#.into(), "expected"),
        // Texts that are none.
        (r#"{"title":"\ud800"}"#.into(), "unexpected end of hex escape"),
        (r#"{"title":"\udc00"}"#.into(), "lone"),
        (r#"{"title":"\ud800\u0041"}"#.into(), "lone"),
        ("{\"title\":\"a\nb\"}".into(), "control character"),
        (r#"{"title":"\x41"}"#.into(), "invalid escape"),
        // No object, or not one alone.
        ("null".into(), "expected an object"),
        ("7".into(), "expected an object"),
        ("[]".into(), "expected an object"),
        (" ".into(), "EOF"),
        ("{".into(), "EOF"),
        (r#"{"year":1}{"year":1}"#.into(), "trailing characters"),
        (r#"{"year":1,}"#.into(), "trailing comma"),
        ("\u{feff}{}".into(), "expected value"),
        ("// a comment\n{}".into(), "expected value"),
    ];
    let table = puppet();
    let rows: Vec<_> = cases.iter().map(|(json, _)| ("text", json.as_str())).chain([("text", "")]).collect();
    let rendered = Answer::documents(&rows).render_in(&table);
    for ((json, part), rendered) in cases.iter().zip(&rendered) {
        let (class, reason, attempts) = failure_of(rendered);
        assert_eq!((class, attempts), (FailureClass::PluginOutput, 1), "{json}");
        assert!(reason.contains(part), "{json:.80}: {reason}");
        assert!(reason.len() < 500 && !reason.contains(char::is_control), "{reason:?}");
    }
    assert_eq!(text_of(&rendered[cases.len()]), "text", "the last one is well");
    assert_eq!(table.stats().restarts_total(), 0, "each failed alone");
}

#[test]
fn bytes_that_are_no_text_fail_their_row_alone() {
    let mut answer = Answer::default();
    answer.push(0, b"\xff", b"");
    answer.push(0, b"\xed\xa0\x80", b"");
    answer.push(0, b"text", b"{\"title\":\"\xc0\x80\"}");
    answer.push(0, b"text", b"\0");
    // Nobody looks at the metadata of a row without a document, and a reason in other bytes is one all the same.
    answer.push(1, b"\xff", b"\xff");
    answer.push(2, b"\xff\x1b[2J", b"\xff");
    answer.push(2, b" \n", b"");
    answer.push(0, b"text", b"{}");
    let rendered = answer.render_in(&puppet());
    for rendered in &rendered[..4] {
        assert_eq!(failure_of(rendered).0, FailureClass::PluginOutput);
    }
    assert_eq!(rendered[4], Rendered::Skipped);
    assert_eq!(failure_of(&rendered[5]), (FailureClass::PluginRefused, "\u{fffd}\\u{1b}[2J", 1));
    assert_eq!(failure_of(&rendered[6]), (FailureClass::PluginRefused, "refused without a reason", 1));
    assert_eq!(text_of(&rendered[7]), "text");
}

#[test]
fn texts_and_metadata_values_are_kept_as_they_are() {
    let odd = "a\0\u{1b}[31m\u{9b}\r\n\u{7f}\u{202e}b\u{2028}\u{feff}";
    let json =
        serde_json::json!({"title": odd, "tags": [odd, ""], "year": 9_007_199_254_740_992_u64}).to_string();
    let rendered = Answer::documents(&[(odd, &json)]).render_in(&puppet());
    let Rendered::Document(document) = &rendered[0] else { panic!("{rendered:?}") };
    assert_eq!(document.text, odd);
    assert_eq!(document.metadata.0["title"], MetadataValue::Text(odd.to_owned()));
    assert_eq!(document.metadata.0["tags"], MetadataValue::TextList(vec![odd.to_owned(), String::new()]));
    assert_eq!(document.metadata.0["year"], MetadataValue::Number(9_007_199_254_740_992.0));
}

#[test]
fn a_reason_of_a_mebibyte_loses_its_middle() {
    let mut answer = Answer::default();
    let where_it_was = " (plugin.py:7 in document)";
    answer.push(2, format!("{}{where_it_was}", "\u{202e}".repeat(1 << 17)).as_bytes(), b"");
    let rendered = answer.render_in(&puppet());
    let (_, reason, _) = failure_of(&rendered[0]);
    assert!(reason.len() <= 4096 && reason.starts_with("\\u{202e}\\u{202e}") && reason.contains('…'));
    assert!(reason.ends_with(where_it_was), "{reason}");
}

#[test]
fn a_frame_that_does_not_fit_one_row_is_no_answer() {
    let broken: [(&str, BreakIt); 12] = [
        ("answered 0 states for 1 rows", |answer| answer.states.clear()),
        ("answered 2 states for 1 rows", |answer| answer.states.push(0)),
        ("answered 100000 states for 1 rows", |answer| answer.states.resize(100_000, 1)),
        ("answered 0 texts for 1 rows", |answer| answer.texts.ends.clear()),
        ("answered 2 texts for 1 rows", |answer| answer.texts.ends.push(3)),
        ("texts: the last end is 4294967295, of 3", |answer| answer.texts.ends[0] = u32::MAX),
        ("texts: the last end is 2, of 3", |answer| answer.texts.ends[0] = 2),
        ("texts: the last end is 3, of 0", |answer| answer.texts.data.clear()),
        ("texts: the last end is 3, of 4", |answer| answer.texts.data.push(b'!')),
        ("answered 0 metadata for 1 rows", |answer| answer.metadata.ends.clear()),
        ("metadata: the last end is 0, of 2", |answer| answer.metadata.ends[0] = 0),
        ("metadata: the last end is 2, of 0", |answer| answer.metadata.data.clear()),
    ];
    for (part, break_it) in broken {
        let mut answer = Answer::documents(&[("one", "{}")]);
        break_it(&mut answer);
        let table = puppet();
        let rendered = answer.render_rows(&table, 1);
        let (class, reason, attempts) = failure_of(&rendered[0]);
        assert_eq!((class, attempts), (FailureClass::PluginOutput, 2), "{part}: {reason}");
        assert!(reason.contains(part), "{part}: {reason}");
        assert_eq!(table.stats().restarts(RestartReason::Output), 2, "{part}");
    }
}

#[test]
fn ends_that_fall_are_no_answer() {
    let broken: [BreakIt; 3] = [
        |answer| answer.texts.ends.reverse(),
        |answer| answer.texts.ends[0] = u32::MAX,
        |answer| answer.metadata.ends.reverse(),
    ];
    for break_it in broken {
        let mut answer = Answer::documents(&[("one", "{}"), ("two", "{}")]);
        break_it(&mut answer);
        let table = puppet();
        let rendered = answer.render_rows(&table, 2);
        // Alone, the first row still dictates two rows, and the second one nothing.
        assert!(failure_of(&rendered[0]).1.contains("answered 2 states for 1 rows"), "{rendered:?}");
        assert_eq!(failure_of(&rendered[1]).0, FailureClass::PluginTrapped);
        let stats = table.stats();
        assert_eq!((stats.restarts(RestartReason::Output), stats.restarts(RestartReason::Trap)), (3, 1));
    }
}
