//! The store as a file: what may be opened, who may read it, what is in it after a restart, and several hosts on it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyvector_core::document::Metadata;
use keyvector_core::index::{DistanceMetric, FINGERPRINT_KEY, IndexDescription, Vector};
use keyvector_core::key::RowKey;
use keyvector_core::lease::{Checkpoint, Fenced, Lease, Tenure};
use keyvector_core::port::{DeadLetters, Error, LeaseTable, State, VectorIndex};
use keyvector_store::{STORE_FORMAT, Store, StoreConfig, TableScope};
use rusqlite::Connection;

fn open(path: &Path) -> Result<Store, Error> {
    Store::open(path, StoreConfig::default())
}

/// The one line of a refusal.
fn refused(path: &Path) -> String {
    match open(path).map(|_| ()) {
        Err(Error::Fatal(line)) => {
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(&path.display().to_string()), "{line}");
            line
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyvector.db");
    (folder, path)
}

fn description(dimension: u32) -> IndexDescription {
    IndexDescription {
        name: "films".into(),
        dimension,
        metric: DistanceMetric::Cosine,
        non_filterable_keys: vec![FINGERPRINT_KEY.into()],
        table: "demo.films(movie_id int;)".into(),
        model_identity: "m".into(),
    }
}

fn vectors(count: usize, dimension: usize) -> Vec<Vector> {
    (0..count)
        .map(|number| Vector {
            key: RowKey::from_stored(format!("movie_id={number}")),
            data: (0..dimension).map(|at| (number * 31 + at) as f32 + 1.0).collect(),
            metadata: Metadata::default(),
        })
        .collect()
}

async fn take(scope: &TableScope, lease_key: &str, owner: &str) -> Tenure {
    let leases = scope.leases();
    leases.create(lease_key, &[], &Checkpoint::TrimHorizon).await.unwrap();
    let seen = leases.list().await.unwrap().into_iter().find(|lease| lease.lease_key == lease_key).unwrap();
    leases.take(&seen, owner).await.unwrap().unwrap()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let (_folder, path) = folder();
    let found = async |store: &Store| {
        let scope = store.table_scope("films");
        let index = scope.index("films");
        (
            scope.leases().list().await.unwrap(),
            index.describe().await.unwrap(),
            index.list(None, 100, true).await.unwrap(),
            scope.state().list("").await.unwrap(),
            scope.letters().list(&Default::default()).await.unwrap(),
        )
    };
    let before = {
        let store = open(&path).unwrap();
        let scope = store.table_scope("films");
        let tenure = take(&scope, "s", "a").await;
        scope.index("films").create(&description(3)).await.unwrap();
        assert_eq!(scope.index("films").put(&tenure, &vectors(10, 3)).await.unwrap(), Fenced::Written);
        scope.state().put("render", "1").await.unwrap();
        let at = Checkpoint::At("7".into());
        assert_eq!(scope.leases().renew(&tenure, 1, Some(&at)).await.unwrap(), Some(2));
        found(&store).await
    };
    assert_eq!(before.2.len(), 10);
    let store = open(&path).unwrap();
    assert_eq!(found(&store).await, before);
    // The tenure outlives the process, too: only a take ends it.
    let tenure = Tenure { lease_key: "s".into(), lease_owner: "a".into(), taken_at: 1 };
    let scope = store.table_scope("films");
    assert_eq!(scope.index("films").put(&tenure, &vectors(11, 3)).await.unwrap(), Fenced::Written);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder();
    let modes = || {
        let mut modes: Vec<(String, u32)> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (
                    entry.file_name().into_string().unwrap(),
                    entry.metadata().unwrap().permissions().mode() & 0o777,
                )
            })
            .collect();
        modes.sort();
        modes
    };
    let private =
        ["keyvector.db", "keyvector.db-shm", "keyvector.db-wal"].map(|name| (name.to_owned(), 0o600));
    let store = open(&path).unwrap();
    store.table_scope("films").state().put("k", "v").await.unwrap();
    assert_eq!(modes(), private);
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&path).unwrap();
    store.table_scope("films").state().put("k", "w").await.unwrap();
    assert_eq!(modes(), private, "a mode that was too wide is narrowed");
}

#[test]
fn another_format_is_refused_with_both_numbers() {
    let (_folder, path) = folder();
    drop(open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let before = fs::read(&path).unwrap();
    let line = refused(&path);
    assert!(
        line.contains("has format 999") && line.contains(&format!("knows format {STORE_FORMAT}")),
        "{line}"
    );
    assert_eq!(fs::read(&path).unwrap(), before, "it is left as it is");
}

#[tokio::test]
async fn an_older_format_is_brought_up() {
    let (_folder, path) = folder();
    {
        let store = open(&path).unwrap();
        take(&store.table_scope("films"), "s", "a").await;
    }
    let older = Connection::open(&path).unwrap();
    for column in ["wanted_by", "skip_before_ms", "unsettled", "tip_at_ms"] {
        older.execute_batch(&format!("ALTER TABLE lease DROP COLUMN {column}")).unwrap();
    }
    older.pragma_update(None, "user_version", 1).unwrap();
    drop(older);
    let leases = open(&path).unwrap().table_scope("films").leases().list().await.unwrap();
    assert_eq!((leases[0].lease_owner.as_deref(), leases[0].taken_at), (Some("a"), Some(1)));
    let format: i32 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(format, STORE_FORMAT);
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let (folder, path) = folder();
    assert!(refused(folder.path()).contains("is a folder: name a file in it"));

    fs::write(&path, "title,year\nThe Long Vault,1994\n").unwrap();
    assert!(refused(&path).contains("is not an SQLite file"));
    assert_eq!(fs::read(&path).unwrap(), b"title,year\nThe Long Vault,1994\n");

    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE lease (a); INSERT INTO lease VALUES (1);")
        .unwrap();
    let before = fs::read(&foreign).unwrap();
    assert!(refused(&foreign).contains("another application's SQLite file"));
    assert_eq!(fs::read(&foreign).unwrap(), before);

    let nowhere = folder.path().join("no/such/keyvector.db");
    assert!(refused(&nowhere).contains("there is no folder"));
    let below_a_file = path.join("keyvector.db");
    assert!(refused(&below_a_file).contains("name another store"));
}

#[test]
fn a_missing_store_is_made_only_where_that_is_wanted() {
    let (folder, path) = folder();
    let config = StoreConfig { create: false, ..StoreConfig::default() };
    let Err(Error::Fatal(line)) = Store::open(&path, config.clone()).map(|_| ()) else {
        panic!("not refused")
    };
    assert!(line.contains("there is no store") && line.contains("run the host once"), "{line}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // What a start leaves that was killed before it made the tables.
    fs::write(&path, "").unwrap();
    drop(open(&path).unwrap());
    Store::open(&path, config).unwrap();
}

#[cfg(unix)]
#[test]
fn places_that_cannot_be_written_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder();
    drop(open(&path).unwrap());
    let new = folder.path().join("new.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // Modes do not bind the superuser.
    let binds = fs::write(folder.path().join("probe"), "").is_err();
    let lines = binds.then(|| [refused(&path), refused(&new)]);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for line in lines.iter().flatten() {
        assert!(
            line.contains("cannot be") && line.contains("change their owner or mode")
                || line.contains("name another"),
            "{line}"
        );
    }
    // A file system that takes no files says it to everybody.
    if Path::new("/proc/self").exists() {
        let line = refused(Path::new("/proc/keyvector.db"));
        assert!(line.contains("cannot be written"), "{line}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_told_with_what_to_do() {
    let (_folder, path) = folder();
    {
        let store = open(&path).unwrap();
        let scope = store.table_scope("films");
        let tenure = take(&scope, "s", "a").await;
        scope.index("films").create(&description(64)).await.unwrap();
        assert_eq!(scope.index("films").put(&tenure, &vectors(400, 64)).await.unwrap(), Fenced::Written);
    }
    let whole = fs::read(&path).unwrap();
    assert!(!path.with_extension("db-wal").exists(), "the log is in the file");

    // Its first page, after the magic and the numbers.
    let mut broken = whole.clone();
    broken[100..4096].fill(0xa5);
    fs::write(&path, &broken).unwrap();
    let line = refused(&path);
    assert!(line.contains("damaged") && line.contains("put a copy back"), "{line}");

    // All pages but the first: it opens, and the call that meets the damage says so.
    let mut broken = whole.clone();
    broken[4096..].fill(0xa5);
    fs::write(&path, &broken).unwrap();
    match open(&path) {
        Err(Error::Fatal(line)) => assert!(line.contains("damaged"), "{line}"),
        Err(other) => panic!("{other:?}"),
        Ok(store) => {
            let scope = store.table_scope("films");
            let Err(Error::Fatal(line)) = scope.leases().list().await else { panic!("not refused") };
            assert!(line.contains("list leases") && line.contains("damaged"), "{line}");
            let Err(Error::Fatal(line)) = scope.index("films").list(None, 10, false).await else {
                panic!("not refused")
            };
            assert!(line.contains("damaged"), "{line}");
        }
    }

    // Cut in the middle.
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    match open(&path) {
        Err(Error::Fatal(line)) => assert!(line.contains("damaged"), "{line}"),
        Err(other) => panic!("{other:?}"),
        Ok(store) => {
            let outcome = store.table_scope("films").index("films").list(None, 1000, true).await;
            assert!(matches!(outcome, Err(Error::Fatal(_))), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn values_no_host_writes_are_told_as_damage() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let scope = store.table_scope("films");
    let tenure = take(&scope, "s", "a").await;
    let index = scope.index("films");
    index.create(&description(3)).await.unwrap();
    assert_eq!(index.put(&tenure, &vectors(2, 3)).await.unwrap(), Fenced::Written);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE vectors_1 SET data = x'0000' WHERE key = 'movie_id=1'").unwrap();
    let question = keyvector_core::index::IndexQuery { vector: vec![1.0; 3], top_k: 1, filter: None };
    let Err(Error::Fatal(line)) = index.query(&question).await else { panic!("not refused") };
    assert!(line.contains("a vector's length"), "{line}");
    assert!(matches!(index.list(None, 10, true).await, Err(Error::Fatal(_))));
    other.execute_batch("UPDATE vectors_1 SET metadata = '[null]'").unwrap();
    assert!(matches!(index.list(None, 10, false).await, Err(Error::Fatal(_))));
    other.execute_batch("UPDATE lease SET lease_counter = -1").unwrap();
    assert!(matches!(scope.leases().list().await, Err(Error::Fatal(_))));
}

#[tokio::test]
async fn delete_takes_a_store_and_nothing_else() {
    let (folder, path) = folder();
    Store::delete(&path).unwrap();
    let store = open(&path).unwrap();
    store.table_scope("films").state().put("k", "v").await.unwrap();
    drop(store);
    fs::write(folder.path().join("films.jsonl"), "{}").unwrap();
    Store::delete(&path).unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["films.jsonl"]);
    assert!(matches!(Store::delete(folder.path().join("films.jsonl")), Err(Error::Fatal(_))));
    assert!(matches!(Store::delete(folder.path()), Err(Error::Fatal(_))));
    assert!(folder.path().join("films.jsonl").exists());
}

#[test]
fn a_path_is_never_a_uri() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:odd?mode=memory&x=%41.db");
    drop(open(&path).unwrap());
    assert!(path.exists());
    open(&path).unwrap();
}

#[test]
fn many_first_starts_at_once_make_one_store() {
    for _ in 0..10 {
        let (_folder, path) = folder();
        let starts: Vec<_> = (0..6)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || open(&path).map(|_| ()))
            })
            .collect();
        for start in starts {
            start.join().unwrap().unwrap();
        }
    }
}

const CHILD_STORE: &str = "KEYVECTOR_TEST_CHILD_STORE";
const CHILD_NAME: &str = "KEYVECTOR_TEST_CHILD_NAME";
const LEASES: usize = 40;

/// Not a test by itself: what each process of the next one does.
#[tokio::test]
async fn child_that_takes_leases() {
    let (Ok(path), Ok(name)) = (std::env::var(CHILD_STORE), std::env::var(CHILD_NAME)) else { return };
    let store = open(Path::new(&path)).unwrap();
    let scope = store.table_scope("films");
    let leases = scope.leases();
    // All have seen the same free leases before one of them takes any.
    let seen: Vec<Lease> = leases.list().await.unwrap();
    scope.state().put(&format!("ready/{name}"), "").await.unwrap();
    while scope.state().get("go").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for lease in seen {
        if let Some(tenure) = leases.take(&lease, &name).await.unwrap() {
            println!("took {} at {}", tenure.lease_key, tenure.taken_at);
        }
    }
}

#[tokio::test]
async fn one_process_wins_each_take() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let scope = store.table_scope("films");
    for number in 0..LEASES {
        scope.leases().create(&format!("s{number:02}"), &[], &Checkpoint::TrimHorizon).await.unwrap();
    }
    let children: Vec<Child> = (0..4)
        .map(|number| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child_that_takes_leases", "--nocapture"])
                .env(CHILD_STORE, &path)
                .env(CHILD_NAME, format!("host-{number}"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    while scope.state().list("ready/").await.unwrap().len() < children.len() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    scope.state().put("go", "").await.unwrap();
    let mut taken = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let output = String::from_utf8(output.stdout).unwrap();
        taken.extend(output.lines().filter(|line| line.starts_with("took ")).map(str::to_owned));
    }
    taken.sort();
    let expected: Vec<String> = (0..LEASES).map(|number| format!("took s{number:02} at 1")).collect();
    assert_eq!(taken, expected, "each lease exactly once");
    assert!(scope.leases().list().await.unwrap().iter().all(|lease| lease.lease_owner.is_some()));
}

/// Renews while one long put runs: no renewal may take a third of the put's time.
async fn renew_beside_a_put(putting: &Store, renewing: &Store) {
    let scope = putting.table_scope("films");
    scope.index("films").create(&description(256)).await.unwrap();
    let tenure = take(&scope, "s", "a").await;
    let done = Arc::new(AtomicBool::new(false));
    let renewals = {
        let (leases, tenure, done) =
            (renewing.table_scope("films").leases(), tenure.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let (mut counter, mut slowest) = (tenure.taken_at, Duration::ZERO);
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                counter = leases.renew(&tenure, counter, None).await.unwrap().unwrap();
                slowest = slowest.max(began.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            slowest
        })
    };
    let vectors = vectors(60_000, 256);
    let began = Instant::now();
    assert_eq!(scope.index("films").put(&tenure, &vectors).await.unwrap(), Fenced::Written);
    let put = began.elapsed();
    done.store(true, Ordering::Relaxed);
    let slowest = renewals.await.unwrap();
    assert!(slowest < put / 3, "a renewal took {slowest:?} of the put's {put:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_queue_behind_a_long_put() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    renew_beside_a_put(&store, &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_hosts_renewal_gets_into_a_long_put() {
    let (_folder, path) = folder();
    let (store, other) = (open(&path).unwrap(), open(&path).unwrap());
    renew_beside_a_put(&store, &other).await;
}

#[tokio::test]
async fn a_busy_file_is_a_transient_error_after_the_time_out() {
    let (_folder, path) = folder();
    let config = StoreConfig { busy_timeout: Duration::from_millis(50), ..StoreConfig::default() };
    let store = Store::open(&path, config).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let state = store.table_scope("films").state();
    let Err(Error::Transient { message, .. }) = state.put("k", "v").await else { panic!("not transient") };
    assert!(message.contains("another process is writing"), "{message}");
    assert_eq!(state.get("k").await.unwrap(), None, "readers do not wait");
    other.execute_batch("COMMIT").unwrap();
    state.put("k", "v").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fenced_put_and_a_take_never_cross() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let scope = store.table_scope("films");
    scope.index("films").create(&description(1)).await.unwrap();
    for round in 0..30_u32 {
        // The old owner puts its mark, the new one its own after its take. If a late put could land after the take,
        // the old mark would stay now and then.
        let old = take(&scope, "s", "old").await;
        let mark = |value: f32| Vector {
            key: RowKey::from_stored("k"),
            data: vec![value],
            metadata: Metadata::default(),
        };
        let done = Arc::new(AtomicBool::new(false));
        let late = {
            let (index, done) = (scope.index("films"), Arc::clone(&done));
            tokio::spawn(async move {
                loop {
                    let over = done.load(Ordering::Relaxed);
                    if index.put(&old, &[mark(1.0)]).await.unwrap() == Fenced::Lost {
                        break;
                    }
                    assert!(!over, "the old owner still writes");
                }
            })
        };
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 50)).await;
        let new = take(&scope, "s", "new").await;
        assert_eq!(scope.index("films").put(&new, &[mark(2.0)]).await.unwrap(), Fenced::Written);
        done.store(true, Ordering::Relaxed);
        late.await.unwrap();
        let key = RowKey::from_stored("k");
        let found = scope.index("films").get(&[&key], true).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().data, Some(vec![2.0]), "round {round}");
    }
}
