//! A plugin's bug sets the row that met it aside, and the reason says what and where.

use keyvector_core::document::{FailureClass, Rendered, RowFailure};
use keyvector_core::letter::scrub_reason;
use keyvector_sandbox::{Plugin, TablePlugin, push_cell};

use crate::{plugin, text_column};

/// Renders one row for each bug as one batch, between two rows without.
fn render(plugin: &Plugin, bugs: &[&str]) -> Vec<RowFailure> {
    let table = TablePlugin::open(plugin, "{}", &[text_column("bug")]).unwrap();
    let rows: Vec<_> = ["none"].iter().chain(bugs).chain(&["none"]).collect();
    let mut cells = Vec::new();
    rows.iter().for_each(|bug| push_cell(&mut cells, Some(bug.as_bytes())));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let rendered = runtime.block_on(table.render(u32::try_from(rows.len()).unwrap(), cells)).unwrap();
    let (first, last) = (&rendered[0], &rendered[rows.len() - 1]);
    for neighbour in [first, last] {
        let Rendered::Document(document) = neighbour else { panic!("{neighbour:?}") };
        assert_eq!(document.text, "no bug");
    }
    let failure = |rendered: &Rendered| match rendered {
        Rendered::Failed(failure) => failure.clone(),
        other => panic!("{other:?}"),
    };
    rendered[1..=bugs.len()].iter().map(failure).collect()
}

#[test]
fn python_exceptions_are_reasons() {
    let Some(plugin) = plugin("raises-python") else { return };
    let failures = render(&plugin, &["raise", "recurse", "surrogate", "column", "nan", "large"]);
    for failure in &failures {
        assert_eq!((failure.class, failure.attempts), (FailureClass::PluginRefused, 1), "{failure:?}");
    }
    let reasons: Vec<_> = failures.iter().map(|failure| failure.reason.as_str()).collect();
    assert!(
        reasons[0].starts_with("ValueError: invalid literal for int() with base 10: 'no number' (plugin.py:"),
        "{reasons:?}"
    );
    assert!(reasons[0].ends_with(" in parse)"), "{reasons:?}");
    assert!(reasons[1].starts_with("RecursionError: maximum recursion depth exceeded"), "{reasons:?}");
    assert!(reasons[2].starts_with("UnicodeEncodeError: "), "{reasons:?}");
    assert!(reasons[3].contains("add it to `reads`"), "{reasons:?}");
    assert_eq!(reasons[4], "metadata `score`: nan is not a finite number");
    assert_eq!(
        reasons[5],
        "metadata `score`: 9007199254740993 is beyond 2^53; declare the key as text and give it as text"
    );
}

#[test]
fn what_no_python_code_catches_is_the_end_of_the_reason() {
    let Some(plugin) = plugin("raises-python") else { return };
    let failures = render(&plugin, &["escape"]);
    assert_eq!(failures[0].class, FailureClass::PluginTrapped);
    // The traceback names 40 calls, more than a letter has room for, and what was raised stands near its end.
    let letter = scrub_reason(&failures[0].reason);
    assert!(failures[0].reason.len() > letter.len(), "{}", failures[0].reason);
    assert!(letter.contains("it said: Traceback"), "{letter}");
    assert!(letter.contains("plugin.Escapes: nobody caught this"), "{letter}");
}

#[test]
fn java_script_errors_are_reasons() {
    let Some(plugin) = plugin("raises-js") else { return };
    let failures = render(&plugin, &["raise", "text", "recurse", "column", "nan", "large", "no-text"]);
    for failure in &failures {
        assert_eq!((failure.class, failure.attempts), (FailureClass::PluginRefused, 1), "{failure:?}");
    }
    let reasons: Vec<_> = failures.iter().map(|failure| failure.reason.as_str()).collect();
    assert!(reasons[0].starts_with("TypeError: ") && reasons[0].contains("parse@"), "{reasons:?}");
    assert!(reasons[0].contains("plugin.js:"), "{reasons:?}");
    assert_eq!(reasons[1], "thrown: just words");
    assert!(reasons[2].starts_with("InternalError: too much recursion"), "{reasons:?}");
    assert!(reasons[3].contains("add it to `reads`"), "{reasons:?}");
    assert_eq!(reasons[4], "metadata `score`: NaN is not a finite number");
    assert_eq!(
        reasons[5],
        "metadata `score`: 9007199254740993 is beyond 2^53; declare the key as text and give it as text"
    );
    assert!(reasons[6].starts_with("TypeError: `text` is number; a string is needed"), "{reasons:?}");
}
