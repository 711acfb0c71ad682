// The worked cells of cells.json, and values with parts, read in JavaScript: `node --test sdk/tests/javascript_cells.js`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { parseType } from "../javascript/cells.js";
import * as keyvector from "../javascript/keyvector.js";

const NAMES = { Boolean: "Bool", Number: "Numeric" }; // JavaScript has its own things of these names
const bytesOf = (hexadecimal) => Uint8Array.from(Buffer.from(hexadecimal, "hex"));
const read = (kind, type, hexadecimal) => kind.readerOf(parseType(type))(bytesOf(hexadecimal));

/** Whole numbers as text, as cells.json has what no JSON number holds. */
function asJson(value, kind) {
  if (Array.isArray(value)) return value.map((item) => asJson(item, kind));
  const isWhole = ["Integer", "Timestamp"].includes(kind) && value !== null;
  return isWhole || Math.abs(value) === Infinity ? String(value) : value;
}

test("worked cells", () => {
  for (const given of JSON.parse(readFileSync(new URL("cells.json", import.meta.url)))) {
    const kind = keyvector[NAMES[given.kind] ?? given.kind];
    const value = () => asJson(read(kind, given.type, given.bytes), given.kind);
    if (given.error) assert.throws(value, { message: given.error }, JSON.stringify(given));
    else assert.deepEqual(value(), given.value, JSON.stringify(given));
  }
});

test("values with parts", () => {
  const value = (type, hexadecimal) => read(keyvector.Value, type, hexadecimal);
  assert.deepEqual(value("map<text,int>", "00000001" + "0000000161" + "0000000400000005"), new Map([["a", 5]]));
  assert.deepEqual(value("tuple<int,text>", "0000000400000005"), [5, null]);
  assert.deepEqual(value('udt<street:text,"Zip":int>', "0000000161" + "ffffffff"), { street: "a", Zip: null });
  assert.deepEqual(value("vector<float,2>", "3f8000003f000000"), [1, 0.5]);
  assert.deepEqual(value("decimal", "0000000185"), { unscaled: -123n, scale: 1 });
  assert.deepEqual(value("duration", "0204807a"), { months: 1, days: 2, nanoseconds: 61n });
  assert.equal(value("date", "80000001"), 1);
  assert.equal(value("inet", "c0000201"), "192.0.2.1");
  assert.equal(keyvector.Value.readerOf(parseType("'a.Custom'")), null);
});

test("spelling of types", () => {
  const udt = parseType('map<text,tuple<int,udt<a:vector<float,3>,"b""<":uuid>>>').parts[1].parts[1];
  assert.deepEqual([udt.name, udt.fields], ["udt", ["a", 'b"<']]);
  assert.deepEqual([udt.parts[0].dimension, udt.parts[0].spelled], [3, "vector<float,3>"]);
});

class Films {
  static configKeys = { language: undefined, loud: false };
  reads = { title: keyvector.Text };
  metadata = [{ name: "n", type: "number" }];

  constructor(config) {
    this.loud = config.loud;
  }

  document(row) {
    const title = row.get("title");
    if (title === "?") throw new keyvector.Refused("no title");
    return title && { text: this.loud ? title.toUpperCase() : title, metadata: { n: 2n ** 53n, none: null } };
  }
}

test("configuration", () => {
  const { describe } = keyvector.exportTable(Films);
  for (const [config, says] of [
    ["[]", "a JSON object is needed; `{}` is an empty one"],
    ["{}", "`language` is missing"],
    ['{"language":"en","lod":1}', "`lod` is no key of this plugin"],
    ['{"language":"en","loud":1}', "`loud` is 1; a boolean is needed"],
  ]) {
    assert.throws(() => describe(config), (thrown) => thrown === `configuration: ${says}`);
  }
  const metadata = [{ name: "n", valueType: "number", filterable: true }];
  assert.deepEqual(describe('{"language":"en"}'), { reads: ["title"], metadata });
});

test("rows", () => {
  const table = keyvector.exportTable(Films);
  table.open('{"language":"en","loud":true}', [{ name: "title", cqlType: "text", kind: "regular" }]);
  const { states, texts, metadata } = table.render(3, bytesOf("0000000161" + "ffffffff" + "000000013f"));
  assert.deepEqual(states, ["document", "skipped", "failed"]);
  assert.deepEqual([Buffer.from(texts.data).toString(), [...texts.ends]], ["Ano title", [1, 1, 9]]);
  assert.deepEqual([Buffer.from(metadata.data).toString(), [...metadata.ends]], ['{"n":9007199254740992}', [22, 22, 22]]);
});

test("the manual", async () => {
  const manual = readFileSync(new URL("../javascript/README.md", import.meta.url), "utf8");
  const sdk = new URL("../javascript/keyvector.js", import.meta.url);
  const code = manual.split("```js\n")[1].split("```")[0].replace("../sdk/javascript/keyvector.js", sdk);
  const { table } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  const columns = Object.entries({ title: "text", blurb: "text", pages: "int" });
  table.open('{"withBlurbOnly":true}', columns.map(([name, cqlType]) => ({ name, cqlType, kind: "regular" })));
  const rows = ["0000000154", "0000000142", "0000000400000007", "ffffffff", "ffffffff", "ffffffff"];
  const wrong = ["ffffffff", "0000000142", "00000004ffffffff"];
  const { states, texts, metadata } = table.render(3, bytesOf([...rows, ...wrong].join("")));
  assert.deepEqual(states, ["document", "skipped", "failed"]);
  assert.equal(Buffer.from(texts.data).toString(), "T\nBcolumn `pages` is -1");
  assert.equal(Buffer.from(metadata.data).toString(), '{"title":"T","pages":7}');
});
