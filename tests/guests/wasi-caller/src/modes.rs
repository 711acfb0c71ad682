// What the guest does, chosen by `{"mode":"…"}`. The host's tests include this file too: every mode has a test.

pub(crate) const WASI_MODES: &[&str] = &[
    "look-around",
    "sleep",
    "poll",
    "poll-a-million",
    "exit",
    "write-and-panic",
    "write-much",
    "write-60-mib",
    "write-2-to-40-zeroes",
    "hoard",
    "2-to-40-random-bytes",
    "2-to-40-insecure-bytes",
];
