//! One suite for every implementation of the ports: each sentence of the traits' docs is checked on both stores.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "conformance/leases.rs"]
mod leases;
#[path = "conformance/letters.rs"]
mod letters;
#[path = "conformance/queries.rs"]
mod queries;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/state.rs"]
mod state;
#[path = "conformance/vectors.rs"]
mod vectors;

use std::sync::Arc;

use keyvector_core::index::IndexLimits;
use keyvector_core::lease::{Checkpoint, Lease, Tenure};
use keyvector_core::port::{DeadLetters, Error, LeaseTable, RowStore, State, VectorIndex};
use keyvector_core::schema::TableSchema;
use keyvector_store::{MemoryStore, Store, StoreConfig};

/// All ports of one table.
struct Ports {
    leases: Arc<dyn LeaseTable>,
    index: Arc<dyn VectorIndex>,
    rows: Arc<dyn RowStore>,
    letters: Arc<dyn DeadLetters>,
    state: Arc<dyn State>,
}

/// Two tables of one store.
struct Stores {
    films: Ports,
    songs: Ports,
    _folder: Option<tempfile::TempDir>,
}

const INDEX: &str = "films-v1";

fn schema() -> Arc<TableSchema> {
    let cql =
        "CREATE TABLE demo.films (movie_id int, studio text, title text, PRIMARY KEY (movie_id, studio));";
    Arc::new(TableSchema::parse_cql(cql).unwrap())
}

fn limits() -> IndexLimits {
    IndexLimits::default()
}

fn sqlite() -> Stores {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig { limits: limits(), ..StoreConfig::default() };
    let store = Store::open(folder.path().join("keyvector.db"), config).unwrap();
    let ports = |name: &str| {
        let scope = store.table_scope(name);
        Ports {
            leases: Arc::new(scope.leases()),
            index: Arc::new(scope.index(INDEX)),
            rows: Arc::new(scope.rows(name, schema())),
            letters: Arc::new(scope.letters()),
            state: Arc::new(scope.state()),
        }
    };
    Stores { films: ports("films"), songs: ports("songs"), _folder: Some(folder) }
}

fn memory() -> Stores {
    let store = MemoryStore::new(limits());
    let ports = |name: &str| {
        let scope = store.table_scope(name);
        Ports {
            leases: Arc::new(scope.leases()),
            index: Arc::new(scope.index(INDEX)),
            rows: Arc::new(scope.rows(name, schema())),
            letters: Arc::new(scope.letters()),
            state: Arc::new(scope.state()),
        }
    };
    Stores { films: ports("films"), songs: ports("songs"), _folder: None }
}

/// The lease as it stands.
async fn lease(leases: &dyn LeaseTable, lease_key: &str) -> Lease {
    leases.list().await.unwrap().into_iter().find(|lease| lease.lease_key == lease_key).unwrap()
}

/// Makes the lease where it is missing, and takes it from whoever has it.
async fn take(leases: &dyn LeaseTable, lease_key: &str, owner: &str) -> Tenure {
    leases.create(lease_key, &[], &Checkpoint::TrimHorizon).await.unwrap();
    leases.take(&lease(leases, lease_key).await, owner).await.unwrap().unwrap()
}

fn rejected<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Rejected(reason)) => reason,
        other => panic!("not rejected: {other:?}"),
    }
}

macro_rules! on_both_stores {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        mod sqlite_store {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(&crate::sqlite()).await;
            })+)+
        }
        mod memory_store {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(&crate::memory()).await;
            })+)+
        }
    };
}

on_both_stores! {
    leases:
        create_leaves_what_exists,
        list_is_of_one_scope,
        take_asks_owner_and_counter,
        renew_asks_tenure_and_counter,
        renew_writes_the_checkpoint_with_the_counter,
        release_ends_the_tenure,
        the_same_owner_has_a_new_tenure_after_each_take,
        one_of_many_takers_wins,
        counters_beyond_any_store_are_never_equal,
        every_fenced_write_is_refused_after_the_tenure,
        every_write_does_what_the_contract_says;
    vectors:
        create_compares_what_exists,
        what_cannot_be_made_is_refused,
        nothing_works_before_create,
        put_replaces_the_whole_vector,
        get_keeps_the_order_and_the_gaps,
        delete_is_idempotent,
        one_offender_refuses_the_call,
        more_than_one_transaction_of_vectors,
        list_pages_in_key_order,
        metadata_come_back_by_value;
    queries:
        nearest_first_and_ties_by_key,
        distances_are_the_documented_ones,
        filters_choose_before_the_count,
        wrong_questions_are_rejected,
        agrees_with_a_naive_search;
    rows:
        keep_and_read,
        never_back_in_one_shard,
        another_shard_writes_anew,
        gone_is_remembered_with_its_number,
        expired_rows_are_gone,
        scan_pages_in_key_order,
        many_rows_and_the_last_of_one_key_wins,
        static_cells_stand_apart;
    letters:
        write_list_get_remove,
        a_batch_done_twice_leaves_one_letter,
        filters_by_table_class_and_time,
        reason_and_image_are_bounded,
        ids_rise_and_are_never_given_twice;
    state:
        items_by_key,
        list_by_prefix,
        put_if_is_one_step;
}
