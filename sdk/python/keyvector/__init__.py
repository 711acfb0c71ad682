"""Write keyvector-host table plugins in Python. README.md beside this folder has the manual."""

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, NamedTuple

from keyvector.cells import (
    Blob,
    Boolean,
    CellError,
    CqlType,
    Integer,
    Kind,
    Number,
    NumberList,
    Text,
    TextList,
    Timestamp,
    Uuid,
    Value,
    parse_type,
)

__all__ = [
    "Blob", "Boolean", "Column", "CqlType", "Document", "Integer", "Key", "Kind", "Number", "NumberList", "Refused", "Row",
    "Table", "Text", "TextList", "Timestamp", "Uuid", "Value", "export", "trim",
]  # fmt: skip

INTEGER_MAX = 1 << 53
"""Whole numbers beyond this cannot be told apart as metadata numbers: declare and give them as text."""

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Unicode calls white space. `str.strip()` without it also takes the control characters U+001C to U+001F."""


class Refused(Exception):
    """Raised in `document`: this row is set aside with these words as the reason, and its neighbours go on. Raised in
    `__init__` or `open`: the operator's mistake, in words for the operator."""


class Key(NamedTuple):
    """A metadata key: `type` is "text", "number", "boolean", "text-list" or "number-list"."""

    name: str
    type: str
    filterable: bool = True


@dataclass
class Document:
    """What is embedded for a row, and what stands beside its vector. None and empty lists in `metadata` are left out."""

    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Column:
    """A column as the table has it. `kind` is "partition-key", "clustering-key", "static-column" or "regular"."""

    name: str
    cql_type: CqlType
    kind: str


class Table:
    """One table's rows to documents. A document depends on the row and on the configuration, on nothing else."""

    reads: Mapping[str, Kind] = {}
    """The columns that `document` reads, and what each is read as. `__init__` may set its own. The least is best."""

    metadata: list[Key] = []
    """All metadata keys that a document may have. `__init__` may set its own."""

    config_keys: Mapping[str, Any] = {}
    """The configuration's keys with their defaults, or with a type (`str`) where a key must be given."""

    def __init__(self, config: Mapping[str, Any]):
        """Takes the configuration: each of `config_keys`, and no other."""

    def open(self, columns: list[Column]) -> None:
        """May look at the columns, in the order of `reads`, and refuse the table. Their types fit what is read."""

    def document(self, row: "Row") -> Document | None:
        """The row's document, or None if the row is filtered out."""
        raise NotImplementedError


class Row:
    """One row image: `row["title"]` is None where the cell is null or absent. A cell is decoded when it is asked for."""

    __slots__ = ("_cells", "_readers")

    def __init__(self, readers: Mapping[str, tuple[int, Callable[[bytes], Any]]], cells: list[bytes | None]):
        self._readers = readers
        self._cells = cells

    def __getitem__(self, name: str) -> Any:
        try:
            index, read = self._readers[name]
        except KeyError:
            raise KeyError(f"column `{name}`: the plugin does not declare that it reads it; add it to `reads`") from None
        cell = self._cells[index]
        if cell is None:
            return None
        try:
            return read(cell)
        except CellError as cause:
            raise Refused(f"column `{name}`: {cause}") from None


def trim(text: str) -> str:
    """The text without white space at its ends: what counts as blank is the same in every plugin language."""
    return text.strip(WHITE_SPACE)


def export(table: type[Table]) -> type:
    """What the plugin's module has to call `Table`: `Table = export(Movies)`. Outside WebAssembly, the class itself."""
    try:
        from keyvector.boundary import exported
    except ModuleNotFoundError as missing:
        if missing.name == "wit_world":
            return table
        raise
    return exported(table)
