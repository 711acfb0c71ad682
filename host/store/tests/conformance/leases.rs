use keyvector_core::change::SequenceNumber;
use std::collections::BTreeMap;

use keyvector_core::lease::{Applied, Checkpoint, Fenced, Lease, LeaseWrite, Tenure};

use crate::{Stores, lease, letters, take, vectors};

pub(crate) async fn create_leaves_what_exists(stores: &Stores) {
    let leases = &stores.films.leases;
    let parents = ["p-1".to_owned(), "p \"2\"".to_owned()];
    leases.create("s", &parents, &Checkpoint::At("7".into())).await.unwrap();
    let made = Lease::new("s", &parents, Checkpoint::At("7".into()));
    assert_eq!(leases.list().await.unwrap(), std::slice::from_ref(&made));
    leases.create("s", &[], &Checkpoint::ShardEnd).await.unwrap();
    assert_eq!(leases.list().await.unwrap(), [made]);
}

pub(crate) async fn list_is_of_one_scope(stores: &Stores) {
    for lease_key in ["b", "a"] {
        stores.films.leases.create(lease_key, &[], &Checkpoint::TrimHorizon).await.unwrap();
    }
    stores.songs.leases.create("a", &[], &Checkpoint::ShardEnd).await.unwrap();
    let keys = |leases: Vec<Lease>| leases.into_iter().map(|lease| lease.lease_key).collect::<Vec<_>>();
    assert_eq!(keys(stores.films.leases.list().await.unwrap()), ["a", "b"]);
    assert_eq!(keys(stores.songs.leases.list().await.unwrap()), ["a"]);
    let tenure = take(&*stores.films.leases, "a", "me").await;
    assert_eq!(lease(&*stores.songs.leases, "a").await.lease_owner, None);
    assert_eq!(stores.songs.leases.renew(&tenure, 1, None).await.unwrap(), None, "a tenure is of its scope");
    assert_eq!(stores.songs.letters.write(&tenure, &[]).await.unwrap(), Fenced::Lost);
}

pub(crate) async fn take_asks_owner_and_counter(stores: &Stores) {
    let leases = &*stores.films.leases;
    leases.create("s", &[], &Checkpoint::TrimHorizon).await.unwrap();
    let free = lease(leases, "s").await;
    let tenure = leases.take(&free, "a").await.unwrap().unwrap();
    assert_eq!((tenure.lease_key.as_str(), tenure.lease_owner.as_str(), tenure.taken_at), ("s", "a", 1));
    let taken = lease(leases, "s").await;
    assert_eq!((taken.lease_owner.as_deref(), taken.lease_counter), (Some("a"), 1));
    assert_eq!(leases.take(&free, "b").await.unwrap(), None, "somebody was faster");
    let other_owner = Lease { lease_owner: Some("c".into()), ..taken.clone() };
    assert_eq!(leases.take(&other_owner, "b").await.unwrap(), None);
    let other_counter = Lease { lease_counter: 2, ..taken.clone() };
    assert_eq!(leases.take(&other_counter, "b").await.unwrap(), None);
    let unowned = Lease { lease_owner: None, ..taken.clone() };
    assert_eq!(leases.take(&unowned, "b").await.unwrap(), None);
    let unknown = Lease { lease_key: "t".into(), ..taken.clone() };
    assert_eq!(leases.take(&unknown, "b").await.unwrap(), None);
    assert_eq!(lease(leases, "s").await, taken, "failed takes change nothing");
    assert_eq!(leases.take(&taken, "b").await.unwrap().unwrap().taken_at, 2);
}

pub(crate) async fn renew_asks_tenure_and_counter(stores: &Stores) {
    let leases = &*stores.films.leases;
    let old = take(leases, "s", "a").await;
    assert_eq!(leases.renew(&old, 1, None).await.unwrap(), Some(2));
    assert_eq!(leases.renew(&old, 1, None).await.unwrap(), None, "the counter has moved");
    assert_eq!(leases.renew(&old, 3, None).await.unwrap(), None);
    assert_eq!(leases.renew(&old, 2, None).await.unwrap(), Some(3), "a failed renewal changes nothing");
    let new = take(leases, "s", "b").await;
    assert_eq!(new.taken_at, 4);
    assert_eq!(leases.renew(&old, 4, None).await.unwrap(), None, "the tenure is over");
    assert_eq!(leases.renew(&new, 4, None).await.unwrap(), Some(5));
}

pub(crate) async fn renew_writes_the_checkpoint_with_the_counter(stores: &Stores) {
    let leases = &*stores.films.leases;
    let tenure = take(leases, "s", "a").await;
    let at = |position: &str| Checkpoint::At(position.to_owned());
    assert_eq!(leases.renew(&tenure, 1, Some(&at("9"))).await.unwrap(), Some(2));
    assert_eq!(lease(leases, "s").await.checkpoint, at("9"));
    assert_eq!(leases.renew(&tenure, 2, None).await.unwrap(), Some(3));
    assert_eq!(lease(leases, "s").await.checkpoint, at("9"), "without one the old stays");
    assert_eq!(leases.renew(&tenure, 2, Some(&at("10"))).await.unwrap(), None);
    assert_eq!(lease(leases, "s").await.checkpoint, at("9"), "a lost renewal writes none");
    assert_eq!(leases.renew(&tenure, 3, Some(&Checkpoint::ShardEnd)).await.unwrap(), Some(4));
    assert_eq!(lease(leases, "s").await.checkpoint, Checkpoint::ShardEnd);
}

pub(crate) async fn release_ends_the_tenure(stores: &Stores) {
    let leases = &*stores.films.leases;
    let tenure = take(leases, "s", "a").await;
    let checkpoint = Checkpoint::At("9".into());
    assert_eq!(leases.release(&tenure, Some(&checkpoint)).await.unwrap(), Fenced::Written);
    let free = lease(leases, "s").await;
    assert_eq!((free.lease_owner.clone(), free.checkpoint.clone()), (None, checkpoint.clone()));
    assert_eq!(free.lease_counter, 2, "every write raises the counter");
    assert_eq!(leases.release(&tenure, Some(&Checkpoint::ShardEnd)).await.unwrap(), Fenced::Lost);
    assert_eq!(leases.renew(&tenure, 2, None).await.unwrap(), None);
    assert_eq!(lease(leases, "s").await, free);
    let next = take(leases, "s", "b").await;
    assert_eq!(leases.release(&next, None).await.unwrap(), Fenced::Written);
    assert_eq!(lease(leases, "s").await.checkpoint, checkpoint, "without one the old stays");
}

pub(crate) async fn the_same_owner_has_a_new_tenure_after_each_take(stores: &Stores) {
    let leases = &*stores.films.leases;
    let first = take(leases, "s", "a").await;
    let second = take(leases, "s", "a").await;
    assert_ne!(first, second);
    assert_eq!(leases.renew(&first, second.taken_at, None).await.unwrap(), None);
    assert_eq!(leases.release(&first, None).await.unwrap(), Fenced::Lost);
    assert_eq!(stores.films.letters.write(&first, &[]).await.unwrap(), Fenced::Lost);
    assert_eq!(stores.films.letters.write(&second, &[]).await.unwrap(), Fenced::Written);
}

pub(crate) async fn one_of_many_takers_wins(stores: &Stores) {
    let leases = &stores.films.leases;
    leases.create("s", &[], &Checkpoint::TrimHorizon).await.unwrap();
    for round in 0..20 {
        let seen = lease(&**leases, "s").await;
        let takers: Vec<_> = (0..8)
            .map(|number| {
                let (leases, seen) = (leases.clone(), seen.clone());
                tokio::spawn(async move { leases.take(&seen, &format!("host-{number}")).await.unwrap() })
            })
            .collect();
        let mut winners = Vec::new();
        for taker in takers {
            winners.extend(taker.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "round {round}");
        let taken = lease(&**leases, "s").await;
        assert_eq!(taken.lease_owner.as_ref(), Some(&winners[0].lease_owner));
        assert_eq!(taken.lease_counter, winners[0].taken_at);
    }
}

pub(crate) async fn counters_beyond_any_store_are_never_equal(stores: &Stores) {
    let leases = &*stores.films.leases;
    let tenure = take(leases, "s", "a").await;
    let far = Lease { lease_counter: u64::MAX, ..lease(leases, "s").await };
    assert_eq!(leases.take(&far, "b").await.unwrap(), None);
    let far = Lease { lease_counter: i64::MAX as u64, ..far };
    assert_eq!(leases.take(&far, "b").await.unwrap(), None);
    assert_eq!(leases.renew(&tenure, u64::MAX, None).await.unwrap(), None);
    let far = keyvector_core::lease::Tenure { taken_at: u64::MAX, ..tenure };
    assert_eq!(leases.renew(&far, 1, None).await.unwrap(), None);
    assert_eq!(leases.release(&far, None).await.unwrap(), Fenced::Lost);
    assert_eq!(stores.films.letters.write(&far, &[]).await.unwrap(), Fenced::Lost);
}

pub(crate) async fn every_fenced_write_is_refused_after_the_tenure(stores: &Stores) {
    let ports = &stores.films;
    ports.index.create(&vectors::description()).await.unwrap();
    let tenure = take(&*ports.leases, "s", "a").await;
    let vector = vectors::vector("k", &[1.0, 0.0]);
    assert_eq!(ports.index.put(&tenure, std::slice::from_ref(&vector)).await.unwrap(), Fenced::Written);

    // Taken away, and given up: neither leaves a way in.
    let next = take(&*ports.leases, "s", "b").await;
    assert_eq!(ports.leases.release(&next, None).await.unwrap(), Fenced::Written);
    let number = SequenceNumber::from(1);
    for lost in [&tenure, &next] {
        let other = vectors::vector("k2", &[1.0, 0.0]);
        assert_eq!(ports.index.put(lost, &[other]).await.unwrap(), Fenced::Lost);
        assert_eq!(ports.index.delete(lost, std::slice::from_ref(&vector.key)).await.unwrap(), Fenced::Lost);
        assert_eq!(ports.rows.keep(lost, &[]).await.unwrap(), Fenced::Lost);
        assert_eq!(ports.rows.keep_statics(lost, "p", &number, None).await.unwrap(), Fenced::Lost);
        assert_eq!(ports.letters.write(lost, &[letters::letter(1)]).await.unwrap(), Fenced::Lost);
    }
    let kept = ports.index.list(None, 10, false).await.unwrap();
    assert_eq!(kept.iter().map(|vector| vector.key.as_str()).collect::<Vec<_>>(), ["k"]);
    assert!(ports.letters.list(&Default::default()).await.unwrap().is_empty());
}

/// A long random history, each answer and each row compared with the contract's own.
pub(crate) async fn every_write_does_what_the_contract_says(stores: &Stores) {
    let leases = &*stores.films.leases;
    let mut rows = BTreeMap::new();
    let mut random = 7_u64;
    let mut pick = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut accepted = [0; 8];
    for _ in 0..3000 {
        let lease_key = ["s", "t", "ü \"1\""][pick(3)].to_owned();
        let host = |number: usize| ["a", "b", "former-owner"][number].to_owned();
        let row: Option<&Lease> = rows.get(&lease_key);
        let counter = row.map_or(0, |row| row.lease_counter).saturating_sub(u64::from(pick(8) == 0));
        let owner = row.and_then(|row| row.lease_owner.clone());
        let tenure = Tenure {
            lease_key: lease_key.clone(),
            lease_owner: if pick(8) == 0 { host(pick(3)) } else { owner.clone().unwrap_or_default() },
            taken_at: row.and_then(|row| row.taken_at).unwrap_or(1).saturating_sub(u64::from(pick(8) == 0)),
        };
        let checkpoint =
            [Checkpoint::TrimHorizon, Checkpoint::At("5".into()), Checkpoint::ShardEnd][pick(3)].clone();
        let maybe = (pick(2) == 0).then(|| checkpoint.clone());
        let kind = pick(8);
        let write = match kind {
            0 => LeaseWrite::Create(Lease {
                lease_owner: (pick(2) == 0).then(|| host(2)),
                skip_before_ms: (pick(2) == 0).then_some(-1_000),
                ..Lease::new(&lease_key, &["p".to_owned()], checkpoint)
            }),
            1 => LeaseWrite::Take { lease_key, seen_owner: owner, seen_counter: counter, by: host(pick(2)) },
            2 | 3 => LeaseWrite::Renew {
                tenure,
                counter,
                checkpoint: maybe,
                tip_at_ms: (kind == 2).then_some(1_700_000_000_123),
                decline: pick(2) == 0,
            },
            4 => LeaseWrite::GiveUp {
                tenure,
                counter,
                checkpoint: maybe,
                to: (pick(2) == 0).then(|| host(pick(2))),
                unsettled: pick(2) == 0,
            },
            5 => LeaseWrite::Want { lease_key, seen_owner: owner.unwrap_or_default(), by: host(pick(2)) },
            6 => LeaseWrite::Remove { lease_key, counter },
            _ => LeaseWrite::Reset { lease_key, seen_counter: counter, checkpoint },
        };
        let key = write.lease_key().to_owned();
        let expected = write.apply(rows.get(&key));
        assert_eq!(leases.write(&write).await.unwrap(), expected, "{write:?} on {:?}", rows.get(&key));
        accepted[kind] += usize::from(expected.is_some());
        match expected {
            Some(Applied::Row(row)) => drop(rows.insert(key.clone(), row)),
            Some(Applied::Removed) => drop(rows.remove(&key)),
            None => {}
        }
        assert_eq!(leases.get(&key).await.unwrap(), rows.get(&key).cloned(), "{write:?}");
    }
    assert_eq!(leases.list().await.unwrap(), rows.into_values().collect::<Vec<_>>());
    assert!(accepted.iter().all(|&count| count > 20), "{accepted:?}");
}
