//! Which views a file may hold. One without new images cannot be followed: a file is no table to read rows back from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use keyvector_core::change::ViewType;
use keyvector_core::schema::TableSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::explain;

const PEEKED_RECORDS: usize = 1000;
/// So that a file of giant lines does not hold up the start.
const PEEKED_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    partition_keys: BTreeMap<String, IgnoredAny>,
    clustering_keys: Option<BTreeMap<String, IgnoredAny>>,
    new_image: Option<IgnoredAny>,
    old_image: Option<IgnoredAny>,
}

/// The view type to read a file with: the configured one, or what its first 1,000 records look like.
///
/// | among the first 1,000 records | is read as |
/// |---|---|
/// | new images | the configured view, else NEW_IMAGE if some name a row without any image and none has an old image, else NEW_AND_OLD_IMAGES |
/// | no new image, and one that names a row without any image | refused (KEYS_ONLY or OLD_IMAGE), unless NEW_IMAGE is configured: a delete |
/// | only old images, or nothing | the configured view, else NEW_AND_OLD_IMAGES: deletes |
///
/// # Errors
/// A sentence for the user where the view is KEYS_ONLY or OLD_IMAGE, by configuration or by its looks, and where the file
/// cannot be read.
pub fn refuse_view(
    path: &Path,
    schema: &TableSchema,
    configured: Option<ViewType>,
) -> Result<ViewType, String> {
    if let Some(view @ (ViewType::KeysOnly | ViewType::OldImage)) = configured {
        return Err(format!(
            "{}: view {} has no new images, and a file is no table that rows could be read back from: \
             record the stream with NEW_AND_OLD_IMAGES or NEW_IMAGE",
            path.display(),
            view.as_str()
        ));
    }
    let looks = peek(path, schema)?;
    if looks.new_images == 0 && looks.without_image > 0 && configured != Some(ViewType::NewImage) {
        return Err(format!(
            "{}: line {} names a row but has no image, and none of the first {} records has a new image: it looks \
             like a KEYS_ONLY or OLD_IMAGE stream, which a file cannot be followed with; record the stream with \
             NEW_AND_OLD_IMAGES, or if these are the deletes of a NEW_IMAGE stream, say view = \"NEW_IMAGE\"",
            path.display(),
            looks.line_without_image,
            looks.records
        ));
    }
    let new_only = looks.new_images > 0 && looks.old_images == 0 && looks.without_image > 0;
    Ok(configured.unwrap_or(if new_only { ViewType::NewImage } else { ViewType::NewAndOldImages }))
}

#[derive(Default)]
struct Looks {
    records: usize,
    new_images: usize,
    old_images: usize,
    /// Records that name a whole row and have no image.
    without_image: usize,
    line_without_image: usize,
}

fn peek(path: &Path, schema: &TableSchema) -> Result<Looks, String> {
    let failed = |error: std::io::Error| explain(path, &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let mut input = BufReader::new(File::open(path).map_err(failed)?.take(PEEKED_BYTES));
    let mut looks = Looks::default();
    let mut line = Vec::new();
    let mut number = 0;
    while looks.records < PEEKED_RECORDS {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        let json = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line);
        // A line that cannot be read says nothing of the view; the reader reports it.
        let Ok(shape) = serde_json::from_slice::<Shape>(json) else { continue };
        looks.records += 1;
        looks.new_images += usize::from(shape.new_image.is_some());
        looks.old_images += usize::from(shape.old_image.is_some());
        let clustering_keys = shape.clustering_keys.unwrap_or_default();
        let names_a_row =
            schema.partition_key().iter().all(|column| shape.partition_keys.contains_key(&column.name))
                && schema.clustering_key().iter().all(|column| clustering_keys.contains_key(&column.name));
        if shape.new_image.is_none() && shape.old_image.is_none() && names_a_row {
            looks.without_image += 1;
            if looks.without_image == 1 {
                looks.line_without_image = number;
            }
        }
    }
    Ok(looks)
}
