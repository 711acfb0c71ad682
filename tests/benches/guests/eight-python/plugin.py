"""As `eight` of tests/guests/cost."""

from keyvector import Boolean, Document, Integer, Number, Row, Table, Text, export


class Eight(Table):
    reads = {
        "id": Integer,
        "title": Text,
        "year": Integer,
        "genre": Text,
        "rating": Number,
        "votes": Integer,
        "seen": Boolean,
        "plot": Text,
    }
    metadata = []

    def document(self, row: Row) -> Document | None:
        seen = ", seen" if row["seen"] else ""
        return Document(
            f"{row['id']}: {row['title']} ({row['year']}), {row['genre']}, rated {row['rating']} by {row['votes']}{seen}\n"
            f"{row['plot']}",
            {},
        )


Table = export(Eight)
