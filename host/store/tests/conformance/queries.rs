use keyvector_core::document::{Metadata, MetadataValue};
use keyvector_core::filter::Filter;
use keyvector_core::index::{DistanceMetric, Hit, IndexDescription, IndexQuery, Vector};
use keyvector_core::lease::Fenced;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::vectors::{description, vector, with};
use crate::{Ports, Stores, rejected, take};

fn question(vector: &[f32], top_k: u32) -> IndexQuery {
    IndexQuery { vector: vector.to_vec(), top_k, filter: None }
}

async fn put(ports: &Ports, vectors: &[Vector]) {
    let tenure = take(&*ports.leases, "s", "a").await;
    assert_eq!(ports.index.put(&tenure, vectors).await.unwrap(), Fenced::Written);
}

fn keys(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.key.as_str()).collect()
}

pub(crate) async fn nearest_first_and_ties_by_key(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let note = MetadataValue::Text("kept".into());
    let vectors = [
        vector("far", &[-1.0, 0.0]),
        vector("tie-c", &[3.0, 3.0]),
        vector("tie-a", &[1.0, 1.0]),
        vector("tie-b", &[0.5, 0.5]),
        with(vector("near", &[1.0, 0.1]), "note", note.clone()),
    ];
    put(&stores.films, &vectors).await;
    let hits = index.query(&question(&[2.0, 0.0], 10)).await.unwrap();
    assert_eq!(keys(&hits), ["near", "tie-a", "tie-b", "tie-c", "far"]);
    assert_eq!(hits[0].metadata, Metadata([("note".into(), note)].into()), "metadata come with a hit");
    for top_k in 1..=4 {
        let fewer = index.query(&question(&[2.0, 0.0], top_k)).await.unwrap();
        assert_eq!(fewer, hits[..top_k as usize], "a smaller top-k is the beginning of a larger");
    }
    put(&stores.films, &[vector("tie-0", &[7.0, 7.0])]).await;
    assert_eq!(keys(&index.query(&question(&[2.0, 0.0], 2)).await.unwrap()), ["near", "tie-0"]);
}

pub(crate) async fn distances_are_the_documented_ones(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    put(&stores.films, &[vector("k", &[3.0, 4.0])]).await;
    let distance = async |vector: &[f32]| index.query(&question(vector, 1)).await.unwrap()[0].distance;
    assert_eq!(distance(&[6.0, 8.0]).await, 0.0);
    assert_eq!(distance(&[-3.0, -4.0]).await, 2.0);
    assert_eq!(distance(&[4.0, -3.0]).await, 1.0);
    assert!((distance(&[1.0, 0.0]).await - 0.4).abs() < 1e-6);
    assert_eq!(distance(&[3e38, 3e38]).await, distance(&[1e-40, 1e-40]).await, "the length has no say");
}

pub(crate) async fn filters_choose_before_the_count(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let vectors: Vec<Vector> = (0..300)
        .map(|number| {
            let angle = number as f32 / 200.0;
            let year = MetadataValue::Number(f64::from(1700 + number));
            with(vector(&format!("k{number:03}"), &[angle.cos(), angle.sin()]), "year", year)
        })
        .collect();
    put(&stores.films, &vectors).await;
    let filter = Some(json!({"year": {"$gte": 1990}}));
    let hits = index.query(&IndexQuery { filter, ..question(&[1.0, 0.0], 5) }).await.unwrap();
    assert_eq!(keys(&hits), ["k290", "k291", "k292", "k293", "k294"], "far ones, when the near do not pass");
    let none = Some(json!({"year": {"$gt": 5000}}));
    assert!(index.query(&IndexQuery { filter: none, ..question(&[1.0, 0.0], 5) }).await.unwrap().is_empty());
}

pub(crate) async fn wrong_questions_are_rejected(stores: &Stores) {
    let index = &stores.films.index;
    index.create(&description()).await.unwrap();
    let wrong = async |query: IndexQuery, part: &str| {
        let reason = rejected(index.query(&query).await);
        assert!(reason.contains(part), "{reason}");
    };
    wrong(question(&[1.0, 0.0], 0), "top-k is 0, it must be 1 to 100").await;
    wrong(question(&[1.0, 0.0], 101), "top-k is 101").await;
    wrong(question(&[1.0], 1), "1 components, the index 2").await;
    wrong(question(&[1.0, f32::INFINITY], 1), "inf").await;
    wrong(question(&[0.0, 0.0], 1), "zero").await;
    let with_filter = |filter| IndexQuery { filter: Some(filter), ..question(&[1.0, 0.0], 1) };
    wrong(with_filter(json!({"year": {"$gtr": 1}})), "did you mean $gt?").await;
    wrong(with_filter(json!({"note": "x"})), "non-filterable").await;
    wrong(with_filter(json!([])), "a filter is an object").await;
    assert!(index.query(&question(&[1.0, 0.0], 100)).await.unwrap().is_empty());
}

fn naive(vectors: &[Vector], query: &IndexQuery) -> Vec<(String, f64)> {
    let filter = query.filter.as_ref().map(|filter| Filter::parse(filter, &[]).unwrap());
    let mut hits: Vec<(String, f64)> = vectors
        .iter()
        .filter(|vector| filter.as_ref().is_none_or(|filter| filter.matches(&vector.metadata)))
        .map(|vector| {
            let squares =
                vector.data.iter().zip(&query.vector).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
            (vector.key.as_str().to_owned(), squares.sum::<f64>().sqrt())
        })
        .collect();
    // Distances are 32 bits wide: closer ones are ties.
    hits.sort_by(|a, b| (a.1 as f32).total_cmp(&(b.1 as f32)).then_with(|| a.0.cmp(&b.0)));
    hits.truncate(query.top_k as usize);
    hits
}

/// Euclidean, in 11 dimensions, so that the sums have a remainder behind their lanes.
pub(crate) async fn agrees_with_a_naive_search(stores: &Stores) {
    let index = &stores.films.index;
    let euclidean = IndexDescription { metric: DistanceMetric::Euclidean, dimension: 11, ..description() };
    index.create(&euclidean).await.unwrap();
    let mut runner = TestRunner::deterministic();
    let component = || prop_oneof![(-3i8..3).prop_map(f32::from), -1e3f32..1e3];
    let data = || prop::collection::vec(component(), 11);
    let one = ("[a-c]{1,3}", data(), prop::option::of(0..4i32));
    for _ in 0..40 {
        let listed = index.list(None, 1000, false).await.unwrap();
        let tenure = take(&*stores.films.leases, "s", "a").await;
        let old: Vec<_> = listed
            .iter()
            .map(|stored| keyvector_core::key::RowKey::from_stored(stored.key.as_str()))
            .collect();
        assert_eq!(index.delete(&tenure, &old).await.unwrap(), Fenced::Written);
        let drawn = prop::collection::btree_map("[a-c]{1,3}", one.clone(), 0..40)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let vectors: Vec<Vector> = drawn
            .into_iter()
            .map(|(key, (_, data, year))| {
                let plain = vector(&key, &data);
                match year {
                    None => plain,
                    Some(year) => with(plain, "year", MetadataValue::Number(f64::from(year))),
                }
            })
            .collect();
        put(&stores.films, &vectors).await;
        for filter in [None, Some(json!({"year": {"$gte": 2}})), Some(json!({"year": {"$ne": 1}}))] {
            for top_k in [1, 3, 100] {
                let asked = data().new_tree(&mut runner).unwrap().current();
                let query = IndexQuery { filter: filter.clone(), ..question(&asked, top_k) };
                let hits = index.query(&query).await.unwrap();
                let expected = naive(&vectors, &query);
                assert_eq!(keys(&hits), expected.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>());
                for (hit, (_, distance)) in hits.iter().zip(&expected) {
                    assert!((f64::from(hit.distance) - distance).abs() <= 1e-6 * distance.max(1.0));
                }
            }
        }
    }
}
