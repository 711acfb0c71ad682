"""The film table in Python: the same plugin as `plugins/movies`, row for row.

The text is `title (year)`, then the plot. Unlisted films are filtered out. A negative year or running time is a mistake in
the row, and refused. Films with neither title nor plot have a blank text, and so no vector.
"""

from keyvector import Boolean, Document, Integer, Key, Refused, Row, Table, Text, TextList, export, trim


class Movies(Table):
    reads = {
        "studio": Text,
        "title": Text,
        "year": Integer,
        "genre": Text,
        "plot": Text,
        "runtime_min": Integer,
        "tags": TextList,
        "unlisted": Boolean,
    }
    metadata = [
        Key("title", "text", filterable=False),
        Key("studio", "text"),
        Key("year", "number"),
        Key("genre", "text"),
        Key("runtime", "number"),
        Key("tags", "text-list"),
    ]

    def document(self, row: Row) -> Document | None:
        if row["unlisted"]:
            return None
        title = row["title"]
        year = not_negative(row, "year")
        plot = row["plot"]
        runtime = not_negative(row, "runtime_min")
        tags = row["tags"]
        metadata = {
            "title": title,
            "studio": row["studio"],
            "year": year,
            "genre": row["genre"],
            "runtime": runtime,
            "tags": tags,
        }
        return Document(text(title, year, plot), metadata)


def text(title: str | None, year: int | None, plot: str | None) -> str:
    """`title (year)`, a line break, the plot, each where the row has it. With neither title nor plot the text is blank: a
    year alone says nothing to search by."""
    title, plot = trim(title or ""), trim(plot or "")
    if not title and not plot:
        return ""
    first_line = title if year is None else f"{title} ({year})".lstrip(" ")
    return "\n".join(line for line in (first_line, plot) if line)


def not_negative(row: Row, name: str) -> int | None:
    value = row[name]
    if value is not None and value < 0:
        raise Refused(f"column `{name}` is {value}; it cannot be negative")
    return value


# The name `Table` is what makes the class the plugin.
Table = export(Movies)
