//! `preview`: a few real rows as the plugin renders them, measured against the limits. Nothing is embedded or written.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use keyvector_core::change::SequenceNumber;
use keyvector_core::document::{Document, MetadataKey, MetadataValue};
use keyvector_core::fingerprint::{Fingerprint, hash_metadata, hash_text};
use keyvector_core::index::{
    DistanceMetric, FINGERPRINT_KEY, IndexDescription, IndexLimits, PARTITION_KEY, Vector, check_vector,
    metadata_json,
};
use keyvector_core::key::{KEY_BYTES_MAX, RowKey};
use keyvector_core::lease::Checkpoint;
use keyvector_core::port::Rows;
use keyvector_core::record::Record;
use keyvector_core::row::Row;
use keyvector_core::schema::TableSchema;
use keyvector_sandbox::Engine;
use serde_json::{Value, json};

use super::{port_failure, show};
use crate::app::{self, Described};
use crate::cli::PreviewArgs;
use crate::clock;
use crate::config::Config;
use crate::embed::local::LocalModel;
use crate::embed::{Model, ModelLimits, estimate_tokens};
use crate::exit::{Code, Failure, WithCode, say};
use crate::render::{AfterDocument, render_image};
use crate::shipped;
use crate::source::ShardReader;
use crate::state::{self, Rendering};
use crate::vector::partition_hash;

/// Records looked at for the first rows of a table, unless rows are asked for by key.
const RECORDS_MAX: usize = 10_000;

pub(super) async fn preview(config: &Config, args: &PreviewArgs) -> Result<()> {
    if config.table.source.shipped {
        shipped::write_films(&config.table.source)?;
    }
    let engine = app::engine(config)?;
    let schema = Arc::new(app::read_schema(&config.table.source.schema)?);
    let described = app::describe_plugin(config, &engine)?;
    let (plugin, reads) = app::open_plugin(&described, &schema)?;
    let limits = model_limits(config, &engine)?;
    let rows = rows(config, &schema, args).await?;
    for (key, row) in &rows {
        let rendered = render_image(&plugin, &reads, row).await;
        let rendered = rendered.map_err(|broken| Failure::new(Code::PluginBroken, broken))?;
        let measured = Measured::of(key, &rendered, &described.info.metadata, &schema, &limits);
        match args.json {
            true => show::json_line(&measured.as_json(key, &rendered))?,
            false => show::line(measured.as_text(key, &rendered))?,
        }
    }
    tell_if_other(config, &described).await?;
    if rows.is_empty() {
        say!("no rows yet");
    } else if !args.json {
        say!("next:  keyvector-host check    opens everything and says what to fix");
    }
    Ok(())
}

/// What is shown is not what the index was made from, where another plugin or configuration renders the table.
async fn tell_if_other(config: &Config, described: &Described) -> Result<(), Failure> {
    if !config.store.exists() {
        return Ok(());
    }
    let items = app::scope(&app::open_store(&config.store, false)?, config).state();
    let key = state::rendering_key(&config.table.name);
    let stored = state::read::<Rendering>(&items, &key).await;
    let stored = stored.map_err(|error| port_failure("read the state", error))?;
    let wanted = app::rendering(config, described);
    if let Some(stored) = stored.filter(|stored| stored.render_id != wanted.render_id) {
        say!(
            "note:  so far table {} is rendered by {} under revision {}, otherwise than this",
            config.table.name,
            stored.plugin,
            stored.revision
        );
    }
    Ok(())
}

/// What the model takes, in its own words: no text is embedded.
pub(super) fn model_limits(config: &Config, engine: &Engine) -> Result<ModelLimits, Failure> {
    let file = shipped::find_plugin(&config.table.index.model, config.plugin_limits.component_bytes_max)?;
    let plugin = engine.load(&file.name, &file.bytes).code(Code::BadConfig)?;
    let text = Value::Object(config.table.index.model_config.clone()).to_string();
    Ok(LocalModel::open(&plugin, &text).code(Code::BadConfig)?.info().limits)
}

/// The rows as the store has them, else as the start of the source tells them.
async fn rows(
    config: &Config,
    schema: &Arc<TableSchema>,
    args: &PreviewArgs,
) -> Result<Vec<(RowKey, Row)>, Failure> {
    for key in &args.key {
        RowKey::from_stored(key.as_str()).decode(schema).map_err(|error| {
            Failure::new(Code::Failed, format!("{key:?} is no row key of {}: {error}", schema.describe_key()))
        })?;
    }
    if config.store.exists() {
        let store = app::open_store(&config.store, false)?;
        let stored = app::scope(&store, config).rows(&config.table.name, schema.clone());
        let found = match args.key.as_slice() {
            [] => stored.scan(None, args.limit, clock::now_ms()).await,
            keys => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                stored.read(&keys, clock::now_ms()).await.map(|rows| {
                    keys.iter().zip(rows).filter_map(|(key, row)| Some(((*key).to_owned(), row?))).collect()
                })
            }
        };
        let found = found.map_err(|error| port_failure("read the rows", error))?;
        if !found.is_empty() {
            return Ok(found.into_iter().map(|(key, row)| (RowKey::from_stored(key), row)).collect());
        }
    }
    from_source(config, schema, args).await
}

async fn from_source(
    config: &Config,
    schema: &Arc<TableSchema>,
    args: &PreviewArgs,
) -> Result<Vec<(RowKey, Row)>, Failure> {
    let mut source = app::open_source(config, schema)?;
    source.limits.wait = Duration::from_millis(1);
    let failed = |error| port_failure("read the source", error);
    let mut reader = source.open(&Checkpoint::TrimHorizon).map_err(failed)?;
    let records_max = if args.key.is_empty() { RECORDS_MAX } else { usize::MAX };
    let (mut rows, mut seen) = (Vec::<(RowKey, Row)>::new(), 0);
    while seen < records_max {
        let batch = reader.next(1000).await.map_err(failed)?;
        seen += batch.records.len();
        for change in batch.records.into_iter().filter_map(|record| match record.parsed {
            Ok(Record::Row(change)) => Some(change),
            Ok(Record::Partition(_)) | Err(_) => None,
        }) {
            let known = rows.iter().position(|(key, _)| *key == change.key);
            let wanted = match args.key.is_empty() {
                true => rows.len() < args.limit,
                false => args.key.iter().any(|key| key == change.key.as_str()),
            };
            match (known, change.after) {
                (Some(at), Some(row)) => rows[at].1 = row,
                (Some(at), None) => {
                    rows.remove(at);
                }
                (None, Some(row)) if wanted => rows.push((change.key, row)),
                (None, _) => {}
            }
        }
        if batch.at_tip {
            break;
        }
    }
    let now_ms = clock::now_ms();
    rows.retain(|(_, row)| row.expires_at_ms.is_none_or(|expiry| expiry > now_ms));
    Ok(rows)
}

/// One row's document against the limits.
#[derive(Default)]
struct Measured {
    key_bytes: usize,
    text_bytes: usize,
    text_characters: usize,
    tokens_estimated: usize,
    filterable_bytes: usize,
    metadata_bytes: usize,
    /// What would stand in the way.
    problems: Vec<String>,
}

impl Measured {
    fn of(
        key: &RowKey,
        rendered: &AfterDocument,
        declared: &[MetadataKey],
        schema: &TableSchema,
        limits: &ModelLimits,
    ) -> Self {
        let mut measured = Self { key_bytes: key.as_str().len(), ..Self::default() };
        if key.is_too_long() {
            measured
                .problems
                .push(format!("the key has more than {KEY_BYTES_MAX} bytes: it can never be stored"));
        }
        if let AfterDocument::Document(document) = rendered {
            measured.measure(key, document, declared, schema, limits);
        }
        measured
    }

    fn measure(
        &mut self,
        key: &RowKey,
        document: &Document,
        declared: &[MetadataKey],
        schema: &TableSchema,
        limits: &ModelLimits,
    ) {
        self.text_bytes = document.text.len();
        self.text_characters = document.text.chars().count();
        self.tokens_estimated = estimate_tokens(&document.text);
        let over = |limit: Option<u32>, value: usize| limit.is_some_and(|limit| value > limit as usize);
        if over(limits.tokens_per_text, self.tokens_estimated)
            || over(limits.characters_per_text, self.text_characters)
        {
            self.problems.push("the text is likely over the model's limit: it would be cut".to_owned());
        }

        // The host's own keys count too, so they are measured as they will be.
        let mut metadata = document.metadata.clone();
        let fingerprint = Fingerprint {
            model: 0,
            text: hash_text(&document.text),
            metadata: hash_metadata(&document.metadata),
            shard: 0,
            sequence_number: SequenceNumber::from(u64::MAX),
        };
        metadata.0.insert(FINGERPRINT_KEY.into(), MetadataValue::Text(fingerprint.to_text()));
        if let Ok(partition) = key.partition_part(schema) {
            metadata.0.insert(PARTITION_KEY.into(), MetadataValue::Text(partition_hash(&partition)));
        }
        self.metadata_bytes = metadata_json(&metadata).len();
        let non_filterable: Vec<String> = declared
            .iter()
            .filter(|key| !key.filterable)
            .map(|key| key.name.clone())
            .chain([FINGERPRINT_KEY.to_owned()])
            .collect();
        let mut filterable = metadata.clone();
        filterable.0.retain(|name, _| !non_filterable.iter().any(|key| **key == **name));
        self.filterable_bytes = metadata_json(&filterable).len();
        let description = IndexDescription {
            name: "preview".to_owned(),
            dimension: 1,
            metric: DistanceMetric::Euclidean,
            non_filterable_keys: non_filterable,
            table: schema.describe_key(),
            model_identity: String::new(),
        };
        if !key.is_too_long() {
            let vector = Vector { key: key.clone(), data: vec![0.0], metadata };
            self.problems.extend(check_vector(&description, &IndexLimits::default(), &vector).err());
        }
    }

    fn as_text(&self, key: &RowKey, rendered: &AfterDocument) -> String {
        let limits = IndexLimits::default();
        let mut lines =
            vec![format!("key       {key}   ({} of {} bytes)", self.key_bytes, limits.key_bytes_max)];
        match rendered {
            AfterDocument::Document(document) => {
                let mut text = document.text.lines().map(show::one_line);
                lines.push(format!("text      {}", text.next().unwrap_or_default()));
                lines.extend(text.map(|line| format!("          {line}")));
                let metadata = Value::Object(show::metadata_object(&document.metadata));
                lines.push(format!("metadata  {}", show::json_text(&metadata.to_string())));
                lines.push(format!(
                    "size      text {} bytes, about {} tokens · metadata {} of {} bytes, filterable {} of {}",
                    show::thousands(self.text_bytes),
                    show::thousands(self.tokens_estimated),
                    show::thousands(self.metadata_bytes),
                    show::thousands(limits.metadata_bytes_max),
                    show::thousands(self.filterable_bytes),
                    show::thousands(limits.filterable_bytes_max),
                ));
            }
            other => lines.push(format!("no vector {}", no_vector(other))),
        }
        lines.extend(self.problems.iter().map(|problem| format!("problem   {}", show::one_line(problem))));
        lines.push(String::new());
        lines.join("\n")
    }

    fn as_json(&self, key: &RowKey, rendered: &AfterDocument) -> Value {
        let mut line = json!({ "key": key.as_str(), "key_bytes": self.key_bytes, "problems": self.problems });
        match rendered {
            AfterDocument::Document(document) => {
                line["text"] = document.text.as_str().into();
                line["metadata"] = show::metadata_object(&document.metadata).into();
                line["text_bytes"] = self.text_bytes.into();
                line["tokens_estimated"] = self.tokens_estimated.into();
                line["metadata_bytes"] = self.metadata_bytes.into();
                line["filterable_bytes"] = self.filterable_bytes.into();
            }
            other => line["no_vector"] = no_vector(other).into(),
        }
        line
    }
}

fn no_vector(rendered: &AfterDocument) -> String {
    match rendered {
        AfterDocument::Skipped => "the plugin filters the row out".to_owned(),
        AfterDocument::Blank => "the text is blank".to_owned(),
        AfterDocument::Failed(failure) => {
            format!("{}: {}", failure.class.as_str(), show::one_line(&failure.reason))
        }
        AfterDocument::Document(_) | AfterDocument::Gone | AfterDocument::Unchanged => {
            "there is no row".to_owned()
        }
    }
}
