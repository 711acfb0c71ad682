//! The host's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 where the machine's clock stands before that.
pub fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
