//! Misbehaving local models.

use keyvector_core::document::FailureClass;
use keyvector_core::index::DistanceMetric;
use keyvector_sandbox::{Embedded, Limits, LocalModel, OpenError, Purpose, RestartReason};

use crate::{block_on, config, hasty, load, misbehave_modes, polite, tests_of_modes};

const GUEST: &str = "misbehave.wasm";

fn open(mode: &str, limits: Limits) -> LocalModel {
    let (model, info) = LocalModel::open(&load(GUEST, limits), &config(mode)).unwrap();
    assert_eq!((info.identity.as_str(), info.dimension), ("lengths/1", Some(3)));
    assert_eq!((info.metric, info.limits.texts_per_request), (DistanceMetric::Cosine, 32));
    model
}

fn embed(model: &LocalModel, texts: &[&str]) -> Embedded {
    block_on(model.embed(texts, Purpose::Document)).unwrap()
}

/// Embeds 64 texts of which 41 is poison, and checks that it alone failed.
#[track_caller]
fn one_failure_of_64(mode: &str, limits: Limits) -> FailureClass {
    let mut texts = vec!["text"; 64];
    texts[41] = "poison";
    let embedded = embed(&open(mode, limits), &texts);
    for index in 0..64 {
        if index != 41 {
            assert_eq!(embedded.vector(index), [4.0, 0.0, 1.0]);
        }
    }
    assert!(embedded.vector(41).iter().all(|x| x.is_nan()));
    assert_eq!(embedded.vectors.len(), 64 * 3);
    let [(41, failure)] = embedded.failures.as_slice() else { panic!("{:?}", embedded.failures) };
    failure.class
}

fn open_error(mode: &str) -> OpenError {
    LocalModel::open(&load(GUEST, Limits::default()), &config(mode)).err().unwrap()
}

#[track_caller]
fn all_fail(mode: &str, part: &str) {
    let embedded = embed(&open(mode, Limits::default()), &["a", "bc"]);
    assert_eq!(embedded.failures.len(), 2);
    for (_, failure) in embedded.failures {
        assert_eq!(failure.class, FailureClass::PluginOutput);
        assert!(failure.reason.contains(part), "{}", failure.reason);
    }
}

tests_of_modes! {
    misbehave_modes::LOCAL_MODEL_MODES;

    "lengths" lengths |mode| {
        let model = open(mode, Limits::default());
        let embedded = embed(&model, &["a", "bcd"]);
        assert_eq!(embedded.vectors, [1.0, 0.0, 1.0, 3.0, 0.0, 1.0]);
        assert_eq!((embedded.dimension, embedded.tokens, embedded.failures.len()), (3, Some(2), 0));
        let query = block_on(model.embed(&["a"], Purpose::Query)).unwrap();
        assert_eq!(query.vectors, [1.0, 1.0, 1.0]);
        assert!(embed(&model, &[]).vectors.is_empty());
        assert_eq!((model.stats().batches, model.stats().rows), (2, 3));
    }

    "no-dimension" a_dimension_that_is_not_said_is_counted |mode| {
        assert_eq!(embed(&open(mode, Limits::default()), &["ab"]).vectors, [2.0, 0.0, 1.0]);
    }

    "nan" nan_vectors_are_handed_on_for_the_host_to_check |mode| {
        let embedded = embed(&open(mode, Limits::default()), &["a", "b"]);
        assert!(embedded.failures.is_empty());
        assert!(embedded.vectors.iter().all(|x| x.is_nan()) && embedded.vectors.len() == 6);
    }

    "wrong-vector-count" wrong_vector_count |mode| {
        all_fail(mode, "answered 0 floats for 1 vectors of dimension 3");
    }

    "wrong-dimension" wrong_dimension |mode| {
        all_fail(mode, "answered 4 floats for 1 vectors of dimension 3");
    }

    "model-trap-on-poison" trap_on_one_text |mode| {
        assert_eq!(one_failure_of_64(mode, Limits::default()), FailureClass::PluginTrapped);
    }

    "model-trap-every-second-call" trap_on_every_second_call_fails_no_text |mode| {
        let model = open(mode, Limits::default());
        for _ in 0..5 {
            assert_eq!(embed(&model, &["a", "b"]).failures, []);
        }
        assert_eq!(model.stats().restarts(RestartReason::Trap), 4);
    }

    "model-loop-on-poison" loop_on_one_text |mode| {
        assert_eq!(one_failure_of_64(mode, hasty()), FailureClass::PluginDeadline);
    }

    "no-identity" no_identity |mode| {
        assert!(matches!(open_error(mode), OpenError::Declaration { .. }));
    }

    "rude-identity" a_rude_identity |mode| {
        let error = open_error(mode);
        assert!(matches!(error, OpenError::Declaration { .. }));
        polite(&error.to_string());
    }

    "long-identity" a_long_identity |mode| {
        assert!(open_error(mode).to_string().contains("one line of at most 1024 bytes"));
    }

    "rude-model" a_rude_refusal |mode| {
        let error = open_error(mode);
        assert!(matches!(error, OpenError::Refused { .. }));
        polite(&error.to_string());
    }
}
