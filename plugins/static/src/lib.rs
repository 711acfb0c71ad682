//! A small embedding model inside the plugin: a table of 29,523 word pieces with 256 numbers each, added up and scaled to
//! length 1. Good for a first taste, a laptop and CI; `data/QUALITY.md` has the figures. Use a real model for quality.
//!
//! There is nothing to configure: `{}`. Documents and queries are embedded alike. A text without any known word has the
//! vector of all zeros: no vector is possible, and the host sets that row aside.

mod table;

use keyvector_sdk::{Embeddings, Limits, LocalModel, Metric, ModelInfo, Purpose, Texts};
use serde::Deserialize;
use table::Table;

static TABLE: &[u8] = include_bytes!("../data/table.kvs");
static VOCABULARY: &str = include_str!("../data/vocab.txt");

struct StaticModel {
    table: Table<'static>,
}

/// There is nothing to configure: `{}`.
#[derive(Deserialize)]
struct Config {}

impl LocalModel for StaticModel {
    type Config = Config;

    fn open(_: Config) -> Result<Self, String> {
        Ok(Self { table: Table::new(TABLE, VOCABULARY)? })
    }

    fn info(&self) -> ModelInfo {
        let dimension = self.table.dimension() as u32;
        let pieces_max = self.table.pieces_max() as u32;
        ModelInfo {
            identity: format!(
                "static KVSTAT02 {} dimension={dimension} pieces-max={pieces_max} sum unit-length prompts=none",
                self.table.fingerprint()
            ),
            dimension: Some(dimension),
            metric: Metric::Cosine,
            limits: Limits {
                texts_per_request: 256,
                bytes_per_request: None,
                tokens_per_request: None,
                tokens_per_text: None,
                // A piece has at least one character, so that the table never leaves out the end of a text in silence:
                // the host cuts and says so.
                characters_per_text: Some(pieces_max),
            },
        }
    }

    fn embed(&self, texts: Texts<'_>, _: Purpose) -> Embeddings {
        let dimension = self.table.dimension();
        let mut vectors = vec![0.0; texts.len() * dimension];
        let (mut word, mut ids) = (String::new(), Vec::new());
        let mut pieces = 0;
        for (text, vector) in texts.iter().zip(vectors.chunks_exact_mut(dimension)) {
            self.table.ids(text, &mut word, &mut ids);
            self.table.embed(&ids, vector);
            pieces += ids.len();
        }
        Embeddings { vectors, tokens: u32::try_from(pieces).ok() }
    }
}

keyvector_sdk::export_local_model!(StaticModel);

#[cfg(test)]
mod tests {
    use super::*;
    use keyvector_sdk::testing::TestModel;

    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
        vector: Vec<f64>,
    }

    fn golden() -> Vec<Case> {
        let golden: Golden = serde_json::from_str(include_str!("../data/golden.json")).unwrap();
        golden.cases
    }

    fn ids(table: &Table<'_>, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        table.ids(text, &mut String::new(), &mut ids);
        ids
    }

    #[test]
    fn the_worked_cases_come_out() {
        let model = TestModel::<StaticModel>::open("{}").unwrap();
        let table = Table::new(TABLE, VOCABULARY).unwrap();
        let cases = golden();
        assert_eq!(cases.len(), 60);
        let texts: Vec<_> = cases.iter().map(|case| case.text.as_str()).collect();
        let given = model.embed(&texts, Purpose::Document);
        assert_eq!(given.tokens, Some(cases.iter().map(|case| case.ids.len() as u32).sum()));
        for (case, vector) in cases.iter().zip(given.vectors.chunks_exact(256)) {
            assert_eq!(ids(&table, &case.text), case.ids, "{:?}", case.text);
            assert_eq!(case.vector.len(), 256);
            for (given, expected) in vector.iter().zip(&case.vector) {
                assert!((f64::from(*given) - expected).abs() <= 1e-6, "{:?}: {given} {expected}", case.text);
            }
        }
    }

    #[test]
    fn the_files_are_whole() {
        assert_eq!(table::fnv1a64(&TABLE[64..]), u64::from_le_bytes(TABLE[32..40].try_into().unwrap()));
        let info = TestModel::<StaticModel>::open("{}").unwrap().info;
        assert_eq!(
            info.identity,
            "static KVSTAT02 3bda9e3373ea7393-33d1972c0d7e2902 dimension=256 pieces-max=2048 sum unit-length prompts=none"
        );
    }

    #[test]
    fn a_text_without_a_known_word_gives_zeros_and_its_neighbours_do_not() {
        let model = TestModel::<StaticModel>::open("{}").unwrap();
        let vectors = model.embed(&["a ship", "\u{1f600}", "a ship"], Purpose::Query).vectors;
        assert!(vectors[256..512].iter().all(|&x| x == 0.0));
        assert_eq!(vectors[..256], vectors[512..]);
        assert!((vectors[..256].iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }

    #[test]
    fn later_pieces_do_not_count() {
        let table = Table::new(TABLE, VOCABULARY).unwrap();
        assert_eq!(ids(&table, &"! ".repeat(3000)).len(), 2048);
        assert_eq!(ids(&table, &"unaffable ".repeat(3000)).len(), 2048);
    }

    #[test]
    fn broken_files_are_refused() {
        let mut short = TABLE[..100].to_vec();
        let refusal = |table: &[u8], vocabulary| Table::new(table, vocabulary).err().unwrap();
        assert!(refusal(&short, VOCABULARY).contains("100 bytes"));
        assert!(refusal(TABLE, "a\nb\n").contains("not the one"));
        short[0] = b'X';
        assert!(refusal(&short, VOCABULARY).contains("KVSTAT02"));
        assert!(refusal(b"KVSTAT02", VOCABULARY).contains("header"));
        short[..64].copy_from_slice(&TABLE[..64]);
        short[8..16].fill(0xff);
        assert!(refusal(&short, VOCABULARY).contains("do not fill"));
    }
}
