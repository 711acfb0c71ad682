//! Reads one table of the configuration into typed values. Everything it refuses is named with its line.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::tree::{Node, Origin, Value};
use super::units;

/// A table with the names that may stand in it.
pub(super) struct Section<'a> {
    /// As the file spells it: `[host]`, `[[table]]`.
    title: &'static str,
    origin: &'a Origin,
    entries: &'a BTreeMap<String, Node>,
    known: &'static [&'static str],
}

impl<'a> Section<'a> {
    pub(super) fn open(
        node: &'a Node,
        title: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, Error> {
        let Value::Table(entries) = &node.value else {
            return Err(Error::new(&node.origin, format!("{title} is a table, not {}", node.value.kind())));
        };
        let unknown = entries.iter().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, value)) = unknown {
            let whose = if title.is_empty() { String::new() } else { format!(" in {title}") };
            let help = match nearest(name, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("it may hold {}", known.join(", ")),
            };
            return Err(Error::new(&value.origin, format!("unknown key {name:?}{whose}: {help}")));
        }
        Ok(Self { title, origin: &node.origin, entries, known })
    }

    pub(super) fn origin(&self, name: &str) -> &'a Origin {
        self.get(name).map_or(self.origin, |node| &node.origin)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        self.read(name, "a text in quotes", |value| match value {
            Value::Text(text) if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn missing(&self, name: &str) -> Error {
        Error::new(self.origin, format!("{} lacks {name:?}", self.title))
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        self.read(name, "true or false", |value| match value {
            Value::Boolean(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn integer(&self, name: &str, allowed: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let wanted = format!("a whole number from {} to {}", allowed.start(), allowed.end());
        self.read(name, &wanted, |value| match value {
            Value::Integer(number) => u64::try_from(*number).ok().filter(|number| allowed.contains(number)),
            _ => None,
        })
    }

    pub(super) fn duration(
        &self,
        name: &str,
        allowed: RangeInclusive<Duration>,
    ) -> Result<Option<Duration>, Error> {
        let show = units::show_duration;
        let wanted = format!(
            "a duration such as \"2s\" or \"250ms\", from {} to {}",
            show(*allowed.start()),
            show(*allowed.end())
        );
        self.read(name, &wanted, |value| match value {
            Value::Text(text) => units::parse_duration(text).filter(|duration| allowed.contains(duration)),
            _ => None,
        })
    }

    pub(super) fn size(&self, name: &str, allowed: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let show = units::show_size;
        let wanted = format!(
            "a size such as \"64 MiB\" or \"512 KiB\", from {} to {}",
            show(*allowed.start()),
            show(*allowed.end())
        );
        self.read(name, &wanted, |value| match value {
            Value::Text(text) => units::parse_size(text).filter(|size| allowed.contains(size)),
            _ => None,
        })
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, Error> {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
        self.read(name, &words.join(" or "), |value| match value {
            Value::Text(text) => choices.iter().find(|(word, _)| word == text).map(|(_, choice)| *choice),
            _ => None,
        })
    }

    /// A path; a relative one starts from the file's folder, or from the working folder in a flag.
    pub(super) fn path(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        Ok(self.text(name)?.map(|text| self.origin(name).folder().join(text)))
    }

    /// Any table, as the JSON object that a plugin gets.
    pub(super) fn json_object(
        &self,
        name: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
        match self.get(name) {
            None => Ok(serde_json::Map::new()),
            Some(Node { value: Value::Table(entries), .. }) => json_entries(entries),
            Some(node) => Err(self.wrong(name, node, "a table")),
        }
    }

    pub(super) fn table(&self, name: &str) -> Option<&'a Node> {
        self.get(name)
    }

    /// An array of tables; one that is missing is empty.
    pub(super) fn tables(&self, name: &str) -> Result<&'a [Node], Error> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Node { value: Value::Array(nodes), .. }) => Ok(nodes),
            Some(node) => Err(Error::new(
                &node.origin,
                format!("{name:?} is an array of tables: write [[{}{name}]]", self.prefix()),
            )),
        }
    }

    fn prefix(&self) -> String {
        match self.title.trim_matches(['[', ']']) {
            "" => String::new(),
            title => format!("{title}."),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Node> {
        debug_assert!(self.known.contains(&name), "{name} is read but not listed in {}", self.title);
        self.entries.get(name)
    }

    fn read<T>(
        &self,
        name: &str,
        wanted: &str,
        accept: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(node) = self.get(name) else { return Ok(None) };
        accept(&node.value).map(Some).ok_or_else(|| self.wrong(name, node, wanted))
    }

    fn wrong(&self, name: &str, node: &Node, wanted: &str) -> Error {
        let found = match &node.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            Value::Other(text) => text.clone(),
            other => other.kind().to_owned(),
        };
        Error::new(&node.origin, format!("{name} is {wanted}, not {found}"))
    }
}

fn json_entries(
    entries: &BTreeMap<String, Node>,
) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    entries.iter().map(|(name, node)| Ok((name.clone(), json(node)?))).collect()
}

fn json(node: &Node) -> Result<serde_json::Value, Error> {
    Ok(match &node.value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) if number.is_finite() => (*number).into(),
        Value::Float(_) | Value::Other(_) => {
            return Err(Error::new(
                &node.origin,
                "a plugin's configuration holds texts, finite numbers, booleans, arrays and tables; write a date or a \
                 larger number as a text",
            ));
        }
        Value::Boolean(flag) => (*flag).into(),
        Value::Array(nodes) => nodes.iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Table(entries) => json_entries(entries)?.into(),
    })
}

/// The known name that was most likely meant; `None` where none is near.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let typed = name.to_lowercase().replace('-', "_");
    let scored = known.iter().map(|&candidate| (strsim::damerau_levenshtein(&typed, candidate), candidate));
    let (distance, near) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= near.len().max(3) / 3).then_some(near)
}
