//! The reference: what an index must hold after a history, by the simplest reading of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What one row's vector is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub text: String,
    /// Without the host's own keys.
    pub metadata: BTreeMap<String, Value>,
}

/// Every vector that must be there, by row key.
pub type Index = BTreeMap<String, Expected>;

/// One row's columns, each as its union's one member: `{"textT": "x"}`.
pub type Row = BTreeMap<String, Value>;

/// A table by row key.
pub type Table = BTreeMap<String, Row>;

/// Applies one line to a table; gives back the row's key. A line that is no record changes nothing.
pub fn apply(table: &mut Table, line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    let key = row_key(&record)?;
    match record.get("newImage") {
        Some(image) => {
            let cells = image["valueCells"].as_object()?;
            // An empty collection and none are the same.
            let holds = |value: &Value| *value != serde_json::json!({"setT": []});
            let cells = cells.iter().map(|(name, cell)| (name.clone(), cell["value"].clone()));
            let row = cells.filter(|(_, value)| holds(value)).collect();
            table.insert(key.clone(), row);
        }
        None => {
            table.remove(&key);
        }
    }
    Some(key)
}

/// The table after these lines.
pub fn table<'a>(lines: impl IntoIterator<Item = &'a String>) -> Table {
    let mut table = Table::new();
    for line in lines {
        apply(&mut table, line);
    }
    table
}

/// What must become of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Film {
    /// No vector: filtered out, or nothing to search by.
    None,
    Vector(Expected),
    /// A dead letter of this class, and at most the vector of an earlier state. Where the model fails, what it fails on.
    Dead(&'static str, Option<Expected>),
}

/// The index that belongs to a table of films, dead-lettered rows apart.
pub fn index(table: &Table) -> Index {
    table
        .iter()
        .filter(|(key, _)| key.len() <= 1024)
        .filter_map(|(key, row)| match film(row) {
            Film::Vector(expected) => Some((key.clone(), expected)),
            Film::None | Film::Dead(..) => None,
        })
        .collect()
}

/// Every vector that a row has had a right to, in the order of its states.
pub fn earlier(lines: &[String], key: &str) -> Vec<Expected> {
    let states = lines.iter().filter_map(|line| {
        let mut alone = Table::new();
        apply(&mut alone, line);
        alone.get(key).map(film)
    });
    states.filter_map(|film| if let Film::Vector(expected) = film { Some(expected) } else { None }).collect()
}

/// Which dead letters there may and must be after these lines. Lines are counted from 1.
#[derive(Debug, Default)]
pub struct Letters {
    /// Each line that can have one, with the letter's row and class.
    pub may: BTreeMap<u64, (Option<String>, &'static str)>,
    /// One letter is due for each of these: a line that cannot be read, or a row that fails as it is, at any line since
    /// it is so.
    pub must: Vec<BTreeSet<u64>>,
}

pub fn letters(lines: &[String]) -> Letters {
    let mut letters = Letters::default();
    let mut table = Table::new();
    // For each row that fails, the lines since it is as it is.
    let mut failing: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (number, line) in (1..).zip(lines) {
        let before = table.clone();
        let Some(key) = apply(&mut table, line) else {
            letters.may.insert(number, (None, "bad-record"));
            letters.must.push([number].into());
            continue;
        };
        let (row, earlier) = (table.get(&key), before.get(&key));
        let now = row.map(film);
        // What differs in columns that make no difference to the document is nothing new to a host.
        let as_before = match &now {
            Some(Film::Dead(_, None)) => row == earlier,
            now => *now == earlier.map(film),
        };
        if !as_before {
            failing.remove(&key);
        }
        if let Some(Film::Dead(class, _)) = now {
            failing.entry(key.clone()).or_default().insert(number);
            letters.may.insert(number, (Some(key), class));
        }
    }
    letters.must.extend(failing.into_values());
    letters
}

/// What the `movies` plugin and the `fake` model make of a film, written a second time.
pub fn film(row: &Row) -> Film {
    let member = |column: &str, name: &str| row.get(column).and_then(|value| value.get(name)).cloned();
    let text = |column: &str| member(column, "textT").and_then(|value| value.as_str().map(str::to_owned));
    let number = |column: &str| member(column, "intT").and_then(|value| value.as_str()?.parse::<i64>().ok());
    if member("unlisted", "boolT") == Some(Value::Bool(true)) {
        return Film::None;
    }
    let (year, runtime) = (number("year"), number("runtime_min"));
    if year.is_some_and(|year| year < 0) || runtime.is_some_and(|runtime| runtime < 0) {
        return Film::Dead("plugin-refused", None);
    }
    let title = text("title").unwrap_or_default().trim().to_owned();
    let plot = text("plot").unwrap_or_default().trim().to_owned();
    let mut lines = Vec::new();
    match (title.as_str(), year) {
        ("", None) => {}
        ("", Some(year)) => lines.push(format!("({year})")),
        (title, None) => lines.push(title.to_owned()),
        (title, Some(year)) => lines.push(format!("{title} ({year})")),
    }
    if !plot.is_empty() {
        lines.push(plot.clone());
    }
    let blank = |text: &str| text.chars().all(|c| c.is_whitespace() || c == '\u{200b}');
    // A year alone is no text to search by.
    let whole = lines.join("\n");
    if title.is_empty() && plot.is_empty() || blank(&whole) {
        return Film::None;
    }
    let mut metadata = BTreeMap::new();
    for (name, column) in [("title", "title"), ("studio", "studio"), ("genre", "genre")] {
        metadata.extend(text(column).map(|text| (name.to_owned(), Value::from(text))));
    }
    metadata.extend(year.map(|year| ("year".to_owned(), Value::from(year as f64))));
    metadata.extend(runtime.map(|runtime| ("runtime".to_owned(), Value::from(runtime as f64))));
    if let Some(Value::Array(cells)) = member("tags", "setT") {
        let mut tags: Vec<String> =
            cells.iter().filter_map(|cell| Some(cell["value"]["textT"].as_str()?.to_owned())).collect();
        tags.sort();
        if !tags.is_empty() {
            metadata.insert("tags".to_owned(), Value::from(tags));
        }
    }
    let expected = Expected { text: whole, metadata };
    const MARKERS: [(&str, &str); 3] =
        [("[nan]", "bad-vector"), ("[zero]", "bad-vector"), ("[trap]", "model-failed")];
    match MARKERS.iter().find(|(marker, _)| expected.text.contains(marker)) {
        Some((_, class)) => Film::Dead(class, Some(expected)),
        None => Film::Vector(expected),
    }
}

/// What the calls must be when a history is worked through in these batches, none of them twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Rows whose text is another after the batch than before it.
    pub texts: u64,
    /// Rows whose text or metadata is.
    pub puts: u64,
}

pub fn paid<'a>(batches: impl IntoIterator<Item = &'a [String]>) -> Paid {
    let mut table = Table::new();
    let mut paid = Paid::default();
    for batch in batches {
        let before = index(&table);
        for line in batch {
            apply(&mut table, line);
        }
        for (key, after) in index(&table) {
            let before = before.get(&key);
            paid.texts += u64::from(before.is_none_or(|before| before.text != after.text));
            paid.puts += u64::from(before != Some(&after));
        }
    }
    paid
}

/// `name=value` for each key column, sorted by name, percent-encoded. `None`: not all of the key is there.
fn row_key(record: &Value) -> Option<String> {
    let mut columns = Vec::new();
    for keys in ["partitionKeys", "clusteringKeys"] {
        for (name, value) in record.get(keys)?.as_object()? {
            let (_, value) = value.as_object()?.iter().next()?;
            columns.push(format!("{}={}", percent(name), percent(value.as_str()?)));
        }
    }
    columns.sort();
    (columns.len() == 2).then(|| columns.join("&"))
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}
