//! What an embedding server's refusal means to the host.

use serde_json::Value;

use crate::model::{Failure, FailureKind};

/// Most bytes of a server's message that a failure carries.
const MESSAGE_BYTES_MAX: usize = 512;

/// Classifies an answer that is no success by its status *and* its body, since servers use 400, 413 and 422 alike for a
/// text that is too long. Knows Text Embeddings Inference, the OpenAI shape, and Bedrock; others by their status.
///
/// | answer | failure |
/// |---|---|
/// | 429, 503, 529, or 400 with a throttling code | throttled; unusable if the quota is used up |
/// | 408, 409, 424, 425, other 5xx | transient |
/// | 413, or 400 and 422 that speak of length or tokens | too long |
/// | other 400 and 422 | rejected |
/// | everything else (401, 403, 404, 3xx …) | unusable |
///
/// # Source
/// The servers' error tables; TEI 1.9: 422 "`inputs` must have less than 256 tokens", 424 for its backend; OpenAI: 429
/// `insufficient_quota`; Bedrock: 400 `ServiceQuotaExceededException`, "Too many input tokens", "expected maxLength".
pub fn failure_from_status(status: u16, body: &[u8]) -> Failure {
    let (code, message) = code_and_message(body);
    let code = code.to_lowercase();
    let words = message.to_lowercase();
    let kind = match status {
        _ if code.contains("quota") || words.contains("insufficient_quota") => FailureKind::Unusable,
        429 | 503 | 529 => FailureKind::Throttled,
        400 if code.contains("throttl") || code.contains("toomanyrequests") => FailureKind::Throttled,
        501 | 505 => FailureKind::Unusable,
        408 | 409 | 424 | 425 | 500..=599 => FailureKind::Transient,
        413 => FailureKind::TooLong,
        400 | 422 if code.contains("context_length") || is_about_length(&words) => FailureKind::TooLong,
        400 | 422 => FailureKind::Rejected,
        _ => FailureKind::Unusable,
    };
    let message =
        if message.is_empty() { format!("status {status}") } else { format!("status {status}: {message}") };
    Failure { kind, message, retry_after_ms: None }
}

/// Whether a refusal speaks of one text's length. "batch size 33 > maximum allowed batch size" must not match.
fn is_about_length(words: &str) -> bool {
    const PHRASES: [&str; 10] = [
        "must have less than",
        "maximum context length",
        "maximum input length",
        "max input tokens",
        "too many tokens",
        "too many input tokens",
        "too long",
        "token limit",
        "maxlength",
        "exceeds the maximum length",
    ];
    PHRASES.iter().any(|phrase| words.contains(phrase))
}

/// Finds the error's code and words in `{"error": text, "error_type": code}`, `{"error": {"message", "code", "type"}}`,
/// `{"message", "__type"}` and the like; otherwise the body is the message.
fn code_and_message(body: &[u8]) -> (String, String) {
    let json: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let inner = json.get("error").filter(|error| error.is_object()).unwrap_or(&json);
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| inner.get(name).and_then(Value::as_str));
        found.unwrap_or_default().to_owned()
    };
    let code = ["code", "type", "error_type", "__type"].map(|name| text(&[name])).join(" ");
    let mut message = text(&["message", "Message", "error", "detail"]);
    if message.is_empty() {
        message = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES_MAX)]).trim().to_owned();
    }
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    (code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_known_servers_are_classified() {
        use FailureKind::*;
        let cases: [(u16, &str, FailureKind); 20] = [
            (
                422,
                r#"{"error":"`inputs` must have less than 256 tokens. Given: 2002","error_type":"Validation"}"#,
                TooLong,
            ),
            (
                422,
                r#"{"error":"batch size 33 > maximum allowed batch size 32","error_type":"Validation"}"#,
                Rejected,
            ),
            (400, r#"{"error":"`inputs` cannot be empty","error_type":"Empty"}"#, Rejected),
            (413, "length limit exceeded", TooLong),
            (429, r#"{"error":"Model is overloaded","error_type":"Overloaded"}"#, Throttled),
            (424, r#"{"error":"Model is not an embedding model","error_type":"Backend"}"#, Transient),
            (503, "", Throttled),
            (401, "", Unusable),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
                Throttled,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                Unusable,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":null}}"#,
                TooLong,
            ),
            (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, TooLong),
            (400, r#"{"message":"400 Bad Request: Too many input tokens. Max input tokens: 8192"}"#, TooLong),
            (400, r#"{"message":"expected maxLength: 50000, actual: 60000"}"#, TooLong),
            (400, r#"{"__type":"ThrottlingException","message":"slow down"}"#, Throttled),
            (400, r#"{"__type":"ServiceQuotaExceededException","message":"x"}"#, Unusable),
            (403, r#"{"message":"not authorized"}"#, Unusable),
            (404, "no such model", Unusable),
            (500, "<html>", Transient),
            (302, "", Unusable),
        ];
        for (status, body, kind) in cases {
            assert_eq!(failure_from_status(status, body.as_bytes()).kind, kind, "{status} {body}");
        }
    }

    #[test]
    fn messages_are_found_and_bounded() {
        let failure = failure_from_status(400, br#"{"error":{"message":"no"}}"#);
        assert_eq!(failure.message, "status 400: no");
        let failure = failure_from_status(500, "é".repeat(4000).as_bytes());
        assert!(failure.message.len() <= MESSAGE_BYTES_MAX + 16, "{}", failure.message.len());
        assert_eq!(failure_from_status(503, &[0xff, 0xfe]).kind, FailureKind::Throttled);
    }
}
