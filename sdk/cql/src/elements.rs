//! How the values inside a collection, tuple, user-defined type or vector are framed.

use crate::types::CqlType;
use crate::value::ValueError;
use crate::vint;

/// The values inside a value of a type that has parts, each with its type, `None` where it is null: a list's, set's and
/// vector's elements; a map's keys and values in turn; all of a tuple's or user-defined type's fields, those that the
/// bytes leave out as nulls.
///
/// Holds no more than the bytes; an iterator that gave an error ends.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    framing: Framing<'a>,
    rest: &'a [u8],
    done: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Framing<'a> {
    /// An i32 length before each element; the types take turns.
    Counted(&'a CqlType, &'a CqlType),
    Tuple(&'a [CqlType]),
    Udt(&'a [(String, CqlType)]),
    Fixed(&'a CqlType, usize),
    Vint(&'a CqlType),
}

/// Opens a value that has parts.
///
/// # Errors
/// A type without parts, no bytes at all, a negative count.
pub fn elements<'a>(cql_type: &'a CqlType, bytes: &'a [u8]) -> Result<Elements<'a>, ValueError> {
    let counted = |first, second, per_entry: usize| {
        let (count, rest) = bytes.split_first_chunk().ok_or_else(|| ends_early(cql_type))?;
        let count = usize::try_from(i32::from_be_bytes(*count))
            .map_err(|_| ValueError::new(format!("a {cql_type} has a negative count")))?;
        let framing = Framing::Counted(first, second);
        Ok(Elements { framing, rest, done: 0, count: count.saturating_mul(per_entry) })
    };
    let framed = |framing, count| Ok(Elements { framing, rest: bytes, done: 0, count });
    match cql_type {
        _ if bytes.is_empty() => Err(ends_early(cql_type)),
        CqlType::List(element) | CqlType::Set(element) => counted(element, element, 1),
        CqlType::Map(key, value) => counted(key, value, 2),
        CqlType::Tuple(fields) => framed(Framing::Tuple(fields), fields.len()),
        CqlType::Udt(fields) => framed(Framing::Udt(fields), fields.len()),
        CqlType::Vector(element, dimension) => framed(
            match element.fixed_size_in_vector() {
                Some(size) => Framing::Fixed(element, size),
                None => Framing::Vint(element),
            },
            usize::from(*dimension),
        ),
        scalar => Err(ValueError::new(format!("a {scalar} has no parts"))),
    }
}

fn ends_early(cql_type: &CqlType) -> ValueError {
    ValueError::new(format!("a {cql_type} ends too early"))
}

impl<'a> Elements<'a> {
    /// How many elements are still to come, as the bytes claim: more than they can hold is an error later on.
    pub fn remaining(&self) -> usize {
        self.count - self.done
    }

    fn take(&mut self) -> Result<(&'a CqlType, Option<&'a [u8]>), ValueError> {
        match self.framing {
            Framing::Counted(first, second) => {
                let element = if self.done.is_multiple_of(2) { first } else { second };
                Ok((element, self.take_with_i32_length(element)?))
            }
            Framing::Tuple(fields) => self.take_field(&fields[self.done]),
            Framing::Udt(fields) => self.take_field(&fields[self.done].1),
            Framing::Fixed(element, size) => Ok((element, Some(self.take_bytes(element, size)?))),
            Framing::Vint(element) => {
                let length = vint::take_unsigned(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| ends_early(element))?;
                Ok((element, Some(self.take_bytes(element, length)?)))
            }
        }
    }

    fn take_field(&mut self, field: &'a CqlType) -> Result<(&'a CqlType, Option<&'a [u8]>), ValueError> {
        // A value written before the type got its last fields just ends.
        if self.rest.is_empty() { Ok((field, None)) } else { Ok((field, self.take_with_i32_length(field)?)) }
    }

    fn take_with_i32_length(&mut self, element: &CqlType) -> Result<Option<&'a [u8]>, ValueError> {
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(|| ends_early(element))?;
        self.rest = rest;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => self.take_bytes(element, length).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn take_bytes(&mut self, element: &CqlType, length: usize) -> Result<&'a [u8], ValueError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| ends_early(element))?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<(&'a CqlType, Option<&'a [u8]>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done == self.count {
            if self.rest.is_empty() {
                return None;
            }
            self.rest = &[];
            return Some(Err(ValueError::new("bytes are left over after the last element")));
        }
        let element = self.take();
        if element.is_err() {
            (self.done, self.rest) = (self.count, &[]);
        } else {
            self.done += 1;
        }
        Some(element)
    }
}

/// Appends one element of a list, set, map, tuple or user-defined type, or a cell of a packed row: an i32 length
/// (−1: null), then the bytes.
///
/// # Errors
/// More than 2 GiB.
pub fn put_element(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match bytes {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            let length = i32::try_from(bytes.len()).map_err(|_| ValueError::new("a value is over 2 GiB"))?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
    Ok(())
}

/// Appends one element of a value of type `parent`, framed as [`elements`] reads it.
pub(crate) fn put_framed(
    parent: &CqlType,
    bytes: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let CqlType::Vector(element, _) = parent else { return put_element(bytes, out) };
    let Some(bytes) = bytes else { return Err(ValueError::new("a vector holds no nulls")) };
    match element.fixed_size_in_vector() {
        Some(size) if size != bytes.len() => {
            return Err(ValueError::new(format!(
                "in a vector a {element} has {size} bytes, not {}",
                bytes.len()
            )));
        }
        Some(_) => {}
        None => vint::put_unsigned(bytes.len() as u64, out),
    }
    out.extend_from_slice(bytes);
    Ok(())
}
