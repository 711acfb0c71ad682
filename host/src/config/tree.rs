//! The configuration as a tree in which every value knows where it was written, so that each complaint can name its
//! line, and flags and environment can be laid over the file before anything is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::Error;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    Line {
        file: Arc<Path>,
        line: usize,
    },
    /// A flag, or the environment variable that stands for it, as the user would write it.
    Flag(String),
    Default,
}

impl Origin {
    /// The folder that a relative path written here starts from.
    pub(super) fn folder(&self) -> PathBuf {
        match self {
            Self::Line { file, .. } => file.parent().map(Path::to_path_buf).unwrap_or_default(),
            Self::Flag(_) | Self::Default => PathBuf::new(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{} line {line}", file.display()),
            Self::Flag(flag) => f.write_str(flag),
            Self::Default => f.write_str("configuration"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// Dates and numbers beyond 64 bits: nothing here takes them, but a complaint must be able to show them.
    Other(String),
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Value {
    /// What a user would call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Other(_) => "a date or a number beyond 64 bits",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    pub(super) fn empty(origin: Origin) -> Self {
        Self { origin, value: Value::Table(BTreeMap::new()) }
    }

    /// Reads a TOML document.
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, Error> {
        let file: Arc<Path> = Arc::from(file);
        let at = |offset: usize| Origin::Line { file: file.clone(), line: line_of(text, offset) };
        let document = DeTable::parse(text).map_err(|error| {
            let origin = at(error.span().map_or(0, |span| span.start));
            Error::new(&origin, format!("not TOML: {}", error.message()))
        })?;
        Ok(Self { origin: at(0), value: Value::Table(entries(document.get_ref(), &at)) })
    }

    /// Lays one value over the tree: `path` is dotted, numbers pick an array's element. The index of an array with at
    /// most one element may be left out: `table.batch` is `table.0.batch`.
    pub(super) fn set(&mut self, path: &str, value: Value, origin: Origin) -> Result<(), Error> {
        let segments: Vec<&str> = path.split('.').collect();
        let refused = |what: String| Error::new(&origin, format!("{path}: {what}"));
        if segments.contains(&"") {
            return Err(refused("a name is missing between the dots".into()));
        }
        let place = self.place(&segments, &origin).map_err(refused)?;
        *place = Self { origin, value };
        Ok(())
    }

    /// The node at a path, made where it is missing.
    fn place(&mut self, path: &[&str], origin: &Origin) -> Result<&mut Self, String> {
        let Some((&name, rest)) = path.split_first() else { return Ok(self) };
        let kind = self.value.kind();
        match &mut self.value {
            Value::Table(entries) => {
                // `table` and `index` are the arrays of tables that a missing file leaves us to make.
                let makes_array = matches!(name, "table" | "index") && !rest.is_empty();
                let next = entries.entry(name.to_owned()).or_insert_with(|| match makes_array {
                    true => Self { origin: origin.clone(), value: Value::Array(Vec::new()) },
                    false => Self::empty(origin.clone()),
                });
                next.place(rest, origin)
            }
            Value::Array(elements) => {
                let (index, rest) = match name.parse::<usize>() {
                    Ok(index) => (index, rest),
                    Err(_) if elements.len() <= 1 => (0, path),
                    Err(_) => return Err(format!("say which element {name:?} belongs to: 0 is the first")),
                };
                if index > elements.len() {
                    return Err(format!(
                        "{index} is beyond the array's end: it has {} elements",
                        elements.len()
                    ));
                }
                if index == elements.len() {
                    elements.push(Self::empty(origin.clone()));
                }
                elements[index].place(rest, origin)
            }
            _ => Err(format!("{name:?} is looked for in {kind}, not in a table")),
        }
    }
}

/// Reads a flag's value as TOML, else as plain text: `5`, `true`, `{ text = "{title}" }`, `10s`.
pub(super) fn parse_flag_value(text: &str, origin: &Origin) -> Value {
    match DeValue::parse(text) {
        Ok(value) => convert(value.get_ref(), &|_| origin.clone()),
        Err(_) => Value::Text(text.to_owned()),
    }
}

fn entries(table: &DeTable<'_>, at: &dyn Fn(usize) -> Origin) -> BTreeMap<String, Node> {
    let mut entries = BTreeMap::new();
    for (name, value) in table.iter() {
        // The key's place rather than the value's: for a `[table]` that is the header line.
        let node = Node { origin: at(name.span().start), value: convert(value.get_ref(), at) };
        entries.insert(name.get_ref().to_string(), node);
    }
    entries
}

fn convert(value: &DeValue<'_>, at: &dyn Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or_else(|_| Value::Other(integer.to_string()), Value::Integer),
        DeValue::Float(float) => {
            float.as_str().parse().map_or_else(|_| Value::Other(float.to_string()), Value::Float)
        }
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(datetime) => Value::Other(datetime.to_string()),
        DeValue::Array(array) => Value::Array(
            array
                .iter()
                .map(|element| Node {
                    origin: at(element.span().start),
                    value: convert(element.get_ref(), at),
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(entries(table, at)),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}
