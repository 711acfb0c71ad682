//! What stands beside a vector to filter by and to show.

use std::cell::Cell;
use std::fmt::Display;

use serde::Serialize;

pub use crate::bindings::table::exports::keyvector::plugin::table::{MetadataKey, MetadataType};

/// Most metadata keys that a plugin may declare: the index's 50 less the host's own.
pub const KEYS_MAX: usize = 47;
/// Most of them that may be non-filterable.
pub const KEYS_NON_FILTERABLE_MAX: usize = 9;
/// Whole numbers beyond this (2^53) cannot be told apart as metadata numbers: declare and give them as text.
pub const INTEGER_MAX: u64 = 1 << 53;

impl MetadataKey {
    /// A key that queries may filter by.
    pub fn new(name: impl Into<String>, value_type: MetadataType) -> Self {
        Self { name: name.into(), value_type, filterable: true }
    }

    /// The same key, only to be shown: it does not count against the index's small room for filterable metadata.
    #[must_use]
    pub fn not_filterable(self) -> Self {
        Self { filterable: false, ..self }
    }
}

/// One row's metadata, built key by key. Null and absent are one: passing `None` leaves the key out.
///
/// What an index cannot hold (a number that is not finite, a whole number beyond 2^53) fails the row, with a reason that
/// names the key.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// `{"a":1,"b":2` without its last brace, or nothing.
    json: Vec<u8>,
    fault: Option<String>,
}

impl Metadata {
    /// Without any key.
    pub fn new() -> Self {
        Self::default()
    }

    /// A text.
    #[must_use]
    pub fn text<'a>(mut self, name: &str, value: impl Into<Option<&'a str>>) -> Self {
        if let Some(value) = value.into() {
            self.put_name(name);
            write_text(&mut self.json, value);
        }
        self
    }

    /// A whole number; one beyond 2^53 fails the row.
    #[must_use]
    pub fn integer(self, name: &str, value: impl Into<Option<i64>>) -> Self {
        match value.into() {
            Some(value) if value.unsigned_abs() > INTEGER_MAX => {
                self.fail(name, value, "is beyond 2^53; declare the key as text and give it as text")
            }
            Some(value) => self.put(name, &value),
            None => self,
        }
    }

    /// A number; one that is not finite fails the row.
    #[must_use]
    pub fn number(self, name: &str, value: impl Into<Option<f64>>) -> Self {
        match value.into() {
            Some(value) if !value.is_finite() => self.fail(name, value, "is not a finite number"),
            Some(value) => self.put(name, &value),
            None => self,
        }
    }

    /// True or false.
    #[must_use]
    pub fn boolean(self, name: &str, value: impl Into<Option<bool>>) -> Self {
        match value.into() {
            Some(value) => self.put(name, &value),
            None => self,
        }
    }

    /// A list of texts; an empty one is left out.
    #[must_use]
    pub fn texts<T: Serialize + AsRef<str>>(mut self, name: &str, values: &[T]) -> Self {
        if values.is_empty() {
            return self;
        }
        self.put_name(name);
        for (position, value) in values.iter().enumerate() {
            self.json.push(if position == 0 { b'[' } else { b',' });
            write_text(&mut self.json, value.as_ref());
        }
        self.json.push(b']');
        self
    }

    /// A list of numbers; an empty one is left out.
    #[must_use]
    pub fn numbers(self, name: &str, values: &[f64]) -> Self {
        match values.iter().find(|value| !value.is_finite()) {
            Some(value) => self.fail(name, value, "is not a finite number"),
            None if values.is_empty() => self,
            None => self.put(name, values),
        }
    }

    fn put<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        self.put_name(name);
        match serde_json::to_writer(&mut self.json, value) {
            Ok(()) => self,
            Err(cause) => self.fail(name, "the value", &cause.to_string()),
        }
    }

    fn put_name(&mut self, name: &str) {
        if self.json.is_empty() {
            self.json = SPARE.take();
            self.json.push(b'{');
        } else {
            self.json.push(b',');
        }
        write_text(&mut self.json, name);
        self.json.push(b':');
    }

    fn fail(mut self, name: &str, value: impl Display, why: &str) -> Self {
        self.fault.get_or_insert_with(|| format!("metadata `{name}`: {value} {why}"));
        self
    }

    /// Appends the JSON object, or nothing where there is no key.
    pub(crate) fn write_to(mut self, out: &mut Vec<u8>) -> Result<(), String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if !self.json.is_empty() {
            out.extend_from_slice(&self.json);
            out.push(b'}');
        }
        if self.json.capacity() <= SPARE_BYTES_MAX {
            self.json.clear();
            SPARE.set(self.json);
        }
        Ok(())
    }
}

thread_local! {
    /// The last row's buffer, for the next row: an allocation each would cost as much as the writing.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer is not kept.
const SPARE_BYTES_MAX: usize = 64 << 10;

fn write_text(json: &mut Vec<u8>, text: &str) {
    // Looks at all bytes, so that the compiler makes it sixteen at a time.
    let to_escape = |found: bool, &byte: &u8| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.as_bytes().iter().fold(false, to_escape) {
        // Memory takes everything.
        serde_json::to_writer(json, text).ok();
    } else {
        json.reserve(text.len() + 2);
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    }
}

/// Refuses a declaration that no host takes.
pub(crate) fn check_declaration(keys: &[MetadataKey]) -> Result<(), String> {
    for (position, key) in keys.iter().enumerate() {
        if key.name.is_empty() {
            return Err("metadata: a name is empty".to_owned());
        }
        if key.name.starts_with('_') {
            return Err(format!(
                "metadata `{}`: names that begin with `_` are the host's; choose another",
                key.name
            ));
        }
        if keys[..position].iter().any(|earlier| earlier.name == key.name) {
            return Err(format!("metadata `{}`: declared twice", key.name));
        }
    }
    if keys.len() > KEYS_MAX {
        return Err(format!("metadata: {} keys, of {KEYS_MAX} at most", keys.len()));
    }
    let non_filterable = keys.iter().filter(|key| !key.filterable).count();
    if non_filterable > KEYS_NON_FILTERABLE_MAX {
        return Err(format!(
            "metadata: {non_filterable} keys are not filterable, of {KEYS_NON_FILTERABLE_MAX} at most"
        ));
    }
    Ok(())
}
