//! What the film plugin does not use of C's SDK: the other kinds of cells, of metadata, and settings.

use keyvector_core::document::{Metadata, MetadataValue, Rendered};
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{ColumnInfo, Plugin, TablePlugin, push_cell};

use crate::plugin;

const COLUMNS: [&str; 8] = ["text", "integer", "number", "boolean", "timestamp", "uuid", "blob", "list"];

/// Renders one row, whose columns are given by name, type and cell.
fn render(plugin: &Plugin, config: &str, given: &[(&str, &str, &[u8])]) -> Rendered {
    let find = |name: &str| given.iter().find(|column| column.0 == name);
    let usual = |name| match name {
        "integer" | "number" => "int",
        "list" => "set<ascii>",
        other => other,
    };
    let columns = COLUMNS.map(|name| ColumnInfo {
        name: name.to_owned(),
        cql_type: find(name).map_or(usual(name), |column| column.1).to_owned(),
        kind: ColumnKind::Regular,
    });
    let table = TablePlugin::open(plugin, config, &columns).unwrap();
    let mut cells = Vec::new();
    COLUMNS.iter().for_each(|name| push_cell(&mut cells, find(name).map(|column| column.2)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(table.render(1, cells)).unwrap().remove(0)
}

fn document(rendered: Rendered) -> (String, Metadata) {
    match rendered {
        Rendered::Document(document) => (document.text, document.metadata),
        other => panic!("{other:?}"),
    }
}

fn reason(rendered: Rendered) -> String {
    match rendered {
        Rendered::Failed(failure) => failure.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cells_of_every_kind() {
    let Some(plugin) = plugin("cells-c") else { return };
    let uuid = *b"\x0b\xad\x0b\xad\x0b\xad\x1b\xad\x8b\xad\x0b\xad\x0b\xad\x0b\xad";
    let (text, metadata) = document(render(
        &plugin,
        "{}",
        &[
            ("text", "ascii", b"a"),
            ("integer", "bigint", &(-(1i64 << 53)).to_be_bytes()),
            ("number", "float", &(-0.1f32).to_be_bytes()),
            ("boolean", "boolean", &[1]),
            ("timestamp", "timestamp", &(-1i64).to_be_bytes()),
            ("uuid", "timeuuid", &uuid),
            ("blob", "blob", b"raw"),
            ("list", "list<text>", b"\0\0\0\x01\0\0\0\x01b"),
        ],
    ));
    assert_eq!(text, "hello. a 0bad0bad-0bad-1bad-8bad-0bad0bad0bad raw -1");
    let number = f64::from(-0.1f32);
    assert_eq!(metadata.0["integer"], MetadataValue::Number(-9_007_199_254_740_992.0));
    assert_eq!(metadata.0["number"], MetadataValue::Number(number));
    assert_eq!(metadata.0["boolean"], MetadataValue::Boolean(true));
    assert_eq!(metadata.0["list"], MetadataValue::TextList(vec!["b".to_owned()]));
    assert_eq!(metadata.0["numbers"], MetadataValue::NumberList(vec![number, 0.5]));

    for (cql_type, bytes, expected) in [
        ("double", 0.1f64.to_be_bytes().to_vec(), 0.1),
        ("double", 5e-324f64.to_be_bytes().to_vec(), 5e-324),
        ("float", f32::MIN_POSITIVE.to_be_bytes().to_vec(), f64::from(f32::MIN_POSITIVE)),
        ("tinyint", vec![0x80], -128.0),
        ("smallint", vec![0x7f, 0xff], 32767.0),
        ("counter", 7i64.to_be_bytes().to_vec(), 7.0),
    ] {
        let (_, metadata) = document(render(&plugin, "{}", &[("number", cql_type, &bytes)]));
        assert_eq!(metadata.0["number"], MetadataValue::Number(expected), "{cql_type}");
    }
    let (text, metadata) =
        document(render(&plugin, "{}", &[("uuid", "uuid", b""), ("number", "double", b"")]));
    assert_eq!((text.as_str(), metadata.0.len()), ("hello.", 0));
}

#[test]
fn what_no_index_holds_is_refused() {
    let Some(plugin) = plugin("cells-c") else { return };
    let beyond = ((1i64 << 53) + 1).to_be_bytes();
    assert_eq!(
        reason(render(&plugin, "{}", &[("integer", "bigint", &beyond)])),
        "metadata `integer`: 9007199254740993 is beyond 2^53; declare the key as text and give it as text"
    );
    let infinite = f64::INFINITY.to_be_bytes();
    assert_eq!(
        reason(render(&plugin, "{}", &[("number", "double", &infinite)])),
        "metadata `number`: inf is not a finite number"
    );
    assert_eq!(
        reason(render(&plugin, "{}", &[("uuid", "uuid", b"1")])),
        "column `uuid`: 1 bytes are no uuid"
    );
}

#[test]
fn settings() {
    let Some(plugin) = plugin("cells-c") else { return };
    let said = |config: &str| document(render(&plugin, config, &[])).0;
    assert_eq!(
        said(r#" { "loud" : true, "greeting":"a\"\\\/\né\ud83c\udfac\u00e9" , "weight":-1.5e3 } "#),
        "a\"\\/\né🎬é!"
    );
    let (_, metadata) = document(render(&plugin, r#"{"weight":-1.5e3}"#, &[("number", "tinyint", &[1])]));
    assert_eq!(metadata.0["numbers"], MetadataValue::NumberList(vec![1.0, -1500.0]));
    for (config, says) in [
        (r#"{"loud":1}"#, "`loud` is to be true or false"),
        (r#"{"weight":"1"}"#, "`weight` is to be a number"),
        (r#"{"greeting":null}"#, "`greeting` is to be a text"),
        (r#"{"greeting":"\ud83c"}"#, "`greeting` is to be a text"),
        (r#"{"loud":true"#, "it is no JSON"),
        (r#"{"loud":true}}"#, "text goes on after its end"),
        (r#"{"Loud":true}"#, "`Loud` is no key of this plugin"),
        ("", "a JSON object is needed; `{}` is an empty one"),
    ] {
        let refusal = TablePlugin::describe(&plugin, config).unwrap_err().to_string();
        assert_eq!(refusal, format!("cells-c refuses: configuration: {says}"), "{config}");
    }
}
