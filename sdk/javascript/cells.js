// What a cell is read as: CQL types, and their values' bytes as in CQL's native protocol.

/** Bytes that are no value of their column's type. */
export class CellError extends Error {}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }); // ignoreBOM: keeps the mark where there is one

function text(bytes) {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new CellError(`its text is not UTF-8 from byte ${validUpTo(bytes)}`);
  }
}

/** Where the first sequence begins that is not UTF-8. */
function validUpTo(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at];
    const size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      UTF8.decode(bytes.subarray(at, at + size));
    } catch {
      return at;
    }
    at += size;
  }
  return bytes.length;
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** A value of `size` bytes; one of no bytes reads as null, as null does. */
function fixed(name, size, read) {
  return (bytes) => {
    if (bytes.length === size) return read(bytes);
    if (bytes.length === 0) return null;
    throw new CellError(`${bytes.length} bytes are no ${name}`);
  };
}

const orNull = (read) => (bytes) => (bytes.length === 0 ? null : read(bytes));

/** The number of a two's complement of any length. */
function signed(bytes) {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return BigInt.asIntN(bytes.length * 8, value);
}

/** As its digits: JavaScript has no decimal numbers. */
function decimal(bytes) {
  if (bytes.length < 5) throw new CellError(`a decimal has at least 5 bytes, not ${bytes.length}`);
  return { unscaled: signed(bytes.subarray(4)), scale: view(bytes).getInt32(0) };
}

/** Months, days and nanoseconds. */
function duration(bytes) {
  const parts = [];
  let at = 0;
  for (let part = 0; part < 3; part++) {
    const [number, next] = vint(bytes, at);
    parts.push((number >> 1n) ^ -(number & 1n));
    at = next;
  }
  if (at < bytes.length) throw new CellError("bytes are left over after a duration");
  return { months: Number(parts[0]), days: Number(parts[1]), nanoseconds: parts[2] };
}

/** `192.0.2.1`; of an IPv6 address its eight groups, in hexadecimal. */
function inet(bytes) {
  if (bytes.length === 4) return [...bytes].join(".");
  if (bytes.length !== 16) throw new CellError(`an inet has 4 or 16 bytes, not ${bytes.length}`);
  return Array.from({ length: 8 }, (_, group) => view(bytes).getUint16(group * 2).toString(16)).join(":");
}

function uuid(bytes) {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

const bigint = (bytes) => view(bytes).getBigInt64(0);

/** Up to 32 bits as a number, beyond as a BigInt: a number would lose digits. */
const INTEGERS = {
  tinyint: fixed("tinyint", 1, (bytes) => view(bytes).getInt8(0)),
  smallint: fixed("smallint", 2, (bytes) => view(bytes).getInt16(0)),
  int: fixed("int", 4, (bytes) => view(bytes).getInt32(0)),
  bigint: fixed("bigint", 8, bigint),
  counter: fixed("counter", 8, bigint),
};

const SCALARS = {
  ...INTEGERS,
  ascii: text,
  text,
  blob: (bytes) => bytes,
  boolean: fixed("boolean", 1, (bytes) => bytes[0] !== 0),
  // The server stores days as unsigned, with 1970-01-01 in the middle.
  date: fixed("date", 4, (bytes) => view(bytes).getUint32(0) - 2 ** 31),
  decimal: orNull(decimal),
  double: fixed("double", 8, (bytes) => view(bytes).getFloat64(0)),
  duration: orNull(duration),
  float: fixed("float", 4, (bytes) => view(bytes).getFloat32(0)),
  inet: orNull(inet),
  time: fixed("time", 8, bigint),
  timestamp: fixed("timestamp", 8, (bytes) => Number(bigint(bytes))),
  timeuuid: fixed("timeuuid", 16, uuid),
  uuid: fixed("uuid", 16, uuid),
  varint: orNull(signed),
};

/** The bytes of the values inside: a map's keys and values in turn; a tuple's and udt's missing fields as null. */
function elements(type, bytes) {
  if (bytes.length === 0) throw endsEarly(type);
  if (type.name === "vector") return vectorElements(type, bytes);
  const inside = [];
  let at = 0;
  const length = (of) => {
    if (at + 4 > bytes.length) throw endsEarly(of);
    at += 4;
    return view(bytes).getInt32(at - 4);
  };
  const element = (of) => {
    const size = length(of);
    if (size < 0) return null;
    if (at + size > bytes.length) throw endsEarly(of);
    at += size;
    return bytes.subarray(at - size, at);
  };
  if (["list", "set", "map"].includes(type.name)) {
    const count = length(type) * type.parts.length;
    if (count < 0) throw new CellError(`a ${type.spelled} has a negative count`);
    while (inside.length < count) inside.push(element(type.parts[inside.length % type.parts.length]));
  } else {
    // A value written before the type got its last fields just ends.
    for (const part of type.parts) inside.push(at === bytes.length ? null : element(part));
  }
  if (at < bytes.length) throw new CellError("bytes are left over after the last element");
  return inside;
}

const SIZES_IN_VECTOR = { boolean: 1, float: 4, int: 4, bigint: 8, double: 8, timestamp: 8, uuid: 16, timeuuid: 16 };

function sizeInVector(type) {
  if (type.name !== "vector") return SIZES_IN_VECTOR[type.name];
  const size = sizeInVector(type.parts[0]);
  return size && size * type.dimension;
}

function vectorElements(type, bytes) {
  const size = sizeInVector(type.parts[0]);
  const inside = [];
  let at = 0;
  while (inside.length < type.dimension) {
    let length = size;
    if (length === undefined) {
      const [number, next] = vint(bytes, at);
      [length, at] = [Number(number), next];
    }
    if (at + length > bytes.length) throw endsEarly(type.parts[0]);
    inside.push(bytes.subarray(at, at + length));
    at += length;
  }
  if (at < bytes.length) throw new CellError("bytes are left over after the last element");
  return inside;
}

/** An unsigned number of one to nine bytes: as many bytes follow the first as it has ones at its left. */
function vint(bytes, at) {
  if (at === bytes.length) throw new CellError("a vint has no bytes");
  const more = Math.clz32(~(bytes[at] << 24));
  const end = at + 1 + Math.min(more, 8);
  if (end > bytes.length) throw new CellError("a vint ends too early");
  let number = BigInt(bytes[at] & (0xff >> more));
  for (const byte of bytes.subarray(at + 1, end)) number = (number << 8n) | BigInt(byte);
  return [number, end];
}

const endsEarly = (type) => new CellError(`a ${type.spelled} ends too early`);

/** Any value: list, set, vector and tuple as an array, map as a Map, udt as an object. */
function valueReader(type) {
  if (type.name in SCALARS) return SCALARS[type.name];
  const readers = type.parts.map(valueReader);
  if (readers.length === 0 || readers.includes(null)) return null; // a custom type
  return orNull((bytes) => {
    const values = elements(type, bytes).map((item, index) => item && readers[index % readers.length](item));
    if (type.name === "map") {
      return new Map(values.flatMap((key, index) => (index % 2 === 0 ? [[key, values[index + 1]]] : [])));
    }
    if (type.name === "udt") return Object.fromEntries(type.fields.map((field, index) => [field, values[index]]));
    return values;
  });
}

/** Reads each element of a list, set or vector. An empty collection and null are one thing in CQL. */
const collection = (readerOf) => (type) => {
  const read = ["list", "set", "vector"].includes(type.name) ? readerOf(type.parts[0]) : null;
  if (!read) return null;
  return orNull((bytes) => {
    const values = elements(type, bytes).filter((item) => item !== null).map(read).filter((value) => value !== null);
    return values.length === 0 ? null : values;
  });
};

const oneOf = (...names) => (type) => (names.includes(type.name) ? SCALARS[type.name] : null);

const mapped = (read, to) => (bytes) => {
  const value = read(bytes);
  return value === null ? null : to(value);
};

function numberReader(type) {
  const read = SCALARS[type.name];
  if (type.name === "decimal") return mapped(read, ({ unscaled, scale }) => Number(`${unscaled}e${-scale}`));
  return type.name in INTEGERS || ["varint", "float", "double"].includes(type.name) ? mapped(read, Number) : null;
}

function textReader(type) {
  const read = SCALARS[type.name];
  if (["text", "ascii", "uuid", "timeuuid"].includes(type.name)) return read;
  return type.name in INTEGERS || type.name === "varint" ? mapped(read, String) : null;
}

// The ways to read a cell. `readerOf` gives the function for a type, or null where it is none of `allowed`.

/** As a string. */
export const Text = { allowed: "text, varchar or ascii", readerOf: oneOf("text", "ascii") };
/** As a number; a bigint or counter as a BigInt. */
export const Integer = { allowed: "tinyint, smallint, int, bigint or counter", readerOf: oneOf(...Object.keys(INTEGERS)) };
/** Any number, as the nearest JavaScript has. */
export const Numeric = {
  allowed: "tinyint, smallint, int, bigint, counter, varint, decimal, float or double",
  readerOf: numberReader,
};
/** As true or false. */
export const Bool = { allowed: "boolean", readerOf: oneOf("boolean") };
/** As milliseconds since 1970. */
export const Timestamp = { allowed: "timestamp", readerOf: oneOf("timestamp") };
/** As lower-case text with hyphens. */
export const Uuid = { allowed: "uuid or timeuuid", readerOf: oneOf("uuid", "timeuuid") };
/** As a Uint8Array. */
export const Blob = { allowed: "blob", readerOf: oneOf("blob") };
/** As an array of strings. */
export const TextList = {
  allowed: "a list, set or vector of texts, uuids or whole numbers",
  readerOf: collection(textReader),
};
/** As an array of numbers. */
export const NumberList = { allowed: "a list, set or vector of numbers", readerOf: collection(numberReader) };
/** Any type; maps, tuples and user-defined types are read this way. README.md says as what. */
export const Value = { allowed: "any type that the host knows", readerOf: valueReader };

/** Reads `int`, `map<text,tuple<int,uuid>>`, `vector<float,3>`, `udt<street:text,"Zip":int>`, `'a.custom.Class'`. */
export function parseType(spelled) {
  let at = 0;
  const name = () => {
    const match = /^(?:"((?:[^"]|"")*)"|'((?:[^']|'')*)'|(\w+))/.exec(spelled.slice(at));
    if (!match) throw new Error(`type \`${spelled}\`: a name is missing at character ${at}`);
    at += match[0].length;
    return match[1]?.replaceAll('""', '"') ?? match[2]?.replaceAll("''", "'") ?? match[3];
  };
  const type = () => {
    const start = at;
    const parsed = { name: name(), spelled: "", parts: [], fields: [], dimension: 0 };
    if (spelled[at] === "<") {
      while (spelled[at] !== ">") {
        at += 1; // `<` or `,`
        if (parsed.name === "udt") {
          parsed.fields.push(name());
          at += 1; // `:`
        }
        if (parsed.name === "vector" && parsed.parts.length === 1) parsed.dimension = Number(name());
        else parsed.parts.push(type());
      }
      at += 1;
    }
    parsed.spelled = spelled.slice(start, at);
    return parsed;
  };
  const parsed = type();
  if (at !== spelled.length) throw new Error(`type \`${spelled}\`: unexpected text at character ${at}`);
  return parsed;
}
