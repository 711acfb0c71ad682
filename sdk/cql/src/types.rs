//! CQL types and their spelling.

use std::fmt;
use std::str::FromStr;

use crate::identifier::quote_if_needed;

/// A type nested deeper than this is refused, so that everything that recurses over types is bounded.
pub const TYPE_DEPTH_MAX: usize = 32;

/// A type with more parts than this is refused: user-defined types that hold each other grow exponentially.
pub const TYPE_NODES_MAX: usize = 10_000;

/// A CQL type. Whether it is frozen is no part of it: the bytes of a value are the same.
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

/// A spelling that is no CQL type, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {position} of the type)")]
pub struct TypeError {
    pub message: String,
    /// Characters before the fault, from 0.
    pub position: usize,
}

/// Scalars by CQL's names, then by the names of the server's classes, with which some drivers spell newer types.
static SCALARS: [(&str, &str, CqlType); 20] = [
    ("ascii", "AsciiType", CqlType::Ascii),
    ("bigint", "LongType", CqlType::Bigint),
    ("blob", "BytesType", CqlType::Blob),
    ("boolean", "BooleanType", CqlType::Boolean),
    ("counter", "CounterColumnType", CqlType::Counter),
    ("date", "SimpleDateType", CqlType::Date),
    ("decimal", "DecimalType", CqlType::Decimal),
    ("double", "DoubleType", CqlType::Double),
    ("duration", "DurationType", CqlType::Duration),
    ("float", "FloatType", CqlType::Float),
    ("inet", "InetAddressType", CqlType::Inet),
    ("int", "Int32Type", CqlType::Int),
    ("smallint", "ShortType", CqlType::Smallint),
    ("text", "UTF8Type", CqlType::Text),
    ("time", "TimeType", CqlType::Time),
    ("timestamp", "TimestampType", CqlType::Timestamp),
    ("timeuuid", "TimeUUIDType", CqlType::Timeuuid),
    ("tinyint", "ByteType", CqlType::Tinyint),
    ("uuid", "UUIDType", CqlType::Uuid),
    ("varint", "IntegerType", CqlType::Varint),
];

impl CqlType {
    /// Whether its values are made of other values: a collection, tuple, UDT or vector.
    pub fn has_parts(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Set(_) | Self::Map(..) | Self::Tuple(_) | Self::Udt(_) | Self::Vector(..)
        )
    }

    /// Reads a type as CQL or the plugin boundary spells it; `frozen<…>` is dropped, `varchar` is `text`, names of
    /// types are read in any case. Other bare names are looked up with `resolve`, which gets the name without
    /// keyspace and quotes: user-defined types.
    ///
    /// # Errors
    /// What is not a type, nests deeper than [`TYPE_DEPTH_MAX`], or has more parts than [`TYPE_NODES_MAX`].
    pub fn parse_with(text: &str, resolve: &dyn Fn(&str) -> Option<CqlType>) -> Result<CqlType, TypeError> {
        let mut parser = Parser { text, at: 0, nodes_left: TYPE_NODES_MAX, resolve };
        let cql_type = parser.cql_type(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.fault("unexpected text after the type"));
        }
        Ok(cql_type)
    }

    /// How many bytes every value of the type has inside a vector, where that is fixed there. `tinyint`, `smallint`,
    /// `date`, `time` and `counter` are not: inside vectors the server writes a length before each.
    pub(crate) fn fixed_size_in_vector(&self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::Float | Self::Int => Some(4),
            Self::Bigint | Self::Double | Self::Timestamp => Some(8),
            Self::Timeuuid | Self::Uuid => Some(16),
            Self::Vector(element, dimension) => {
                element.fixed_size_in_vector()?.checked_mul(usize::from(*dimension))
            }
            _ => None,
        }
    }

    /// The levels of the type: 1 for a scalar.
    fn depth(&self) -> usize {
        1 + self.children().map(CqlType::depth).max().unwrap_or(0)
    }

    /// The parts of the type, itself included.
    fn nodes(&self) -> usize {
        1 + self.children().map(CqlType::nodes).sum::<usize>()
    }

    fn children(&self) -> Box<dyn Iterator<Item = &CqlType> + '_> {
        match self {
            Self::List(element) | Self::Set(element) | Self::Vector(element, _) => {
                Box::new(std::iter::once(&**element))
            }
            Self::Map(key, value) => Box::new([&**key, &**value].into_iter()),
            Self::Tuple(elements) => Box::new(elements.iter()),
            Self::Udt(fields) => Box::new(fields.iter().map(|(_, field)| field)),
            _ => Box::new(std::iter::empty()),
        }
    }
}

impl FromStr for CqlType {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        Self::parse_with(text, &|_| None)
    }
}

/// The plugin boundary's spelling: without `frozen`, user-defined types written out.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Set(element) => write!(f, "set<{element}>"),
            Self::Map(key, value) => write!(f, "map<{key},{value}>"),
            Self::Vector(element, dimension) => write!(f, "vector<{element},{dimension}>"),
            Self::Tuple(elements) => {
                f.write_str("tuple<")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if index == 0 { "" } else { "," })?;
                }
                f.write_str(">")
            }
            Self::Udt(fields) => {
                f.write_str("udt<")?;
                for (index, (name, field)) in fields.iter().enumerate() {
                    write!(f, "{}{}:{field}", if index == 0 { "" } else { "," }, quote_if_needed(name))?;
                }
                f.write_str(">")
            }
            Self::Custom(class) => write!(f, "'{}'", class.replace('\'', "''")),
            scalar => f.write_str(
                SCALARS
                    .iter()
                    .find(|(_, _, known)| known == scalar)
                    .map(|(name, _, _)| *name)
                    .expect("every scalar is listed"),
            ),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    nodes_left: usize,
    resolve: &'a dyn Fn(&str) -> Option<CqlType>,
}

impl Parser<'_> {
    fn cql_type(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        if depth >= TYPE_DEPTH_MAX {
            return Err(self.fault(format!("the type nests deeper than {TYPE_DEPTH_MAX} levels")));
        }
        self.spend(1)?;
        self.skip_space();
        if self.peek() == Some('\'') {
            let class = self.quoted('\'')?;
            return Ok(from_class(class));
        }
        let start = self.at;
        let (mut name, mut bare) = self.name("a type")?;
        let lower = name.to_ascii_lowercase();
        if self.eat('<') {
            if !bare {
                return Err(self.fault_at(start, format!("unknown type \"{name}\" with parameters")));
            }
            return self.parametrised(&lower, start, depth);
        }
        if self.eat('.') {
            (name, bare) = self.name("a type after the keyspace")?;
        } else if bare {
            if lower == "varchar" {
                return Ok(CqlType::Text);
            }
            if let Some((_, _, scalar)) = SCALARS.iter().find(|(known, _, _)| *known == lower) {
                return Ok(scalar.clone());
            }
        }
        let name = if bare { name.to_ascii_lowercase() } else { name };
        match (self.resolve)(&name) {
            Some(resolved) if depth + resolved.depth() > TYPE_DEPTH_MAX => Err(self.fault_at(
                start,
                format!("with \"{name}\" the type nests deeper than {TYPE_DEPTH_MAX} levels"),
            )),
            Some(resolved) => {
                self.spend(resolved.nodes())?;
                Ok(resolved)
            }
            None => Err(self.fault_at(start, format!("unknown type \"{name}\""))),
        }
    }

    /// What stands between `<` and `>`, the latter included.
    fn parametrised(&mut self, name: &str, start: usize, depth: usize) -> Result<CqlType, TypeError> {
        let inner = |parser: &mut Self| parser.cql_type(depth + 1).map(Box::new);
        let cql_type = match name {
            // Frozen is not a level of its own, but its recursion is bounded all the same.
            "frozen" => *inner(self)?,
            "list" => CqlType::List(inner(self)?),
            "set" => CqlType::Set(inner(self)?),
            "map" => {
                let key = inner(self)?;
                self.expect(',')?;
                CqlType::Map(key, inner(self)?)
            }
            "vector" => {
                let element = inner(self)?;
                self.expect(',')?;
                CqlType::Vector(element, self.dimension()?)
            }
            "tuple" => {
                let mut elements = vec![*inner(self)?];
                while self.eat(',') {
                    elements.push(*inner(self)?);
                }
                CqlType::Tuple(elements)
            }
            "udt" => {
                let mut fields: Vec<(String, CqlType)> = Vec::new();
                loop {
                    let at = self.at;
                    let (field, bare) = self.name("a field")?;
                    let field = if bare { field.to_ascii_lowercase() } else { field };
                    if fields.iter().any(|(known, _)| *known == field) {
                        return Err(self.fault_at(at, format!("field \"{field}\" comes twice")));
                    }
                    self.expect(':')?;
                    fields.push((field, *inner(self)?));
                    if !self.eat(',') {
                        break CqlType::Udt(fields);
                    }
                }
            }
            _ => return Err(self.fault_at(start, format!("unknown type \"{name}\" with parameters"))),
        };
        self.expect('>')?;
        Ok(cql_type)
    }

    fn dimension(&mut self) -> Result<u16, TypeError> {
        self.skip_space();
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        match self.text[start..self.at].parse() {
            Ok(0) | Err(_) => Err(self.fault_at(start, "a vector's dimension is a number from 1 to 65535")),
            Ok(dimension) => Ok(dimension),
        }
    }

    /// A name as written, and whether it stood without quotes.
    fn name(&mut self, what: &str) -> Result<(String, bool), TypeError> {
        self.skip_space();
        if self.peek() == Some('"') {
            return Ok((self.quoted('"')?, false));
        }
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        if start == self.at {
            return Err(match self.peek() {
                Some(found) => self.fault(format!("expected {what}, found '{found}'")),
                None => self.fault(format!("expected {what}, found the end")),
            });
        }
        Ok((self.text[start..self.at].to_owned(), true))
    }

    /// A text between quotes, of which doubled ones stand for one.
    fn quoted(&mut self, quote: char) -> Result<String, TypeError> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c != quote {
                text.push(c);
            } else if self.peek() == Some(quote) {
                self.at += 1;
                text.push(quote);
            } else {
                return Ok(text);
            }
        }
        Err(self.fault_at(start, "this quote has no end"))
    }

    fn spend(&mut self, nodes: usize) -> Result<(), TypeError> {
        match self.nodes_left.checked_sub(nodes) {
            Some(left) => self.nodes_left = left,
            None => return Err(self.fault(format!("the type has more than {TYPE_NODES_MAX} parts"))),
        }
        Ok(())
    }

    fn expect(&mut self, wanted: char) -> Result<(), TypeError> {
        if self.eat(wanted) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(found) => self.fault(format!("expected '{wanted}', found '{found}'")),
            None => self.fault(format!("expected '{wanted}', found the end")),
        })
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn fault(&self, message: impl Into<String>) -> TypeError {
        self.fault_at(self.at, message)
    }

    fn fault_at(&self, at: usize, message: impl Into<String>) -> TypeError {
        TypeError { message: message.into(), position: self.text[..at].chars().count() }
    }
}

fn from_class(class: String) -> CqlType {
    let simple = class.strip_prefix("org.apache.cassandra.db.marshal.").unwrap_or(&class);
    match SCALARS.iter().find(|(_, known, _)| *known == simple) {
        Some((_, _, scalar)) => scalar.clone(),
        None => CqlType::Custom(class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_round_trips() {
        for (spelled, ours) in [
            ("INT", "int"),
            ("varchar", "text"),
            ("frozen<list<frozen<set<Text>>>>", "list<set<text>>"),
            (" map < text , frozen < tuple < int , uuid > > > ", "map<text,tuple<int,uuid>>"),
            ("vector<float, 3>", "vector<float,3>"),
            (
                "udt<Street:text,\"Zip\":int,\"order\":blob,\"a\"\"b\":date>",
                "udt<street:text,\"Zip\":int,\"order\":blob,\"a\"\"b\":date>",
            ),
            ("'org.apache.cassandra.db.marshal.DurationType'", "duration"),
            ("'com.example.It''s'", "'com.example.It''s'"),
        ] {
            let parsed: CqlType = spelled.parse().unwrap();
            assert_eq!(parsed.to_string(), ours);
            assert_eq!(ours.parse::<CqlType>().unwrap(), parsed, "{ours} reads back");
        }
        for (name, class, scalar) in &SCALARS {
            assert_eq!(&name.parse::<CqlType>().unwrap(), scalar);
            assert_eq!(scalar.to_string(), *name);
            assert_eq!(
                &format!("'org.apache.cassandra.db.marshal.{class}'").parse::<CqlType>().unwrap(),
                scalar
            );
        }
    }

    #[test]
    fn faults_say_what_and_where() {
        for (spelled, message, position) in [
            ("", "expected a type, found the end", 0),
            ("strange", "unknown type \"strange\"", 0),
            ("list<>", "expected a type, found '>'", 5),
            ("list<int", "expected '>', found the end", 8),
            ("map<int>", "expected ',', found '>'", 7),
            ("vector<float,0>", "a vector's dimension is a number from 1 to 65535", 13),
            ("vector<float,65536>", "a vector's dimension is a number from 1 to 65535", 13),
            ("int int", "unexpected text after the type", 4),
            ("udt<a:int,a:int>", "field \"a\" comes twice", 10),
            ("'open", "this quote has no end", 0),
        ] {
            let fault = spelled.parse::<CqlType>().unwrap_err();
            assert_eq!((fault.message.as_str(), fault.position), (message, position), "{spelled}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |levels: usize| format!("{}int{}", "list<".repeat(levels), ">".repeat(levels));
        assert!(nested(TYPE_DEPTH_MAX - 1).parse::<CqlType>().is_ok());
        assert!(nested(TYPE_DEPTH_MAX).parse::<CqlType>().unwrap_err().message.contains("nests deeper"));
        assert!(nested(1_000_000).parse::<CqlType>().is_err());

        // Each type holds the one before ten times.
        let mut held = CqlType::Int;
        let fault = loop {
            let spelled = format!("tuple<{}>", ["t"; 10].join(","));
            match CqlType::parse_with(&spelled, &|_| Some(held.clone())) {
                Ok(next) => held = next,
                Err(fault) => break fault,
            }
        };
        assert!(fault.message.contains("more than 10000 parts"), "{fault}");
    }

    #[test]
    fn user_defined_types_are_looked_up() {
        let resolve = |name: &str| {
            (name == "addr" || name == "Addr").then_some(CqlType::Udt(vec![("a".into(), CqlType::Int)]))
        };
        for spelled in ["addr", "ADDR", "ks.addr", "\"Addr\"", "\"Ks\".\"Addr\"", "frozen<addr>"] {
            assert_eq!(
                CqlType::parse_with(spelled, &resolve).unwrap().to_string(),
                "udt<a:int>",
                "{spelled}"
            );
        }
        assert!(CqlType::parse_with("\"ADDR\"", &resolve).is_err());
    }
}
