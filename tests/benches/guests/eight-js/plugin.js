// As `eight` of tests/guests/cost.

import { Bool, Integer, Numeric, Text, exportTable } from "../../../../sdk/javascript/keyvector.js";

class Eight {
  reads = {
    id: Integer,
    title: Text,
    year: Integer,
    genre: Text,
    rating: Numeric,
    votes: Integer,
    seen: Bool,
    plot: Text,
  };

  metadata = [];

  document(row) {
    const seen = row.get("seen") ? ", seen" : "";
    const head = `${row.get("id")}: ${row.get("title")} (${row.get("year")}), ${row.get("genre")}`;
    return { text: `${head}, rated ${row.get("rating")} by ${row.get("votes")}${seen}\n${row.get("plot")}`, metadata: {} };
  }
}

export const table = exportTable(Eight);
