//! Names as CQL spells them.

use std::borrow::Cow;

/// Words that CQL reserves: as a name they need quotes.
///
/// # Source
/// Apache Cassandra 5.0, CQL reference, appendix A.
const RESERVED: [&str; 62] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "default",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "mbean",
    "mbeans",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "unset",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// The name as CQL needs it: quoted where letters, first character or a reserved word ask for it.
pub fn quote_if_needed(name: &str) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    let plain = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
        && RESERVED.binary_search(&name).is_err();
    if plain { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_where_cql_must() {
        assert!(RESERVED.is_sorted());
        for (name, quoted) in [
            ("street", "street"),
            ("a_1", "a_1"),
            ("Zip", "\"Zip\""),
            ("order", "\"order\""),
            ("we\"ird", "\"we\"\"ird\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
            ("blåbær", "\"blåbær\""),
        ] {
            assert_eq!(quote_if_needed(name), quoted);
        }
    }
}
