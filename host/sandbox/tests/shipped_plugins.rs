//! The shipped plugins, built to WebAssembly, give what their native tests say.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;

use keyvector_core::document::{MetadataValue, Rendered};
use keyvector_core::schema::ColumnKind;
use keyvector_sandbox::{
    ColumnInfo, Engine, EngineConfig, LocalModel, Plugin, Purpose, TablePlugin, push_cell,
};

fn plugin(name: &str) -> Plugin {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist"), PathBuf::from);
    let path = folder.join(format!("{name}.wasm"));
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask plugins` builds it", path.display()));
    Engine::new(EngineConfig { threads: 1, ..EngineConfig::default() }).unwrap().load(name, &bytes).unwrap()
}

const FILMS: [(&str, &str, ColumnKind); 9] = [
    ("movie_id", "int", ColumnKind::PartitionKey),
    ("studio", "text", ColumnKind::ClusteringKey),
    ("title", "text", ColumnKind::Regular),
    ("year", "int", ColumnKind::Regular),
    ("genre", "text", ColumnKind::Regular),
    ("plot", "text", ColumnKind::Regular),
    ("runtime_min", "int", ColumnKind::Regular),
    ("tags", "set<text>", ColumnKind::Regular),
    ("unlisted", "boolean", ColumnKind::Regular),
];

/// Opens a table plugin on the film table, and renders rows given by column name as one batch.
async fn render(name: &str, config: &str, rows: &[&[(&str, &str)]]) -> Vec<Rendered> {
    let plugin = plugin(name);
    let info = TablePlugin::describe(&plugin, config).unwrap();
    let columns: Vec<_> = info
        .reads
        .iter()
        .map(|name| {
            let column = FILMS.iter().find(|column| column.0 == name).unwrap();
            ColumnInfo { name: name.clone(), cql_type: column.1.to_owned(), kind: column.2 }
        })
        .collect();
    let table = TablePlugin::open(&plugin, config, &columns).unwrap();
    let mut cells = Vec::new();
    for row in rows {
        for column in &columns {
            let text = row.iter().find(|cell| cell.0 == column.name).map(|cell| cell.1);
            push_cell(&mut cells, text.map(|text| bytes(&column.cql_type, text)).as_deref());
        }
    }
    let rendered = table.render(u32::try_from(rows.len()).unwrap(), cells).await.unwrap();
    assert_eq!(rendered.len(), rows.len());
    rendered
}

/// A cell's bytes. Sets are written as their elements with commas between.
fn bytes(cql_type: &str, text: &str) -> Vec<u8> {
    match cql_type {
        "int" => text.parse::<i32>().unwrap().to_be_bytes().to_vec(),
        "boolean" => vec![u8::from(text == "true")],
        "set<text>" => {
            let mut bytes = i32::try_from(text.split(',').count()).unwrap().to_be_bytes().to_vec();
            text.split(',').for_each(|element| push_cell(&mut bytes, Some(element.as_bytes())));
            bytes
        }
        _ => text.as_bytes().to_vec(),
    }
}

const LONG_VAULT: &[(&str, &str)] = &[
    ("movie_id", "12"),
    ("studio", "Redwood=Ridge"),
    ("title", "The Long Vault"),
    ("year", "1994"),
    ("plot", "A lock outlives its maker."),
    ("tags", "heist,night"),
];

#[tokio::test]
async fn movies_renders_skips_and_refuses() {
    let rows: [&[(&str, &str)]; 4] = [
        LONG_VAULT,
        &[("title", "x"), ("unlisted", "true")],
        &[("title", "x"), ("year", "-7")],
        &[("year", "1999")],
    ];
    let rendered = render("movies", "{}", &rows).await;
    let Rendered::Document(document) = &rendered[0] else { panic!("{rendered:?}") };
    assert_eq!(document.text, "The Long Vault (1994)\nA lock outlives its maker.");
    assert_eq!(document.metadata.0["year"], MetadataValue::Number(1994.0));
    assert_eq!(
        document.metadata.0["tags"],
        MetadataValue::TextList(vec!["heist".to_owned(), "night".to_owned()])
    );
    assert_eq!(document.metadata.0["studio"], MetadataValue::Text("Redwood=Ridge".to_owned()));
    assert_eq!(document.metadata.0.len(), 4);
    assert_eq!(rendered[1], Rendered::Skipped);
    let Rendered::Failed(failure) = &rendered[2] else { panic!("{rendered:?}") };
    assert_eq!(failure.reason, "column `year` is -7; it cannot be negative");
    assert_eq!(rendered[3], Rendered::Blank);
}

#[tokio::test]
async fn columns_renders_its_template() {
    let config =
        r#"{"text":"{title} ({year})\n{plot}","metadata":["studio",{"column":"year","type":"number"}]}"#;
    let rendered = render("columns", config, &[LONG_VAULT, &[]]).await;
    let Rendered::Document(document) = &rendered[0] else { panic!("{rendered:?}") };
    assert_eq!(document.text, "The Long Vault (1994)\nA lock outlives its maker.");
    assert_eq!(document.metadata.0["year"], MetadataValue::Number(1994.0));
    assert_eq!(rendered[1], Rendered::Blank);
}

#[tokio::test]
async fn refusals_reach_the_operator() {
    let columns = plugin("columns");
    let refusal = TablePlugin::describe(&columns, r#"{"text":"{title"}"#).unwrap_err().to_string();
    assert!(refusal.contains("the `{` at character 1 has no `}`"), "{refusal}");
    let config = r#"{"text":"{title}","metadata":[{"column":"title","type":"number"}]}"#;
    let title = ColumnInfo { name: "title".into(), cql_type: "text".into(), kind: ColumnKind::Regular };
    let refusal = TablePlugin::open(&columns, config, &[title]).err().unwrap().to_string();
    assert!(refusal.contains("column `title` is of type text; metadata of type number needs"), "{refusal}");
    let refusal = LocalModel::open(&plugin("fake"), r#"{"dimension":0}"#).err().unwrap().to_string();
    assert!(refusal.contains("1 to 4096 is needed"), "{refusal}");
}

#[tokio::test]
async fn static_gives_the_worked_vectors() {
    let golden = include_str!("../../../plugins/static/data/golden.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    let (model, info) = LocalModel::open(&plugin("static"), "{}").unwrap();
    assert_eq!(info.dimension, Some(256));
    let texts: Vec<_> = cases.iter().map(|case| case["text"].as_str().unwrap()).collect();
    let embedded = model.embed(&texts, Purpose::Document).await.unwrap();
    assert!(embedded.failures.is_empty(), "{:?}", embedded.failures);
    for (index, case) in cases.iter().enumerate() {
        let expected = case["vector"].as_array().unwrap();
        assert_eq!(expected.len(), 256);
        for (given, expected) in embedded.vector(index).iter().zip(expected) {
            let expected = expected.as_f64().unwrap();
            assert!((f64::from(*given) - expected).abs() <= 1e-6, "{:?}: {given} {expected}", texts[index]);
        }
    }
}

#[tokio::test]
async fn fake_fails_where_it_is_told_to() {
    let (model, _) = LocalModel::open(&plugin("fake"), r#"{"dimension":4}"#).unwrap();
    let texts = ["keyvector", "a [nan]", "a [trap]", "a [short]", "a [zero]"];
    let embedded = model.embed(&texts, Purpose::Document).await.unwrap();
    // The numbers of the native test.
    assert_eq!(embedded.vector(0), [-0.5435825, -0.56640744, 0.4886555, -0.38067895]);
    assert!(embedded.vector(1).iter().all(|number| number.is_nan()));
    assert_eq!(embedded.vector(4), [0.0; 4]);
    assert_eq!(embedded.failures.iter().map(|failure| failure.0).collect::<Vec<_>>(), [2, 3]);
    let reason = &embedded.failures[0].1.reason;
    assert!(reason.contains("told to fail by `[trap]`"), "a panic's message is part of the reason: {reason}");
}
