use crate::bindings::exports::keyvector::plugin::{local_model, remote_model};
use crate::bindings::keyvector::plugin::types::{Embeddings, Limits, Metric, ModelInfo, Packed, Purpose};
use crate::modes::{LOCAL_MODEL_MODES, REMOTE_MODEL_MODES, RUDE};
use crate::{MODE, Misbehave, count_call, mode, opened_as, spin};

fn info(identity: &str, dimension: Option<u32>) -> ModelInfo {
    let limits = Limits {
        texts_per_request: 32,
        bytes_per_request: None,
        tokens_per_request: None,
        tokens_per_text: Some(512),
        characters_per_text: None,
    };
    ModelInfo { identity: identity.to_owned(), dimension, metric: Metric::Cosine, limits }
}

fn texts(packed: &Packed) -> Vec<&[u8]> {
    let starts = std::iter::once(0).chain(packed.ends.iter().copied());
    starts.zip(&packed.ends).map(|(start, &end)| &packed.data[start as usize..end as usize]).collect()
}

impl local_model::Guest for Misbehave {
    fn open(config: String) -> Result<ModelInfo, String> {
        let mode = mode(&config, LOCAL_MODEL_MODES)?;
        let dimension = (mode != "no-dimension").then_some(3);
        let identity = match mode.as_str() {
            "no-identity" => String::new(),
            "rude-identity" => format!("lengths{RUDE}"),
            "long-identity" => "l".repeat(1025),
            "rude-model" => return Err(RUDE.to_owned()),
            _ => "lengths/1".to_owned(),
        };
        MODE.set(mode);
        Ok(info(&identity, dimension))
    }

    /// A text's vector is its length, 1 for a query, and 1.
    fn embed(packed: Packed, purpose: Purpose) -> Embeddings {
        let mode = opened_as();
        let call = count_call();
        let texts = texts(&packed);
        let poisoned = texts.contains(&b"poison".as_slice());
        match mode.as_str() {
            "model-trap-on-poison" if poisoned => panic!("poison"),
            "model-trap-every-second-call" if call.is_multiple_of(2) => panic!("second call"),
            "model-loop-on-poison" if poisoned => spin(),
            _ => {}
        }
        let is_query = f32::from(u8::from(purpose == Purpose::Query));
        let mut vectors: Vec<f32> =
            texts.iter().flat_map(|text| [text.len() as f32, is_query, 1.0]).collect();
        match mode.as_str() {
            "nan" => vectors.fill(f32::NAN),
            "wrong-vector-count" => vectors.truncate(vectors.len() - 3),
            "wrong-dimension" => vectors.extend(vec![0.0; texts.len()]),
            _ => {}
        }
        Embeddings { vectors, tokens: Some(texts.len() as u32) }
    }
}

impl remote_model::Guest for Misbehave {
    fn describe(config: String) -> Result<remote_model::Routes, String> {
        let mode = mode(&config, REMOTE_MODEL_MODES)?;
        let path = match mode.as_str() {
            "evil-route" => "/../admin".to_owned(),
            "rude-route" => format!("/{RUDE}"),
            _ => "/embed?a=b".to_owned(),
        };
        let value = if mode == "rude-header" { RUDE } else { "text/plain" };
        let header = remote_model::Header { name: "accept".to_owned(), value: value.to_owned() };
        let embed = remote_model::Route { path, headers: vec![header] };
        let info = remote_model::Route { path: "/info".to_owned(), headers: vec![] };
        Ok(remote_model::Routes { embed, info: Some(info) })
    }

    fn open(config: String, answer: Option<remote_model::Response>) -> Result<ModelInfo, String> {
        MODE.set(mode(&config, REMOTE_MODEL_MODES)?);
        let answer = answer.ok_or("nothing to go by")?;
        if answer.status != 200 {
            return Err(format!("the server answers {}", answer.status));
        }
        if opened_as() == "rude-server" {
            return Err(format!("the server says {}", String::from_utf8_lossy(&answer.body)));
        }
        Ok(info(&String::from_utf8_lossy(&answer.body), None))
    }

    /// The texts, a line each.
    fn encode(packed: Packed, purpose: Purpose, cut: bool) -> Vec<u8> {
        let mode = opened_as();
        if mode == "trap-in-encode"
            || (mode == "remote-trap-every-second-call" && count_call().is_multiple_of(2))
        {
            panic!("encode");
        }
        if mode == "flood-in-encode" {
            return vec![b'x'; 8 << 20];
        }
        let mut body = format!("{purpose:?} {cut}\n").into_bytes();
        for text in texts(&packed) {
            body.extend_from_slice(text);
            body.push(b'\n');
        }
        body
    }

    /// Two floats a text, all of them the body's length.
    fn decode(count: u32, response: remote_model::Response) -> Result<Embeddings, remote_model::Failure> {
        if response.status != 200 {
            return Err(remote_model::Failure {
                kind: remote_model::FailureKind::Throttled,
                message: match opened_as().as_str() {
                    "rude-failure" => RUDE.repeat(1000),
                    _ => format!("status {}", response.status),
                },
                retry_after_ms: Some(70),
            });
        }
        let count = if opened_as() == "remote-wrong-count" { 2 * count + 1 } else { 2 * count };
        Ok(Embeddings { vectors: vec![response.body.len() as f32; count as usize], tokens: Some(7) })
    }
}
