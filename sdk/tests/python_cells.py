"""The worked cells of cells.json, and values with parts, read in Python: `python3 sdk/tests/python_cells.py`."""

import json
import pathlib
import sys
import unittest
from decimal import Decimal

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python"))

import keyvector  # noqa: E402
from keyvector.cells import CellError, parse_type  # noqa: E402
from keyvector.opened import create, opened  # noqa: E402


def read(kind: keyvector.Kind, cql_type: str, data: bytes):
    return kind.reader(parse_type(cql_type))(data)


def as_json(value):
    """Whole numbers as text, as cells.json has what no JSON number holds."""
    match value:
        case bool() | None | str():
            return value
        case list():
            return [as_json(item) for item in value]
        case int():
            return str(value)
        case float() if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
    return value


class Cells(unittest.TestCase):
    def test_worked_cells(self):
        for case in json.loads((HERE / "cells.json").read_text()):
            with self.subTest(case):
                data = bytes.fromhex(case["bytes"])
                kind = getattr(keyvector, case["kind"])
                try:
                    self.assertEqual(as_json(read(kind, case["type"], data)), case["value"])
                except CellError as error:
                    self.assertEqual(str(error), case.get("error"))

    def test_values_with_parts(self):
        def value(cql_type: str, hexadecimal: str):
            return read(keyvector.Value, cql_type, bytes.fromhex(hexadecimal))

        self.assertEqual(value("map<text,int>", "00000001" "00000001" "61" "00000004" "00000005"), [("a", 5)])
        self.assertEqual(value("tuple<int,text>", "00000004" "00000005"), (5, None))
        self.assertEqual(value('udt<street:text,"Zip":int>', "00000001" "61" "ffffffff"), {"street": "a", "Zip": None})
        self.assertEqual(value("vector<float,2>", "3f800000" "3f000000"), [1.0, 0.5])
        self.assertEqual(value("decimal", "00000001" "85"), Decimal("-12.3"))
        self.assertEqual(value("duration", "02" "04" "807a"), (1, 2, 61))
        self.assertEqual(value("date", "80000001"), 1)
        self.assertEqual(value("inet", "c0000201"), "192.0.2.1")
        self.assertIsNone(keyvector.Value.reader(parse_type("'a.Custom'")))

    def test_spelling(self):
        parsed = parse_type('map<text,tuple<int,udt<a:vector<float,3>,"b""<":uuid>>>')
        udt = parsed.parts[1].parts[1]
        self.assertEqual((udt.name, udt.fields), ("udt", ("a", 'b"<')))
        self.assertEqual((udt.parts[0].dimension, udt.parts[0].spelled), (3, "vector<float,3>"))


class Films(keyvector.Table):
    reads = {"title": keyvector.Text}
    config_keys = {"language": str, "loud": False, "weight": 1.0}

    def __init__(self, config):
        self.config = config

    def document(self, row):
        title = row["title"]
        if title == "?":
            raise keyvector.Refused("no title")
        return title and keyvector.Document(title.upper() if self.config["loud"] else title, {"n": 2**53, "none": None})


class Plugins(unittest.TestCase):
    def test_configuration(self):
        for config, says in [
            ("[]", "a JSON object is needed; `{}` is an empty one"),
            ("{}", "`language` is missing"),
            ('{"language":"en","lod":1}', "`lod` is no key of this plugin"),
            ('{"language":"en","loud":1}', "`loud` is 1; true or false is needed"),
        ]:
            with self.assertRaises(keyvector.Refused) as refused:
                create(Films, config)
            self.assertEqual(str(refused.exception), f"configuration: {says}")
        self.assertEqual(create(Films, '{"language":"en","weight":2}').config, {"language": "en", "loud": False, "weight": 2.0})

    def test_rows(self):
        column = keyvector.Column("title", parse_type("text"), "regular")
        plugin = opened(create(Films, '{"language":"en","loud":true}'), [column])
        states, texts, metadata = plugin.render(3, b"\0\0\0\1a" b"\xff\xff\xff\xff" b"\0\0\0\1?")
        self.assertEqual((states, texts.data, texts.ends), ([0, 1, 2], b"Ano title", [1, 1, 9]))
        self.assertEqual((metadata.data, metadata.ends), (b'{"n":9007199254740992}', [22, 22, 22]))

    def test_the_manual(self):
        manual = (HERE.parent / "python/README.md").read_text()
        module = {"__name__": "manual"}
        exec(manual.split("```python\n")[1].split("```")[0], module)
        types = {"title": "text", "blurb": "text", "pages": "int"}
        columns = [keyvector.Column(name, parse_type(spelled), "regular") for name, spelled in types.items()]
        null = b"\xff\xff\xff\xff"
        rows = b"\0\0\0\1T" b"\0\0\0\1B" b"\0\0\0\4\0\0\0\7" + null * 3 + null + b"\0\0\0\1B" b"\0\0\0\4\xff\xff\xff\xff"
        plugin = opened(create(module["Table"], '{"with_blurb_only":true}'), columns)
        states, texts, metadata = plugin.render(3, rows)
        self.assertEqual((states, texts.data), ([0, 1, 2], b"T\nBcolumn `pages` is -1"))
        self.assertEqual(metadata.data, b'{"title":"T","pages":7}')


if __name__ == "__main__":
    unittest.main()
