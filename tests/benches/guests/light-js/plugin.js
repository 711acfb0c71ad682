// As `light` of tests/guests/cost.

import { Integer, Text, exportTable } from "../../../../sdk/javascript/keyvector.js";

class Light {
  reads = { title: Text, year: Integer, genre: Text };

  metadata = [
    { name: "year", type: "number" },
    { name: "genre", type: "text" },
  ];

  document(row) {
    const year = row.get("year");
    return { text: `${row.get("title")} (${year})`, metadata: { year, genre: row.get("genre") } };
  }
}

export const table = exportTable(Light);
