//! The vector index: one table of vectors an index, searched exactly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use keyvector_core::filter::Filter;
use keyvector_core::index::{
    DistanceMetric, Hit, IndexDescription, IndexQuery, StoredVector, Vector, parse_metadata,
    parse_metadata_keys,
};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{Result, VectorIndex};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::TableScope;
use super::connections::Work;
use super::leases::damaged;
use crate::VECTORS_PROMISED_MAX;
use crate::nearest::{Nearest, Question, norm};
use crate::vectors::{check_description, check_for_put, check_query, check_same, no_index};

/// One index of the store, written under one scope's tenures.
#[derive(Clone)]
pub struct SqliteIndex {
    scope: TableScope,
    name: Arc<str>,
    made: Arc<OnceLock<Arc<Made>>>,
    /// From how many rows on the vectors are counted for the warning.
    count_at: Arc<AtomicU64>,
}

/// An index that exists. Neither its number nor its description ever changes.
struct Made {
    description: IndexDescription,
    sql: Sql,
}

/// The statements of one index, whose table is named by its number.
struct Sql {
    get: String,
    get_with_data: String,
    put: String,
    delete: String,
    all: String,
    list: String,
    list_with_data: String,
    rows_max: String,
    count: String,
}

impl Sql {
    fn new(id: i64) -> Self {
        let page = "FROM vectors_{id} WHERE key > ?1 ORDER BY key LIMIT ?2";
        let on = |text: &str| text.replace("{page}", page).replace("{id}", &id.to_string());
        Self {
            get: on("SELECT key, metadata FROM vectors_{id} WHERE key = ?1"),
            get_with_data: on("SELECT key, metadata, data FROM vectors_{id} WHERE key = ?1"),
            put: on("INSERT INTO vectors_{id} (key, norm, data, metadata) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (key) DO UPDATE SET
                     norm = excluded.norm, data = excluded.data, metadata = excluded.metadata"),
            delete: on("DELETE FROM vectors_{id} WHERE key = ?1"),
            all: on("SELECT norm, data, key, metadata FROM vectors_{id}"),
            list: on("SELECT key, metadata {page}"),
            list_with_data: on("SELECT key, metadata, data {page}"),
            rows_max: on("SELECT coalesce(max(id), 0) FROM vectors_{id}"),
            count: on("SELECT count(*) FROM vectors_{id}"),
        }
    }

    fn table(id: i64) -> String {
        // The metadata come last: where they overflow a page, a search need not follow them.
        format!(
            "CREATE TABLE vectors_{id} (
                 id INTEGER PRIMARY KEY,
                 key TEXT NOT NULL UNIQUE,
                 norm REAL NOT NULL,
                 data BLOB NOT NULL,
                 metadata TEXT NOT NULL
             ) STRICT"
        )
    }
}

/// Short transactions, so that lease renewals get in between.
const VECTORS_PER_TRANSACTION: usize = 500;

/// A vector as it is stored.
struct Encoded {
    key: String,
    norm: f64,
    data: Vec<u8>,
    metadata: String,
}

impl SqliteIndex {
    pub(super) fn new(scope: TableScope, name: &str) -> Self {
        Self {
            scope,
            name: name.into(),
            made: Arc::default(),
            count_at: Arc::new(AtomicU64::new(VECTORS_PROMISED_MAX + 1)),
        }
    }

    async fn find(&self) -> Result<Option<Arc<Made>>> {
        if let Some(made) = self.made.get() {
            return Ok(Some(Arc::clone(made)));
        }
        let name = Arc::clone(&self.name);
        let found = self
            .scope
            .connections
            .read("describe the index", move |connection| find(connection, &name))
            .await?;
        Ok(found.map(|made| Arc::clone(self.made.get_or_init(|| Arc::new(made)))))
    }

    async fn made(&self) -> Result<Arc<Made>> {
        self.find().await?.ok_or_else(|| no_index(&self.name))
    }

    /// Warns once when there are more vectors than the exact search is promised for.
    async fn watch_size(&self, made: Arc<Made>) -> Result<()> {
        let (name, count_at) = (Arc::clone(&self.name), Arc::clone(&self.count_at));
        self.scope
            .connections
            .read("count the vectors", move |connection| {
                let number = |sql: &str| -> Work<u64> {
                    let number: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
                    Ok(u64::try_from(number).unwrap_or(0))
                };
                // The highest row number is at hand and never below the count, which takes a walk.
                let rows_max = number(&made.sql.rows_max)?;
                if rows_max < count_at.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let vectors = number(&made.sql.count)?;
                let next = if vectors > VECTORS_PROMISED_MAX { u64::MAX } else { rows_max + 10_000 };
                let before = count_at.swap(next, Ordering::Relaxed);
                if next == u64::MAX && before != u64::MAX {
                    tracing::warn!(
                        index = &*name,
                        vectors,
                        promised_max = VECTORS_PROMISED_MAX,
                        "the embedded index searches exactly and is slow beyond its promised size: use a vector service"
                    );
                }
                Ok(())
            })
            .await
    }
}

fn find(connection: &Connection, name: &str) -> Work<Option<Made>> {
    let found = connection
        .prepare_cached(
            "SELECT id, dimension, metric, non_filterable_keys, table_identity, model_identity
             FROM vector_index WHERE name = ?1",
        )?
        .query_row([name], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, u32>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
                row.get::<_, String>(4)?,
                row.get::<_, String>(5)?,
            ))
        })
        .optional()?;
    let Some((id, dimension, metric, non_filterable_keys, table, model_identity)) = found else {
        return Ok(None);
    };
    let metric = [DistanceMetric::Cosine, DistanceMetric::Euclidean]
        .into_iter()
        .find(|known| known.as_str() == metric)
        .ok_or_else(|| damaged("an index's distance metric"))?;
    let non_filterable_keys =
        serde_json::from_str(&non_filterable_keys).map_err(|_| damaged("an index's non-filterable keys"))?;
    let description = IndexDescription {
        name: name.to_owned(),
        dimension,
        metric,
        non_filterable_keys,
        table,
        model_identity,
    };
    Ok(Some(Made { description, sql: Sql::new(id) }))
}

fn create(tx: &Transaction<'_>, description: &IndexDescription) -> Work<Made> {
    if let Some(made) = find(tx, &description.name)? {
        check_same(&made.description, description)?;
        return Ok(made);
    }
    tx.prepare_cached(
        "INSERT INTO vector_index (name, dimension, metric, non_filterable_keys, table_identity, model_identity)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        description.name,
        description.dimension,
        description.metric.as_str(),
        serde_json::Value::from(description.non_filterable_keys.as_slice()).to_string(),
        description.table,
        description.model_identity,
    ])?;
    let id = tx.last_insert_rowid();
    tx.execute_batch(&Sql::table(id))?;
    Ok(Made { description: description.clone(), sql: Sql::new(id) })
}

#[async_trait]
impl VectorIndex for SqliteIndex {
    async fn describe(&self) -> Result<Option<IndexDescription>> {
        Ok(self.find().await?.map(|made| made.description.clone()))
    }

    async fn create(&self, description: &IndexDescription) -> Result<()> {
        check_description(&self.name, description, &self.scope.connections.config.limits)?;
        let description = description.clone();
        let made = self.scope.connections.write("make the index", move |tx| create(tx, &description)).await?;
        self.made.get_or_init(|| Arc::new(made));
        Ok(())
    }

    async fn get(&self, keys: &[&RowKey], with_data: bool) -> Result<Vec<Option<StoredVector>>> {
        let made = self.made().await?;
        let keys: Vec<String> = keys.iter().map(|key| key.as_str().to_owned()).collect();
        self.scope
            .connections
            .read("get vectors", move |connection| {
                let mut statement = connection.prepare_cached(if with_data {
                    &made.sql.get_with_data
                } else {
                    &made.sql.get
                })?;
                let mut found = Vec::with_capacity(keys.len());
                for key in &keys {
                    let mut rows = statement.query([key])?;
                    found.push(rows.next()?.map(|row| stored_vector(row, with_data)).transpose()?);
                }
                Ok(found)
            })
            .await
    }

    async fn put(&self, tenure: &Tenure, vectors: &[Vector]) -> Result<Fenced> {
        let made = self.made().await?;
        let limits = &self.scope.connections.config.limits;
        let mut encoded = Vec::with_capacity(vectors.len());
        for (position, vector) in vectors.iter().enumerate() {
            encoded.push(Encoded {
                metadata: check_for_put(&made.description, limits, position, vector)?,
                key: vector.key.as_str().to_owned(),
                norm: norm(&vector.data),
                data: vector.data.iter().flat_map(|component| component.to_le_bytes()).collect(),
            });
            if position % VECTORS_PER_TRANSACTION == VECTORS_PER_TRANSACTION - 1 {
                tokio::task::yield_now().await;
            }
        }
        let put = Arc::clone(&made);
        let fenced = self
            .scope
            .connections
            .write_fenced_in_parts(
                "put vectors",
                &self.scope.name,
                tenure,
                encoded,
                VECTORS_PER_TRANSACTION,
                move |tx, vector| {
                    tx.prepare_cached(&put.sql.put)?.execute(params![
                        vector.key,
                        vector.norm,
                        vector.data,
                        vector.metadata
                    ])?;
                    Ok(())
                },
            )
            .await?;
        if self.count_at.load(Ordering::Relaxed) != u64::MAX {
            self.watch_size(made).await?;
        }
        Ok(fenced)
    }

    async fn delete(&self, tenure: &Tenure, keys: &[RowKey]) -> Result<Fenced> {
        let made = self.made().await?;
        let keys: Vec<String> = keys.iter().map(|key| key.as_str().to_owned()).collect();
        self.scope
            .connections
            .write_fenced_in_parts(
                "delete vectors",
                &self.scope.name,
                tenure,
                keys,
                VECTORS_PER_TRANSACTION,
                move |tx, key| {
                    tx.prepare_cached(&made.sql.delete)?.execute([key])?;
                    Ok(())
                },
            )
            .await
    }

    async fn query(&self, query: &IndexQuery) -> Result<Vec<Hit>> {
        let made = self.made().await?;
        let filter = check_query(&made.description, &self.scope.connections.config.limits, query)?;
        let question = Question::new(made.description.metric, &query.vector);
        let mut nearest = Nearest::new(query.top_k as usize);
        self.scope
            .connections
            .read("search the index", move |connection| {
                let asked: Vec<&str> = filter.iter().flat_map(Filter::keys).collect();
                let mut statement = connection.prepare_cached(&made.sql.all)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let norm: f64 = row.get(0)?;
                    let data = blob(row, 1)?;
                    if data.len() != made.description.dimension as usize * 4 {
                        return Err(damaged("a vector's length"));
                    }
                    let distance = question.distance_to_bytes(data, norm);
                    let key = text(row, 2)?;
                    // The distance comes first: it is cheaper than reading the metadata, and once there are enough
                    // hits it alone decides about most vectors.
                    if !nearest.admits(distance, key) {
                        continue;
                    }
                    let json = text(row, 3)?;
                    if let Some(filter) = &filter {
                        let metadata = parse_metadata_keys(json, &asked).map_err(|error| damaged(&error))?;
                        if !filter.matches(&metadata) {
                            continue;
                        }
                    }
                    let metadata = parse_metadata(json).map_err(|error| damaged(&error))?;
                    nearest.push(key.to_owned(), distance, metadata);
                }
                Ok(nearest.into_hits())
            })
            .await
    }

    async fn list(
        &self,
        after_exclusive: Option<&str>,
        limit: usize,
        with_data: bool,
    ) -> Result<Vec<StoredVector>> {
        let made = self.made().await?;
        // No key is empty, so nothing stands before the first one but the empty text.
        let after = after_exclusive.unwrap_or_default().to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.scope
            .connections
            .read("list vectors", move |connection| {
                let mut statement = connection.prepare_cached(if with_data {
                    &made.sql.list_with_data
                } else {
                    &made.sql.list
                })?;
                let mut rows = statement.query(params![after, limit])?;
                let mut page = Vec::new();
                while let Some(row) = rows.next()? {
                    page.push(stored_vector(row, with_data)?);
                }
                Ok(page)
            })
            .await
    }
}

/// Reads `key, metadata` and, where it was selected, `data`.
fn stored_vector(row: &Row<'_>, with_data: bool) -> Work<StoredVector> {
    let data = if with_data {
        let (components, rest) = blob(row, 2)?.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(damaged("a vector's length"));
        }
        Some(components.iter().map(|&component| f32::from_le_bytes(component)).collect())
    } else {
        None
    };
    Ok(StoredVector {
        key: row.get(0)?,
        data,
        metadata: parse_metadata(text(row, 1)?).map_err(|error| damaged(&error))?,
    })
}

fn blob<'row>(row: &'row Row<'_>, column: usize) -> Work<&'row [u8]> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}

fn text<'row>(row: &'row Row<'_>, column: usize) -> Work<&'row str> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}
