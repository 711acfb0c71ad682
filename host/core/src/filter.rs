//! The filter language of nearest-neighbour queries: S3 Vectors' own, so that a filter means the same on the embedded
//! index.
//!
//! | form | is true for a vector |
//! |---|---|
//! | `{"k": v}`, `{"k": {"$eq": v}}` | whose `k` is `v`, or is a list that holds `v` |
//! | `$ne` | for which `$eq` is false |
//! | `$gt` `$gte` `$lt` `$lte` | whose `k` is a number that compares so; never a list |
//! | `{"$in": [v, …]}` | for which `$eq` is true of one `v` at least |
//! | `$nin` | for which `$in` is false |
//! | `{"$exists": true}`, `false` | that has `k`, that has not |
//! | `{"$and": [filter, …]}`, `{"$or": […]}` | for which all are true, one at least |
//!
//! Several operators on one key, and several keys in one object, must all be true. Values of different types are
//! never equal.
//!
//! The service's guide leaves open what `$ne` and `$nin` say of a vector without the key. Here they are true, as
//! negations of `$eq` and `$in`, and as in MongoDB, whose operators these are.
//!
//! # Source
//! Amazon S3 Vectors user guide, "Metadata filtering".

use std::collections::BTreeSet;

use serde_json::Value;

use crate::document::{Metadata, MetadataValue};

/// How deep `$and` and `$or` may nest.
pub const FILTER_DEPTH_MAX: usize = 16;

const LOGICAL: [&str; 2] = ["$and", "$or"];
const COMPARISONS: [&str; 9] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists"];

/// A filter that was read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Test { key: String, test: Test },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Equal(Scalar),
    NotEqual(Scalar),
    Above(f64),
    AtLeast(f64),
    Below(f64),
    AtMost(f64),
    In(Vec<Scalar>),
    NotIn(Vec<Scalar>),
    Exists(bool),
}

#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// Why a filter cannot be used, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, at {at}: {reason}")]
pub struct FilterError {
    /// The way to the place: `$and[1].year`; `the top` for the whole.
    pub at: String,
    pub reason: String,
}

impl Filter {
    /// Reads a filter for an index with these non-filterable keys.
    ///
    /// # Errors
    /// An unknown operator (with the nearest right one), an operand of the wrong type, an empty list or object, a
    /// non-filterable key, nesting deeper than [`FILTER_DEPTH_MAX`].
    pub fn parse(filter: &Value, non_filterable: &[String]) -> Result<Self, FilterError> {
        Parser { non_filterable, path: Vec::new() }.node(filter, 1).map(Self)
    }

    /// The metadata keys that it asks for, each once.
    pub fn keys(&self) -> BTreeSet<&str> {
        let mut keys = BTreeSet::new();
        self.0.add_keys(&mut keys);
        keys
    }

    /// Whether a vector with this metadata passes.
    pub fn matches(&self, metadata: &Metadata) -> bool {
        self.0.matches(metadata)
    }
}

impl Node {
    fn add_keys<'a>(&'a self, keys: &mut BTreeSet<&'a str>) {
        match self {
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().for_each(|node| node.add_keys(keys)),
            Self::Test { key, .. } => {
                keys.insert(key);
            }
        }
    }

    fn matches(&self, metadata: &Metadata) -> bool {
        match self {
            Self::And(nodes) => nodes.iter().all(|node| node.matches(metadata)),
            Self::Or(nodes) => nodes.iter().any(|node| node.matches(metadata)),
            Self::Test { key, test } => test.passes(metadata.0.get(key.as_str())),
        }
    }
}

impl Test {
    fn passes(&self, value: Option<&MetadataValue>) -> bool {
        let equals = |scalar: &Scalar| value.is_some_and(|value| scalar.equals(value));
        let number = match value {
            Some(MetadataValue::Number(number)) => Some(*number),
            _ => None,
        };
        match self {
            Self::Equal(scalar) => equals(scalar),
            Self::NotEqual(scalar) => !equals(scalar),
            Self::Above(bound) => number.is_some_and(|number| number > *bound),
            Self::AtLeast(bound) => number.is_some_and(|number| number >= *bound),
            Self::Below(bound) => number.is_some_and(|number| number < *bound),
            Self::AtMost(bound) => number.is_some_and(|number| number <= *bound),
            Self::In(scalars) => scalars.iter().any(equals),
            Self::NotIn(scalars) => !scalars.iter().any(equals),
            Self::Exists(wanted) => value.is_some() == *wanted,
        }
    }
}

impl Scalar {
    fn equals(&self, value: &MetadataValue) -> bool {
        match (self, value) {
            (Self::Text(mine), MetadataValue::Text(text)) => mine == text,
            (Self::Text(mine), MetadataValue::TextList(texts)) => texts.contains(mine),
            (Self::Number(mine), MetadataValue::Number(number)) => mine == number,
            (Self::Number(mine), MetadataValue::NumberList(numbers)) => numbers.contains(mine),
            (Self::Boolean(mine), MetadataValue::Boolean(flag)) => mine == flag,
            _ => false,
        }
    }
}

struct Parser<'a> {
    non_filterable: &'a [String],
    path: Vec<String>,
}

impl Parser<'_> {
    fn node(&mut self, filter: &Value, depth: usize) -> Result<Node, FilterError> {
        let Value::Object(members) = filter else {
            return Err(self.error(format!(
                "a filter is an object such as {{\"year\":{{\"$gte\":1990}}}}, not {}",
                kind(filter)
            )));
        };
        if members.is_empty() {
            return Err(self.error("an empty object filters nothing: leave the filter out".to_owned()));
        }
        let mut nodes = Vec::with_capacity(members.len());
        for (name, operand) in members {
            self.path.push(name.clone());
            match name.as_str() {
                "$and" => nodes.push(Node::And(self.branches(operand, depth)?)),
                "$or" => nodes.push(Node::Or(self.branches(operand, depth)?)),
                _ if name.starts_with('$') => return Err(self.misplaced(name)),
                _ => self.tests(name, operand, &mut nodes)?,
            }
            self.path.pop();
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::And(nodes) })
    }

    fn branches(&mut self, operand: &Value, depth: usize) -> Result<Vec<Node>, FilterError> {
        if depth >= FILTER_DEPTH_MAX {
            return Err(self.error(format!("filters may nest {FILTER_DEPTH_MAX} deep at most")));
        }
        let filters = match operand {
            Value::Array(filters) if !filters.is_empty() => filters,
            Value::Array(_) => {
                return Err(self.error("needs one filter at least, the list is empty".to_owned()));
            }
            other => return Err(self.error(format!("needs a list of filters, not {}", kind(other)))),
        };
        let last = self.path.len() - 1;
        let name = self.path[last].clone();
        let mut nodes = Vec::with_capacity(filters.len());
        for (position, filter) in filters.iter().enumerate() {
            self.path[last] = format!("{name}[{position}]");
            nodes.push(self.node(filter, depth + 1)?);
        }
        self.path[last] = name;
        Ok(nodes)
    }

    /// The tests of one metadata key.
    fn tests(&mut self, key: &str, operand: &Value, nodes: &mut Vec<Node>) -> Result<(), FilterError> {
        if key.is_empty() {
            return Err(self.error("the metadata key is empty".to_owned()));
        }
        if self.non_filterable.iter().any(|name| name == key) {
            return Err(self.error(format!("{key:?} is a non-filterable metadata key of this index")));
        }
        let operators = match operand {
            Value::Object(operators) => operators,
            Value::Array(_) => {
                return Err(self.error("a list needs an operator: {\"$in\": [\u{2026}]}".to_owned()));
            }
            Value::Null => {
                return Err(self.error("null is no metadata value: ask {\"$exists\": false}".to_owned()));
            }
            bare => {
                let test = Test::Equal(self.scalar(bare)?);
                nodes.push(Node::Test { key: key.to_owned(), test });
                return Ok(());
            }
        };
        if operators.is_empty() {
            return Err(self.error("no operator in the object".to_owned()));
        }
        for (operator, operand) in operators {
            self.path.push(operator.clone());
            let test = self.test(operator, operand)?;
            nodes.push(Node::Test { key: key.to_owned(), test });
            self.path.pop();
        }
        Ok(())
    }

    fn test(&self, operator: &str, operand: &Value) -> Result<Test, FilterError> {
        Ok(match operator {
            "$eq" => Test::Equal(self.scalar(operand)?),
            "$ne" => Test::NotEqual(self.scalar(operand)?),
            "$gt" => Test::Above(self.number(operand)?),
            "$gte" => Test::AtLeast(self.number(operand)?),
            "$lt" => Test::Below(self.number(operand)?),
            "$lte" => Test::AtMost(self.number(operand)?),
            "$in" => Test::In(self.scalars(operand)?),
            "$nin" => Test::NotIn(self.scalars(operand)?),
            "$exists" => match operand {
                Value::Bool(wanted) => Test::Exists(*wanted),
                other => return Err(self.error(format!("needs true or false, not {}", kind(other)))),
            },
            "$startsWith" => {
                return Err(self.error(
                    "is known only to S3 Vectors' ENHANCED indexes, this one is not: use $eq or $in"
                        .to_owned(),
                ));
            }
            "$and" | "$or" => {
                return Err(
                    self.error(format!("{operator} stands around whole filters, not below a metadata key"))
                );
            }
            unknown => return Err(self.unknown(unknown, &COMPARISONS)),
        })
    }

    fn scalar(&self, operand: &Value) -> Result<Scalar, FilterError> {
        match operand {
            Value::String(text) => Ok(Scalar::Text(text.clone())),
            Value::Number(_) => self.number(operand).map(Scalar::Number),
            Value::Bool(flag) => Ok(Scalar::Boolean(*flag)),
            other => Err(self.error(format!("needs a text, a number or a boolean, not {}", kind(other)))),
        }
    }

    fn scalars(&self, operand: &Value) -> Result<Vec<Scalar>, FilterError> {
        match operand {
            Value::Array(items) if !items.is_empty() => items.iter().map(|item| self.scalar(item)).collect(),
            Value::Array(_) => Err(self.error("needs one value at least, the list is empty".to_owned())),
            other => Err(self.error(format!("needs a list of values, not {}", kind(other)))),
        }
    }

    fn number(&self, operand: &Value) -> Result<f64, FilterError> {
        operand
            .as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.error(format!("needs a number, not {}", kind(operand))))
    }

    /// A name with `$` where only `$and`, `$or` or a metadata key may stand.
    fn misplaced(&self, name: &str) -> FilterError {
        if COMPARISONS.contains(&name) || name == "$startsWith" {
            return self.error(format!(
                "{name} needs a metadata key around it: {{\"KEY\": {{\"{name}\": \u{2026}}}}}"
            ));
        }
        self.unknown(name, &LOGICAL)
    }

    fn unknown(&self, name: &str, known: &[&str]) -> FilterError {
        let nearest = known.iter().min_by_key(|candidate| distance(name, candidate));
        let hint = nearest.map(|nearest| format!(", did you mean {nearest}?")).unwrap_or_default();
        self.error(format!("unknown operator {name:?}{hint}"))
    }

    fn error(&self, reason: String) -> FilterError {
        let named = |name: &String| if name.is_empty() { "\"\"".to_owned() } else { name.clone() };
        let path: Vec<String> = self.path.iter().map(named).collect();
        let at = if path.is_empty() { "the top".to_owned() } else { path.join(".") };
        FilterError { at, reason }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Levenshtein's distance over the first 16 letters, which are enough to tell operators apart.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).take(16).collect();
    let right: Vec<char> = right.chars().take(16).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests;
