//! Lines for the host's log. Capped at 1 KiB a line and 100 lines a call. A line may hold row data: whether it is shown is
//! the operator's choice. Outside a host (in tests) lines go to standard error.

use crate::bindings::table::keyvector::plugin::log::Level;

/// Something failed that the operator should know.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Something is odd, and the plugin goes on.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something worth a line at start.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// For whoever debugs the plugin.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

#[cfg(target_arch = "wasm32")]
fn write(level: Level, message: &str) {
    crate::bindings::table::keyvector::plugin::log::write(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}

/// Sends panic messages to the log. A panic ends the instance, so the message has to leave before it.
pub(crate) fn panics_to_log() {
    #[cfg(target_arch = "wasm32")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| error(&panic.to_string()))));
    }
}
