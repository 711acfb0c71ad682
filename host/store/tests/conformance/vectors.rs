use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::index::{
    CUT_KEY, DistanceMetric, FINGERPRINT_KEY, IndexDescription, IndexQuery, StoredVector, Vector,
};
use keyvector_core::key::RowKey;
use keyvector_core::lease::Fenced;

use crate::{INDEX, Stores, rejected, take};

pub(crate) fn description() -> IndexDescription {
    IndexDescription {
        name: INDEX.into(),
        dimension: 2,
        metric: DistanceMetric::Cosine,
        non_filterable_keys: vec![FINGERPRINT_KEY.into(), "note".into()],
        table: "demo.films(movie_id int; studio text)".into(),
        model_identity: "static-1".into(),
    }
}

pub(crate) fn vector(key: &str, data: &[f32]) -> Vector {
    Vector { key: RowKey::from_stored(key), data: data.to_vec(), metadata: Metadata::default() }
}

pub(crate) fn with(mut vector: Vector, name: &str, value: MetadataValue) -> Vector {
    vector.metadata.0.insert(name.into(), value);
    vector
}

fn text(text: &str) -> MetadataValue {
    MetadataValue::Text(text.to_owned())
}

fn stored(vector: &Vector, with_data: bool) -> StoredVector {
    StoredVector {
        key: vector.key.as_str().to_owned(),
        data: with_data.then(|| vector.data.clone()),
        metadata: vector.metadata.clone(),
    }
}

pub(crate) async fn create_compares_what_exists(stores: &Stores) {
    let index = &stores.films.index;
    assert_eq!(index.describe().await.unwrap(), None);
    index.create(&description()).await.unwrap();
    assert_eq!(index.describe().await.unwrap(), Some(description()));
    assert_eq!(stores.songs.index.describe().await.unwrap(), Some(description()), "an index is the store's");
    index.create(&description()).await.unwrap();
    let mut other_order = description();
    other_order.non_filterable_keys.reverse();
    index.create(&other_order).await.unwrap();
    for (other, part) in [
        (IndexDescription { dimension: 3, ..description() }, "its dimension is \"2\", wanted is \"3\""),
        (
            IndexDescription { metric: DistanceMetric::Euclidean, ..description() },
            "its distance metric is \"cosine\", wanted is \"euclidean\"",
        ),
        (
            IndexDescription { non_filterable_keys: vec![FINGERPRINT_KEY.into()], ..description() },
            "its non-filterable keys is \"_keyvector, note\", wanted is \"_keyvector\"",
        ),
        (IndexDescription { table: "demo.songs(id int;)".into(), ..description() }, "demo.songs"),
        (
            IndexDescription { model_identity: "static-2".into(), ..description() },
            "its model is \"static-1\"",
        ),
    ] {
        let reason = rejected(index.create(&other).await);
        assert!(reason.contains(part) && reason.contains(INDEX), "{reason}");
        assert_eq!(reason.matches("wanted is").count(), 1, "only what differs: {reason}");
    }
    assert_eq!(index.describe().await.unwrap(), Some(description()));
}

pub(crate) async fn what_cannot_be_made_is_refused(stores: &Stores) {
    let keys = |count: usize| -> Vec<String> {
        [FINGERPRINT_KEY.to_owned()]
            .into_iter()
            .chain((1..count).map(|number| format!("k{number}")))
            .collect()
    };
    for (other, part) in [
        (IndexDescription { name: "other".into(), ..description() }, "other"),
        (IndexDescription { dimension: 0, ..description() }, "1 to 4096"),
        (IndexDescription { dimension: 4097, ..description() }, "1 to 4096"),
        (IndexDescription { non_filterable_keys: keys(11), ..description() }, "at most 10"),
        (IndexDescription { non_filterable_keys: vec!["note".into()], ..description() }, FINGERPRINT_KEY),
        (
            IndexDescription {
                non_filterable_keys: vec![FINGERPRINT_KEY.into(), "n".repeat(64)],
                ..description()
            },
            "63 characters",
        ),
    ] {
        let reason = rejected(stores.films.index.create(&other).await);
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(stores.films.index.describe().await.unwrap(), None);
    stores
        .films
        .index
        .create(&IndexDescription { non_filterable_keys: keys(10), ..description() })
        .await
        .unwrap();
}

pub(crate) async fn nothing_works_before_create(stores: &Stores) {
    let index = &stores.films.index;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let key = RowKey::from_stored("k");
    let question = IndexQuery { vector: vec![1.0, 0.0], top_k: 1, filter: None };
    assert!(rejected(index.get(&[&key], true).await).contains(INDEX));
    assert!(rejected(index.put(&tenure, &[vector("k", &[1.0, 0.0])]).await).contains(INDEX));
    assert!(rejected(index.delete(&tenure, std::slice::from_ref(&key)).await).contains(INDEX));
    assert!(rejected(index.query(&question).await).contains(INDEX));
    assert!(rejected(index.list(None, 1, false).await).contains(INDEX));
}

pub(crate) async fn put_replaces_the_whole_vector(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let first =
        with(with(vector("k", &[1.0, 0.0]), "genre", text("noir")), "year", MetadataValue::Number(1950.0));
    let second = with(vector("k", &[3.0, 4.0]), "genre", text("western"));
    for put in [&first, &second, &second] {
        assert_eq!(index.put(&tenure, std::slice::from_ref(put)).await.unwrap(), Fenced::Written);
    }
    assert_eq!(index.get(&[&second.key], true).await.unwrap(), [Some(stored(&second, true))]);
    assert_eq!(index.list(None, 10, true).await.unwrap(), [stored(&second, true)]);
    // The distance goes by the new data and their length.
    let question = IndexQuery { vector: vec![2.0, 0.0], top_k: 1, filter: None };
    assert!((index.query(&question).await.unwrap()[0].distance - 0.4).abs() < 1e-6);
    // Twice in one call: the later one stays.
    assert_eq!(index.put(&tenure, &[second.clone(), first.clone()]).await.unwrap(), Fenced::Written);
    assert_eq!(index.get(&[&second.key], true).await.unwrap(), [Some(stored(&first, true))]);
}

pub(crate) async fn get_keeps_the_order_and_the_gaps(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let vectors: Vec<Vector> =
        (0..250).map(|number| vector(&format!("k{number:03}"), &[number as f32, 1.0])).collect();
    assert_eq!(index.put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    let missing = RowKey::from_stored("missing");
    let mut keys: Vec<&RowKey> = vectors.iter().rev().map(|vector| &vector.key).collect();
    keys.insert(7, &missing);
    keys.push(&vectors[3].key);
    let found = index.get(&keys, true).await.unwrap();
    let expected: Vec<Option<StoredVector>> = keys
        .iter()
        .map(|&key| vectors.iter().find(|vector| vector.key == *key).map(|vector| stored(vector, true)))
        .collect();
    assert_eq!(found, expected);
    let without = index.get(&[&vectors[0].key, &missing], false).await.unwrap();
    assert_eq!(without, [Some(stored(&vectors[0], false)), None]);
    assert!(index.get(&[], true).await.unwrap().is_empty());
}

pub(crate) async fn delete_is_idempotent(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let vectors: Vec<Vector> =
        (0..1200).map(|number| vector(&format!("k{number:04}"), &[1.0, 0.0])).collect();
    assert_eq!(index.put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    let mut keys: Vec<RowKey> = vectors[1..].iter().map(|vector| vector.key.clone()).collect();
    keys.push(RowKey::from_stored("missing"));
    for _ in 0..2 {
        assert_eq!(index.delete(&tenure, &keys).await.unwrap(), Fenced::Written);
        assert_eq!(index.list(None, 10, false).await.unwrap(), [stored(&vectors[0], false)]);
    }
    assert_eq!(index.delete(&tenure, &[]).await.unwrap(), Fenced::Written);
}

pub(crate) async fn one_offender_refuses_the_call(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let tag = |key: &str, count: usize| with(vector(key, &[1.0, 0.0]), "tag", text(&"日".repeat(count)));
    let mut vectors: Vec<Vector> = (0..9).map(|number| tag(&format!("k{number}"), 600)).collect();
    vectors.insert(4, tag("movie_id=secret", 700));
    let reason = rejected(index.put(&tenure, &vectors).await);
    assert!(reason.contains("vector 4") && reason.contains("2110 bytes"), "{reason}");
    assert!(!reason.contains("secret"), "row keys are the user's data: {reason}");
    assert!(index.list(None, 10, false).await.unwrap().is_empty(), "nothing of the call is written");
    vectors.remove(4);
    assert_eq!(index.put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    assert_eq!(index.list(None, 100, false).await.unwrap().len(), 9);
    for offender in [
        vector("x", &[1.0]),
        vector("x", &[1.0, f32::NAN]),
        vector("x", &[0.0, 0.0]),
        vector(&"k".repeat(1025), &[1.0, 0.0]),
        with(vector("x", &[1.0, 0.0]), "note", text(&"n".repeat(41_000))),
    ] {
        rejected(index.put(&tenure, &[offender]).await);
    }
}

pub(crate) async fn more_than_one_transaction_of_vectors(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let vectors: Vec<Vector> =
        (0..1501).map(|number| vector(&format!("k{number:04}"), &[number as f32, 1.0])).collect();
    assert_eq!(index.put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    let listed = index.list(None, 2000, true).await.unwrap();
    assert_eq!(listed, vectors.iter().map(|vector| stored(vector, true)).collect::<Vec<_>>());
}

pub(crate) async fn list_pages_in_key_order(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    // UTF-8 order, which is not that of UTF-16 or of any language.
    let keys = ["a", "a&b", "a%20", "b", "B", "~", "é", "\u{ffff}", "\u{1f3ac}"];
    let vectors: Vec<Vector> = keys.iter().map(|key| vector(key, &[1.0, 0.0])).collect();
    assert_eq!(index.put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    let mut sorted: Vec<&str> = keys.to_vec();
    sorted.sort_unstable();
    for limit in 1..=keys.len() + 1 {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = index.list(after.as_deref(), limit, false).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            seen.extend(page.into_iter().map(|vector| vector.key));
        }
        assert_eq!(seen, sorted, "pages of {limit}");
    }
    assert_eq!(
        index.list(Some("a&"), 1, false).await.unwrap()[0].key,
        "a&b",
        "after a key that is not there"
    );
}

pub(crate) async fn metadata_come_back_by_value(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let numbers = vec![0.1, -7.0, 1e300, 5e-324, 9_007_199_254_740_993.0, 0.1 + 0.2];
    let mut put = vector("k", &[f32::MIN_POSITIVE, 1.0e-45]);
    for (name, value) in [
        ("title", text("\"Ä\u{1}\u{1f3ac}\\\n")),
        ("empty", text("")),
        ("listed", MetadataValue::Boolean(false)),
        ("tags", MetadataValue::TextList(vec!["".into(), "語".into()])),
        ("marks", MetadataValue::NumberList(numbers)),
        (CUT_KEY, MetadataValue::Number(12_345.0)),
    ] {
        put = with(put, name, value);
    }
    assert_eq!(index.put(&tenure, std::slice::from_ref(&put)).await.unwrap(), Fenced::Written);
    assert_eq!(index.get(&[&put.key], true).await.unwrap(), [Some(stored(&put, true))]);
}
