//! `index dump`: every vector as a JSON line.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use keyvector_core::document::MetadataValue;
use keyvector_core::index::{FINGERPRINT_KEY, StoredVector};
use keyvector_core::port::VectorIndex;
use serde_json::json;

use super::{port_failure, show};

const PAGE: usize = 500;

pub(super) async fn dump(index: &dyn VectorIndex, with_data: bool) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut last: Option<String> = None;
    loop {
        let page = index.list(last.as_deref(), PAGE, with_data).await;
        let page = page.map_err(|error| port_failure("list the index", error))?;
        let Some(end) = page.last() else { break };
        last = Some(end.key.clone());
        for vector in &page {
            writeln!(out, "{}", show::json_text(&as_json(vector).to_string()))?;
        }
    }
    out.flush()?;
    Ok(())
}

fn as_json(vector: &StoredVector) -> serde_json::Value {
    let fingerprint = match vector.metadata.0.get(FINGERPRINT_KEY) {
        Some(MetadataValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut line = json!({
        "key": vector.key,
        "metadata": show::metadata_object(&vector.metadata),
        "fingerprint": fingerprint,
    });
    if let Some(data) = &vector.data {
        line["vector"] = data.as_slice().into();
    }
    line
}
