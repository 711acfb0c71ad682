"""As `light` of tests/guests/cost."""

from keyvector import Document, Integer, Key, Row, Table, Text, export


class Light(Table):
    reads = {"title": Text, "year": Integer, "genre": Text}
    metadata = [Key("year", "number"), Key("genre", "text")]

    def document(self, row: Row) -> Document | None:
        year = row["year"]
        return Document(f"{row['title']} ({year})", {"year": year, "genre": row["genre"]})


Table = export(Light)
