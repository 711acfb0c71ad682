"""What a cell is read as: CQL types, and their values' bytes as in CQL's native protocol."""

import ipaddress
import struct
from decimal import Decimal
from typing import Any, Callable, NamedTuple

Reader = Callable[[bytes], Any]


class CellError(ValueError):
    """Bytes that are no value of their column's type."""


class CqlType(NamedTuple):
    """A column's type: `spelled` is the host's text for it, `set<text>`; `parts` are the types inside."""

    name: str
    spelled: str
    parts: tuple["CqlType", ...] = ()
    fields: tuple[str, ...] = ()  # a udt's
    dimension: int = 0  # a vector's


class Kind(NamedTuple):
    """A way to read a cell. `reader` gives the function for a type, or None where the type is none of `allowed`."""

    allowed: str
    reader: Callable[[CqlType], Reader | None]


# --- scalars -----------------------------------------------------------------------------------------------------------


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CellError(f"its text is not UTF-8 from byte {error.start}") from None


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _fixed(name: str, size: int, read: Reader) -> Reader:
    """A value of `size` bytes; one of no bytes reads as None, as null does."""

    def reader(data: bytes) -> Any:
        if len(data) == size:
            return read(data)
        if not data:
            return None
        raise CellError(f"{len(data)} bytes are no {name}")

    return reader


def _decimal(data: bytes) -> Decimal | None:
    if not data:
        return None
    if len(data) < 5:
        raise CellError(f"a decimal has at least 5 bytes, not {len(data)}")
    unscaled = _signed(data[4:])
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -_signed(data[:4])))


def _duration(data: bytes) -> tuple[int, int, int] | None:
    """Months, days and nanoseconds."""
    if not data:
        return None
    parts, at = [], 0
    for _ in range(3):
        number, at = _vint(data, at)
        parts.append((number >> 1) ^ -(number & 1))
    if at < len(data):
        raise CellError("bytes are left over after a duration")
    return (parts[0], parts[1], parts[2])


def _inet(data: bytes) -> str | None:
    if not data:
        return None
    if len(data) not in (4, 16):
        raise CellError(f"an inet has 4 or 16 bytes, not {len(data)}")
    return str(ipaddress.ip_address(data))


def _uuid(data: bytes) -> str:
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _varint(data: bytes) -> int | None:
    return _signed(data) if data else None


_INTEGERS: dict[str, Reader] = {
    name: _fixed(name, size, _signed)
    for name, size in {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "counter": 8}.items()
}

_SCALARS: dict[str, Reader] = _INTEGERS | {
    "ascii": _text,
    "text": _text,
    "blob": lambda data: data,
    "boolean": _fixed("boolean", 1, lambda data: data != b"\0"),
    # The server stores days as unsigned, with 1970-01-01 in the middle.
    "date": _fixed("date", 4, lambda data: int.from_bytes(data, "big") - (1 << 31)),
    "decimal": _decimal,
    "double": _fixed("double", 8, lambda data: struct.unpack(">d", data)[0]),
    "duration": _duration,
    "float": _fixed("float", 4, lambda data: struct.unpack(">f", data)[0]),
    "inet": _inet,
    "time": _fixed("time", 8, _signed),
    "timestamp": _fixed("timestamp", 8, _signed),
    "timeuuid": _fixed("timeuuid", 16, _uuid),
    "uuid": _fixed("uuid", 16, _uuid),
    "varint": _varint,
}


# --- values with parts -------------------------------------------------------------------------------------------------


def elements(cql_type: CqlType, data: bytes) -> list[bytes | None]:
    """The bytes of the values inside: a map's keys and values in turn; a tuple's and udt's missing fields as None."""
    if not data:
        raise _ends_early(cql_type)
    if cql_type.name == "vector":
        return _vector_elements(cql_type, data)
    inside: list[bytes | None] = []
    at = 0
    if cql_type.name in ("list", "set", "map"):
        count, at = _length(cql_type, data, at)
        if count < 0:
            raise CellError(f"a {cql_type.spelled} has a negative count")
        for index in range(count * len(cql_type.parts)):
            at = _element(cql_type.parts[index % len(cql_type.parts)], data, at, inside)
    else:
        for part in cql_type.parts:
            if at == len(data):  # written before the type got its last fields
                inside.append(None)
            else:
                at = _element(part, data, at, inside)
    if at < len(data):
        raise CellError("bytes are left over after the last element")
    return inside


def _element(cql_type: CqlType, data: bytes, at: int, inside: list[bytes | None]) -> int:
    length, at = _length(cql_type, data, at)
    if length < 0:
        inside.append(None)
        return at
    if at + length > len(data):
        raise _ends_early(cql_type)
    inside.append(data[at : at + length])
    return at + length


def _length(cql_type: CqlType, data: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(data):
        raise _ends_early(cql_type)
    return int.from_bytes(data[at : at + 4], "big", signed=True), at + 4


_SIZES_IN_VECTOR = {"boolean": 1, "float": 4, "int": 4, "bigint": 8, "double": 8, "timestamp": 8, "uuid": 16, "timeuuid": 16}


def _size_in_vector(cql_type: CqlType) -> int | None:
    if cql_type.name == "vector":
        size = _size_in_vector(cql_type.parts[0])
        return size and size * cql_type.dimension
    return _SIZES_IN_VECTOR.get(cql_type.name)


def _vector_elements(cql_type: CqlType, data: bytes) -> list[bytes | None]:
    part = cql_type.parts[0]
    size = _size_in_vector(part)
    inside: list[bytes | None] = []
    at = 0
    for _ in range(cql_type.dimension):
        length = size
        if length is None:
            length, at = _vint(data, at)
        if at + length > len(data):
            raise _ends_early(part)
        inside.append(data[at : at + length])
        at += length
    if at < len(data):
        raise CellError("bytes are left over after the last element")
    return inside


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of one to nine bytes: as many bytes follow the first as it has ones at its left."""
    if at == len(data):
        raise CellError("a vint has no bytes")
    first = data[at]
    more = 8 - (first ^ 0xFF).bit_length()
    end = at + 1 + more
    if end > len(data):
        raise CellError("a vint ends too early")
    return int.from_bytes(bytes([first & (0xFF >> more)]) + data[at + 1 : end], "big"), end


def _ends_early(cql_type: CqlType) -> CellError:
    return CellError(f"a {cql_type.spelled} ends too early")


def _value(cql_type: CqlType) -> Reader | None:
    """Any value: scalars as above, list, set and vector as a list, map as a list of pairs, tuple as a tuple, udt as a dict."""
    if cql_type.name in _SCALARS:
        return _SCALARS[cql_type.name]
    readers = [_value(part) for part in cql_type.parts]
    if not readers or None in readers:
        return None  # a custom type

    def reader(data: bytes) -> Any:
        if not data:
            return None
        inside = elements(cql_type, data)
        values = [
            None if item is None else readers[index % len(readers)](item) for index, item in enumerate(inside)
        ]
        match cql_type.name:
            case "map":
                return list(zip(values[::2], values[1::2]))
            case "tuple":
                return tuple(values)
            case "udt":
                return dict(zip(cql_type.fields, values))
            case _:
                return values

    return reader


def _collection(read_as: Callable[[CqlType], Reader | None]) -> Callable[[CqlType], Reader | None]:
    """Reads each element of a list, set or vector. An empty collection and null are one thing in CQL."""

    def reader_of(cql_type: CqlType) -> Reader | None:
        read = read_as(cql_type.parts[0]) if cql_type.name in ("list", "set", "vector") else None
        if read is None:
            return None

        def reader(data: bytes) -> Any:
            inside = elements(cql_type, data) if data else []
            values = [read(item) for item in inside if item is not None]
            return [value for value in values if value is not None] or None

        return reader

    return reader_of


def _one_of(*names: str) -> Callable[[CqlType], Reader | None]:
    return lambda cql_type: _SCALARS[cql_type.name] if cql_type.name in names else None


def _number(cql_type: CqlType) -> Reader | None:
    if cql_type.name not in (*_INTEGERS, "varint", "decimal", "float", "double"):
        return None
    read = _SCALARS[cql_type.name]
    # Through text, so that what is beyond a float's range is infinite, not an error.
    return lambda data: None if (value := read(data)) is None else float(str(value))


def _as_text(cql_type: CqlType) -> Reader | None:
    if cql_type.name in ("text", "ascii", "uuid", "timeuuid", "inet"):
        return _SCALARS[cql_type.name]
    if cql_type.name in (*_INTEGERS, "varint"):
        read = _SCALARS[cql_type.name]
        return lambda data: None if (value := read(data)) is None else str(value)
    return None


Text = Kind("text, varchar or ascii", _one_of("text", "ascii"))
Integer = Kind("tinyint, smallint, int, bigint or counter", _one_of(*_INTEGERS))
Number = Kind("tinyint, smallint, int, bigint, counter, varint, decimal, float or double", _number)
Boolean = Kind("boolean", _one_of("boolean"))
Timestamp = Kind("timestamp", _one_of("timestamp"))
Uuid = Kind("uuid or timeuuid", _one_of("uuid", "timeuuid"))
Blob = Kind("blob", _one_of("blob"))
TextList = Kind("a list, set or vector of texts, uuids, addresses or whole numbers", _collection(_as_text))
NumberList = Kind("a list, set or vector of numbers", _collection(_number))
Value = Kind("any type that the host knows", _value)


# --- the host's spelling of types ----------------------------------------------------------------------------------------


def parse_type(spelled: str) -> CqlType:
    """Reads `int`, `map<text,tuple<int,uuid>>`, `vector<float,3>`, `udt<street:text,"Zip":int>`, `'a.custom.Class'`."""
    cql_type, end = _parse(spelled, 0)
    if end != len(spelled):
        raise ValueError(f"type `{spelled}`: unexpected text at character {end}")
    return cql_type


def _parse(text: str, start: int) -> tuple[CqlType, int]:
    name, at = _parse_name(text, start)
    if not text.startswith("<", at):
        return CqlType(name, text[start:at]), at
    parts, fields, dimension = [], [], 0
    while text[at] != ">":
        at += 1  # `<` or `,`
        if name == "udt":
            field, at = _parse_name(text, at)
            fields.append(field)
            at += 1  # `:`
        if name == "vector" and parts:
            digits = at
            while text[at].isdigit():
                at += 1
            dimension = int(text[digits:at])
        else:
            part, at = _parse(text, at)
            parts.append(part)
    return CqlType(name, text[start : at + 1], tuple(parts), tuple(fields), dimension), at + 1


def _parse_name(text: str, start: int) -> tuple[str, int]:
    at = start
    quote = text[at : at + 1]
    if quote not in ('"', "'"):
        while at < len(text) and (text[at].isalnum() or text[at] == "_"):
            at += 1
        if at == start:
            raise ValueError(f"type `{text}`: a name is missing at character {at}")
        return text[start:at], at
    at += 1
    while True:
        end = text.index(quote, at)
        if not text.startswith(quote, end + 1):
            return text[start + 1 : end].replace(quote * 2, quote), end + 1
        at = end + 2
