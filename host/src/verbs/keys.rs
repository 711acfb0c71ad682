//! `keys encode` and `keys decode`: row keys from records or bytes, and back to typed values. For support work, and for
//! others who check their own keys against ours.

use std::io::{self, BufRead, Write};

use keyvector_core::change::{SequenceNumber, ViewType};
use keyvector_core::key::{Door, KEY_BYTES_MAX, KeyError, RowKey, where_clause};
use keyvector_core::record::{self, Record};
use keyvector_core::schema::{Column, ColumnKind, TableSchema, quote_identifier};
use keyvector_core::text::acts;
use keyvector_cql::{CqlType, CqlValue, TYPE_DEPTH_MAX, canonical_text};
use serde::Deserialize;
use serde_json::Value;

use super::show::json_text;

/// Reads lines and writes for each its row's key, or `error: ` with the class of failure and the reason: as many lines
/// out as in.
///
/// A line is a record in Keyspaces' JSON form, or, with `cql`, key columns in native-protocol bytes:
/// `{"columns":[{"name":"id","type":"int","role":"partition","bytes":"0000000c"}]}`. Types come from the schema where
/// there is one; otherwise from the record's union members (`textT` is text), or the line's `type`.
///
/// # Errors
/// Those of reading and writing; what a line says is never one.
pub(super) fn encode(
    schema: Option<&TableSchema>,
    cql: bool,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let content = line.trim_ascii();
        let key = if cql { key_of_bytes(schema, content) } else { key_of_record(schema, content) };
        let key = key.and_then(|key| {
            if key.is_too_long() {
                let bytes = key.as_str().len();
                return Err(format!(
                    "key-too-long: the key has {bytes} bytes, of which {KEY_BYTES_MAX} can be stored"
                ));
            }
            Ok(key)
        });
        match key {
            Ok(key) => writeln!(output, "{key}")?,
            // A reason may quote the line: it must stay one line, and harmless on a terminal.
            Err(reason) => writeln!(output, "error: {}", one_line(&reason))?,
        }
        line.clear();
    }
    output.flush()
}

/// Writes the key's values as JSON by column, each with its type and its text, then the condition that finds the row,
/// with placeholders and with literals.
///
/// # Errors
/// A key that is not one of this table's.
pub(super) fn decode(schema: &TableSchema, key: &str, mut output: impl Write) -> anyhow::Result<()> {
    let values = RowKey::from_stored(key).decode(schema).map_err(|error| {
        let key_columns = schema.describe_key();
        anyhow::anyhow!("{}; the table's key is {key_columns}", with_class(&error))
    })?;
    let mut members = Vec::new();
    let mut conditions = Vec::new();
    for (index, bytes) in values {
        let Column { name, cql_type, .. } = &schema.columns[index];
        let text = canonical_text(cql_type, &bytes)?;
        // Types with parts have JSON for their text already.
        let value =
            if text.starts_with('[') && cql_type.has_parts() { text } else { Value::from(text).to_string() };
        members.push(format!(
            "{}:{{\"type\":{},\"value\":{value}}}",
            Value::from(name.as_str()),
            Value::from(cql_type.to_string())
        ));
        let literal = literal(cql_type, &CqlValue::decode(cql_type, &bytes)?);
        conditions.push(literal.map(|literal| format!("{} = {literal}", quote_identifier(name))));
    }
    writeln!(output, "{}", json_text(&format!("{{{}}}", members.join(","))))?;
    writeln!(output, "{}", where_clause(schema))?;
    if let Some(conditions) = conditions.into_iter().collect::<Option<Vec<_>>>() {
        writeln!(output, "WHERE {}", conditions.join(" AND "))?;
    }
    Ok(())
}

fn key_of_record(schema: Option<&TableSchema>, line: &[u8]) -> Result<RowKey, String> {
    let guessed;
    let schema = match schema {
        Some(schema) => schema,
        None => {
            guessed = schema_of_record(line)?;
            &guessed
        }
    };
    // The key does not depend on the record's place, which may be missing here.
    match record::parse(schema, ViewType::NewAndOldImages, line, Some(SequenceNumber::from(0))) {
        Ok(Record::Row(change)) => Ok(change.key),
        Ok(Record::Partition(change)) => {
            Err(format!("bad-key: the record names no row, only the partition {}", change.partition))
        }
        Err(bad) => Err(format!("{}: {}", bad.class.as_str(), bad.reason)),
    }
}

/// A schema of the key alone, as far as the record tells.
fn schema_of_record(line: &[u8]) -> Result<TableSchema, String> {
    let unreadable = |reason: &str| format!("bad-record: {reason}");
    let record: Value = serde_json::from_slice(line)
        .map_err(|error| unreadable(&format!("it is not a JSON record: {error}")))?;
    let mut columns = Vec::new();
    for (member, kind) in
        [("partitionKeys", ColumnKind::PartitionKey), ("clusteringKeys", ColumnKind::ClusteringKey)]
    {
        for (name, value) in record.get(member).and_then(Value::as_object).into_iter().flatten() {
            let cql_type = type_of(&[value], 0)
                .map_err(|reason| format!("bad-key: key column {}: {reason}", quote_identifier(name)))?;
            columns.push(Column { name: name.clone(), cql_type, kind });
        }
    }
    if columns.is_empty() {
        // The reader of records knows other forms by name.
        let key = Column { name: String::new(), cql_type: CqlType::Text, kind: ColumnKind::PartitionKey };
        columns.push(key);
    }
    TableSchema::new("", "", columns).map_err(|error| unreadable(&error.to_string()))
}

/// The type of values that stand in one place: of the first that has one, since the reader of records compares the
/// others with it.
fn type_of(values: &[&Value], depth: usize) -> Result<CqlType, String> {
    if depth == TYPE_DEPTH_MAX {
        return Err(format!("it nests deeper than {TYPE_DEPTH_MAX} levels"));
    }
    let unions = || values.iter().filter_map(|value| value.as_object()?.iter().next());
    let Some((member, _)) = unions().find(|(_, content)| !content.is_null()) else {
        // Nothing but nulls, whose text is the same for every type.
        return Ok(CqlType::Text);
    };
    let contents: Vec<&Value> =
        unions().filter(|(other, _)| *other == member).map(|(_, content)| content).collect();
    let parts = |part: &str| -> Vec<&Value> {
        contents
            .iter()
            .filter_map(|content| content.as_array())
            .flatten()
            .filter_map(|cell| cell.get(part))
            .collect()
    };
    let inner = |values: &[&Value]| type_of(values, depth + 1).map(Box::new);
    Ok(match member.as_str() {
        "listT" => CqlType::List(inner(&parts("value"))?),
        "setT" => CqlType::Set(inner(&parts("value"))?),
        "mapT" => CqlType::Map(inner(&parts("key"))?, inner(&parts("value"))?),
        "tupleT" => {
            let tuples: Vec<&Vec<Value>> = contents.iter().filter_map(|content| content.as_array()).collect();
            let fields = tuples.iter().map(|tuple| tuple.len()).max().unwrap_or(0).max(1);
            let field = |index: usize| {
                let cells = tuples.iter().filter_map(|tuple| tuple.get(index)?.get("value"));
                type_of(&cells.collect::<Vec<_>>(), depth + 1)
            };
            CqlType::Tuple((0..fields).map(field).collect::<Result<_, _>>()?)
        }
        "udtT" => {
            return Err(
                "a user-defined type's fields have an order that only --schema table.cql tells".to_owned()
            );
        }
        "boolT" => CqlType::Boolean,
        scalar => scalar
            .strip_suffix('T')
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase()))
            .and_then(|name| name.parse().ok())
            .ok_or_else(|| format!("the value type {scalar:?} is not known to this host"))?,
    })
}

/// A line of `keys encode --cql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBytes {
    columns: Vec<ColumnBytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnBytes {
    name: String,
    #[serde(rename = "type")]
    cql_type: Option<String>,
    role: Option<Role>,
    /// Hexadecimal; null for a null.
    bytes: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Partition,
    Clustering,
}

fn key_of_bytes(schema: Option<&TableSchema>, line: &[u8]) -> Result<RowKey, String> {
    let unreadable = |reason: String| format!("bad-record: {reason}");
    let line: KeyBytes = serde_json::from_slice(line).map_err(|error| unreadable(error.to_string()))?;
    let mut cells: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    let mut columns = Vec::new();
    for ColumnBytes { name, cql_type, role, bytes } in line.columns {
        let fault = |reason: String| unreadable(format!("column {}: {reason}", quote_identifier(&name)));
        let bytes = match bytes {
            Some(hex) => Some(unhex(&hex).ok_or_else(|| fault("its bytes are not hexadecimal".to_owned()))?),
            None => None,
        };
        if schema.is_none() {
            let cql_type =
                cql_type.ok_or_else(|| fault("it has no type, and there is no --schema".to_owned()))?;
            let cql_type = cql_type.parse().map_err(|error| fault(format!("{error}")))?;
            let kind =
                match role.ok_or_else(|| fault("it has no role, and there is no --schema".to_owned()))? {
                    Role::Partition => ColumnKind::PartitionKey,
                    Role::Clustering => ColumnKind::ClusteringKey,
                };
            columns.push(Column { name: name.clone(), cql_type, kind });
        }
        cells.push((name, bytes));
    }
    let guessed;
    let schema = match schema {
        Some(schema) => schema,
        None => {
            guessed = TableSchema::new("", "", columns).map_err(|error| unreadable(error.to_string()))?;
            &guessed
        }
    };
    if let Some((name, _)) =
        cells.iter().find(|(name, _)| !schema.key_columns().iter().any(|column| column.name == *name))
    {
        let key_columns = schema.describe_key();
        return Err(unreadable(format!("column {} is not in the key {key_columns}", quote_identifier(name))));
    }
    let bytes_of = |index: usize| {
        let name = &schema.columns[index].name;
        cells.iter().find(|(known, _)| known == name).and_then(|(_, bytes)| bytes.as_deref())
    };
    RowKey::encode(schema, bytes_of, Door::Cql).map_err(|error| with_class(&error))
}

fn with_class(error: &KeyError) -> String {
    format!("{}: {error}", error.class.as_str())
}

fn one_line(text: &str) -> String {
    text.chars().map(|character| if acts(character) { ' ' } else { character }).collect()
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digit = |character: u8| char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|&[high, low]| Some((digit(high)? << 4) | digit(low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// The value as it can be typed into cqlsh; `None` where CQL has no way to write it, or a terminal should not see it.
fn literal(cql_type: &CqlType, value: &CqlValue) -> Option<String> {
    let text = || canonical_text(cql_type, &value.encode(cql_type).ok()?).ok();
    let all = |values: &[CqlValue], element: &CqlType| -> Option<String> {
        let literals: Option<Vec<_>> = values.iter().map(|value| literal(element, value)).collect();
        Some(literals?.join(", "))
    };
    Some(match (value, cql_type) {
        (CqlValue::Null, _) => "null".to_owned(),
        (CqlValue::Empty, _) if cql_type.has_parts() => return None,
        (CqlValue::Empty, _) => {
            let name = cql_type.to_string();
            format!("blobAs{}{}(0x)", name[..1].to_uppercase(), &name[1..])
        }
        (CqlValue::Text(text) | CqlValue::Ascii(text), _) => {
            if text.contains(acts) {
                return None;
            }
            quoted(text)
        }
        (CqlValue::Blob(_), _) => format!("0x{}", text()?),
        // Years of more than four digits have no text in CQL, but the server's own number has.
        (CqlValue::Date(days), _) => match text()? {
            date if date.len() == 10 => quoted(&date),
            _ => (i64::from(*days) + (1 << 31)).to_string(),
        },
        (CqlValue::Time(_) | CqlValue::Inet(_), _) => quoted(&text()?),
        (CqlValue::List(values), CqlType::List(element))
        | (CqlValue::Vector(values), CqlType::Vector(element, _)) => {
            format!("[{}]", all(values, element)?)
        }
        (CqlValue::Set(values), CqlType::Set(element)) => format!("{{{}}}", all(values, element)?),
        (CqlValue::Map(entries), CqlType::Map(key_type, value_type)) => {
            let entries: Option<Vec<_>> = entries
                .iter()
                .map(|(key, value)| {
                    Some(format!("{}: {}", literal(key_type, key)?, literal(value_type, value)?))
                })
                .collect();
            format!("{{{}}}", entries?.join(", "))
        }
        (CqlValue::Tuple(values), CqlType::Tuple(fields)) => {
            let literals: Option<Vec<_>> =
                values.iter().zip(fields).map(|(value, field)| literal(field, value)).collect();
            format!("({})", literals?.join(", "))
        }
        (CqlValue::Udt(values), CqlType::Udt(fields)) => {
            let literals: Option<Vec<_>> = values
                .iter()
                .zip(fields)
                .map(|((name, value), (_, field))| {
                    Some(format!("{}: {}", quote_identifier(name), literal(field, value)?))
                })
                .collect();
            format!("{{{}}}", literals?.join(", "))
        }
        // Numbers, booleans, uuids and timestamps in milliseconds are written as their text.
        _ => text()?,
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(schema: Option<&TableSchema>, cql: bool, input: &str) -> Vec<String> {
        let mut output = Vec::new();
        encode(schema, cql, input.as_bytes(), &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    fn table(text: &str) -> TableSchema {
        TableSchema::parse_cql(text).unwrap()
    }

    fn films() -> TableSchema {
        table("CREATE TABLE demo.films (movie_id int, studio text, PRIMARY KEY (movie_id, studio));")
    }

    #[test]
    fn records_to_keys_with_and_without_a_schema() {
        let film = r#"{"partitionKeys":{"movie_id":{"intT":"12"}},"clusteringKeys":{"studio":{"textT":"Redwood=Ridge"}},"sequenceNumber":"1"}"#;
        for schema in [None, Some(&films())] {
            let lines = format!("{film}\r\n\n{{}}\nnot json\n{film}");
            let keys = encoded(schema, false, &lines);
            assert_eq!(keys.len(), 5, "{keys:?}");
            assert_eq!(
                (keys[0].as_str(), keys[4].as_str()),
                ("movie_id=12&studio=Redwood%3DRidge", keys[0].as_str())
            );
            assert!(keys[1..4].iter().all(|line| line.starts_with("error: bad-record: ")), "{keys:?}");
        }
        let contradicting =
            r#"{"partitionKeys":{"movie_id":{"textT":"12"}},"clusteringKeys":{"studio":{"textT":"a"}}}"#;
        assert_eq!(encoded(None, false, contradicting), ["movie_id=12&studio=a"]);
        assert_eq!(
            encoded(Some(&films()), false, contradicting),
            ["error: bad-key: key column \"movie_id\": the stream says textT, the schema int"]
        );
        let partition = r#"{"partitionKeys":{"movie_id":{"intT":"12"}}}"#;
        assert_eq!(
            encoded(Some(&films()), false, partition),
            ["error: bad-key: the record names no row, only the partition movie_id=12"]
        );
        let long = film.replace("Redwood=Ridge", &"🎬".repeat(300));
        assert_eq!(
            encoded(None, false, &long),
            ["error: key-too-long: the key has 3619 bytes, of which 1024 can be stored"]
        );
        let debezium = r#"{"payload":{"op":"c"}}"#;
        assert!(encoded(None, false, debezium)[0].contains("a Debezium envelope"));
    }

    #[test]
    fn types_come_from_the_union_members() {
        for (value, text) in [
            (r#"{"boolT":true}"#, "true"),
            (r#"{"varcharT":"a"}"#, "a"),
            (r#"{"floatT":"0.10"}"#, "0.1"),
            (r#"{"blobT":"yv4="}"#, "cafe"),
            (r#"{"listT":[]}"#, "%5B%5D"),
            (r#"{"setT":[{"value":{"intT":"2"}},{"value":{"intT":"010"}}]}"#, "%5B%2210%22%2C%222%22%5D"),
            (r#"{"tupleT":[{},{"value":{"intT":"7"}}]}"#, "%5Bnull%2C%227%22%5D"),
            // Only the second tuple tells what the first field is.
            (
                r#"{"listT":[{"value":{"tupleT":[{}]}},{"value":{"tupleT":[{"value":{"doubleT":"1"}}]}}]}"#,
                "%5B%5Bnull%5D%2C%5B%221.0%22%5D%5D",
            ),
            (r#"{"mapT":[{"key":{"textT":"a"},"value":{"intT":"1"}}]}"#, "%5B%5B%22a%22%2C%221%22%5D%5D"),
        ] {
            let record = format!(r#"{{"partitionKeys":{{"k":{value}}}}}"#);
            assert_eq!(encoded(None, false, &record), [format!("k={text}")], "{value}");
        }
        for (value, reason) in [
            (r#"{"udtT":{}}"#, "--schema"),
            (r#"{"hyperT":"1"}"#, "hyperT"),
            (r#"{"durationT":"1d"}"#, "cannot hold a duration"),
            (r#"{"listT":[{"value":{"intT":"1"}},{"value":{"textT":"1"}}]}"#, "the stream says textT"),
            ("{}", "null"),
            ("7", "JSON number"),
        ] {
            let record = format!(r#"{{"partitionKeys":{{"k":{value}}}}}"#);
            let line = encoded(None, false, &record).remove(0);
            assert!(line.starts_with("error: ") && line.contains(reason), "{value}: {line}");
        }
        let deep = format!("{}{}", r#"{"listT":[{"value":"#.repeat(40), "}]}".repeat(40));
        assert!(
            encoded(None, false, &format!(r#"{{"partitionKeys":{{"k":{deep}}}}}"#))[0].starts_with("error: ")
        );
    }

    #[test]
    fn bytes_to_keys() {
        let film = r#"{"columns":[{"name":"studio","type":"text","role":"clustering","bytes":"41"},{"name":"movie_id","type":"int","role":"partition","bytes":"0000000C"}]}"#;
        assert_eq!(encoded(None, true, film), ["movie_id=12&studio=A"]);
        assert_eq!(encoded(Some(&films()), true, film), ["movie_id=12&studio=A"]);
        let bare = r#"{"columns":[{"name":"studio","bytes":""},{"name":"movie_id","bytes":"0000000c"}]}"#;
        assert_eq!(encoded(Some(&films()), true, bare), ["movie_id=12&studio="]);

        let decimal = |role: &str| {
            format!(
                r#"{{"columns":[{{"name":"p","type":"int","role":"partition","bytes":"00000001"}},{{"name":"k","type":"decimal","role":"{role}","bytes":"000000020096"}}]}}"#
            )
        };
        assert_eq!(encoded(None, true, &decimal("partition")), ["k=1.50&p=1"]);
        assert_eq!(encoded(None, true, &decimal("clustering")), ["k=1.5&p=1"]);

        for (line, reason) in [
            (
                r#"{"columns":[{"name":"k","type":"varint","role":"partition","bytes":"0001"}]}"#,
                "key-not-canonical: key column \"k\"",
            ),
            (
                r#"{"columns":[{"name":"k","type":"int","role":"partition","bytes":null}]}"#,
                "bad-key: key column \"k\": it is null or missing",
            ),
            (
                r#"{"columns":[{"name":"k","type":"int","role":"partition","bytes":"00"}]}"#,
                "bad-key: key column \"k\"",
            ),
            (r#"{"columns":[{"name":"k","type":"int","role":"partition","bytes":"0"}]}"#, "not hexadecimal"),
            (r#"{"columns":[{"name":"k","type":"what","role":"partition","bytes":""}]}"#, "unknown type"),
            (r#"{"columns":[{"name":"k","type":"int","role":"static","bytes":""}]}"#, "unknown variant"),
            (r#"{"columns":[{"name":"k","bytes":""}]}"#, "it has no type"),
            (r#"{"columns":[]}"#, "no PRIMARY KEY"),
            (r#"{"columns":[{"name":"k","typo":"int"}]}"#, "unknown field"),
            ("", "bad-record"),
        ] {
            let line = encoded(None, true, &format!("{line}\n")).remove(0);
            assert!(line.starts_with("error: ") && line.contains(reason), "{line}");
        }
        let stranger = r#"{"columns":[{"name":"k","bytes":""}]}"#;
        assert!(
            encoded(Some(&films()), true, stranger)[0]
                .contains("not in the key demo.films(movie_id int; studio text)")
        );
    }

    fn decoded(schema: &TableSchema, key: &str) -> String {
        let mut output = Vec::new();
        decode(schema, key, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn keys_to_values() {
        assert_eq!(
            decoded(&films(), "movie_id=12&studio=Redwood%3DRidge"),
            "{\"movie_id\":{\"type\":\"int\",\"value\":\"12\"},\"studio\":{\"type\":\"text\",\"value\":\"Redwood=Ridge\"}}\n\
             WHERE \"movie_id\" = ? AND \"studio\" = ?\n\
             WHERE \"movie_id\" = 12 AND \"studio\" = 'Redwood=Ridge'\n"
        );
        // No literal where a control character would reach the terminal.
        let bell = decoded(&films(), "movie_id=12&studio=%07");
        assert!(bell.contains("\\u0007") && !bell.contains('\u{7}'), "{bell}");
        assert_eq!(bell.lines().count(), 2);

        let error = decode(&films(), "movie_id=012&studio=a", Vec::new()).unwrap_err().to_string();
        assert!(
            error.starts_with("bad-key: ")
                && error.ends_with("the table's key is demo.films(movie_id int; studio text)"),
            "{error}"
        );
    }

    #[test]
    fn literals() {
        for (cql_type, text, expected) in [
            ("text", "it%27s", "'it''s'"),
            ("bigint", "-9007199254740993", "-9007199254740993"),
            ("decimal", "1E-7", "1E-7"),
            ("double", "NaN", "NaN"),
            ("boolean", "true", "true"),
            ("blob", "cafe", "0xcafe"),
            ("uuid", "b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d77", "b3a1c7de-5f42-4c08-9d0e-6a2f1c3b5d77"),
            ("timestamp", "-1", "-1"),
            ("date", "2026-02-28", "'2026-02-28'"),
            ("date", "%2B5881580-07-11", "4294967295"),
            ("time", "08%3A00%3A00.000000000", "'08:00:00.000000000'"),
            ("inet", "2001%3Adb8%3A%3A17", "'2001:db8::17'"),
            ("int", "", "blobAsInt(0x)"),
            ("frozen<list<text>>", "%5B%22a%22%2C%22b%27c%22%5D", "['a', 'b''c']"),
            ("frozen<set<int>>", "%5B%2210%22%2C%222%22%5D", "{10, 2}"),
            ("frozen<map<text, int>>", "%5B%5B%22a%22%2C%221%22%5D%5D", "{'a': 1}"),
            ("frozen<tuple<int, text>>", "%5B%221%22%2Cnull%5D", "(1, null)"),
            ("frozen<addr>", "%5B%22a%22%2C%221%22%5D", "{\"Street\": 'a', \"no\": 1}"),
            ("vector<float, 2>", "%5B%221.0%22%2C%22-2.5%22%5D", "[1.0, -2.5]"),
        ] {
            let schema = table(&format!(
                "CREATE TYPE ks.addr (\"Street\" text, no int); CREATE TABLE ks.t (k {cql_type} PRIMARY KEY);"
            ));
            let lines = decoded(&schema, &format!("k={text}"));
            assert_eq!(lines.lines().last().unwrap(), format!("WHERE \"k\" = {expected}"), "{cql_type}");
            let json: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
            assert!(json["k"]["value"].is_string() || json["k"]["value"].is_array(), "{json}");
        }
    }
}
