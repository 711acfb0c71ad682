//! `query`: a question into rows, as a table for people or JSON for programs.

use anyhow::Result;
use keyvector_core::document::MetadataType;
use keyvector_core::filter::Filter;
use keyvector_core::index::{CUT_KEY, DistanceMetric, FINGERPRINT_KEY, PARTITION_KEY};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::show;
use crate::cli::QueryArgs;
use crate::exit::{Code, Failure, say};
use crate::query::{Answer, Error, Exhausted, Found, Question, query};
use crate::table::Table;

pub(super) async fn run(table: &Table, args: &QueryArgs) -> Result<()> {
    let filter = args.filter.as_deref().map(parse_filter).transpose()?;
    let question = Question { text: &args.text, filter, top: args.top };
    let answer = ask(table, &question).await?;
    if args.json {
        show::json_line(&as_json(table, &question, &answer))?;
    } else if args.keys_only {
        for found in &answer.found {
            show::line(&found.key)?;
        }
    } else if answer.found.is_empty() {
        say!(
            "no rows: {}",
            if question.filter.is_some() { "nothing passes the filter" } else { "the index is empty" }
        );
        if let Some(slip) = question.filter.as_ref().and_then(|filter| unknown_key(table, filter)) {
            say!("{slip}");
        }
    } else {
        show::line(as_table(table, &answer))?;
    }
    if answer.stale > 0 {
        say!("{} hits left out: their rows are gone or expired", answer.stale);
    }
    Ok(())
}

/// Answers a question; failures say what to do.
pub(super) async fn ask(table: &Table, question: &Question<'_>) -> Result<Answer, Failure> {
    query(table, question, &CancellationToken::new()).await.map_err(|error| match error {
        Error::Port(keyvector_core::port::Error::Rejected(reason)) => {
            Failure::new(Code::Failed, format!("the query is refused: {reason}"))
        }
        Error::Port(error) => super::port_failure("query the index", error),
        Error::Broken(reason) => Failure::new(Code::PluginBroken, reason),
        error => Failure::new(Code::Failed, error),
    })
}

fn parse_filter(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(Code::Failed, format!("--filter is not JSON: {error}"))
            .next(r#"for example --filter '{"year":{"$gte":1990}}'"#)
    })
}

/// A key that the plugin gives to no row is a slip more often than a question.
fn unknown_key(table: &Table, filter: &Value) -> Option<String> {
    let filter = Filter::parse(filter, &[]).ok()?;
    let own = [FINGERPRINT_KEY, PARTITION_KEY, CUT_KEY];
    let declared: Vec<&str> = table.plugin.info().metadata.iter().map(|key| key.name.as_str()).collect();
    let unknown =
        filter.keys().into_iter().find(|key| !declared.contains(key) && !own.contains(key))?.to_owned();
    Some(match declared.is_empty() {
        true => format!("no row has a key {unknown:?}: the plugin gives no metadata"),
        false => format!("no row has a key {unknown:?}: there are {}", declared.join(", ")),
    })
}

/// How near: cosine similarity, or the distance itself.
fn score(metric: DistanceMetric, found: &Found) -> f32 {
    match metric {
        DistanceMetric::Cosine => 1.0 - found.distance,
        DistanceMetric::Euclidean => found.distance,
    }
}

/// How many of the plugin's metadata keys stand in a table.
const COLUMNS_SHOWN: usize = 4;

/// Characters of a metadata value that stand in a table.
const VALUE_SHOWN: usize = 40;

/// The metadata keys that a table shows: the plugin's first ones that are no lists.
pub(super) fn shown_keys(table: &Table) -> Vec<&str> {
    let declared = table.plugin.info().metadata.iter();
    let single =
        declared.filter(|key| !matches!(key.value_type, MetadataType::TextList | MetadataType::NumberList));
    single.map(|key| key.name.as_str()).take(COLUMNS_SHOWN).collect()
}

/// The cells of one row: how near, the shown metadata, the key.
pub(super) fn cells(table: &Table, keys: &[&str], found: &Found) -> Vec<String> {
    let mut cells = vec![format!("{:.2}", score(table.description.metric, found))];
    cells.extend(
        keys.iter().map(|key| show::shortened(&show::metadata_text(&found.metadata, key), VALUE_SHOWN)),
    );
    cells.push(found.key.to_string());
    cells
}

fn as_table(table: &Table, answer: &Answer) -> String {
    let keys = shown_keys(table);
    let near = match table.description.metric {
        DistanceMetric::Cosine => "score",
        DistanceMetric::Euclidean => "distance",
    };
    let mut shown = show::table([]);
    shown.set_header(
        [near.to_owned()]
            .into_iter()
            .chain(keys.iter().map(|key| show::one_line(key)))
            .chain(["key".to_owned()]),
    );
    for found in &answer.found {
        shown.add_row(cells(table, &keys, found));
    }
    show::trimmed(&shown)
}

fn as_json(table: &Table, question: &Question<'_>, answer: &Answer) -> Value {
    let rows: Vec<Value> = answer
        .found
        .iter()
        .map(|found| {
            json!({
                "key": found.key.as_str(),
                "distance": found.distance,
                "metadata": show::metadata_object(&found.metadata),
                "row": show::row_object(&table.schema, &found.row),
            })
        })
        .collect();
    json!({
        "query": question.text,
        "metric": table.description.metric.as_str(),
        "rows": rows,
        "stale": answer.stale,
        "exhausted": answer.exhausted.map(|exhausted| match exhausted {
            Exhausted::Index => "index",
            Exhausted::TopK => "top-k",
        }),
    })
}
