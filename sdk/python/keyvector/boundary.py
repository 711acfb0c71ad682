"""The plugin's side of the WebAssembly boundary. `wit_world` is what componentize-py makes of the WIT files."""

from wit_world.exports import table as wit  # isort: skip: what is missing outside WebAssembly is told by this name
from componentize_py_types import Err
from wit_world.imports.types import Packed

from keyvector import Column, Key, Refused, Table, parse_type
from keyvector.opened import Opened, Packer, create, opened

_METADATA_TYPES = {
    "text": wit.MetadataType.TEXT,
    "number": wit.MetadataType.NUMBER,
    "boolean": wit.MetadataType.BOOLEAN,
    "text-list": wit.MetadataType.TEXT_LIST,
    "number-list": wit.MetadataType.NUMBER_LIST,
}
_STATES = [wit.RowState.DOCUMENT, wit.RowState.SKIPPED, wit.RowState.FAILED]


def exported(table: type[Table]) -> type:
    """The class that componentize-py looks for under the name `Table`."""

    class Exported:
        _opened: Opened | None = None

        def describe(self, config: str) -> wit.TableInfo:
            def info() -> wit.TableInfo:
                plugin = create(table, config)
                return wit.TableInfo(list(plugin.reads), [_metadata_key(key) for key in plugin.metadata])

            return _refusable(info)

        def open(self, config: str, columns: list[wit.Column]) -> None:
            def column(given: wit.Column) -> Column:
                return Column(given.name, parse_type(given.cql_type), given.kind.name.lower().replace("_", "-"))

            Exported._opened = _refusable(lambda: opened(create(table, config), [column(given) for given in columns]))

        def render(self, rows: int, cells: bytes) -> wit.Documents:
            assert Exported._opened is not None, "the host called render before open"
            states, texts, metadata = Exported._opened.render(rows, cells)
            return wit.Documents([_STATES[state] for state in states], _packed(texts), _packed(metadata))

    return Exported


def _metadata_key(key: Key) -> wit.MetadataKey:
    if key.type not in _METADATA_TYPES:
        types = ", ".join(_METADATA_TYPES)
        raise Refused(f"metadata key `{key.name}` is of the type {key.type!r}; there are: {types}")
    return wit.MetadataKey(key.name, _METADATA_TYPES[key.type], key.filterable)


def _packed(packer: Packer) -> Packed:
    return Packed(packer.data, packer.ends)


def _refusable(make):
    try:
        return make()
    except Refused as refused:
        raise Err(str(refused)) from None
