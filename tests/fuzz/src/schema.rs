//! `CREATE TABLE` texts.

use std::fmt::Write;

use keyvector_core::schema::{ColumnKind, TableSchema, quote_identifier};

use crate::Target;

/// A `table.cql`.
pub const SCHEMAS: Target = Target {
    name: "schema",
    run: schemas,
    samples,
    words: &[
        "CREATE TABLE ",
        "CREATE TYPE ",
        "CREATE KEYSPACE ",
        "USE ",
        "IF NOT EXISTS ",
        "PRIMARY KEY ",
        " STATIC",
        " WITH ",
        "CLUSTERING ORDER BY (",
        " DESC",
        " ASC",
        "MASKED WITH ",
        "frozen<",
        "list<",
        "map<",
        "vector<",
        "udt<",
        ">",
        "(",
        ")",
        "((",
        "))",
        ",",
        ";",
        ".",
        "\"",
        "\"\"",
        "'",
        "$$",
        "--",
        "//",
        "/*",
        "*/",
        "\n",
        " int",
        " text",
        " counter",
        "k.t",
        "\u{feff}",
        "\u{e9}",
        "CREATE INDEX ",
        "comment='",
    ],
};

fn schemas(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match TableSchema::parse_cql(text) {
        Ok(schema) => {
            let spelled = spell(&schema);
            let again = TableSchema::parse_cql(&spelled).unwrap_or_else(|fault| panic!("{spelled}\n{fault}"));
            assert_eq!(again, schema, "{spelled}");
            assert_eq!(again.describe_key(), schema.describe_key());
            assert!(!schema.partition_key().is_empty());
            assert_eq!(schema.clustering_descending().len(), schema.clustering_key().len());
            for (index, column) in schema.columns.iter().enumerate() {
                assert_eq!(schema.column_index(&column.name), Some(index), "{}", column.name);
            }
        }
        Err(fault) => {
            assert!(!fault.message.is_empty());
            let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
            assert!(fault.line.is_none_or(|line| (1..=lines).contains(&line)), "{fault} of {lines} lines");
        }
    }
}

/// The schema as CQL that says all of it.
fn spell(schema: &TableSchema) -> String {
    let quoted = |name: &str| quote_identifier(name);
    let mut text = format!("CREATE TABLE {}.{} (", quoted(&schema.keyspace), quoted(&schema.table));
    for column in &schema.columns {
        let kind = if column.kind == ColumnKind::Static { " STATIC" } else { "" };
        write!(text, "{} {}{kind}, ", quoted(&column.name), column.cql_type).unwrap();
    }
    let names = |columns: &[keyvector_core::schema::Column]| {
        columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
    };
    write!(text, "PRIMARY KEY (({})", names(schema.partition_key())).unwrap();
    if schema.clustering_key().is_empty() {
        return text + "));";
    }
    write!(text, ", {})) WITH CLUSTERING ORDER BY (", names(schema.clustering_key())).unwrap();
    let orders: Vec<String> = schema
        .clustering_key()
        .iter()
        .zip(schema.clustering_descending())
        .map(|(column, descending)| {
            format!("{} {}", quoted(&column.name), if *descending { "DESC" } else { "ASC" })
        })
        .collect();
    text + &orders.join(", ") + ");"
}

fn samples() -> Vec<Vec<u8>> {
    [
        crate::record::FILMS_SCHEMA,
        crate::record::READING_SCHEMA,
        "CREATE KEYSPACE k WITH replication = {'class': 'x'}; USE k; CREATE TABLE IF NOT EXISTS \"T\" (a int PRIMARY KEY);",
        "CREATE TABLE ks.\"Movies\" (\"movieId\" text, \"order\" int, token text, \"we\"\"ird\" text MASKED WITH mask_inner(1, 2), PRIMARY KEY ((\"movieId\"), \"order\")) WITH comment = 'it''s; x' AND CLUSTERING ORDER BY (\"order\" DESC); CREATE INDEX i ON t (a);",
        "CREATE TABLE k.t (a int, b text STATIC, c 'org.apache.cassandra.db.marshal.LongType', e 'com.example.It''s', d udt<x:int,\"Y\":vector<float,3>>, PRIMARY KEY (a, c));",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
