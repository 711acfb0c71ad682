//! A guest of the made-up older version beside one of the draft: what holds for the one holds for the other.

use std::time::Duration;

use keyvector_core::document::{FailureClass, Rendered};
use keyvector_core::index::DistanceMetric;
use keyvector_core::schema::ColumnKind;

use super::WitVersion;
use crate::{
    ColumnInfo, Embedded, Engine, EngineConfig, FailureKind, Limits, LocalModel, Plugin, Purpose,
    RemoteModel, Response, RestartReason, Role, TablePlugin, plugin_api_versions, push_cell,
};

#[path = "../../../../tests/guests/old-version/src/modes.rs"]
mod modes;

const OLD: &str = "old-version.wasm";
const NEW: &str = "misbehave.wasm";

fn engine(limits: Limits) -> Engine {
    Engine::new(EngineConfig { limits, threads: 1, ..EngineConfig::default() }).unwrap()
}

fn load(engine: &Engine, name: &str) -> Plugin {
    let folder = std::env::var_os("KEYVECTOR_PLUGINS_DIR").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist").into(),
        std::path::PathBuf::from,
    );
    let path = folder.join(name);
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: build it with `cargo xtask plugins`", path.display()));
    engine.load(name, &bytes).unwrap()
}

fn config(mode: &str) -> String {
    format!("{{\"mode\":\"{mode}\"}}")
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn open_table(plugin: &Plugin, mode: &str) -> TablePlugin {
    let column = |name: &str| ColumnInfo {
        name: name.to_owned(),
        cql_type: "text".to_owned(),
        kind: ColumnKind::Regular,
    };
    TablePlugin::open(plugin, &config(mode), &[column("text"), column("metadata")]).unwrap()
}

fn render(table: &TablePlugin, rows: &[(&str, Option<&str>)]) -> Vec<Rendered> {
    let mut cells = Vec::new();
    for (text, metadata) in rows {
        push_cell(&mut cells, Some(text.as_bytes()));
        push_cell(&mut cells, metadata.map(str::as_bytes));
    }
    block_on(table.render(rows.len().try_into().unwrap(), cells)).unwrap()
}

fn failure(rendered: &Rendered) -> (FailureClass, &str) {
    match rendered {
        Rendered::Failed(failure) => (failure.class, &failure.reason),
        other => panic!("{other:?}"),
    }
}

/// Renders two rows in the older version, both of which fail.
#[track_caller]
fn both_fail(mode: &str, limits: Limits, class: FailureClass, part: &str, restarts: RestartReason) {
    let table = open_table(&load(&engine(limits), OLD), mode);
    for rendered in render(&table, &[("a", None), ("b", None)]) {
        let (found, reason) = failure(&rendered);
        assert_eq!(found, class, "{reason}");
        assert!(reason.contains(part), "{reason}");
    }
    // The first try, the second chance, and each half.
    assert_eq!(table.stats().restarts(restarts), 4);
}

/// A test's name for each mode of the guest.
const TESTED: &[&str] =
    &["echo", "fickle", "flood", "leak", "loop", "memory-bomb", "missing-row", "panic", "trap-on-poison"];

#[test]
fn every_mode_has_a_test() {
    let mut modes = modes::MODES.to_vec();
    modes.sort_unstable();
    assert_eq!(modes, TESTED);
}

#[test]
fn the_host_lists_what_it_binds() {
    assert_eq!(plugin_api_versions(), ["0.0.9".to_owned(), WitVersion::Draft.number().to_string()]);
}

#[test]
fn both_versions_render_the_same_in_one_engine() {
    let engine = engine(Limits::default());
    let (old, new) = (load(&engine, OLD), load(&engine, NEW));
    assert_eq!((old.speaks(), new.speaks()), ("0.0.9", WitVersion::Draft.number().to_string().as_str()));
    assert_eq!(old.roles(), Role::ALL);
    assert!(old.unknown_exports().is_empty());

    let info = TablePlugin::describe(&old, &config("echo")).unwrap();
    assert_eq!(info.reads, ["text", "metadata"]);
    assert!(info.metadata.iter().all(|key| key.filterable), "all were, before keys said so");

    let (old, new) = (open_table(&old, "echo"), open_table(&new, "metadata"));
    let names = |table: &TablePlugin| {
        let keys = table.info().metadata.iter().map(|key| (key.name.clone(), key.value_type));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(names(&old), names(&new));
    let rows = [
        ("one", Some(r#"{"year":1994,"tags":["a"],"seen":null}"#)),
        ("zwölf", None),
        ("skip", None),
        ("refuse", None),
        ("\u{a0}\u{200b}", Some("{}")),
        ("", None),
        ("bad metadata", Some(r#"{"_k":1}"#)),
        ("last", Some(r#"{"title":"x"}"#)),
    ];
    let rendered = render(&old, &rows);
    assert_eq!(rendered, render(&new, &rows));
    assert!(matches!(rendered[0], Rendered::Document(_)) && rendered[2] == Rendered::Skipped);
    assert_eq!(failure(&rendered[3]), (FailureClass::PluginRefused, "refuse"));
    assert_eq!(failure(&rendered[6]).0, FailureClass::PluginOutput);
    // Batches of one go the same way.
    for (row, rendered) in rows.iter().zip(&rendered) {
        assert_eq!(render(&old, &[*row])[0], *rendered);
    }
    assert_eq!((old.stats().restarts_total(), new.stats().restarts_total()), (0, 0));
}

#[test]
fn an_older_plugin_is_told_its_columns() {
    let plugin = load(&engine(Limits::default()), OLD);
    let column = |name: &str, cql_type: &str, kind| ColumnInfo {
        name: name.to_owned(),
        cql_type: cql_type.to_owned(),
        kind,
    };
    let columns =
        [column("text", "text", ColumnKind::Regular), column("metadata", "list<int>", ColumnKind::Static)];
    let error = TablePlugin::open(&plugin, &config("echo"), &columns).err().unwrap().to_string();
    assert_eq!(error, "old-version.wasm refuses: metadata is list<int> and ColumnKind::StaticColumn");
}

#[test]
fn an_older_plugin_that_traps_is_halved_down_to_the_row() {
    let table = open_table(&load(&engine(Limits::default()), OLD), "trap-on-poison");
    let mut rows = vec![("text", None); 64];
    rows[41].0 = "poison";
    let rendered = render(&table, &rows);
    for (row, rendered) in rendered.iter().enumerate() {
        if row == 41 {
            assert_eq!(failure(rendered).0, FailureClass::PluginTrapped);
        } else {
            assert!(matches!(rendered, Rendered::Document(document) if document.text == "text"), "{row}");
        }
    }
}

#[test]
fn an_older_plugins_last_words_are_heard() {
    let words = "it said: about to panic";
    both_fail("panic", Limits::default(), FailureClass::PluginTrapped, words, RestartReason::Trap);
}

#[test]
fn an_older_plugin_is_bounded_in_time_memory_and_output() {
    let hasty = Limits {
        deadline: Duration::from_millis(60),
        deadline_per_row: Duration::from_millis(1),
        second_chance_factor: 2,
        ..Limits::default()
    };
    both_fail("loop", hasty, FailureClass::PluginDeadline, "ran for more than", RestartReason::Deadline);
    let small = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    both_fail("memory-bomb", small, FailureClass::PluginMemory, "asked for more than", RestartReason::Memory);
    let limits = Limits::default();
    both_fail("flood", limits, FailureClass::PluginOutput, "answered more than", RestartReason::Output);
}

#[test]
fn an_older_plugins_missing_row_is_a_broken_answer() {
    let limits = Limits::default();
    both_fail(
        "missing-row",
        limits,
        FailureClass::PluginOutput,
        "answered 0 states for 1 rows",
        RestartReason::Output,
    );
}

#[test]
fn an_older_plugin_is_replaced_before_it_runs_out_of_memory() {
    let table = open_table(&load(&engine(Limits::default()), OLD), "leak");
    for _ in 0..40 {
        assert!(matches!(render(&table, &[("a", None)])[0], Rendered::Document(_)));
    }
    assert!(table.stats().restarts(RestartReason::MemoryHigh) >= 2);
    assert_eq!(table.stats().restarts_total(), table.stats().restarts(RestartReason::MemoryHigh));
}

#[test]
fn an_older_plugin_that_says_different_things_is_found_out() {
    let limits = Limits { determinism_every: 2, ..Limits::default() };
    let stats_of = |mode| {
        let table = open_table(&load(&engine(limits.clone()), OLD), mode);
        for _ in 0..4 {
            render(&table, &[("a", None)]);
        }
        // The comparison comes after the answer; it is over once the next batch is answered.
        render(&table, &[("a", None)]);
        let stats = table.stats();
        (stats.determinism_checks, stats.determinism_differences)
    };
    assert_eq!(stats_of("fickle"), (2, 2));
    assert_eq!(stats_of("echo"), (2, 0));
}

fn embed(model: &LocalModel, texts: &[&str], purpose: Purpose) -> Embedded {
    block_on(model.embed(texts, purpose)).unwrap()
}

#[test]
fn both_versions_embed_the_same() {
    let engine = engine(Limits::default());
    let (old, old_info) = LocalModel::open(&load(&engine, OLD), &config("echo")).unwrap();
    let (new, new_info) = LocalModel::open(&load(&engine, NEW), &config("lengths")).unwrap();
    assert_eq!((&old_info.identity, old_info.metric), (&new_info.identity, DistanceMetric::Cosine));
    // The older version's guest does not say it: it was counted.
    assert_eq!((old_info.dimension, new_info.dimension), (Some(3), Some(3)));
    assert_eq!((old_info.limits.texts_per_request, old_info.limits.tokens_per_text), (32, None));
    for purpose in [Purpose::Document, Purpose::Query] {
        let (old, new) = (embed(&old, &["a", "bcd"], purpose), embed(&new, &["a", "bcd"], purpose));
        assert_eq!((&old.vectors, old.dimension), (&new.vectors, new.dimension));
        assert_eq!((old.tokens, new.tokens), (None, Some(2)), "which only the newer one counts");
    }
}

#[test]
fn a_text_that_stops_an_older_model_fails_alone() {
    let plugin = load(&engine(Limits::default()), OLD);
    let (model, _) = LocalModel::open(&plugin, &config("trap-on-poison")).unwrap();
    let mut texts = vec!["text"; 32];
    texts[5] = "poison";
    let embedded = embed(&model, &texts, Purpose::Document);
    assert_eq!(embedded.vector(4), [4.0, 0.0, 1.0]);
    let [(5, failure)] = embedded.failures.as_slice() else { panic!("{:?}", embedded.failures) };
    assert_eq!(failure.class, FailureClass::PluginTrapped);
}

#[test]
fn both_versions_speak_to_a_server_the_same() {
    let engine = engine(Limits::default());
    let response = |status: u16, body: &str| Response {
        status,
        headers: vec![crate::Header { name: "content-type".to_owned(), value: "text/plain".to_owned() }],
        body: body.as_bytes().to_vec(),
    };
    let (old, new) = (load(&engine, OLD), load(&engine, NEW));
    let routes = RemoteModel::describe(&old, &config("echo")).unwrap();
    assert_eq!(routes, RemoteModel::describe(&new, &config("join")).unwrap());

    let info = response(200, "served/1");
    let (old, old_info) = RemoteModel::open(&old, &config("echo"), Some(&info)).unwrap();
    let (new, new_info) = RemoteModel::open(&new, &config("join"), Some(&info)).unwrap();
    assert_eq!((old_info.identity.as_str(), old_info.dimension), ("served/1", Some(2)));
    assert_eq!(old_info.identity, new_info.identity);
    for (purpose, cut) in [(Purpose::Document, true), (Purpose::Query, false)] {
        let body = |model: &RemoteModel| block_on(model.encode(&["a", "bc"], purpose, cut)).unwrap();
        assert_eq!(body(&old), body(&new));
    }

    let decode = |model: &RemoteModel, response: &Response| block_on(model.decode(2, response)).unwrap();
    let answer = response(200, "1234");
    let (from_old, from_new) = (decode(&old, &answer).unwrap(), decode(&new, &answer).unwrap());
    assert_eq!((&from_old.vectors, from_old.dimension), (&from_new.vectors, from_new.dimension));
    assert_eq!((from_old.tokens, from_new.tokens), (None, Some(7)));
    let failed = decode(&old, &response(429, "")).unwrap_err();
    assert_eq!((failed.kind, failed.message.as_str()), (FailureKind::Throttled, "status 429 text/plain"));
    assert_eq!(
        (failed.retry_after_ms, decode(&new, &response(429, "")).unwrap_err().retry_after_ms),
        (None, Some(70))
    );
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {text})")).unwrap()
}

#[test]
fn a_third_version_is_refused() {
    let bytes = component(r#"(instance $t) (export "keyvector:plugin/table@0.0.8" (instance $t))"#);
    let error = engine(Limits::default()).load("p.wasm", &bytes).unwrap_err().to_string();
    let newest = WitVersion::NEWEST.number();
    assert_eq!(
        error,
        format!(
            "p.wasm speaks keyvector:plugin 0.0.8, this host 0.0.9–{newest}: build the plugin against {newest}"
        )
    );
}

/// As a plugin of a later release of the same track may do.
#[test]
fn a_log_function_that_the_host_has_not_got_is_named() {
    for version in WitVersion::ALL {
        let number = version.number();
        let bytes = component(&format!(
            r#"(import "keyvector:plugin/log@{number}" (instance (export "trace" (func (param "message" string)))))
               (instance $t) (export "keyvector:plugin/table@{number}" (instance $t))"#
        ));
        let error = engine(Limits::default()).load("p.wasm", &bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "p.wasm calls trace of keyvector:plugin/log@{number}, which log has not got in this host's {number}: \
                 upgrade the host"
            )
        );
    }
}
