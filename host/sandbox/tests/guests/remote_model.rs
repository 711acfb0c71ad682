//! Misbehaving remote models.

use keyvector_core::document::FailureClass;
use keyvector_sandbox::{
    CallFailure, Failure, FailureKind, Header, Limits, ModelInfo, OpenError, Purpose, RemoteModel, Response,
    RestartReason,
};

use crate::{block_on, config, load, misbehave_modes, polite, tests_of_modes};

const GUEST: &str = "misbehave.wasm";

fn response(status: u16, body: &str) -> Response {
    let headers = vec![Header { name: "content-type".to_owned(), value: "text/plain".to_owned() }];
    Response { status, headers, body: body.as_bytes().to_vec() }
}

fn open(mode: &str) -> (RemoteModel, ModelInfo) {
    let info = response(200, "tei/model@1");
    RemoteModel::open(&load(GUEST, Limits::default()), &config(mode), Some(&info)).unwrap()
}

fn encode(model: &RemoteModel) -> Result<Vec<u8>, CallFailure> {
    block_on(model.encode(&["a", "bc"], Purpose::Query, true))
}

tests_of_modes! {
    misbehave_modes::REMOTE_MODEL_MODES;

    "join" join |mode| {
        let plugin = load(GUEST, Limits::default());
        let routes = RemoteModel::describe(&plugin, &config(mode)).unwrap();
        assert_eq!(routes.embed.path, "/embed?a=b");
        assert_eq!(routes.embed.headers[0].name, "accept");
        assert_eq!(routes.info.unwrap().path, "/info");
        let unavailable = RemoteModel::open(&plugin, &config(mode), Some(&response(503, ""))).err().unwrap();
        assert_eq!(unavailable.to_string(), "misbehave.wasm refuses: the server answers 503");

        let (model, info) = open(mode);
        assert_eq!((info.identity.as_str(), info.dimension), ("tei/model@1", None));
        assert_eq!(encode(&model).unwrap(), b"Purpose::Query true\na\nbc\n");
        let embeddings = block_on(model.decode(3, &response(200, "abcd"))).unwrap().unwrap();
        assert_eq!((embeddings.vectors, embeddings.dimension, embeddings.tokens), (vec![4.0; 6], 2, Some(7)));
        let failure = block_on(model.decode(3, &response(429, ""))).unwrap().unwrap_err();
        let expected =
            Failure { kind: FailureKind::Throttled, message: "status 429".to_owned(), retry_after_ms: Some(70) };
        assert_eq!(failure, expected);
        assert_eq!(model.stats().restarts_total(), 0);
    }

    "evil-route" a_route_that_leaves_the_base_is_refused |mode| {
        let error = RemoteModel::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(matches!(error, OpenError::Declaration { .. }), "{error}");
        assert!(error.to_string().contains("\"/../admin\" holds a segment . or .."), "{error}");
    }

    "trap-in-encode" trap_in_encode |mode| {
        let (model, _) = open(mode);
        let Err(CallFailure::Stopped(failure)) = encode(&model) else { panic!("it traps") };
        assert_eq!((failure.class, failure.attempts), (FailureClass::PluginTrapped, 2));
        assert_eq!(model.stats().restarts(RestartReason::Trap), 2);
        // The next call has a fresh instance.
        assert!(block_on(model.decode(1, &response(200, "x"))).unwrap().is_ok());
    }

    "remote-trap-every-second-call" trap_on_every_second_call_is_no_failure |mode| {
        let (model, _) = open(mode);
        for _ in 0..5 {
            encode(&model).unwrap();
        }
        assert_eq!(model.stats().restarts(RestartReason::Trap), 4);
    }

    "remote-wrong-count" wrong_count |mode| {
        let (model, _) = open(mode);
        let Err(CallFailure::Stopped(failure)) = block_on(model.decode(3, &response(200, "x"))) else {
            panic!("7 floats are no 3 vectors")
        };
        assert_eq!(failure.class, FailureClass::PluginOutput);
        assert!(failure.reason.contains("answered 7 floats for 3 vectors"), "{}", failure.reason);
    }

    "rude-route" a_rude_route |mode| {
        let error = RemoteModel::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(matches!(error, OpenError::Declaration { .. }));
        polite(&error.to_string());
    }

    "rude-header" a_rude_header |mode| {
        let error = RemoteModel::describe(&load(GUEST, Limits::default()), &config(mode)).unwrap_err();
        assert!(error.to_string().ends_with("header accept: a value of other than printable ASCII"), "{error}");
    }

    "rude-server" a_rude_server_is_quoted_politely |mode| {
        let info = response(200, misbehave_modes::RUDE);
        let error = RemoteModel::open(&load(GUEST, Limits::default()), &config(mode), Some(&info)).err().unwrap();
        assert!(matches!(error, OpenError::Refused { .. }));
        polite(&error.to_string());
    }

    "rude-failure" a_rude_failure |mode| {
        let (model, _) = open(mode);
        let failure = block_on(model.decode(1, &response(429, ""))).unwrap().unwrap_err();
        polite(&failure.message);
        assert!(failure.message.len() <= 4096 && failure.message.ends_with('…'));
    }

    "flood-in-encode" flood_in_encode |mode| {
        let Err(CallFailure::Stopped(failure)) = encode(&open(mode).0) else { panic!("it is too much") };
        assert_eq!(failure.class, FailureClass::PluginOutput);
    }
}
