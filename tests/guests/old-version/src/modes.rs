// What the guest does, chosen by `{"mode":"…"}`. The host's tests include this file too: every mode has a test.

pub(crate) const MODES: &[&str] =
    &["echo", "fickle", "flood", "panic", "trap-on-poison", "loop", "memory-bomb", "leak", "missing-row"];
