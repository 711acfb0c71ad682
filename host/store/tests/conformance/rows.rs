use std::collections::BTreeMap;

use keyvector_core::change::SequenceNumber;
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Fenced, Tenure};
use keyvector_core::port::{RowStore, RowWrite};
use keyvector_core::row::{Cell, Row};

use crate::{Stores, take};

fn row(title: &str) -> Row {
    Row::new([Cell::Bytes(&[0, 0, 0, 12]), Cell::Fault("no text"), Cell::Bytes(title.as_bytes())])
}

fn expiring(title: &str, expires_at_ms: i64) -> Row {
    let mut row = row(title);
    row.expires_at_ms = Some(expires_at_ms);
    row
}

async fn keep(rows: &dyn RowStore, tenure: &Tenure, key: &str, number: &str, row: Option<&Row>) {
    let key = RowKey::from_stored(key);
    let sequence_number = SequenceNumber::new(number).unwrap();
    let write = RowWrite { key: &key, sequence_number: &sequence_number, row };
    assert_eq!(rows.keep(tenure, &[write]).await.unwrap(), Fenced::Written);
}

async fn read(rows: &dyn RowStore, key: &str) -> Option<Row> {
    rows.read(&[key], 0).await.unwrap().remove(0)
}

pub(crate) async fn keep_and_read(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let (first, second) = (row("first"), Row::new([Cell::Null, Cell::Null, Cell::Bytes(b"")]));
    keep(rows, &tenure, "a", "1", Some(&first)).await;
    keep(rows, &tenure, "b", "2", Some(&second)).await;
    let found = rows.read(&["b", "missing", "a", "b"], 0).await.unwrap();
    assert_eq!(found, [Some(second.clone()), None, Some(first), Some(second)]);
    assert!(rows.read(&[], 0).await.unwrap().is_empty());
    assert_eq!(read(&*stores.songs.rows, "a").await, None, "another table's rows stand apart");
    assert_eq!(rows.keep(&tenure, &[]).await.unwrap(), Fenced::Written);
}

pub(crate) async fn never_back_in_one_shard(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    keep(rows, &tenure, "k", "9", Some(&row("nine"))).await;
    keep(rows, &tenure, "k", "10", Some(&row("ten"))).await;
    assert_eq!(read(rows, "k").await, Some(row("ten")), "numbers, not texts");
    for (number, title) in [("9", "back"), ("10", "again"), ("0000000009", "padded")] {
        keep(rows, &tenure, "k", number, Some(&row(title))).await;
        keep(rows, &tenure, "k", number, None).await;
        assert_eq!(read(rows, "k").await, Some(row("ten")), "{number}");
    }
    let later = take(&*stores.films.leases, "s", "b").await;
    keep(rows, &later, "k", "9", Some(&row("back"))).await;
    assert_eq!(read(rows, "k").await, Some(row("ten")), "another owner is still the same shard");
    let far = "9".repeat(48);
    keep(rows, &later, "k", &far, Some(&row("far"))).await;
    assert_eq!(read(rows, "k").await, Some(row("far")));
}

pub(crate) async fn another_shard_writes_anew(stores: &Stores) {
    let rows = &*stores.films.rows;
    let parent = take(&*stores.films.leases, "parent", "a").await;
    let child = take(&*stores.films.leases, "child", "a").await;
    keep(rows, &parent, "k", "100", Some(&row("parent"))).await;
    keep(rows, &child, "k", "5", Some(&row("child"))).await;
    assert_eq!(read(rows, "k").await, Some(row("child")), "numbers say nothing across shards");
    keep(rows, &child, "k", "4", Some(&row("back"))).await;
    assert_eq!(read(rows, "k").await, Some(row("child")));
}

pub(crate) async fn gone_is_remembered_with_its_number(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    keep(rows, &tenure, "k", "5", Some(&row("there"))).await;
    keep(rows, &tenure, "k", "7", None).await;
    assert_eq!(read(rows, "k").await, None);
    keep(rows, &tenure, "k", "6", Some(&row("older"))).await;
    assert_eq!(read(rows, "k").await, None, "an older image does not bring it back");
    assert!(rows.scan(None, 10, 0).await.unwrap().is_empty());
    keep(rows, &tenure, "unseen", "7", None).await;
    keep(rows, &tenure, "unseen", "6", Some(&row("older"))).await;
    assert_eq!(read(rows, "unseen").await, None, "gone before it was ever seen");
    keep(rows, &tenure, "k", "8", Some(&row("new"))).await;
    assert_eq!(read(rows, "k").await, Some(row("new")));
}

pub(crate) async fn expired_rows_are_gone(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let expires = expiring("short", 1000);
    keep(rows, &tenure, "a", "1", Some(&expires)).await;
    keep(rows, &tenure, "b", "1", Some(&row("lasting"))).await;
    assert_eq!(rows.read(&["a"], 999).await.unwrap(), [Some(expires.clone())]);
    assert_eq!(rows.read(&["a", "b"], 1000).await.unwrap(), [None, Some(row("lasting"))]);
    let keys = |page: Vec<(String, Row)>| page.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys(rows.scan(None, 10, 999).await.unwrap()), ["a", "b"]);
    assert_eq!(keys(rows.scan(None, 10, 1000).await.unwrap()), ["b"]);
    assert_eq!(keys(rows.scan(None, 1, 1000).await.unwrap()), ["b"], "a page is of rows that are there");
    keep(rows, &tenure, "a", "2", Some(&row("renewed"))).await;
    assert_eq!(rows.read(&["a"], i64::MAX).await.unwrap(), [Some(row("renewed"))]);
}

pub(crate) async fn scan_pages_in_key_order(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let key = format!("k{number:02}");
        let gone = number % 3 == 0;
        let title = row(&key);
        keep(rows, &tenure, &key, "1", (!gone).then_some(&title)).await;
        if !gone {
            expected.push((key, title));
        }
    }
    for limit in [1, 2, 7, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = rows.scan(after.as_deref(), limit, 0).await.unwrap();
            assert!(page.len() <= limit);
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            seen.extend(page);
        }
        assert_eq!(seen, expected, "pages of {limit}");
        let after = expected[2].0.as_str();
        let places = rows.places(Some(after), limit, 0).await.unwrap();
        let keys: Vec<_> = places.iter().map(|place| place.key.as_str()).collect();
        let same = rows.scan(Some(after), limit, 0).await.unwrap();
        assert_eq!(keys, same.iter().map(|(key, _)| key).collect::<Vec<_>>(), "pages of {limit}");
    }
    keep(rows, &take(&*stores.films.leases, "t", "b").await, "k01", "7", Some(&row("new"))).await;
    let place = &rows.places(None, 1, 0).await.unwrap()[0];
    assert_eq!((place.key.as_str(), place.shard_id.as_str()), ("k01", "t"), "of the latest change");
    assert_eq!(place.sequence_number, SequenceNumber::from(7));
    assert!(rows.places(Some("k29"), 9, 0).await.unwrap().is_empty());
}

pub(crate) async fn many_rows_and_the_last_of_one_key_wins(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let writes: Vec<(RowKey, SequenceNumber, Row)> = (0..1300_u64)
        .map(|number| {
            let key = RowKey::from_stored(format!("k{}", number % 700));
            (key, SequenceNumber::from(number), row(&number.to_string()))
        })
        .collect();
    let borrowed: Vec<RowWrite<'_>> = writes
        .iter()
        .map(|(key, sequence_number, row)| RowWrite { key, sequence_number, row: Some(row) })
        .collect();
    assert_eq!(rows.keep(&tenure, &borrowed).await.unwrap(), Fenced::Written);
    let expected: BTreeMap<String, Row> =
        writes.iter().map(|(key, _, row)| (key.as_str().to_owned(), row.clone())).collect();
    let scanned: BTreeMap<String, Row> = rows.scan(None, 2000, 0).await.unwrap().into_iter().collect();
    assert_eq!(scanned, expected);
}

pub(crate) async fn static_cells_stand_apart(stores: &Stores) {
    let rows = &*stores.films.rows;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let keep = async |number: u64, statics: Option<&Row>| {
        let number = SequenceNumber::from(number);
        assert_eq!(rows.keep_statics(&tenure, "p", &number, statics).await.unwrap(), Fenced::Written);
    };
    assert_eq!(rows.read_statics("p").await.unwrap(), None);
    keep(5, Some(&row("five"))).await;
    keep(4, Some(&row("four"))).await;
    keep(5, None).await;
    assert_eq!(rows.read_statics("p").await.unwrap(), Some(row("five")));
    assert_eq!(read(rows, "p").await, None, "they are no row");
    assert!(rows.scan(None, 10, 0).await.unwrap().is_empty());
    keep(6, None).await;
    assert_eq!(rows.read_statics("p").await.unwrap(), None);
    keep(5, Some(&row("five"))).await;
    assert_eq!(rows.read_statics("p").await.unwrap(), None, "gone is remembered");
    assert_eq!(stores.songs.rows.read_statics("p").await.unwrap(), None);
}
