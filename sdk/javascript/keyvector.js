// Write keyvector-host table plugins in JavaScript. README.md beside this file has the manual.

import { CellError, parseType } from "./cells.js";

export { Blob, Bool, Integer, NumberList, Numeric, Text, TextList, Timestamp, Uuid, Value } from "./cells.js";

/**
 * Thrown in `document`: this row is set aside with these words as the reason, and its neighbours go on. Thrown in the
 * constructor: the operator's mistake, in words for the operator.
 */
export class Refused extends Error {}

/** The text without white space at its ends: what counts as blank is the same in every plugin language. */
export function trim(text) {
  let [start, end] = [0, text.length];
  while (start < end && WHITE_SPACE.includes(text[start])) start += 1;
  while (end > start && WHITE_SPACE.includes(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

/** What Unicode calls white space. `String.trim` differs: it takes U+FEFF and leaves U+0085. */
const WHITE_SPACE =
  "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";

/**
 * One row image: `row.get("title")` is null where the cell is null or absent. A cell is decoded when it is asked for.
 */
class Row {
  constructor(readers, cells) {
    this.readers = readers;
    this.cells = cells;
  }

  get(name) {
    const column = this.readers.get(name);
    if (!column) {
      throw new Error(`column \`${name}\`: the plugin does not declare that it reads it; add it to \`reads\``);
    }
    const cell = this.cells[column.index];
    if (cell === null) return null;
    try {
      return column.read(cell);
    } catch (error) {
      throw error instanceof CellError ? new Refused(`column \`${name}\`: ${error.message}`) : error;
    }
  }
}

const METADATA_TYPES = ["text", "number", "boolean", "text-list", "number-list"];

/**
 * What the plugin's module has to export under the name `table`. `Table` is a class:
 *
 * - `static configKeys`: the configuration's keys with their defaults, `{}` if there are none; `undefined` for a key that
 *   must be given. Its constructor gets the configuration: each of these keys, and no other.
 * - `reads`: the columns that `document` reads, and what each is read as. The least is best.
 * - `metadata`: `[{ name, type, filterable }]`, all metadata keys that a document may have. `type` is "text", "number",
 *   "boolean", "text-list" or "number-list"; `filterable` is true where it is left out.
 * - `document(row)`: `{ text, metadata }`, or null if the row is filtered out. Null and empty lists in `metadata` are left
 *   out. A document depends on the row and on the configuration, on nothing else.
 */
export function exportTable(Table) {
  let opened = null;
  return {
    describe: refusable((config) => {
      const plugin = create(Table, config);
      const metadata = plugin.metadata.map(({ name, type, filterable = true }) => {
        if (!METADATA_TYPES.includes(type)) {
          throw new Refused(`metadata key \`${name}\` is of the type ${type}; there are: ${METADATA_TYPES.join(", ")}`);
        }
        return { name, valueType: type, filterable };
      });
      return { reads: Object.keys(plugin.reads), metadata };
    }),
    open: refusable((config, columns) => {
      const plugin = create(Table, config);
      opened = { plugin, readers: resolve(plugin, columns) };
    }),
    render(rows, cells) {
      if (!opened) throw new Error("the host called render before open");
      return render(opened, rows, cells);
    },
  };
}

/** A text that is thrown is the answer's error; an Error would end the instance. */
const refusable = (call) => (...given) => {
  try {
    return call(...given);
  } catch (error) {
    throw error instanceof Refused ? error.message : error;
  }
};

/** The plugin under its configuration, a JSON object in which an unknown key is refused: it is a misspelt one. */
function create(Table, json) {
  const known = Table.configKeys ?? {};
  let given;
  try {
    given = JSON.parse(json);
  } catch (cause) {
    throw new Refused(`configuration: ${cause.message}`);
  }
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    throw new Refused("configuration: a JSON object is needed; `{}` is an empty one");
  }
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(known, key)) throw new Refused(`configuration: \`${key}\` is no key of this plugin`);
  }
  const config = {};
  for (const [key, standard] of Object.entries(known)) {
    config[key] = Object.hasOwn(given, key) ? given[key] : standard;
    if (config[key] === undefined) throw new Refused(`configuration: \`${key}\` is missing`);
    if (standard != null && typeof config[key] !== typeof standard) {
      throw new Refused(`configuration: \`${key}\` is ${JSON.stringify(given[key])}; a ${typeof standard} is needed`);
    }
  }
  return new Table(config);
}

function resolve(plugin, columns) {
  const names = Object.keys(plugin.reads);
  const given = columns.map((column) => column.name);
  if (names.length !== given.length || names.some((name, index) => name !== given[index])) {
    throw new Refused(`the plugin reads [${names.join(", ")}], the table gave [${given.join(", ")}]`);
  }
  const readers = columns.map(({ name, cqlType }, index) => {
    const kind = plugin.reads[name];
    const read = kind.readerOf(parseType(cqlType));
    if (!read) throw new Refused(`column \`${name}\` is of type ${cqlType}; ${kind.allowed} is needed`);
    return [name, { index, read }];
  });
  return new Map(readers);
}

/** Renders a batch. A row that throws is set aside alone. */
function render({ plugin, readers }, rows, cells) {
  const states = [];
  const texts = new Packer(rows, cells.length);
  const metadata = new Packer(rows, cells.length);
  const row = new Row(readers, new Array(readers.size));
  let at = 0;
  for (let count = 0; count < rows; count++) {
    at = split(cells, at, row.cells);
    let [state, text, json] = ["failed", "", ""];
    try {
      const document = plugin.document(row);
      if (document === null) state = "skipped";
      else [state, text, json] = ["document", textOf(document), metadataJson(document.metadata ?? {})];
    } catch (error) {
      text = error instanceof Refused ? error.message : told(error);
    }
    states.push(state);
    texts.push(text);
    metadata.push(json);
  }
  if (at !== cells.length) throw new Error(`the host sent ${cells.length} bytes, where ${rows} rows take ${at}`);
  return { states, texts: texts.packed(), metadata: metadata.packed() };
}

/** Whatever else `text` is would fail, or be cut without a word, only where the batch is packed. */
function textOf({ text }) {
  if (typeof text !== "string") throw new TypeError(`\`text\` is ${text === null ? "null" : typeof text}; a string is needed`);
  return text;
}

/** A bug of the plugin, met by this row: what was thrown and where, `TypeError: … (year@plugin.js:31:9, …)`. */
function told(error) {
  if (!(error instanceof Error)) return `thrown: ${error}`;
  const where = (error.stack ?? "").split("\n").filter((line) => line && !line.includes("keyvector.js"));
  return `${error.name}: ${error.message}${where.length ? ` (${where.slice(0, 3).join(", ")})` : ""}`;
}

function metadataJson(metadata) {
  const written = [];
  for (const [name, value] of Object.entries(metadata)) {
    if (value == null || (Array.isArray(value) && value.length === 0)) continue;
    for (const item of Array.isArray(value) ? value : [value]) checkNumber(name, item);
    const json = Array.isArray(value) ? `[${value.map(toJson).join(",")}]` : toJson(value);
    written.push(`${JSON.stringify(name)}:${json}`);
  }
  return written.length === 0 ? "" : `{${written.join(",")}}`;
}

/** JSON.stringify refuses BigInts. */
const toJson = (value) => (typeof value === "bigint" ? String(value) : JSON.stringify(value));

const INTEGER_MAX = 2n ** 53n;

function checkNumber(name, value) {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new Refused(`metadata \`${name}\`: ${value} is not a finite number`);
  }
  if (typeof value === "bigint" && (value > INTEGER_MAX || value < -INTEGER_MAX)) {
    throw new Refused(`metadata \`${name}\`: ${value} is beyond 2^53; declare the key as text and give it as text`);
  }
}

/** Cuts the next row's cells off the batch: an i32 big-endian length (-1 for null), then the bytes. */
function split(cells, at, row) {
  for (let column = 0; column < row.length; column++) {
    const length = (cells[at] << 24) | (cells[at + 1] << 16) | (cells[at + 2] << 8) | cells[at + 3];
    at += 4;
    row[column] = length < 0 ? null : cells.subarray(at, at + length);
    at += Math.max(length, 0);
  }
  return at;
}

const UTF8 = new TextEncoder();

/** Byte strings end to end, as they cross the boundary. */
class Packer {
  constructor(rows, bytes) {
    this.data = new Uint8Array(bytes + 64);
    this.ends = new Uint32Array(rows);
    this.count = 0;
    this.end = 0;
  }

  push(text) {
    const needed = this.end + text.length * 3; // a UTF-16 unit takes three bytes at most
    if (needed > this.data.length) {
      const larger = new Uint8Array(Math.max(needed, this.data.length * 2));
      larger.set(this.data.subarray(0, this.end));
      this.data = larger;
    }
    this.end += UTF8.encodeInto(text, this.data.subarray(this.end)).written;
    this.ends[this.count++] = this.end;
  }

  packed() {
    return { data: this.data.subarray(0, this.end), ends: this.ends };
  }
}
