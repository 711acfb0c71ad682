//! Random histories of a table, as lines of records in Keyspaces' JSON form. Each record's images are those of the
//! table at that moment.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The table that the histories are of: the film table, as the shipped `movies` plugin reads it.
pub const SCHEMA: &str =
    "CREATE TABLE demo.films (movie_id int, studio text, title text, year int, genre text, plot text,
    runtime_min int, tags set<text>, unlisted boolean, PRIMARY KEY (movie_id, studio));";

const COLUMNS: [&str; 7] = ["title", "year", "genre", "plot", "runtime_min", "tags", "unlisted"];

/// A row's regular columns; a column that is not there is null.
pub type Columns = BTreeMap<&'static str, Value>;

/// How a history is to be.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub seed: u64,
    pub records: usize,
    /// Few rows change often, many rows seldom.
    pub rows: usize,
    /// Whether some rows cannot be rendered, some texts not embedded, and some lines not read.
    pub poison: bool,
}

/// One history: records in order, one JSON object a line.
pub fn history(history: History) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(history.seed);
    let mut table: BTreeMap<(String, i32), Columns> = BTreeMap::new();
    // Where a row was one change ago: going back there is what naive folding gets wrong.
    let mut earlier: BTreeMap<(String, i32), Option<Columns>> = BTreeMap::new();
    let mut lines = Vec::with_capacity(history.records);
    for number in 1..=history.records {
        if history.poison && random.random_bool(0.02) {
            lines.push((*["{\"torn\":", "not JSON", "[]"].choose(&mut random).unwrap()).to_owned());
            continue;
        }
        let key = random_key(&mut random, history.rows);
        let before = table.get(&key).cloned();
        let after = match earlier.get(&key) {
            Some(back) if random.random_bool(0.3) => back.clone(),
            _ => change(&mut random, before.as_ref(), history.poison),
        };
        earlier.insert(key.clone(), before.clone());
        let origin = match (&before, &after) {
            (Some(_), None) if random.random_bool(0.3) => "TTL",
            _ if random.random_bool(0.05) => "REPLICATION",
            _ => "USER",
        };
        lines.push(record(number, origin, &key, before.as_ref(), after.as_ref()).to_string());
        match after {
            Some(columns) => table.insert(key, columns),
            None => table.remove(&key),
        };
    }
    lines
}

fn random_key(random: &mut StdRng, rows: usize) -> (String, i32) {
    // Studios whose names need encoding, look alike, or are empty.
    const STUDIOS: [&str; 7] = ["north", "a=b&c", "x/y", "x%2Fy", "\u{e9}", "e\u{301}", ""];
    let row = random.random_range(0..rows);
    (STUDIOS[row % STUDIOS.len()].to_owned(), i32::try_from(row / STUDIOS.len()).unwrap() - 3)
}

fn change(random: &mut StdRng, before: Option<&Columns>, poison: bool) -> Option<Columns> {
    let Some(before) = before else {
        // A row that was not there: mostly an insert, seldom a delete of nothing.
        return random.random_bool(0.95).then(|| new_row(random, poison));
    };
    if random.random_bool(0.15) {
        return None;
    }
    let mut columns = before.clone();
    for _ in 0..random.random_range(0..=2) {
        let column = *COLUMNS.choose(random).unwrap();
        match value(random, column, poison) {
            Some(value) => columns.insert(column, value),
            None => columns.remove(column),
        };
    }
    Some(columns)
}

fn new_row(random: &mut StdRng, poison: bool) -> Columns {
    COLUMNS.into_iter().filter_map(|column| Some((column, value(random, column, poison)?))).collect()
}

/// Few different values, so that rows often go back to what they were.
fn value(random: &mut StdRng, column: &str, poison: bool) -> Option<Value> {
    if random.random_bool(0.1) {
        return None;
    }
    let poisoned = poison && random.random_bool(0.08);
    let pick = |random: &mut StdRng, values: &[&str]| (*values.choose(random).unwrap()).to_owned();
    Some(match column {
        "title" => json!({"textT": pick(random, &["Tide", "Über Nacht", "A \"quoted\" line", " "])}),
        "plot" if poisoned => json!({"textT": pick(random, &["[nan]", "a [zero] text", "[trap]"])}),
        "plot" => {
            json!({"textT": pick(random, &["low water", "high water 🌊", "", "\u{a0}\u{200b}", "line\nbreak"])})
        }
        "year" if poisoned => json!({"intT": "-7"}),
        "year" => json!({"intT": random.random_range(1950..1953).to_string()}),
        "runtime_min" => json!({"intT": random.random_range(80..83).to_string()}),
        "genre" => json!({"textT": pick(random, &["sea", "land"])}),
        "tags" => {
            let tags: Vec<Value> = ["a", "b", "é"]
                .iter()
                .filter(|_| random.random_bool(0.5))
                .map(|tag| json!({"value": {"textT": tag}}))
                .collect();
            json!({"setT": tags})
        }
        _ => json!({"boolT": random.random_bool(0.2)}),
    })
}

fn record(
    number: usize,
    origin: &str,
    key: &(String, i32),
    before: Option<&Columns>,
    after: Option<&Columns>,
) -> Value {
    let keys = (json!({"movie_id": {"intT": key.1.to_string()}}), json!({"studio": {"textT": key.0}}));
    let image = |columns: &Columns| {
        let mut cells: serde_json::Map<String, Value> =
            columns.iter().map(|(&name, value)| (name.to_owned(), json!({"value": value}))).collect();
        cells.insert("studio".into(), json!({"value": {"textT": key.0}}));
        cells.insert("movie_id".into(), json!({"value": {"intT": key.1.to_string()}}));
        json!({"valueCells": cells, "staticCells": {}})
    };
    let mut record = json!({
        "eventVersion": "1.1",
        "createdAt": 1_790_000_000 + number,
        "origin": origin,
        "partitionKeys": keys.0,
        "clusteringKeys": keys.1,
        "sequenceNumber": format!("{number:030}"),
    });
    if let Some(before) = before {
        record["oldImage"] = image(before);
    }
    if let Some(after) = after {
        record["newImage"] = image(after);
    }
    record
}
