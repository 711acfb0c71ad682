//! Types and values made of a fuzzer's bytes.

use keyvector_cql::{CqlType, CqlValue};

use crate::input::Input;

const SCALARS: [CqlType; 20] = [
    CqlType::Int,
    CqlType::Text,
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Smallint,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Uuid,
    CqlType::Varint,
    // No key may hold these two.
    CqlType::Counter,
    CqlType::Duration,
];

/// A type, nested up to `depth` levels below its own.
pub fn cql_type(input: &mut Input<'_>, depth: usize) -> CqlType {
    let parts_from = SCALARS.len();
    let choice = input.below(if depth == 0 { parts_from } else { parts_from + 12 });
    if let Some(scalar) = SCALARS.get(choice) {
        return scalar.clone();
    }
    let inner = |input: &mut Input<'_>| Box::new(cql_type(input, depth - 1));
    match (choice - parts_from) % 6 {
        0 => CqlType::List(inner(input)),
        1 => CqlType::Set(inner(input)),
        2 => CqlType::Map(inner(input), inner(input)),
        3 => CqlType::Tuple((0..=input.below(3)).map(|_| *inner(input)).collect()),
        4 => {
            let names = ["street", "Zip", "we\"ird"];
            CqlType::Udt((0..=input.below(3)).map(|field| (names[field].to_owned(), *inner(input))).collect())
        }
        _ => {
            let dimension = 1 + u16::from(input.byte() % 4);
            CqlType::Vector(inner(input), dimension)
        }
    }
}

/// The bytes of a cell of this type: mostly those of a value, sometimes with a byte changed or an end cut off, sometimes
/// any bytes at all.
pub fn cell(input: &mut Input<'_>, cql_type: &CqlType) -> Vec<u8> {
    let how = input.below(8);
    if how == 7 {
        return input.bytes().to_vec();
    }
    let mut bytes = value(input, cql_type).encode(cql_type).unwrap_or_default();
    if how >= 5 && !bytes.is_empty() {
        let at = usize::from(input.byte()) % bytes.len();
        if how == 5 { bytes[at] = input.byte() } else { bytes.truncate(at) }
    }
    bytes
}

/// A value of this type; now and then one that does not fit it.
pub fn value(input: &mut Input<'_>, cql_type: &CqlType) -> CqlValue {
    if input.below(32) == 31 {
        return CqlValue::Empty;
    }
    let count = |input: &mut Input<'_>| input.below(4);
    match cql_type {
        CqlType::Ascii => CqlValue::Ascii(input.text()),
        CqlType::Bigint => CqlValue::Bigint(i64::from_be_bytes(input.array())),
        CqlType::Blob => CqlValue::Blob(input.bytes().to_vec()),
        CqlType::Boolean => CqlValue::Boolean(input.flag()),
        CqlType::Counter => CqlValue::Counter(i64::from_be_bytes(input.array())),
        CqlType::Date => CqlValue::Date(i32::from_be_bytes(input.array())),
        CqlType::Decimal => decimal(input),
        CqlType::Double => CqlValue::Double(f64::from_be_bytes(input.array())),
        CqlType::Duration => CqlValue::Duration {
            months: i32::from_be_bytes(input.array()),
            days: i32::from_be_bytes(input.array()),
            nanoseconds: i64::from_be_bytes(input.array()),
        },
        CqlType::Float => CqlValue::Float(f32::from_be_bytes(input.array())),
        CqlType::Inet if input.flag() => CqlValue::Inet(input.array::<16>().into()),
        CqlType::Inet => CqlValue::Inet(input.array::<4>().into()),
        CqlType::Int => CqlValue::Int(i32::from_be_bytes(input.array())),
        CqlType::Smallint => CqlValue::Smallint(i16::from_be_bytes(input.array())),
        CqlType::Text => CqlValue::Text(input.text()),
        CqlType::Time => {
            let of_day = i64::from_be_bytes(input.array()).rem_euclid(86_400_000_000_000);
            CqlValue::Time(of_day)
        }
        CqlType::Timestamp => CqlValue::Timestamp(i64::from_be_bytes(input.array())),
        CqlType::Timeuuid => CqlValue::Timeuuid(input.array()),
        CqlType::Tinyint => CqlValue::Tinyint(i8::from_be_bytes(input.array())),
        CqlType::Uuid => CqlValue::Uuid(input.array()),
        // The bytes of a varint are its own, so a cell made of any is one.
        CqlType::Varint => CqlValue::decode(&CqlType::Varint, input.bytes()).unwrap_or(CqlValue::Empty),
        CqlType::List(element) => CqlValue::List((0..count(input)).map(|_| value(input, element)).collect()),
        CqlType::Set(element) => CqlValue::Set((0..count(input)).map(|_| value(input, element)).collect()),
        CqlType::Map(key, of_key) => {
            CqlValue::Map((0..count(input)).map(|_| (value(input, key), value(input, of_key))).collect())
        }
        CqlType::Tuple(fields) => {
            CqlValue::Tuple(fields.iter().map(|field| nullable(input, field)).collect())
        }
        CqlType::Udt(fields) => {
            CqlValue::Udt(fields.iter().map(|(name, field)| (name.clone(), nullable(input, field))).collect())
        }
        CqlType::Vector(element, dimension) => {
            CqlValue::Vector((0..*dimension).map(|_| value(input, element)).collect())
        }
        CqlType::Custom(_) => CqlValue::Empty,
    }
}

fn nullable(input: &mut Input<'_>, field: &CqlType) -> CqlValue {
    if input.below(8) == 7 { CqlValue::Null } else { value(input, field) }
}

fn decimal(input: &mut Input<'_>) -> CqlValue {
    // Scales near zero are where the notation changes.
    let scale = match input.below(3) {
        0 => i32::from(input.byte()),
        1 => -i32::from(input.byte()),
        _ => i32::from_be_bytes(input.array()),
    };
    let bytes = [&scale.to_be_bytes(), input.bytes()].concat();
    CqlValue::decode(&CqlType::Decimal, &bytes).unwrap_or(CqlValue::Empty)
}
