// What the guest does, chosen by `{"mode":"…"}`. The host's tests include this file too: every mode has a test.

pub(crate) const WASI_MODES: &[&str] =
    &["look-around", "sleep", "poll", "exit", "write-and-panic", "write-much", "hoard"];
