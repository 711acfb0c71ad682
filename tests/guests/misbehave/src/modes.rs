// What the guest does, chosen by `{"mode":"…"}`. The host's tests include this file too: every mode has a test.

pub(crate) const TABLE_MODES: &[&str] = &[
    "echo",
    "metadata",
    "puppet",
    "panic",
    "stack-overflow",
    "trap-on-poison",
    "trap-every-second-call",
    "loop",
    "loop-on-poison",
    "loop-in-describe",
    "loop-in-open",
    "refuse-describe",
    "refuse-open",
    "memory-bomb",
    "memory-bomb-on-poison",
    "leak",
    "flood",
    "flood-describe",
    "chatty",
    "fickle",
    "wrong-counts",
    "missing-metadata",
    "falling-ends",
    "long-data",
    "invalid-utf8",
];

pub(crate) const LOCAL_MODEL_MODES: &[&str] = &[
    "lengths",
    "no-dimension",
    "nan",
    "wrong-vector-count",
    "wrong-dimension",
    "model-trap-on-poison",
    "model-trap-every-second-call",
    "model-loop-on-poison",
    "no-identity",
];

pub(crate) const REMOTE_MODEL_MODES: &[&str] = &[
    "join",
    "evil-route",
    "trap-in-encode",
    "remote-trap-every-second-call",
    "remote-wrong-count",
    "flood-in-encode",
];
