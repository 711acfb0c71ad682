use crate::bindings::exports::keyvector::plugin::{local_model, remote_model};
use crate::bindings::keyvector::plugin::types::{Metric, ModelInfo, Packed, Purpose};
use crate::{OldVersion, misbehave, open_as, opened_as};

fn info(identity: &str, dimension: Option<u32>) -> ModelInfo {
    ModelInfo { identity: identity.to_owned(), dimension, metric: Metric::Cosine, texts_per_request: 32 }
}

fn texts(packed: &Packed) -> Vec<&[u8]> {
    let starts = std::iter::once(0).chain(packed.ends.iter().copied());
    starts.zip(&packed.ends).map(|(start, &end)| &packed.data[start as usize..end as usize]).collect()
}

impl local_model::Guest for OldVersion {
    fn open(config: String) -> Result<ModelInfo, String> {
        open_as(&config)?;
        Ok(info("lengths/1", None))
    }

    /// A text's vector is its length, 1 for a query, and 1.
    fn embed(packed: Packed, purpose: Purpose) -> Vec<f32> {
        let texts = texts(&packed);
        misbehave(&opened_as(), texts.contains(&b"poison".as_slice()));
        let is_query = f32::from(u8::from(purpose == Purpose::Query));
        texts.iter().flat_map(|text| [text.len() as f32, is_query, 1.0]).collect()
    }
}

impl remote_model::Guest for OldVersion {
    fn describe(config: String) -> Result<remote_model::Routes, String> {
        crate::mode(&config)?;
        let header = remote_model::Header { name: "accept".to_owned(), value: "text/plain".to_owned() };
        let embed = remote_model::Route { path: "/embed?a=b".to_owned(), headers: vec![header] };
        let info = remote_model::Route { path: "/info".to_owned(), headers: vec![] };
        Ok(remote_model::Routes { embed, info: Some(info) })
    }

    fn open(config: String, answer: Option<remote_model::Response>) -> Result<ModelInfo, String> {
        open_as(&config)?;
        let answer = answer.ok_or("nothing to go by")?;
        Ok(info(&String::from_utf8_lossy(&answer.body), Some(2)))
    }

    /// The texts, a line each.
    fn encode(packed: Packed, purpose: Purpose, cut: bool) -> Vec<u8> {
        let texts = texts(&packed);
        misbehave(&opened_as(), texts.contains(&b"poison".as_slice()));
        let mut body = format!("{purpose:?} {cut}\n").into_bytes();
        for text in texts {
            body.extend_from_slice(text);
            body.push(b'\n');
        }
        body
    }

    /// Two floats a text, all of them the body's length.
    fn decode(count: u32, response: remote_model::Response) -> Result<Vec<f32>, remote_model::Failure> {
        if response.status != 200 {
            return Err(remote_model::Failure {
                kind: remote_model::FailureKind::Throttled,
                message: format!("status {} {}", response.status, response.headers[0].value),
            });
        }
        Ok(vec![response.body.len() as f32; 2 * count as usize])
    }
}
