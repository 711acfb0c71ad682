// A plugin with a bug for every row: column `bug` says which.

import { Text, exportTable } from "../../../sdk/javascript/keyvector.js";

class Raises {
  reads = { bug: Text };
  metadata = [];

  document(row) {
    switch (row.get("bug")) {
      case "raise":
        return parse(null);
      case "text":
        throw "just words";
      case "recurse":
        return recurse(0);
      case "column":
        return { text: row.get("title") };
      case "no-text":
        return { text: 7, metadata: {} };
      case "nan":
        return { text: "text", metadata: { score: NaN } };
      case "large":
        return { text: "text", metadata: { score: 2n ** 53n + 1n } };
      default:
        return { text: "no bug" };
    }
  }
}

const parse = (text) => text.length;

const recurse = (depth) => recurse(depth + 1) + 1;

export const table = exportTable(Raises);
