//! `dlq`: rows that were set aside.

use anyhow::Result;
use keyvector_core::change::ViewType;
use keyvector_core::document::FailureClass;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::letter::{LetterFilter, StoredLetter};
use keyvector_core::port::{DeadLetters, RowWrite};
use keyvector_core::record::{self, Record};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{port_failure, show};
use crate::cli::{DlqListArgs, DlqPickArgs, DlqReplayArgs, LetterFilterArgs};
use crate::exit::{Code, Failure, say};
use crate::state::{self, Rendering};
use crate::table::Table;
use crate::verified::{Error, Written, take_writes, verified_write};

/// Characters of a reason in the list; `dlq show` has all of it.
const REASON_SHOWN: usize = 80;

pub(super) async fn list(letters: &dyn DeadLetters, table: &str, args: &DlqListArgs) -> Result<()> {
    let found = find(letters, table, &args.filter).await?;
    if args.json {
        for stored in &found {
            show::json_line(&as_json(stored))?;
        }
    } else if found.is_empty() {
        say!("no dead letters");
    } else {
        let mut shown = show::table(["id", "when", "class", "row", "place", "reason"]);
        for StoredLetter { id, letter } in &found {
            shown.add_row([
                id.to_string(),
                show::moment(letter.created_at_ms),
                letter.class.as_str().to_owned(),
                letter.key.as_ref().map_or_else(|| "–".into(), |key| show::shortened(key.as_str(), 60)),
                show::one_line(&letter.place),
                show::shortened(&show::one_line(&letter.reason), REASON_SHOWN),
            ]);
        }
        show::line(show::trimmed(&shown))?;
    }
    if args.exit_code && !found.is_empty() {
        return Err(letters_left(found.len()).into());
    }
    Ok(())
}

/// How the process says that rows were set aside.
pub(super) fn letters_left(count: usize) -> Failure {
    let letters =
        if count == 1 { "1 dead letter is".to_owned() } else { format!("{count} dead letters are") };
    Failure::new(Code::LettersLeft, format!("{letters} left")).next("keyvector-host dlq list")
}

pub(super) async fn show(letters: &dyn DeadLetters, table: &str, id: u64, as_program: bool) -> Result<()> {
    let stored = letters.get(id).await.map_err(|error| port_failure("read the dead letter", error))?;
    let Some(stored) = stored.filter(|stored| stored.letter.table == table) else {
        return Err(no_letter(id).into());
    };
    if as_program {
        show::json_line(&as_json(&stored))?;
        return Ok(());
    }
    let letter = &stored.letter;
    let mut shown = show::table([]);
    let mut field = |name: &str, value: String| {
        shown.add_row([name.to_owned(), value]);
    };
    field("letter", id.to_string());
    field("table", letter.table.clone());
    field("row", letter.key.as_ref().map_or_else(|| "not known".into(), ToString::to_string));
    field("place", show::one_line(&letter.place));
    field("when", show::moment(letter.created_at_ms));
    field("class", letter.class.as_str().to_owned());
    field("reason", show::lines(&letter.reason));
    field("attempts", letter.attempts.to_string());
    field("shard", letter.shard_id.clone());
    field("position", letter.sequence_number.to_string());
    field("host", letter.host_version.clone());
    field("plugin", letter.plugin_digest.clone());
    if let Some(image) = &letter.image {
        let cut = if letter.image_cut { " (cut)" } else { "" };
        field(&format!("image{cut}"), show::one_line(&String::from_utf8_lossy(image)));
    }
    show::line(show::trimmed(&shown))?;
    let next = match letter.key {
        Some(_) => format!("next:  correct the row or the plugin, then keyvector-host dlq replay {id}"),
        None => format!("next:  correct the record at its source, then keyvector-host dlq drop {id}"),
    };
    say!("{next}");
    Ok(())
}

/// Tries rows again in their current state.
pub(super) async fn replay(table: &Table, args: &DlqReplayArgs) -> Result<()> {
    let picked = pick(&*table.letters, &table.name, &args.pick).await?;
    let stop = CancellationToken::new();
    let tenure =
        take_writes(&*table.leases, &format!("dlq-replay-{}", std::process::id())).await.map_err(failed)?;
    // Only now nobody can take the table over without ending this.
    refuse_other_rendering(table).await?;
    let (mut well, mut left) = (Vec::new(), 0);
    for StoredLetter { id, letter } in &picked {
        if letter.class == FailureClass::KeyTooLong {
            left += 1;
            show::line(format_args!("{id}  stays: its row key is too long for any index"))?;
            continue;
        }
        let key = match &letter.key {
            Some(key) => key.clone(),
            None => match keep_image(table, &tenure, *id, args.force).await? {
                Ok(key) => key,
                Err(why) => {
                    left += 1;
                    show::line(format_args!(
                        "{id}  stays: {}: {}",
                        show::one_line(&letter.place),
                        show::one_line(&why)
                    ))?;
                    continue;
                }
            },
        };
        let written =
            verified_write(table, &tenure, &key, &letter.sequence_number, &stop).await.map_err(failed)?;
        let did = match written {
            Written::Failed(failure) => {
                left += 1;
                let reason = show::one_line(&failure.reason);
                show::line(format_args!("{id}  stays: {key}: {}: {reason}", failure.class.as_str()))?;
                continue;
            }
            Written::Embedded => "embedded",
            Written::MetadataOnly => "metadata brought up to date",
            Written::Deleted => "the row has no vector now: deleted",
            Written::Nothing => "was current already",
        };
        well.push(*id);
        show::line(format_args!("{id}  {key}: {did}"))?;
    }
    let removed =
        table.letters.remove(&well).await.map_err(|error| port_failure("remove dead letters", error))?;
    say!("{removed} replayed, {left} left");
    Ok(())
}

/// Rows are not tried under another plugin or configuration than their neighbours'.
async fn refuse_other_rendering(table: &Table) -> Result<(), Failure> {
    let key = state::rendering_key(&table.name);
    let stored = state::read::<Rendering>(table.state.as_ref(), &key).await;
    let stored = stored.map_err(|error| port_failure("read the state", error))?;
    match stored.filter(|stored| stored.render_id != table.rendering.render_id) {
        None => Ok(()),
        Some(stored) => {
            let message = format!(
                "table {} is rendered by {} under revision {}, and this is another plugin or configuration",
                table.name, stored.plugin, stored.revision
            );
            Err(Failure::new(Code::BadConfig, message).next(
                "follow the table first, which takes it over and tries its letters too, or restore what was",
            ))
        }
    }
}

/// A letter of a record that could not be read has only that record: read again, under what is now the schema, its row is
/// kept as it says. Nothing tells whether a newer change came since, so that takes `--force`. Gives the row's key, or why
/// not.
async fn keep_image(
    table: &Table,
    tenure: &Tenure,
    id: u64,
    force: bool,
) -> Result<std::result::Result<RowKey, String>> {
    let stored = table.letters.get(id).await.map_err(|error| port_failure("read a dead letter", error))?;
    let Some(StoredLetter { letter, .. }) = stored else { return Ok(Err("it is gone".into())) };
    let Some(image) = letter.image.filter(|_| !letter.image_cut) else {
        return Ok(Err(format!("its record is not all there; correct the source, then dlq drop {id}")));
    };
    let number = Some(letter.sequence_number);
    let change = match record::parse(&table.schema, ViewType::NewAndOldImages, &image, number) {
        Ok(Record::Row(change)) => change,
        Ok(Record::Partition(_)) => return Ok(Err("it names no row".into())),
        Err(bad) => return Ok(Err(format!("{}; correct the source, then dlq drop {id}", bad.reason))),
    };
    if !force {
        return Ok(Err(format!(
            "a newer change of {} may have come; --force writes it all the same",
            change.key
        )));
    }
    let write =
        RowWrite { key: &change.key, sequence_number: &change.sequence_number, row: change.after.as_ref() };
    match table.rows.keep(tenure, &[write]).await.map_err(|error| port_failure("keep a row", error))? {
        Fenced::Written => Ok(Ok(change.key)),
        Fenced::Lost => Err(failed(Error::Overtaken).into()),
    }
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Port(error) => port_failure("replay", error),
        Error::Broken(reason) => Failure::new(Code::PluginBroken, reason),
        error => Failure::new(Code::Failed, format!("replay: {error}")),
    }
}

pub(super) async fn drop(letters: &dyn DeadLetters, table: &str, args: &DlqPickArgs) -> Result<()> {
    let ids: Vec<u64> = pick(letters, table, args).await?.iter().map(|stored| stored.id).collect();
    let removed = letters.remove(&ids).await.map_err(|error| port_failure("remove dead letters", error))?;
    say!("{removed} dropped");
    Ok(())
}

async fn pick(
    letters: &dyn DeadLetters,
    table: &str,
    args: &DlqPickArgs,
) -> Result<Vec<StoredLetter>, Failure> {
    let mut found = find(letters, table, &args.filter).await?;
    if !args.ids.is_empty() {
        if let Some(&missing) = args.ids.iter().find(|&&id| found.iter().all(|stored| stored.id != id)) {
            return Err(no_letter(missing));
        }
        found.retain(|stored| args.ids.contains(&stored.id));
    }
    Ok(found)
}

async fn find(
    letters: &dyn DeadLetters,
    table: &str,
    args: &LetterFilterArgs,
) -> Result<Vec<StoredLetter>, Failure> {
    let filter = LetterFilter {
        table: Some(table.to_owned()),
        class: args.class.as_deref().and_then(FailureClass::parse),
        since_ms: args.since,
        until_ms: args.until,
    };
    letters.list(&filter).await.map_err(|error| port_failure("list dead letters", error))
}

fn no_letter(id: u64) -> Failure {
    Failure::new(Code::Failed, format!("there is no dead letter {id}")).next("keyvector-host dlq list")
}

fn as_json(stored: &StoredLetter) -> Value {
    let letter = &stored.letter;
    json!({
        "id": stored.id,
        "table": letter.table,
        "key": letter.key.as_ref().map(ToString::to_string),
        "shard_id": letter.shard_id,
        "sequence_number": letter.sequence_number.as_str(),
        "place": letter.place,
        "class": letter.class.as_str(),
        "reason": letter.reason,
        "attempts": letter.attempts,
        "created_at_ms": letter.created_at_ms,
        "host_version": letter.host_version,
        "plugin_digest": letter.plugin_digest,
        "image": letter.image.as_ref().map(|image| String::from_utf8_lossy(image)),
        "image_cut": letter.image_cut,
    })
}
