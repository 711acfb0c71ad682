//! `table.cql` files, good and bad.

use keyvector_core::schema::{ColumnKind, TableSchema, quote_identifier};
use proptest::prelude::*;

fn columns(schema: &TableSchema) -> Vec<String> {
    let shown = |kind| match kind {
        ColumnKind::PartitionKey => "partition",
        ColumnKind::ClusteringKey => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    };
    schema
        .columns
        .iter()
        .map(|column| format!("{} {} {}", column.name, column.cql_type, shown(column.kind)))
        .collect()
}

#[test]
fn a_whole_file() {
    let schema = TableSchema::parse_cql(
        r#"
        -- Made by DESCRIBE; tidied up since.
        CREATE KEYSPACE obs WITH replication = {'class': 'SimpleStrategy; not the end', 'replication_factor': '1'};
        USE obs;
        /* A type,
           and one that holds it. */
        CREATE TYPE IF NOT EXISTS obs.address (Street TEXT, "Zip" int);
        CREATE TYPE visit (place frozen<address>, at timestamp);
        // The table.
        CREATE TABLE IF NOT EXISTS "Readings" (
            site text, "Sensor" uuid, at timestamp, seq int,
            owner text STATIC,
            visits list<frozen<visit>>, -- collections of types
            labels frozen<map<text, frozen<tuple<int, "address">>>>,
            embedding vector<float, 3>,
            secret text MASKED WITH mask_inner(1, null),
            PRIMARY KEY ((site, "Sensor"), at, seq)
        ) WITH comment = 'it''s; fine' AND CLUSTERING ORDER BY (at DESC, seq ASC)
          AND CUSTOM_PROPERTIES = {'capacity_mode': {'throughput_mode': 'PAY_PER_REQUEST'}};
        CREATE INDEX by_owner ON obs."Readings" (owner);
        "#,
    )
    .unwrap();
    assert_eq!((schema.keyspace.as_str(), schema.table.as_str()), ("obs", "Readings"));
    assert_eq!(
        columns(&schema),
        [
            "site text partition",
            "Sensor uuid partition",
            "at timestamp clustering",
            "seq int clustering",
            "embedding vector<float,3> regular",
            "labels map<text,tuple<int,udt<street:text,\"Zip\":int>>> regular",
            "owner text static",
            "secret text regular",
            "visits list<udt<place:udt<street:text,\"Zip\":int>,at:timestamp>> regular",
        ]
    );
    assert_eq!(schema.clustering_descending(), [true, false]);
    assert_eq!(schema.partition_key().len(), 2);
    assert_eq!(schema.clustering_key()[0].name, "at");
    assert_eq!(schema.key_columns().len(), 4);
    assert_eq!(schema.column_index("owner"), Some(6));
    assert_eq!(schema.column_index("Owner"), None);
    assert_eq!(schema.describe_key(), "obs.\"Readings\"(site text, \"Sensor\" uuid; at timestamp, seq int)");
}

#[test]
fn short_forms() {
    let schema =
        TableSchema::parse_cql("\u{feff}create table KS.Movies (ID text primary key, plot text)").unwrap();
    assert_eq!(schema.describe_key(), "ks.movies(id text)");
    let schema = TableSchema::parse_cql("CREATE TABLE k.t (b int, a int, PRIMARY KEY (b, a));;").unwrap();
    assert_eq!(schema.describe_key(), "k.t(b int; a int)");
    // Reserved words and upper case as names, quoted and not.
    let schema = TableSchema::parse_cql(
        r#"CREATE TABLE ks."Movies" ("movieId" text, "order" int, token text, "we""ird" text, PRIMARY KEY (("movieId"), "order"))"#,
    )
    .unwrap();
    assert_eq!(schema.describe_key(), "ks.\"Movies\"(\"movieId\" text; \"order\" int)");
    assert!(schema.column_index("we\"ird").is_some() && schema.column_index("token").is_some());
    assert_eq!(quote_identifier("we\"ird"), "\"we\"\"ird\"");
}

#[test]
fn faults_name_line_and_cause() {
    for (text, line, message) in [
        ("", None, "there is no CREATE TABLE: write the table's, as DESCRIBE TABLE prints it"),
        (
            "CREATE TYPE a (b int);",
            None,
            "there is no CREATE TABLE: write the table's, as DESCRIBE TABLE prints it",
        ),
        (
            "\nCREATE TABLE t (a int PRIMARY KEY);",
            Some(2),
            "table t has no keyspace: write CREATE TABLE keyspace.t, or USE keyspace; before it",
        ),
        ("CREATE TABLE k.t (\n a int,\n b int);", Some(1), "table t has no PRIMARY KEY"),
        (
            "CREATE TABLE k.t (\n a int,\n b strange,\n PRIMARY KEY (a));",
            Some(3),
            "unknown type \"strange\": a user-defined type needs its CREATE TYPE before this line",
        ),
        ("CREATE TABLE k.t (a int,\n b list<,\n PRIMARY KEY (a));", Some(2), "a type's '<' has no '>'"),
        ("CREATE TABLE k.t (a int,\n b map<int>,\n PRIMARY KEY (a));", Some(2), "expected ',', found '>'"),
        ("CREATE TABLE k.t (a int,\n A int, PRIMARY KEY (a));", Some(2), "column \"a\" comes twice"),
        ("CREATE TABLE k.t (a int PRIMARY KEY,\n b int PRIMARY KEY);", Some(2), "a second PRIMARY KEY"),
        (
            "CREATE TABLE k.t (a int,\n PRIMARY KEY (a, z));",
            Some(2),
            "PRIMARY KEY names column \"z\", which the table does not have",
        ),
        ("CREATE TABLE k.t (a int,\n PRIMARY KEY (a, a));", Some(2), "PRIMARY KEY names column \"a\" twice"),
        (
            "CREATE TABLE k.t (a int,\n b int STATIC,\n PRIMARY KEY (a, b));",
            Some(2),
            "column \"b\" is STATIC and in the PRIMARY KEY",
        ),
        (
            "CREATE TABLE k.t (a int PRIMARY KEY, b int STATIC);",
            Some(1),
            "column \"b\" is STATIC, but the table has no clustering key",
        ),
        (
            "CREATE TABLE k.t (a counter PRIMARY KEY);",
            Some(1),
            "column \"a\" is in the PRIMARY KEY, which cannot hold a counter",
        ),
        (
            "CREATE TABLE k.t (a int PRIMARY KEY)\nWITH CLUSTERING ORDER BY (a DESC);",
            Some(2),
            "\"a\" is no clustering column of this table",
        ),
        (
            "CREATE TABLE k.t (a int PRIMARY KEY);\nCREATE TABLE k.u (a int PRIMARY KEY);",
            Some(2),
            "a second CREATE TABLE (the first is at line 1): one file describes one table",
        ),
        (
            "CREATE TABLE k.t (a int PRIMARY KEY)\nCREATE TABLE",
            Some(2),
            "expected ';' before the next statement, found CREATE",
        ),
        (
            "CREATE TABLE k.t (a int PRIMARY KEY);\nALTER TABLE k.t ADD b int;",
            Some(2),
            "ALTER is not for this file: it holds CREATE TYPE and one CREATE TABLE with all columns as they are now",
        ),
        ("CREATE TABLE k.t (a int PRIMARY KEY", Some(1), "expected ')', found the end of the file"),
        ("CREATE TABLE k.t (a int\n b int PRIMARY KEY)", Some(2), "expected ')', found b"),
        ("CREATE TABLE k.t (,)", Some(1), "expected the name of a column, found ','"),
        ("CREATE TABLE k.t (1a int)", Some(1), "expected the name of a column, found 1a"),
        ("CREATE TABLE k.t (\"\" int)", Some(1), "the name of a column is empty, found \"\""),
        ("CREATE TABLE k.t (a)", Some(1), "expected a type, found ')'"),
        ("CREATE TYPE k.t (a int,\n a int);", Some(2), "field \"a\" comes twice"),
        ("\n\"open", Some(2), "a \" has no end"),
        ("'open", Some(1), "a ' has no end"),
        ("\n/* open", Some(2), "a comment's /* has no */"),
        ("$$open", Some(1), "a text's $$ has no end"),
    ] {
        let fault = TableSchema::parse_cql(text).unwrap_err();
        assert_eq!((fault.line, fault.message.as_str()), (line, message), "{text}");
    }
}

/// Types that hold each other many times over grow without bound, and are stopped.
#[test]
fn exploding_types_are_refused() {
    let mut text = "CREATE TYPE k.t0 (a int);".to_owned();
    for level in 1..20 {
        let fields: Vec<String> = (0..10).map(|field| format!("f{field} frozen<t{}>", level - 1)).collect();
        text.push_str(&format!("\nCREATE TYPE k.t{level} ({});", fields.join(", ")));
    }
    let fault = TableSchema::parse_cql(&text).unwrap_err();
    assert_eq!(fault.line, Some(6), "{fault}");
    assert!(fault.message.contains("parts"), "{fault}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        drop(TableSchema::parse_cql(&text));
    }

    #[test]
    fn nearly_cql_is_survived(tokens in proptest::collection::vec(prop::sample::select(vec![
        "CREATE", "TABLE", "TYPE", "KEYSPACE", "USE", "k", ".", "t", "(", ")", ",", ";", "int", "text", "list", "<", ">", "frozen", "PRIMARY", "KEY", "STATIC", "WITH",
        "CLUSTERING", "ORDER", "BY", "DESC", "MASKED", "\"q\"", "'s'", "$$d$$", "--c\n", "/*c*/", "\n", "vector", "3", "tuple", "IF", "NOT", "EXISTS", "INDEX",
    ]), 0..50)) {
        drop(TableSchema::parse_cql(&tokens.join(" ")));
        drop(TableSchema::parse_cql(&format!("CREATE TABLE k.t (a int PRIMARY KEY {}", tokens.join(" "))));
    }
}
