//! Typed views of a row's cells. A column is resolved once, in `open`; its cells are decoded when asked for.

use std::borrow::Cow;
use std::marker::PhantomData;

use keyvector_cql::{CqlType, CqlValue};

/// What part of the table a column plays.
pub use crate::bindings::table::exports::keyvector::plugin::table::ColumnKind;

/// The columns that the plugin reads, as this table has them.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<ColumnInfo>,
}

/// One column of the table: its name, type and part.
#[derive(Clone, Debug)]
pub struct ColumnInfo {
    /// As the table has it, without quotes.
    pub name: String,
    /// Its type in this table.
    pub cql_type: CqlType,
    /// Its part: key, static or regular.
    pub kind: ColumnKind,
}

impl Columns {
    pub(crate) fn new(columns: Vec<ColumnInfo>) -> Self {
        Self { columns }
    }

    /// Finds a column that the plugin reads and that can be read as `K`, for instance `Column<Text>`.
    ///
    /// # Errors
    /// A sentence for the operator, which `open` passes on: the column is not among those that the plugin reads, or its
    /// type is none of those that `K` reads.
    pub fn column<K: Kind>(&self, name: &str) -> Result<Column<K>, String> {
        let Some(index) = self.columns.iter().position(|column| column.name == name) else {
            return Err(format!(
                "column `{name}`: the plugin does not declare that it reads it; add it to `reads`"
            ));
        };
        let cql_type = &self.columns[index].cql_type;
        if !K::accepts(cql_type) {
            return Err(format!("column `{name}` is of type {cql_type}; {} is needed", K::ALLOWED));
        }
        Ok(Column { index, name: name.to_owned(), cql_type: cql_type.clone(), kind: PhantomData })
    }

    /// The columns in the order of `reads`.
    pub fn iter(&self) -> impl Iterator<Item = &ColumnInfo> {
        self.columns.iter()
    }

    /// The column of that name, of whatever type.
    pub fn get(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }
}

/// A resolved column whose cells are read as `K`: [`Text`], [`Integer`], [`Number`], [`Boolean`], [`Timestamp`],
/// [`Uuid`], [`Blob`], [`TextList`], [`NumberList`], [`Canonical`] or [`Value`].
#[derive(Clone, Debug)]
pub struct Column<K> {
    index: usize,
    name: String,
    cql_type: CqlType,
    kind: PhantomData<K>,
}

impl<K> Column<K> {
    /// The column's name, as the table has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The column's type in this table.
    pub fn cql_type(&self) -> &CqlType {
        &self.cql_type
    }
}

/// One row image: the cells of the columns that the plugin reads.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    cells: &'a [u8],
    spans: &'a [Span],
}

/// Where a cell's bytes are in the batch; `None` for null.
pub(crate) type Span = Option<(u32, u32)>;

impl<'a> Row<'a> {
    pub(crate) fn new(cells: &'a [u8], spans: &'a [Span]) -> Self {
        Self { cells, spans }
    }

    /// The cell's value; `None` where it is null, absent, or an empty value of a type that has no such value.
    ///
    /// # Errors
    /// The bytes are no value of the column's type. Pass it on with `?`: this row is set aside, its neighbours are not.
    pub fn get<'v, K: Kind>(&'v self, column: &'v Column<K>) -> Result<Option<K::Value<'v>>, String> {
        let Some(bytes) = self.bytes(column) else { return Ok(None) };
        K::read(&column.cql_type, bytes).map_err(|cause| format!("column `{}`: {cause}", column.name))
    }

    /// The cell's bytes as in CQL's native protocol; `None` for null.
    pub fn bytes<K>(&self, column: &Column<K>) -> Option<&'a [u8]> {
        let (start, end) = self.spans[column.index]?;
        Some(&self.cells[start as usize..end as usize])
    }
}

/// Cuts the next row's cells off the batch: an i32 big-endian length (-1 for null), then the bytes.
pub(crate) fn split_row(cells: &[u8], mut at: usize, spans: &mut [Span]) -> Result<usize, String> {
    for span in spans {
        let length = cells.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        let Some(length) = length else { return Err(format!("cells end at byte {at}, within a length")) };
        at += 4;
        *span = match usize::try_from(length) {
            Err(_) if length == -1 => None,
            Err(_) => return Err(format!("a cell of length {length} at byte {at}")),
            Ok(length) if length > cells.len() - at => {
                return Err(format!(
                    "a cell of {length} bytes at byte {at}, where {} are left",
                    cells.len() - at
                ));
            }
            Ok(length) => {
                // The component's memory is 32 bits wide, so offsets in it fit.
                let span = (at as u32, (at + length) as u32);
                at += length;
                Some(span)
            }
        };
    }
    Ok(at)
}

mod sealed {
    pub trait Sealed {}
}

/// A way to read a cell. The SDK has eleven of them, and they cannot be added to.
pub trait Kind: sealed::Sealed {
    /// What a cell reads as.
    type Value<'a>;
    /// The column types it reads, in words.
    const ALLOWED: &'static str;
    #[doc(hidden)]
    fn accepts(cql_type: &CqlType) -> bool;
    #[doc(hidden)]
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<Self::Value<'a>>, String>;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug)] pub enum $name {} impl sealed::Sealed for $name {})*
    };
}

kinds! {
    /// `text`, `varchar` or `ascii`, as `&str`.
    Text
    /// `tinyint` to `bigint` or `counter`, as `i64`.
    Integer
    /// Any number, `float`, `double`, `varint` and `decimal` among them, as the nearest `f64`.
    Number
    /// `boolean`, as `bool`.
    Boolean
    /// `timestamp`, as milliseconds since 1970.
    Timestamp
    /// `uuid` or `timeuuid`, as lower-case text with hyphens.
    Uuid
    /// `blob`, as bytes.
    Blob
    /// `list`, `set` or `vector` of any scalar, as the canonical text of each element (of text: the text itself).
    TextList
    /// `list`, `set` or `vector` of any number, as the nearest `f64` of each element.
    NumberList
    /// Any type, as the one canonical text that keyvector-host has for each value: `1994`, `true`, `2026-11-30`,
    /// `["a","b"]`.
    Canonical
    /// Any type, as a [`CqlValue`]: maps, tuples and user-defined types are read this way.
    Value
}

impl Kind for Text {
    type Value<'a> = &'a str;
    const ALLOWED: &'static str = "text, varchar or ascii";
    fn accepts(cql_type: &CqlType) -> bool {
        matches!(cql_type, CqlType::Text | CqlType::Ascii)
    }
    fn read<'a>(_: &'a CqlType, bytes: &'a [u8]) -> Result<Option<&'a str>, String> {
        text(bytes).map(Some)
    }
}

impl Kind for Integer {
    type Value<'a> = i64;
    const ALLOWED: &'static str = "tinyint, smallint, int, bigint or counter";
    fn accepts(cql_type: &CqlType) -> bool {
        integer_width(cql_type).is_some()
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<i64>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let value = match *bytes {
            [a] => i64::from(i8::from_be_bytes([a])),
            [a, b] => i64::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => return Err(wrong_length(cql_type, bytes)),
        };
        if integer_width(cql_type) == Some(bytes.len()) {
            Ok(Some(value))
        } else {
            Err(wrong_length(cql_type, bytes))
        }
    }
}

impl Kind for Number {
    type Value<'a> = f64;
    const ALLOWED: &'static str = "tinyint, smallint, int, bigint, counter, varint, decimal, float or double";
    fn accepts(cql_type: &CqlType) -> bool {
        Integer::accepts(cql_type)
            || matches!(cql_type, CqlType::Varint | CqlType::Decimal | CqlType::Float | CqlType::Double)
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<f64>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match cql_type {
            CqlType::Float => {
                let bytes = bytes.try_into().map_err(|_| wrong_length(cql_type, bytes))?;
                Ok(Some(f64::from(f32::from_be_bytes(bytes))))
            }
            CqlType::Double => {
                let bytes = bytes.try_into().map_err(|_| wrong_length(cql_type, bytes))?;
                Ok(Some(f64::from_be_bytes(bytes)))
            }
            CqlType::Varint | CqlType::Decimal => {
                let digits = canonical(cql_type, bytes)?;
                digits.parse().map(Some).map_err(|_| format!("`{digits}` is no number"))
            }
            _ => Ok(Integer::read(cql_type, bytes)?.map(|value| value as f64)),
        }
    }
}

impl Kind for Boolean {
    type Value<'a> = bool;
    const ALLOWED: &'static str = "boolean";
    fn accepts(cql_type: &CqlType) -> bool {
        *cql_type == CqlType::Boolean
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<bool>, String> {
        match *bytes {
            [] => Ok(None),
            [byte] => Ok(Some(byte != 0)),
            _ => Err(wrong_length(cql_type, bytes)),
        }
    }
}

impl Kind for Timestamp {
    type Value<'a> = i64;
    const ALLOWED: &'static str = "timestamp";
    fn accepts(cql_type: &CqlType) -> bool {
        *cql_type == CqlType::Timestamp
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<i64>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let bytes = bytes.try_into().map_err(|_| wrong_length(cql_type, bytes))?;
        Ok(Some(i64::from_be_bytes(bytes)))
    }
}

impl Kind for Uuid {
    type Value<'a> = String;
    const ALLOWED: &'static str = "uuid or timeuuid";
    fn accepts(cql_type: &CqlType) -> bool {
        matches!(cql_type, CqlType::Uuid | CqlType::Timeuuid)
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<String>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        canonical(cql_type, bytes).map(Some)
    }
}

impl Kind for Blob {
    type Value<'a> = &'a [u8];
    const ALLOWED: &'static str = "blob";
    fn accepts(cql_type: &CqlType) -> bool {
        *cql_type == CqlType::Blob
    }
    fn read<'a>(_: &'a CqlType, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        Ok(Some(bytes))
    }
}

impl Kind for TextList {
    type Value<'a> = Vec<Cow<'a, str>>;
    const ALLOWED: &'static str = "a list, set or vector of a scalar type";
    fn accepts(cql_type: &CqlType) -> bool {
        element_type(cql_type).is_some_and(is_scalar)
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<Self::Value<'a>>, String> {
        elements(cql_type, bytes, Canonical::read)
    }
}

impl Kind for NumberList {
    type Value<'a> = Vec<f64>;
    const ALLOWED: &'static str = "a list, set or vector of numbers";
    fn accepts(cql_type: &CqlType) -> bool {
        element_type(cql_type).is_some_and(Number::accepts)
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<Vec<f64>>, String> {
        elements(cql_type, bytes, Number::read)
    }
}

impl Kind for Canonical {
    type Value<'a> = Cow<'a, str>;
    const ALLOWED: &'static str = "any type that the host knows";
    fn accepts(cql_type: &CqlType) -> bool {
        !matches!(cql_type, CqlType::Custom(_))
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<Cow<'a, str>>, String> {
        match cql_type {
            CqlType::Text | CqlType::Ascii => Ok(Some(Cow::Borrowed(text(bytes)?))),
            CqlType::Blob => canonical(cql_type, bytes).map(|text| Some(Cow::Owned(text))),
            _ if bytes.is_empty() => Ok(None),
            _ => canonical(cql_type, bytes).map(|text| Some(Cow::Owned(text))),
        }
    }
}

impl Kind for Value {
    type Value<'a> = CqlValue;
    const ALLOWED: &'static str = "any type that the host knows";
    fn accepts(cql_type: &CqlType) -> bool {
        !matches!(cql_type, CqlType::Custom(_))
    }
    fn read<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Option<CqlValue>, String> {
        CqlValue::decode(cql_type, bytes).map(Some).map_err(|cause| cause.to_string())
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes)
        .map_err(|cause| format!("its text is not UTF-8 from byte {}", cause.valid_up_to()))
}

fn canonical(cql_type: &CqlType, bytes: &[u8]) -> Result<String, String> {
    keyvector_cql::canonical_text(cql_type, bytes).map_err(|cause| cause.to_string())
}

fn wrong_length(cql_type: &CqlType, bytes: &[u8]) -> String {
    format!("{} bytes are no {cql_type}", bytes.len())
}

fn integer_width(cql_type: &CqlType) -> Option<usize> {
    match cql_type {
        CqlType::Tinyint => Some(1),
        CqlType::Smallint => Some(2),
        CqlType::Int => Some(4),
        CqlType::Bigint | CqlType::Counter => Some(8),
        _ => None,
    }
}

fn element_type(cql_type: &CqlType) -> Option<&CqlType> {
    match cql_type {
        CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => Some(element),
        _ => None,
    }
}

fn is_scalar(cql_type: &CqlType) -> bool {
    use CqlType as T;
    !matches!(
        cql_type,
        T::List(_) | T::Set(_) | T::Map(..) | T::Tuple(_) | T::Udt(_) | T::Vector(..) | T::Custom(_)
    )
}

/// Reads each element of a list, set or vector in place. An empty collection and null are one thing in CQL.
fn elements<'a, T>(
    cql_type: &'a CqlType,
    bytes: &'a [u8],
    read: impl Fn(&'a CqlType, &'a [u8]) -> Result<Option<T>, String>,
) -> Result<Option<Vec<T>>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut values = Vec::new();
    for element in keyvector_cql::elements(cql_type, bytes).map_err(|cause| cause.to_string())? {
        if let (element_type, Some(bytes)) = element.map_err(|cause| cause.to_string())? {
            values.extend(read(element_type, bytes)?);
        }
    }
    Ok((!values.is_empty()).then_some(values))
}
