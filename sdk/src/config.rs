//! The plugin's configuration: a JSON object, in which an unknown key is an error.

use serde::de::DeserializeOwned;

/// Reads the configuration. Whether or not the author said `deny_unknown_fields`, a key that nothing reads is refused:
/// it is a misspelt one.
pub(crate) fn parse<C: DeserializeOwned>(json: &str) -> Result<C, String> {
    if !json.trim_start().starts_with('{') {
        return Err("configuration: a JSON object is needed; `{}` is an empty one".to_owned());
    }
    let mut unknown = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let config = serde_ignored::deserialize(&mut deserializer, |path| unknown.push(path.to_string()))
        .map_err(|cause| format!("configuration: {cause}"))?;
    deserializer.end().map_err(|cause| format!("configuration: {cause}"))?;
    match unknown.first() {
        None => Ok(config),
        Some(key) => Err(format!("configuration: `{key}` is no key of this plugin")),
    }
}
