//! The same suite over every film plugin.

use keyvector_core::document::{FailureClass, Metadata, MetadataValue, Rendered};
use keyvector_core::schema::TableSchema;
use keyvector_sandbox::{Plugin, RestartReason, TablePlugin};

use crate::rows::{Expected, film_rows, schema, worked_cases};
use crate::{TestRow, open, plugin};

/// Makes a test of each language's plugin.
macro_rules! film_plugins {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            if let Some(plugin) = plugin($name) {
                conforms(&plugin);
            }
        })*
    };
}

film_plugins! {
    rust "movies"
    c "movies-c"
    java_script "movies-js"
    python "movies-python"
}

fn conforms(plugin: &Plugin) {
    let schema = schema();
    describes_itself_as_movies_does(plugin);
    gives_the_worked_answers(plugin, &schema);
    gives_of_every_film_what_movies_gives(plugin, &schema);
    refuses_a_wrong_table(plugin);
    refuses_an_unknown_key(plugin);
}

fn movies() -> Plugin {
    plugin("movies").expect("`cargo xtask plugins` builds it")
}

fn describes_itself_as_movies_does(plugin: &Plugin) {
    let info = |plugin: &Plugin| TablePlugin::describe(plugin, "{}").unwrap();
    assert_eq!(info(plugin), info(&movies()));
}

fn gives_the_worked_answers(plugin: &Plugin, schema: &TableSchema) {
    let opened = open(plugin, schema).unwrap();
    let cases = worked_cases();
    let rows: Vec<TestRow<'_>> = cases.iter().map(|(row, _)| row.as_slice()).collect();
    for batch in [1, 7, 256] {
        for (given, (row, expected)) in opened.render(&rows, batch).iter().zip(&cases) {
            let what = format!("{}, {batch} rows a call, {row:?}", plugin.name());
            match (given, expected) {
                (Rendered::Document(given), Expected::Document { text, metadata }) => {
                    assert_eq!(given.text, *text, "{what}");
                    let metadata: serde_json::Value = serde_json::from_str(metadata).unwrap();
                    assert_eq!(as_json(&given.metadata), metadata, "{what}");
                }
                (Rendered::Failed(failure), Expected::Failed(reason)) => {
                    assert_eq!(
                        (failure.class, failure.reason.as_str()),
                        (FailureClass::PluginRefused, *reason),
                        "{what}"
                    );
                }
                (Rendered::Skipped, Expected::Skipped) | (Rendered::Blank, Expected::Blank) => {}
                _ => panic!("{what}: {given:?}, not {expected:?}"),
            }
        }
    }
    // None of it was a trap that a second try hid. (A deadline may have passed: this machine may be busy.)
    let stats = opened.table.stats();
    for reason in [RestartReason::Trap, RestartReason::Output, RestartReason::Memory] {
        assert_eq!(stats.restarts(reason), 0, "{} {reason:?}", plugin.name());
    }
}

fn gives_of_every_film_what_movies_gives(plugin: &Plugin, schema: &TableSchema) {
    let films = film_rows(schema);
    let cells: Vec<Vec<_>> = films
        .iter()
        .map(|row| row.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect())
        .collect();
    let rows: Vec<TestRow<'_>> = cells.iter().map(Vec::as_slice).collect();
    assert!(rows.len() > 302, "{} row images", rows.len());
    let expected = open(&movies(), schema).unwrap().render(&rows, 256);
    let count = |of: fn(&Rendered) -> bool| expected[..302].iter().filter(|rendered| of(rendered)).count();
    assert_eq!(count(|rendered| matches!(rendered, Rendered::Document(_))), 298);
    assert_eq!(count(|rendered| matches!(rendered, Rendered::Skipped)), 4);
    let opened = open(plugin, schema).unwrap();
    for batch in [1, 7, 256] {
        for ((given, expected), row) in opened.render(&rows, batch).iter().zip(&expected).zip(&rows) {
            assert_eq!(given, expected, "{}, {batch} rows a call, {row:?}", plugin.name());
        }
    }
}

fn refuses_a_wrong_table(plugin: &Plugin) {
    let refusal = |column: &str, cql_type: &str| {
        let mut schema = schema();
        let index = schema.column_index(column).unwrap();
        schema.columns[index].cql_type = cql_type.parse().unwrap();
        open(plugin, &schema).err().unwrap().to_string()
    };
    let words = |rest: &str| format!("{} refuses: {rest}", plugin.name());
    assert_eq!(
        refusal("year", "text"),
        words("column `year` is of type text; tinyint, smallint, int, bigint or counter is needed")
    );
    assert_eq!(
        refusal("title", "list<text>"),
        words("column `title` is of type list<text>; text, varchar or ascii is needed")
    );
    assert_eq!(refusal("unlisted", "int"), words("column `unlisted` is of type int; boolean is needed"));
    // Which element types a language's SDK reads as texts differs, and so does the end of the sentence.
    for cql_type in ["text", "map<text,text>", "list<list<text>>"] {
        let begins = words(&format!("column `tags` is of type {cql_type}; a list"));
        assert!(refusal("tags", cql_type).starts_with(&begins), "{}", refusal("tags", cql_type));
    }
}

fn refuses_an_unknown_key(plugin: &Plugin) {
    let refusal = |config: &str| TablePlugin::describe(plugin, config).unwrap_err().to_string();
    let words = |rest: &str| format!("{} refuses: configuration: {rest}", plugin.name());
    assert_eq!(refusal(r#"{"txt":{"a":[1]}}"#), words("`txt` is no key of this plugin"));
    assert_eq!(refusal(r#"{"t\u00e9\"":1}"#), words("`té\"` is no key of this plugin"));
    assert_eq!(refusal("[]"), words("a JSON object is needed; `{}` is an empty one"));
}

fn as_json(metadata: &Metadata) -> serde_json::Value {
    let members = metadata.0.iter().map(|(name, value)| {
        let value = match value {
            MetadataValue::Text(text) => text.clone().into(),
            MetadataValue::Number(number) => (*number).into(),
            MetadataValue::Boolean(flag) => (*flag).into(),
            MetadataValue::TextList(texts) => texts.clone().into(),
            MetadataValue::NumberList(numbers) => numbers.clone().into(),
        };
        (name.to_string(), value)
    });
    serde_json::Value::Object(members.collect())
}
