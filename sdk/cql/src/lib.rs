//! CQL types, values in native-protocol bytes, and one canonical text per value.

/// A CQL type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    /// `text` and `varchar` are one type.
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    Map(Box<CqlType>, Box<CqlType>),
    Tuple(Vec<CqlType>),
    /// Fields in declared order.
    Udt(Vec<(String, CqlType)>),
    Vector(Box<CqlType>, u16),
    /// A type this build does not know: its cells cannot be read.
    Custom(String),
}
