"""The plugin's side of the WebAssembly boundary. `wit_world` is what componentize-py makes of the WIT files."""

from wit_world.exports import table as wit  # isort: skip: what is missing outside WebAssembly is told by this name
from componentize_py_types import Err
from wit_world.imports.types import Packed

from keyvector import Column, Refused, Table, parse_type
from keyvector.opened import Opened, Packer, create, opened

_STATES = [wit.RowState.DOCUMENT, wit.RowState.SKIPPED, wit.RowState.FAILED]


def exported(table: type[Table]) -> type:
    """The class that componentize-py looks for under the name `Table`."""

    class Exported:
        _opened: Opened | None = None

        def describe(self, config: str) -> wit.TableInfo:
            plugin = _refusable(lambda: create(table, config))
            keys = [
                wit.MetadataKey(key.name, wit.MetadataType[key.type.upper().replace("-", "_")], key.filterable)
                for key in plugin.metadata
            ]
            return wit.TableInfo(list(plugin.reads), keys)

        def open(self, config: str, columns: list[wit.Column]) -> None:
            def column(given: wit.Column) -> Column:
                return Column(given.name, parse_type(given.cql_type), given.kind.name.lower().replace("_", "-"))

            Exported._opened = _refusable(lambda: opened(create(table, config), [column(given) for given in columns]))

        def render(self, rows: int, cells: bytes) -> wit.Documents:
            assert Exported._opened is not None, "the host called render before open"
            states, texts, metadata = Exported._opened.render(rows, cells)
            return wit.Documents([_STATES[state] for state in states], _packed(texts), _packed(metadata))

    return Exported


def _packed(packer: Packer) -> Packed:
    return Packed(packer.data, packer.ends)


def _refusable(make):
    try:
        return make()
    except Refused as refused:
        raise Err(str(refused)) from None
