// The film table in JavaScript: the same plugin as `plugins/movies`, row for row.
//
// The text is `title (year)`, then the plot. Unlisted films are filtered out. A negative year or running time is a mistake
// in the row, and refused. Films with neither title nor plot have a blank text, and so no vector.

import { Bool, Integer, Refused, Text, TextList, exportTable, trim } from "../../../sdk/javascript/keyvector.js";

class Movies {
  reads = {
    studio: Text,
    title: Text,
    year: Integer,
    genre: Text,
    plot: Text,
    runtime_min: Integer,
    tags: TextList,
    unlisted: Bool,
  };

  metadata = [
    { name: "title", type: "text", filterable: false },
    { name: "studio", type: "text" },
    { name: "year", type: "number" },
    { name: "genre", type: "text" },
    { name: "runtime", type: "number" },
    { name: "tags", type: "text-list" },
  ];

  document(row) {
    if (row.get("unlisted")) return null;
    const title = row.get("title");
    const year = notNegative(row, "year");
    const plot = row.get("plot");
    const runtime = notNegative(row, "runtime_min");
    const tags = row.get("tags");
    return {
      text: textOf(title, year, plot),
      metadata: { title, studio: row.get("studio"), year, genre: row.get("genre"), runtime, tags },
    };
  }
}

/**
 * `title (year)`, a line break, the plot, each where the row has it. With neither title nor plot the text is blank: a year
 * alone says nothing to search by.
 */
function textOf(title, year, plot) {
  title = trim(title ?? "");
  plot = trim(plot ?? "");
  if (!title && !plot) return "";
  const words = [title, year === null ? "" : `(${year})`].filter(Boolean).join(" ");
  return [words, plot].filter(Boolean).join("\n");
}

function notNegative(row, name) {
  const value = row.get(name);
  if (value < 0) throw new Refused(`column \`${name}\` is ${value}; it cannot be negative`);
  return value;
}

export const table = exportTable(Movies);
