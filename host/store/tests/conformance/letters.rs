use keyvector_core::change::SequenceNumber;
use keyvector_core::document::FailureClass;
use keyvector_core::key::RowKey;
use keyvector_core::lease::Fenced;
use keyvector_core::letter::{IMAGE_BYTES_MAX, Letter, LetterFilter, REASON_BYTES_MAX, StoredLetter};

use crate::{Stores, take};

pub(crate) fn letter(number: u64) -> Letter {
    Letter {
        table: "demo.films".into(),
        key: Some(RowKey::from_stored(format!("movie_id={number}"))),
        shard_id: "s".into(),
        sequence_number: SequenceNumber::from(number),
        place: format!("films.jsonl line {number}"),
        class: FailureClass::PluginRefused,
        reason: "year below 1888".into(),
        attempts: 5,
        created_at_ms: 1_000 * i64::try_from(number).unwrap(),
        host_version: "0.1.0".into(),
        plugin_digest: "sha256:00".into(),
        image: Some(vec![0, 1, 255]),
        image_cut: false,
    }
}

fn ids(letters: &[StoredLetter]) -> Vec<u64> {
    letters.iter().map(|stored| stored.id).collect()
}

pub(crate) async fn write_list_get_remove(stores: &Stores) {
    let letters = &stores.films.letters;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let bare = Letter { key: None, image: None, class: FailureClass::BadRecord, ..letter(2) };
    let written = [letter(1), bare];
    assert_eq!(letters.write(&tenure, &written).await.unwrap(), Fenced::Written);
    let listed = letters.list(&LetterFilter::default()).await.unwrap();
    let without_image = |letter: &Letter| Letter { image: None, ..letter.clone() };
    assert_eq!(
        listed.iter().map(|stored| stored.letter.clone()).collect::<Vec<_>>(),
        written.each_ref().map(without_image)
    );
    assert!(listed[0].id < listed[1].id);
    for (stored, written) in listed.iter().zip(&written) {
        assert_eq!(letters.get(stored.id).await.unwrap().unwrap().letter, *written);
    }
    assert_eq!(
        stores.songs.letters.list(&LetterFilter::default()).await.unwrap(),
        listed,
        "letters are the store's"
    );
    assert_eq!(letters.get(u64::MAX).await.unwrap(), None);
    assert_eq!(letters.remove(&[listed[0].id, listed[0].id, u64::MAX]).await.unwrap(), 1);
    assert_eq!(letters.get(listed[0].id).await.unwrap(), None);
    assert_eq!(letters.list(&LetterFilter::default()).await.unwrap(), listed[1..]);
    assert_eq!(letters.remove(&[]).await.unwrap(), 0);
}

pub(crate) async fn a_batch_done_twice_leaves_one_letter(stores: &Stores) {
    let letters = &stores.films.letters;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    assert_eq!(letters.write(&tenure, &[letter(1), letter(2)]).await.unwrap(), Fenced::Written);
    let first = letters.list(&LetterFilter::default()).await.unwrap();
    let again =
        Letter { reason: "again".into(), attempts: 7, created_at_ms: 9_000, image: None, ..letter(1) };
    assert_eq!(letters.write(&tenure, &[again.clone(), letter(2)]).await.unwrap(), Fenced::Written);
    let second = letters.list(&LetterFilter::default()).await.unwrap();
    assert_eq!(ids(&second), ids(&first), "it keeps its number");
    assert_eq!(second[0].letter, again);
    for other in [
        Letter { table: "demo.songs".into(), ..letter(1) },
        Letter { shard_id: "t".into(), ..letter(1) },
        Letter { class: FailureClass::BadCell, ..letter(1) },
        letter(3),
    ] {
        let before = letters.list(&LetterFilter::default()).await.unwrap().len();
        assert_eq!(letters.write(&tenure, &[other]).await.unwrap(), Fenced::Written);
        assert_eq!(letters.list(&LetterFilter::default()).await.unwrap().len(), before + 1);
    }
}

pub(crate) async fn filters_by_table_class_and_time(stores: &Stores) {
    let letters = &stores.films.letters;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let written = [
        letter(1),
        Letter { class: FailureClass::BadCell, ..letter(2) },
        Letter { table: "demo.songs".into(), ..letter(3) },
    ];
    assert_eq!(letters.write(&tenure, &written).await.unwrap(), Fenced::Written);
    let all = LetterFilter::default;
    for (filter, expected) in [
        (LetterFilter { table: Some("demo.films".into()), ..all() }, vec![1, 2]),
        (LetterFilter { table: Some("demo".into()), ..all() }, vec![]),
        (LetterFilter { class: Some(FailureClass::BadCell), ..all() }, vec![2]),
        (LetterFilter { since_ms: Some(2_000), ..all() }, vec![2, 3]),
        (LetterFilter { until_ms: Some(2_000), ..all() }, vec![1]),
        (LetterFilter { since_ms: Some(2_000), until_ms: Some(3_000), ..all() }, vec![2]),
        (LetterFilter { table: Some("demo.songs".into()), until_ms: Some(3_000), ..all() }, vec![]),
    ] {
        let listed = letters.list(&filter).await.unwrap();
        let numbers: Vec<i64> = listed.iter().map(|stored| stored.letter.created_at_ms / 1_000).collect();
        assert_eq!(numbers, expected, "{filter:?}");
    }
}

pub(crate) async fn reason_and_image_are_bounded(stores: &Stores) {
    let letters = &stores.films.letters;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let image = vec![7; IMAGE_BYTES_MAX + 1];
    let long = Letter { reason: "a\u{1b}[31m".repeat(1_000), image: Some(image.clone()), ..letter(1) };
    let exact = Letter { image: Some(image[1..].to_vec()), ..letter(2) };
    assert_eq!(letters.write(&tenure, &[long, exact]).await.unwrap(), Fenced::Written);
    let listed = letters.list(&LetterFilter::default()).await.unwrap();
    let cut = letters.get(listed[0].id).await.unwrap().unwrap().letter;
    assert!(cut.reason.len() <= REASON_BYTES_MAX && cut.reason.starts_with("a\\u{1b}[31m"), "{}", cut.reason);
    assert!(cut.reason.contains('…'));
    assert_eq!((cut.image.as_ref().map(Vec::len), cut.image_cut), (Some(IMAGE_BYTES_MAX), true));
    let whole = letters.get(listed[1].id).await.unwrap().unwrap().letter;
    assert_eq!((whole.image.as_ref().map(Vec::len), whole.image_cut), (Some(IMAGE_BYTES_MAX), false));
}

pub(crate) async fn ids_rise_and_are_never_given_twice(stores: &Stores) {
    let letters = &stores.films.letters;
    let tenure = take(&*stores.films.leases, "s", "a").await;
    let mut seen: Vec<u64> = Vec::new();
    for number in 1..6 {
        assert_eq!(letters.write(&tenure, &[letter(number)]).await.unwrap(), Fenced::Written);
        let listed = ids(&letters.list(&LetterFilter::default()).await.unwrap());
        assert_eq!(listed.len(), 1);
        assert!(seen.last().is_none_or(|last| *last < listed[0]), "{seen:?} {listed:?}");
        seen.extend(&listed);
        assert_eq!(letters.remove(&listed).await.unwrap(), 1);
    }
}
