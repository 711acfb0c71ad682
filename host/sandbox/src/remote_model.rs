//! Models behind HTTP, as far as the plugin goes: requests to bytes, responses to vectors. The host sends.

use std::sync::Arc;

use keyvector_core::document::RowFailure;

use crate::bindings::types::Packed;
use crate::bindings::{self, RemoteModelPre, remote_model as wit};
use crate::engine::one_line;
use crate::guest::{Bounds, Guest, Stop, on_own_thread};
use crate::isolate::{Broken, Failed, Try};
use crate::load::Role;
use crate::log::quoted;
use crate::model::{ModelInfo, Purpose, check_shape, read_info};
use crate::packed;
use crate::plugin::Plugin;
use crate::slot::{self, NotOpened, OpenError, Slot};
use crate::stats::{Counters, Stats};
use crate::workers::{Reply, Workers};

/// A header; names in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// Where a request goes, below the operator's base URL, and its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Begins with one `/`; no `//`, no `.` or `..` segment, no `\`, `#`, space or control character. Checked.
    pub path: String,
    /// `accept` and `content-type` at most. Checked.
    pub headers: Vec<Header>,
}

/// A remote model's routes, fixed before any row is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By POST.
    pub embed: Route,
    /// By GET, at start and whenever the server has been away.
    pub info: Option<Route>,
}

/// A response as the plugin may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// `content-type` and `x-*` only.
    pub headers: Vec<Header>,
    pub body: Vec<u8>,
}

/// What a successful response held.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// A vector a text, row-major, NaN where the answer has none.
    pub vectors: Vec<f32>,
    pub dimension: usize,
    pub tokens: Option<u32>,
}

/// What the plugin makes of a response without vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// In the server's or the plugin's words, in one line.
    pub message: String,
    /// Only where the body says it.
    pub retry_after_ms: Option<u32>,
}

/// Failures by what the host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Throttled,
    Transient,
    TooLong,
    Rejected,
    Unusable,
}

/// A call that has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallFailure {
    /// The plugin stopped on it, in a fresh instance too.
    #[error("{}", .0.reason)]
    Stopped(RowFailure),
    /// It says nothing about the texts.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// An open remote-model plugin. It lives on threads of its own.
pub struct RemoteModel {
    workers: Workers<Question, Result<Answer, RowFailure>>,
    counters: Arc<Counters>,
}

enum Question {
    Encode { texts: Packed, purpose: Purpose, cut: bool },
    Decode { count: u32, response: wit::Response },
}

enum Answer {
    Body(Vec<u8>),
    Decoded(Result<Embeddings, Failure>),
}

impl RemoteModel {
    /// Asks for the routes under `config`, a JSON object, before anything is sent. Blocks for at most twice the longer
    /// deadline.
    pub fn describe(plugin: &Plugin, config: &str) -> Result<Routes, OpenError> {
        let pre = pre(plugin)?;
        let counters = Arc::new(Counters::default());
        let routes = on_own_thread(|| {
            slot::open_twice(plugin, &counters, |patience| {
                let mut guest =
                    Guest::instantiate(plugin, &counters, patience, |store| pre.instantiate(store))?;
                guest
                    .call(Bounds::of_setup(plugin, patience), |model, store| model.describe(store, config))?
                    .map_err(NotOpened::Refused)
            })
        })?;
        let read = |route| read_route(route).map_err(|reason| declaration(plugin, reason));
        Ok(Routes { embed: read(routes.embed)?, info: routes.info.map(read).transpose()? })
    }

    /// Opens the model with the `info` route's answer, if it has that route, and starts its threads. Blocks for at most
    /// twice the longer deadline.
    pub fn open(
        plugin: &Plugin,
        config: &str,
        info: Option<&Response>,
    ) -> Result<(Self, ModelInfo), OpenError> {
        let pre = pre(plugin)?;
        let counters = Arc::new(Counters::default());
        let open = {
            let (plugin, config, counters) = (plugin.clone(), config.to_owned(), Arc::clone(&counters));
            let info = info.map(response_to_wit);
            move |patience| {
                let mut guest =
                    Guest::instantiate(&plugin, &counters, patience, |store| pre.instantiate(store))?;
                let info = guest
                    .call(Bounds::of_setup(&plugin, patience), |model, store| {
                        model.open(store, &config, info.as_ref())
                    })?
                    .map_err(NotOpened::Refused)?;
                Ok::<_, NotOpened>((guest.opened(), info))
            }
        };
        let (first, info) = on_own_thread(|| slot::open_twice(plugin, &counters, &open))?;
        let info = read_info(info).map_err(|reason| declaration(plugin, reason))?;
        let dimension = info.dimension;
        let open = move |patience| open(patience).map(|(guest, _)| guest);
        let workers = slot::slots(plugin, &counters, open, first)
            .into_iter()
            .map(|slot| Worker { slot, dimension })
            .collect();
        let workers = Workers::start(plugin, workers, Worker::answer).map_err(|error| Broken {
            plugin: plugin.name().to_owned(),
            reason: format!("its threads cannot be started: {error}"),
        })?;
        Ok((Self { workers, counters }, info))
    }

    /// The body of the one request that embeds these texts: 1 to `texts_per_request`, none blank. `cut`: the server may
    /// cut what is too long.
    pub async fn encode(&self, texts: &[&str], purpose: Purpose, cut: bool) -> Result<Vec<u8>, CallFailure> {
        let texts = packed::pack(texts.iter().copied());
        match self.ask(Question::Encode { texts, purpose, cut }).await? {
            Answer::Body(body) => Ok(body),
            Answer::Decoded(_) => unreachable!("the answer to encode is a body"),
        }
    }

    /// What a complete response to a request for `count` texts means, errors included.
    pub async fn decode(
        &self,
        count: u32,
        response: &Response,
    ) -> Result<Result<Embeddings, Failure>, CallFailure> {
        match self.ask(Question::Decode { count, response: response_to_wit(response) }).await? {
            Answer::Decoded(decoded) => Ok(decoded),
            Answer::Body(_) => unreachable!("the answer to decode is no body"),
        }
    }

    /// What the plugin has done so far.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    async fn ask(&self, question: Question) -> Result<Answer, CallFailure> {
        self.workers.ask(question).await?.map_err(CallFailure::Stopped)
    }
}

fn declaration(plugin: &Plugin, reason: String) -> OpenError {
    OpenError::Declaration { plugin: plugin.name().to_owned(), reason }
}

fn pre(plugin: &Plugin) -> Result<RemoteModelPre, OpenError> {
    slot::require_role(plugin, Role::RemoteModel)?;
    RemoteModelPre::new(plugin.wit_version, plugin.instance_pre.clone())
        .map_err(|error| declaration(plugin, one_line(&error)))
}

/// One thread's side of an open model.
struct Worker {
    slot: Slot<bindings::RemoteModel>,
    dimension: Option<u32>,
}

impl Worker {
    fn answer(&mut self, question: Question, reply: Reply<Result<Answer, RowFailure>>) {
        let rows = match &question {
            Question::Encode { texts, .. } => texts.ends.len(),
            Question::Decode { count, .. } => *count as usize,
        };
        self.slot.counters().begin_batch(rows);
        let answer = match self.attempt(&question, Try::FIRST) {
            Err(Failed::Stopped(_)) => self.attempt(&question, Try(2)),
            answer => answer,
        };
        reply.send(match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(Failed::Ended(broken)) => Err(broken),
            Err(Failed::Stopped(Stop { class, reason })) => {
                Ok(Err(RowFailure { class, reason, attempts: 2 }))
            }
        });
        self.slot.rest();
    }

    fn attempt(&mut self, question: &Question, this: Try) -> Result<Answer, Failed> {
        let slot = &mut self.slot;
        let patience = slot::patience(slot.plugin(), this);
        match question {
            Question::Encode { texts, purpose, cut } => {
                let bounds = Bounds::of_rows(slot.plugin(), texts.ends.len(), texts.data.len(), patience);
                slot.call(
                    this,
                    bounds,
                    |model, store| model.encode(store, texts, purpose.to_wit(), *cut),
                    |body| {
                        if body.len() <= bounds.output_bytes {
                            return Ok(Answer::Body(body));
                        }
                        Err(Stop::output(format!(
                            "answered {} bytes, of {} allowed",
                            body.len(),
                            bounds.output_bytes
                        )))
                    },
                )
            }
            Question::Decode { count, response } => {
                let rows = *count as usize;
                let bounds = Bounds::of_rows(slot.plugin(), rows, response.body.len(), patience);
                let dimension = self.dimension;
                slot.call(
                    this,
                    bounds,
                    |model, store| model.decode(store, *count, response),
                    |decoded| match decoded {
                        Err(failure) => Ok(Answer::Decoded(Err(read_failure(failure)))),
                        Ok(answer) => {
                            let dimension = check_shape(answer.vectors.len(), rows, dimension)? as usize;
                            let (vectors, tokens) = (answer.vectors, answer.tokens);
                            Ok(Answer::Decoded(Ok(Embeddings { vectors, dimension, tokens })))
                        }
                    },
                )
            }
        }
    }
}

fn response_to_wit(response: &Response) -> wit::Response {
    wit::Response {
        status: response.status,
        headers: response
            .headers
            .iter()
            .map(|header| wit::Header { name: header.name.clone(), value: header.value.clone() })
            .collect(),
        body: response.body.clone(),
    }
}

fn read_failure(failure: wit::Failure) -> Failure {
    Failure {
        kind: match failure.kind {
            wit::FailureKind::Throttled => FailureKind::Throttled,
            wit::FailureKind::Transient => FailureKind::Transient,
            wit::FailureKind::TooLong => FailureKind::TooLong,
            wit::FailureKind::Rejected => FailureKind::Rejected,
            wit::FailureKind::Unusable => FailureKind::Unusable,
        },
        message: quoted(&failure.message),
        retry_after_ms: failure.retry_after_ms,
    }
}

/// # Errors
/// Says what is wrong with a route: it could lead away from the operator's base URL, or carry what only the host may.
fn read_route(route: wit::Route) -> Result<Route, String> {
    check_path(&route.path).map_err(|problem| format!("path {:?} {problem}", route.path))?;
    for header in &route.headers {
        if header.name != "accept" && header.name != "content-type" {
            return Err(format!("header {:?}: only accept and content-type are a plugin's", header.name));
        }
        if !header.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(format!("header {}: a value of other than printable ASCII", header.name));
        }
    }
    let headers = route.headers.into_iter().map(|header| Header { name: header.name, value: header.value });
    Ok(Route { path: route.path, headers: headers.collect() })
}

fn check_path(path: &str) -> Result<(), &'static str> {
    let Some(below) = path.strip_prefix('/') else {
        return Err("does not begin with /");
    };
    if path.contains("//") {
        return Err("holds //");
    }
    if !path.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'\\' && byte != b'#') {
        return Err("holds a character that is not allowed");
    }
    let path_only = below.split('?').next().unwrap_or_default().to_ascii_lowercase();
    // `%2e` is a dot, `%2f` and `%5c` are separators to some servers.
    let decoded = path_only.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    if decoded.split('/').any(|segment| segment == "." || segment == "..") {
        return Err("holds a segment . or ..");
    }
    if decoded.starts_with('/') || decoded.contains("//") {
        return Err("holds //");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        /// A server that decodes the path, and one that does not, stay below the base.
        #[test]
        fn no_path_leads_away_from_the_base(path in "/?(a|/|\\.|%2[eEfF]|%5[cC]|%|\\?|\\\\|#|:|@|é|\n){0,8}") {
            if check_path(&path).is_err() {
                return Ok(());
            }
            prop_assert!(path.is_ascii() && !path.contains(char::is_control), "{}", path);
            let resource = path.split('?').next().unwrap();
            for seen in [resource.to_owned(), decoded(resource)] {
                prop_assert!(seen.starts_with('/') && !seen.contains("//") && !seen.contains('\\'), "{}", path);
                prop_assert!(!seen.split('/').any(|segment| segment == "." || segment == ".."), "{}", path);
            }
        }
    }

    /// Percent-decoded, with `\` as the `/` that some servers take it for.
    fn decoded(path: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = path.as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            let escaped = after
                .get(..2)
                .filter(|_| first == b'%')
                .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
            bytes.push(escaped.unwrap_or(first));
            rest = if escaped.is_some() { &after[2..] } else { after };
        }
        String::from_utf8_lossy(&bytes).replace('\\', "/")
    }

    #[test]
    fn paths_stay_below_the_base() {
        for path in
            ["/", "/embed", "/v1/embeddings?a=b", "/model/amazon.titan-embed-text-v2%3A0/invoke", "/a..b"]
        {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in [
            "",
            "embed",
            "//evil.example/x",
            "/a//b",
            "/../x",
            "/a/./b",
            "/a/%2E%2e/b",
            "/%2e./x",
            "/a%2F..%2fb",
            "/a\\b",
            "/a#b",
            "/a b",
            "/a\n",
            "/é",
            "/%2f/x",
            "https://evil.example/",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn headers_are_the_two_that_a_plugin_may_set() {
        let route = |name: &str, value: &str| {
            let headers = vec![wit::Header { name: name.into(), value: value.into() }];
            read_route(wit::Route { path: "/".into(), headers })
        };
        assert!(route("accept", "application/json").is_ok());
        assert!(route("authorization", "x").is_err());
        assert!(route("Accept", "x").is_err());
        assert!(route("accept", "x\r\nauthorization: y").is_err());
    }
}
