//! Reading a `table.cql`.

use std::collections::BTreeMap;

use keyvector_cql::CqlType;

use super::{Column, ColumnKind, TableSchema, quote_identifier};

/// Why a `table.cql` cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// From 1; `None` where no single line is at fault.
    pub line: Option<usize>,
    pub message: String,
}

impl SchemaError {
    pub(super) fn new(line: Option<usize>, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SchemaError {}

pub(super) fn parse_cql(text: &str) -> Result<TableSchema, SchemaError> {
    let mut statements = Statements { tokens: tokens(text)?, at: 0, keyspace: None, types: BTreeMap::new() };
    let mut table: Option<(TableSchema, usize)> = None;
    while let Some(token) = statements.peek() {
        let line = token.line;
        if statements.eat(";") {
            continue;
        }
        if statements.eat_words(&["use"]) {
            statements.keyspace = Some(statements.name("a keyspace")?);
        } else if statements.eat_words(&["create", "keyspace"]) || statements.eat_words(&["create", "schema"])
        {
            statements.eat_words(&["if", "not", "exists"]);
            statements.keyspace = Some(statements.name("a keyspace")?);
            statements.skip_statement();
        } else if statements.eat_words(&["create", "type"]) {
            statements.create_type()?;
        } else if statements.eat_words(&["create", "table"])
            || statements.eat_words(&["create", "columnfamily"])
        {
            let created = statements.create_table(line)?;
            if let Some((_, first)) = table {
                let message = format!(
                    "a second CREATE TABLE (the first is at line {first}): one file describes one table"
                );
                return Err(SchemaError::new(Some(line), message));
            }
            table = Some((created, line));
        } else if statements.starts_with_ignored() {
            statements.skip_statement();
        } else {
            let message = format!(
                "{} is not for this file: it holds CREATE TYPE and one CREATE TABLE with all columns as they are now",
                token.shown()
            );
            return Err(SchemaError::new(Some(line), message));
        }
        if !statements.eat(";") && statements.peek().is_some() {
            return Err(statements.fault("expected ';'"));
        }
    }
    match table {
        Some((schema, _)) => Ok(schema),
        None => Err(SchemaError::new(
            None,
            "there is no CREATE TABLE: write the table's, as DESCRIBE TABLE prints it",
        )),
    }
}

struct Statements<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    keyspace: Option<String>,
    types: BTreeMap<String, CqlType>,
}

impl<'a> Statements<'a> {
    fn create_type(&mut self) -> Result<(), SchemaError> {
        self.eat_words(&["if", "not", "exists"]);
        let (_, name) = self.qualified_name("a type")?;
        self.expect("(")?;
        let mut fields: Vec<(String, CqlType)> = Vec::new();
        loop {
            let line = self.line();
            let field = self.name("a field")?;
            if fields.iter().any(|(known, _)| *known == field) {
                let field = quote_identifier(&field);
                return Err(SchemaError::new(line, format!("field {field} comes twice")));
            }
            fields.push((field, self.cql_type()?));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        self.types.insert(name, CqlType::Udt(fields));
        Ok(())
    }

    fn create_table(&mut self, line: usize) -> Result<TableSchema, SchemaError> {
        self.eat_words(&["if", "not", "exists"]);
        let (keyspace, table) = self.qualified_name("a table")?;
        let Some(keyspace) = keyspace.or_else(|| self.keyspace.clone()) else {
            let message = format!(
                "table {table} has no keyspace: write CREATE TABLE keyspace.{table}, or USE keyspace; before it"
            );
            return Err(SchemaError::new(Some(line), message));
        };
        self.expect("(")?;
        let mut columns: Vec<(Column, Option<usize>)> = Vec::new();
        let mut key: Option<Key> = None;
        loop {
            let line = self.line();
            let declared = if self.eat_words(&["primary", "key"]) {
                Some(self.primary_key(line)?)
            } else {
                let name = self.name("a column")?;
                if columns.iter().any(|(known, _)| known.name == name) {
                    return Err(SchemaError::new(
                        line,
                        format!("column {} comes twice", quote_identifier(&name)),
                    ));
                }
                let cql_type = self.cql_type()?;
                let mut kind = ColumnKind::Regular;
                let mut inline = None;
                loop {
                    if self.eat_words(&["static"]) {
                        kind = ColumnKind::Static;
                    } else if self.eat_words(&["primary", "key"]) {
                        inline = Some(Key { partition: vec![name.clone()], clustering: vec![], line });
                    } else if self.eat_words(&["masked", "with"]) {
                        self.skip_mask();
                    } else {
                        break;
                    }
                }
                columns.push((Column { name, cql_type, kind }, line));
                inline
            };
            if let Some(declared) = declared
                && key.replace(declared).is_some()
            {
                return Err(SchemaError::new(line, "a second PRIMARY KEY"));
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        let key =
            key.ok_or_else(|| SchemaError::new(Some(line), format!("table {table} has no PRIMARY KEY")))?;
        let mut in_order = Vec::new();
        let in_key = [(key.partition, ColumnKind::PartitionKey), (key.clustering, ColumnKind::ClusteringKey)];
        for (names, kind) in in_key {
            for name in names {
                in_order.push(take_key_column(&mut columns, &in_order, &name, kind, key.line)?);
            }
        }
        in_order.extend(columns.into_iter().map(|(column, _)| column));
        let mut schema = TableSchema::new(keyspace, table, in_order)
            .map_err(|fault| SchemaError { line: fault.line.or(Some(line)), ..fault })?;
        self.options(&mut schema)?;
        Ok(schema)
    }

    /// What stands after `PRIMARY KEY` in a list of columns: `((a, b), c, d)` or `(a, b)`.
    fn primary_key(&mut self, line: Option<usize>) -> Result<Key, SchemaError> {
        self.expect("(")?;
        let mut partition = Vec::new();
        if self.eat("(") {
            partition.push(self.name("a column")?);
            while self.eat(",") {
                partition.push(self.name("a column")?);
            }
            self.expect(")")?;
        } else {
            partition.push(self.name("a column")?);
        }
        let mut clustering = Vec::new();
        while self.eat(",") {
            clustering.push(self.name("a column")?);
        }
        self.expect(")")?;
        Ok(Key { partition, clustering, line })
    }

    /// `WITH …`, of which only the clustering order matters.
    fn options(&mut self, schema: &mut TableSchema) -> Result<(), SchemaError> {
        while self.peek().is_some_and(|token| token.text != ";") {
            if self
                .peek()
                .is_some_and(|token| token.kind == Kind::Word && token.text.eq_ignore_ascii_case("create"))
            {
                return Err(self.fault("expected ';' before the next statement"));
            }
            if !self.eat_words(&["clustering", "order", "by"]) {
                self.at += 1;
                continue;
            }
            self.expect("(")?;
            loop {
                let line = self.line();
                let name = self.name("a clustering column")?;
                let descending = self.eat_words(&["desc"]);
                if !descending {
                    self.eat_words(&["asc"]);
                }
                match schema.clustering_key().iter().position(|column| column.name == name) {
                    Some(position) => schema.clustering_descending[position] = descending,
                    None => {
                        let name = quote_identifier(&name);
                        return Err(SchemaError::new(
                            line,
                            format!("{name} is no clustering column of this table"),
                        ));
                    }
                }
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(())
    }

    /// A type is a name, perhaps with its keyspace, perhaps with parameters between `<` and `>`.
    fn cql_type(&mut self) -> Result<CqlType, SchemaError> {
        let line = self.line();
        let mut text = String::new();
        let mut take = |statements: &mut Self| {
            let token = statements.tokens.get(statements.at)?;
            text.push_str(token.text);
            text.push(' ');
            statements.at += 1;
            Some(())
        };
        let named = |token: &Token<'_>| matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text);
        if !self.peek().is_some_and(|token| named(&token)) {
            return Err(self.fault("expected a type"));
        }
        take(self);
        if self.peek().is_some_and(|token| token.text == ".") {
            take(self);
            take(self);
        }
        if self.peek().is_some_and(|token| token.text == "<") {
            let mut open = 0usize;
            loop {
                match self.peek().map(|token| token.text) {
                    Some("<") => open += 1,
                    Some(">") => open -= 1,
                    None | Some(";") => return Err(SchemaError::new(line, "a type's '<' has no '>'")),
                    Some(_) => {}
                }
                take(self);
                if open == 0 {
                    break;
                }
            }
        }
        CqlType::parse_with(text.trim_end(), &|name| self.types.get(name).cloned()).map_err(|fault| {
            let hint = if fault.message.starts_with("unknown type") {
                ": a user-defined type needs its CREATE TYPE before this line"
            } else {
                ""
            };
            SchemaError::new(line, format!("{}{hint}", fault.message))
        })
    }

    /// A name with its keyspace, if it has one.
    fn qualified_name(&mut self, what: &str) -> Result<(Option<String>, String), SchemaError> {
        let first = self.name(what)?;
        if self.eat(".") { Ok((Some(first), self.name(what)?)) } else { Ok((None, first)) }
    }

    /// A name as the server keeps it: in lower case unless quoted.
    fn name(&mut self, what: &str) -> Result<String, SchemaError> {
        let name = match self.peek() {
            Some(token)
                if token.kind == Kind::Word && !token.text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                token.text.to_ascii_lowercase()
            }
            Some(token) if token.kind == Kind::Quoted => {
                token.text[1..token.text.len() - 1].replace("\"\"", "\"")
            }
            _ => return Err(self.fault(format!("expected the name of {what}"))),
        };
        if name.is_empty() {
            return Err(self.fault(format!("the name of {what} is empty")));
        }
        self.at += 1;
        Ok(name)
    }

    /// The function after `MASKED WITH`, with its arguments.
    fn skip_mask(&mut self) {
        self.at += 1;
        if !self.eat("(") {
            return;
        }
        let mut open = 1;
        while open > 0 {
            match self.peek().map(|token| token.text) {
                Some("(") => open += 1,
                Some(")") => open -= 1,
                None => return,
                Some(_) => {}
            }
            self.at += 1;
        }
    }

    /// Statements that say nothing of the table's columns.
    fn starts_with_ignored(&mut self) -> bool {
        const IGNORED: [&[&str]; 9] = [
            &["create", "index"],
            &["create", "custom", "index"],
            &["create", "materialized"],
            &["create", "function"],
            &["create", "aggregate"],
            &["create", "or", "replace"],
            &["create", "trigger"],
            &["create", "role"],
            &["grant"],
        ];
        IGNORED.iter().any(|words| self.eat_words(words))
    }

    fn skip_statement(&mut self) {
        while self.peek().is_some_and(|token| token.text != ";") {
            self.at += 1;
        }
    }

    /// Takes these words if all of them come next, in any case.
    fn eat_words(&mut self, words: &[&str]) -> bool {
        let next = &self.tokens[self.at.min(self.tokens.len())..];
        let found = next.len() >= words.len()
            && words
                .iter()
                .zip(next)
                .all(|(word, token)| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word));
        if found {
            self.at += words.len();
        }
        found
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == Kind::Sign && token.text == sign);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), SchemaError> {
        if self.eat(sign) { Ok(()) } else { Err(self.fault(format!("expected '{sign}'"))) }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn line(&self) -> Option<usize> {
        self.peek().or(self.tokens.last().copied()).map(|token| token.line)
    }

    fn fault(&self, message: impl Into<String>) -> SchemaError {
        let found = self.peek().map_or("the end of the file".to_owned(), |token| token.shown());
        SchemaError::new(self.line(), format!("{}, found {found}", message.into()))
    }
}

struct Key {
    partition: Vec<String>,
    clustering: Vec<String>,
    line: Option<usize>,
}

/// Moves a column that the primary key names out of the list.
fn take_key_column(
    columns: &mut Vec<(Column, Option<usize>)>,
    taken: &[Column],
    name: &str,
    kind: ColumnKind,
    line: Option<usize>,
) -> Result<Column, SchemaError> {
    let quoted = quote_identifier(name);
    let Some(position) = columns.iter().position(|(column, _)| column.name == name) else {
        let message = if taken.iter().any(|column| column.name == name) {
            format!("PRIMARY KEY names column {quoted} twice")
        } else {
            format!("PRIMARY KEY names column {quoted}, which the table does not have")
        };
        return Err(SchemaError::new(line, message));
    };
    let (column, column_line) = columns.remove(position);
    if column.kind == ColumnKind::Static {
        return Err(SchemaError::new(
            column_line,
            format!("column {quoted} is STATIC and in the PRIMARY KEY"),
        ));
    }
    Ok(Column { kind, ..column })
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A name or keyword without quotes, or a number.
    Word,
    /// A name with quotes.
    Quoted,
    /// A text constant.
    Text,
    Sign,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    /// As it stands in the file, quotes included.
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn shown(&self) -> String {
        let mut shown: String = self.text.chars().take(40).collect();
        if shown.len() < self.text.len() {
            shown.push('…');
        }
        if self.kind == Kind::Sign { format!("'{shown}'") } else { shown }
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, SchemaError> {
    let mut tokens = Vec::new();
    // Editors on Windows put a byte order mark in front.
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let at = Some(line);
        let (kind, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("--") || rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| SchemaError::new(at, "a comment's /* has no */"))?;
            (None, end + 4)
        } else if let Some(constant) = rest.strip_prefix("$$") {
            let end = constant.find("$$").ok_or_else(|| SchemaError::new(at, "a text's $$ has no end"))?;
            (Some(Kind::Text), end + 4)
        } else if first == '"' || first == '\'' {
            let length = quoted_length(rest, first)
                .ok_or_else(|| SchemaError::new(at, format!("a {first} has no end")))?;
            (Some(if first == '"' { Kind::Quoted } else { Kind::Text }), length)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (Some(Kind::Word), end)
        } else {
            (Some(Kind::Sign), first.len_utf8())
        };
        let (token, after) = rest.split_at(length);
        if let Some(kind) = kind {
            tokens.push(Token { kind, text: token, line });
        }
        line += token.bytes().filter(|&byte| byte == b'\n').count();
        rest = after;
    }
    Ok(tokens)
}

/// The bytes of a quoted text at the front, quotes included; doubled quotes stand for one.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].find(quote)? + 1;
        if !text[at..].starts_with(quote) {
            return Some(at);
        }
        at += 1;
    }
}
