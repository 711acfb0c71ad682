"""A table plugin at work: configuration, columns, and batches of rows as the host gives them."""

import json
import math
import struct
import traceback
from typing import Any, Callable, Iterable, Mapping

from keyvector import INTEGER_MAX, Column, Document, Refused, Row, Table

DOCUMENT, SKIPPED, FAILED = range(3)
_LENGTH = struct.Struct(">i")


def create(table: type[Table], config: str) -> Table:
    """The plugin under its configuration, a JSON object in which an unknown key is refused: it is a misspelt one."""
    try:
        given = json.loads(config)
    except ValueError as cause:
        raise Refused(f"configuration: {cause}") from None
    if not isinstance(given, dict):
        raise Refused("configuration: a JSON object is needed; `{}` is an empty one")
    for key in given:
        if key not in table.config_keys:
            raise Refused(f"configuration: `{key}` is no key of this plugin")
    return table({key: _setting(key, default, given) for key, default in table.config_keys.items()})


def _setting(key: str, default: Any, given: Mapping[str, Any]) -> Any:
    required = isinstance(default, type)
    if key not in given:
        if required:
            raise Refused(f"configuration: `{key}` is missing")
        return default
    wanted = default if required else type(default)
    value = given[key]
    if wanted is float and type(value) is int:
        return float(value)
    if default is not None and type(value) is not wanted:
        raise Refused(f"configuration: `{key}` is {json.dumps(value)}; {_JSON_TYPES[wanted]} is needed")
    return value


_JSON_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list", dict: "an object"}


def opened(plugin: Table, columns: list[Column]) -> "Opened":
    """The plugin opened on a table."""
    given = [column.name for column in columns]
    if given != list(plugin.reads):
        raise Refused(f"the plugin reads [{', '.join(plugin.reads)}], the table gave [{', '.join(given)}]")
    readers = {}
    for index, (column, kind) in enumerate(zip(columns, plugin.reads.values())):
        read = kind.reader(column.cql_type)
        if read is None:
            raise Refused(f"column `{column.name}` is of type {column.cql_type.spelled}; {kind.allowed} is needed")
        readers[column.name] = (index, read)
    plugin.open(columns)
    return Opened(plugin, readers)


class Opened:
    """A plugin opened on a table."""

    def __init__(self, plugin: Table, readers: Mapping[str, tuple[int, Callable[[bytes], Any]]]):
        self._plugin = plugin
        self._readers = readers

    def render(self, rows: int, cells: bytes) -> tuple[list[int], "Packer", "Packer"]:
        """Renders a batch: a state, a text and metadata for each row. A row that raises is set aside alone."""
        states, texts, metadata = [], Packer(), Packer()
        for row in split(rows, len(self._readers), cells):
            state, text, json_text = self._render(Row(self._readers, row))
            states.append(state)
            texts.push(text)
            metadata.push(json_text)
        return states, texts, metadata

    def _render(self, row: Row) -> tuple[int, bytes, bytes]:
        try:
            document = self._plugin.document(row)
            if document is None:
                return SKIPPED, b"", b""
            return DOCUMENT, document.text.encode(), _metadata(document)
        except Refused as refused:
            return FAILED, str(refused).encode(errors="replace"), b""
        except Exception as error:  # a bug of the plugin, met by this row: its neighbours go on
            return FAILED, told(error).encode(errors="replace"), b""


def told(error: Exception) -> str:
    """The exception with the plugin's last lines that led to it: `KeyError: 'x' (plugin.py:7 in document)`."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if "keyvector/" not in code.co_filename]
    where = ", ".join(f"{code.co_filename.rpartition('/')[2]}:{line} in {code.co_name}" for code, line in own[-3:])
    return f"{type(error).__name__}: {error}" + (f" ({where})" if where else "")


def _metadata(document: Document) -> bytes:
    kept = {name: value for name, value in document.metadata.items() if value is not None and value != []}
    for name, value in kept.items():
        for number in value if isinstance(value, list) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise Refused(f"metadata `{name}`: {number} is not a finite number")
            if isinstance(number, int) and abs(number) > INTEGER_MAX:
                raise Refused(f"metadata `{name}`: {number} is beyond 2^53; declare the key as text and give it as text")
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode() if kept else b""


def split(rows: int, columns: int, cells: bytes) -> Iterable[list[bytes | None]]:
    """Cuts the batch into cells: an i32 big-endian length (-1 for null), then the bytes."""
    at = 0
    for _ in range(rows):
        row: list[bytes | None] = []
        for _ in range(columns):
            (length,) = _LENGTH.unpack_from(cells, at)
            at += 4
            if length < 0:
                row.append(None)
            else:
                row.append(cells[at : at + length])
                at += length
        yield row
    if at != len(cells):
        raise ValueError(f"the host sent {len(cells)} bytes, where {rows} rows take {at}")


class Packer:
    """Byte strings end to end, as they cross the boundary."""

    def __init__(self) -> None:
        self._items: list[bytes] = []
        self.ends: list[int] = []
        self._end = 0

    def push(self, item: bytes) -> None:
        self._items.append(item)
        self._end += len(item)
        self.ends.append(self._end)

    @property
    def data(self) -> bytes:
        return b"".join(self._items)
