use crate::Stores;

pub(crate) async fn items_by_key(stores: &Stores) {
    let state = &stores.films.state;
    assert_eq!(state.get("k").await.unwrap(), None);
    state.put("k", "1").await.unwrap();
    state.put("k", "2").await.unwrap();
    state.put("", "").await.unwrap();
    assert_eq!(state.get("k").await.unwrap().as_deref(), Some("2"));
    assert_eq!(state.get("").await.unwrap().as_deref(), Some(""));
    assert_eq!(stores.songs.state.get("k").await.unwrap(), None, "items are of one scope");
    state.remove("k").await.unwrap();
    state.remove("k").await.unwrap();
    assert_eq!(state.get("k").await.unwrap(), None);
}

pub(crate) async fn list_by_prefix(stores: &Stores) {
    let state = &stores.films.state;
    for key in ["gap/2", "gap/10", "gap", "gaq", "halt/x", "gap/\u{1f3ac}", "ga%"] {
        state.put(key, &format!("of {key}")).await.unwrap();
    }
    stores.songs.state.put("gap/3", "other").await.unwrap();
    let listed = async |prefix: &str| {
        let items = state.list(prefix).await.unwrap();
        assert!(items.iter().all(|(key, value)| *value == format!("of {key}")));
        items.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(listed("gap/").await, ["gap/10", "gap/2", "gap/\u{1f3ac}"]);
    assert_eq!(listed("gap").await, ["gap", "gap/10", "gap/2", "gap/\u{1f3ac}"]);
    assert_eq!(listed("ga%").await, ["ga%"], "a prefix is no pattern");
    assert_eq!(listed("").await.len(), 7);
    assert!(listed("z").await.is_empty());
}

pub(crate) async fn put_if_is_one_step(stores: &Stores) {
    let state = &stores.films.state;
    assert!(!state.put_if("n", Some("0"), "1").await.unwrap(), "absent is not 0");
    assert_eq!(state.get("n").await.unwrap(), None);
    assert!(state.put_if("n", None, "0").await.unwrap());
    assert!(!state.put_if("n", None, "5").await.unwrap());
    assert!(!state.put_if("n", Some("1"), "5").await.unwrap());
    assert_eq!(state.get("n").await.unwrap().as_deref(), Some("0"));
    // Eight counters that read and put: each success is one step, none is lost.
    let counters: Vec<_> = (0..8)
        .map(|_| {
            let state = state.clone();
            tokio::spawn(async move {
                let mut steps = 0;
                while steps < 10 {
                    let seen = state.get("n").await.unwrap().unwrap();
                    let next = (seen.parse::<u32>().unwrap() + 1).to_string();
                    steps += u32::from(state.put_if("n", Some(&seen), &next).await.unwrap());
                }
            })
        })
        .collect();
    for counter in counters {
        counter.await.unwrap();
    }
    assert_eq!(state.get("n").await.unwrap().as_deref(), Some("80"));
}
