//! A model for tests: each text and purpose has one vector of length 1, made from a hash in no time. It means nothing.
//!
//! Configuration: `{"dimension": 256, "seed": 0}`; another seed is another model. A text that contains a marker makes the
//! model fail on purpose:
//!
//! | marker | the text's vector |
//! |---|---|
//! | `[nan]` | NaNs |
//! | `[zero]` | zeros |
//! | `[short]` | one number is missing, so the call's answer does not fit its texts |
//! | `[trap]` | none: the plugin panics |
//!
//! `{"fail": "nan"}` (or `zero`, `short`, `trap`) does that to every text.

use keyvector_sdk::{Embeddings, Limits, LocalModel, Metric, ModelInfo, Purpose, Texts};
use serde::Deserialize;

struct Fake {
    config: Config,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    dimension: u32,
    seed: u64,
    fail: Option<Failing>,
}

impl Default for Config {
    fn default() -> Self {
        Self { dimension: 256, seed: 0, fail: None }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Failing {
    Nan,
    Zero,
    Short,
    Trap,
}

/// As many as S3 Vectors takes.
const DIMENSION_MAX: u32 = 4096;

impl LocalModel for Fake {
    type Config = Config;

    fn open(config: Config) -> Result<Self, String> {
        if (1..=DIMENSION_MAX).contains(&config.dimension) {
            Ok(Self { config })
        } else {
            Err(format!("configuration: `dimension` is {}; 1 to {DIMENSION_MAX} is needed", config.dimension))
        }
    }

    fn info(&self) -> ModelInfo {
        let Config { dimension, seed, .. } = self.config;
        ModelInfo {
            identity: format!("fake 1 dimension={dimension} seed={seed} unit-length purposes-differ"),
            dimension: Some(dimension),
            metric: Metric::Cosine,
            limits: Limits {
                texts_per_request: 1000,
                bytes_per_request: None,
                tokens_per_request: None,
                tokens_per_text: None,
                characters_per_text: None,
            },
        }
    }

    fn embed(&self, texts: Texts<'_>, purpose: Purpose) -> Embeddings {
        let dimension = self.config.dimension as usize;
        let seed = self.config.seed ^ if purpose == Purpose::Query { 0x5851_f42d_4c95_7f2d } else { 0 };
        let mut vectors = Vec::with_capacity(texts.len() * dimension);
        for text in texts.iter() {
            match self.config.fail.or_else(|| marker(text)) {
                None => push_unit_vector(hash(text.as_bytes(), seed), dimension, &mut vectors),
                Some(Failing::Nan) => vectors.resize(vectors.len() + dimension, f32::NAN),
                Some(Failing::Zero) => vectors.resize(vectors.len() + dimension, 0.0),
                Some(Failing::Short) => vectors.resize(vectors.len() + dimension - 1, 0.5),
                Some(Failing::Trap) => panic!("told to fail by `[trap]`"),
            }
        }
        Embeddings { vectors, tokens: None }
    }
}

fn marker(text: &str) -> Option<Failing> {
    // Nearly all texts have no bracket, and are through after this.
    let text = &text[text.find('[')?..];
    const MARKERS: [(&str, Failing); 4] = [
        ("[trap]", Failing::Trap),
        ("[short]", Failing::Short),
        ("[nan]", Failing::Nan),
        ("[zero]", Failing::Zero),
    ];
    MARKERS.into_iter().find(|(marker, _)| text.contains(marker)).map(|(_, failing)| failing)
}

/// Eight bytes a step: not for adversaries, but every bit of the text counts.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mix = |state: u64, word: u64| (state.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut state = mix(seed, bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = mix(state, u64::from_le_bytes(last));
    state ^ (state >> 29)
}

/// Four coordinates from each step of a 64-bit generator (splitmix64), then scaled to length 1.
fn push_unit_vector(mut state: u64, dimension: usize, out: &mut Vec<f32>) {
    let start = out.len();
    out.resize(start + dimension, 0.0);
    let vector = &mut out[start..];
    let mut squares = 0u64;
    let mut coordinate = |bits: u64| {
        // Odd, so never zero: the length is above zero in every dimension.
        let value = i32::from(bits as u16 as i16) | 1;
        squares += u64::from(value.unsigned_abs()) * u64::from(value.unsigned_abs());
        value as f32
    };
    for four in vector.chunks_mut(4) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        for value in four {
            *value = coordinate(bits);
            bits >>= 16;
        }
    }
    let scale = 1.0 / (squares as f64).sqrt() as f32;
    vector.iter_mut().for_each(|value| *value *= scale);
}

keyvector_sdk::export_local_model!(Fake);

#[cfg(test)]
mod tests {
    use super::*;
    use keyvector_sdk::testing::TestModel;

    fn embed(config: &str, text: &str, purpose: Purpose) -> Vec<f32> {
        TestModel::<Fake>::open(config).unwrap().embed(&[text], purpose).vectors
    }

    #[test]
    fn vectors_have_length_one_and_are_a_function_of_text_purpose_and_seed() {
        let vector = embed("{}", "a text", Purpose::Document);
        assert_eq!(vector.len(), 256);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
        assert_eq!(vector, embed(r#"{"seed":0,"dimension":256}"#, "a text", Purpose::Document));
        for other in [
            embed("{}", "a texu", Purpose::Document),
            embed("{}", "a text\0", Purpose::Document),
            embed("{}", "", Purpose::Document),
            embed("{}", "a text", Purpose::Query),
            embed(r#"{"seed":1}"#, "a text", Purpose::Document),
        ] {
            let cosine: f32 = vector.iter().zip(&other).map(|(a, b)| a * b).sum();
            assert!(cosine.abs() < 0.3, "{cosine}");
        }
        for dimension in [1, 2, 3, 5, 4096] {
            let vector = embed(&format!(r#"{{"dimension":{dimension}}}"#), "x", Purpose::Query);
            assert_eq!(vector.len(), dimension);
            assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4, "{dimension}");
        }
    }

    #[test]
    fn a_vector_stays_what_it_was() {
        // Fixtures elsewhere rest on these numbers; another algorithm is another identity.
        let vector = embed(r#"{"dimension":4}"#, "keyvector", Purpose::Document);
        assert_eq!(vector, [-0.5435825, -0.56640744, 0.4886555, -0.38067895]);
    }

    #[test]
    fn markers_fail_their_text_alone() {
        let texts = ["good", "bad [nan]", "bad [zero] [x", "good"];
        let model = TestModel::<Fake>::open(r#"{"dimension":8}"#).unwrap();
        let vectors = model.embed(&texts, Purpose::Document).vectors;
        assert_eq!(vectors[..8], vectors[24..]);
        assert!(vectors[8..16].iter().all(|x| x.is_nan()));
        assert!(vectors[16..24].iter().all(|&x| x == 0.0));
        assert_eq!(model.embed(&["a", "[short]"], Purpose::Document).vectors.len(), 15);
        assert!(embed(r#"{"fail":"nan"}"#, "good", Purpose::Query).iter().all(|x| x.is_nan()));
    }

    #[test]
    #[should_panic(expected = "told to fail")]
    fn a_trap_is_a_panic() {
        embed("{}", "x [trap]", Purpose::Document);
    }

    #[test]
    fn bad_configuration_is_refused() {
        for (config, words) in [
            (r#"{"dimension":0}"#, "`dimension` is 0; 1 to 4096"),
            (r#"{"dimension":5000}"#, "`dimension` is 5000"),
            (r#"{"dimensions":1}"#, "dimensions"),
            (r#"{"fail":"often"}"#, "often"),
            ("", "JSON object"),
            ("{} {}", "trailing"),
        ] {
            let refusal = TestModel::<Fake>::open(config).err().unwrap();
            assert!(refusal.contains(words), "{config}: {refusal}");
        }
    }
}
