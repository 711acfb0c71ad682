//! What a table plugin makes of a row: a text to embed, and metadata to filter by.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A row's document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Holds more than white space and format characters; a blank text is no document.
    pub text: String,
    pub metadata: Metadata,
}

/// Metadata by name, sorted: compared and hashed by value, never as the plugin's bytes. Rows share the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(pub BTreeMap<Arc<str>, MetadataValue>);

/// One metadata value. Numbers are finite.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    Text(String),
    Number(f64),
    Boolean(bool),
    TextList(Vec<String>),
    NumberList(Vec<f64>),
}

/// The type a plugin declares for a metadata key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataType {
    Text,
    Number,
    Boolean,
    TextList,
    NumberList,
}

/// A metadata key that a plugin declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataKey {
    pub name: String,
    pub value_type: MetadataType,
    /// Whether queries may filter by it.
    pub filterable: bool,
}

/// What the plugin said of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Rendered {
    Document(Document),
    /// Filtered out by the plugin.
    Skipped,
    /// A text of nothing but white space and format characters.
    Blank,
    /// This row cannot be rendered; its neighbours can.
    Failed(RowFailure),
}

/// Why one row was set aside.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFailure {
    pub class: FailureClass,
    /// The cause in words. May hold row data: bounded and escaped where it is shown.
    pub reason: String,
    /// How often the row was tried.
    pub attempts: u32,
}

/// The kinds of dead letters. The text of each is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureClass {
    /// A line or record that cannot be read.
    BadRecord,
    /// A key column whose value is null, unreadable or contradicts the schema.
    BadKey,
    /// A key value whose bytes are not those of its canonical text.
    KeyNotCanonical,
    /// A key of more than 1,024 bytes.
    KeyTooLong,
    /// A cell that the plugin reads is of an unknown or contradicting type.
    BadCell,
    /// The plugin refused the row.
    PluginRefused,
    /// The plugin trapped on the row.
    PluginTrapped,
    /// The plugin ran out of time on the row.
    PluginDeadline,
    /// The plugin asked for more memory than it may have.
    PluginMemory,
    /// The plugin's answer for the row breaks the contract (UTF-8, metadata, size).
    PluginOutput,
    /// The model refused the text.
    ModelRejected,
    /// The model gave no usable vector: not finite, all zero, wrong dimension.
    BadVector,
    /// The text is over the model's limit and may not be cut.
    TextTooLong,
    /// The model failed on this row alone, `max_attempts` times.
    ModelFailed,
    /// The index refused the vector, for example metadata over its limits.
    IndexRejected,
}

impl FailureClass {
    /// All classes, in the order of the line's stages.
    pub const ALL: [Self; 15] = [
        Self::BadRecord,
        Self::BadKey,
        Self::KeyNotCanonical,
        Self::KeyTooLong,
        Self::BadCell,
        Self::PluginRefused,
        Self::PluginTrapped,
        Self::PluginDeadline,
        Self::PluginMemory,
        Self::PluginOutput,
        Self::ModelRejected,
        Self::BadVector,
        Self::TextTooLong,
        Self::ModelFailed,
        Self::IndexRejected,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRecord => "bad-record",
            Self::BadKey => "bad-key",
            Self::KeyNotCanonical => "key-not-canonical",
            Self::KeyTooLong => "key-too-long",
            Self::BadCell => "bad-cell",
            Self::PluginRefused => "plugin-refused",
            Self::PluginTrapped => "plugin-trapped",
            Self::PluginDeadline => "plugin-deadline",
            Self::PluginMemory => "plugin-memory",
            Self::PluginOutput => "plugin-output",
            Self::ModelRejected => "model-rejected",
            Self::BadVector => "bad-vector",
            Self::TextTooLong => "text-too-long",
            Self::ModelFailed => "model-failed",
            Self::IndexRejected => "index-rejected",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}
