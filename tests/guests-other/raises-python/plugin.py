"""A plugin with a bug for every row: column `bug` says which."""

from keyvector import Document, Row, Table, Text, export


class Escapes(BaseException):
    """No Exception, so that the SDK does not catch it: it ends the instance."""


class Raises(Table):
    reads = {"bug": Text}

    def document(self, row: Row) -> Document | None:
        match row["bug"]:
            case "raise":
                parse("no number")
            case "recurse":
                recurse()
            case "escape":
                escape(20)
            case "surrogate":
                return Document("\ud800")
            case "column":
                return Document(row["title"])
            case "nan":
                return Document("text", {"score": float("nan")})
            case "large":
                return Document("text", {"score": 2**53 + 1})
        return Document("no bug")


def parse(text: str) -> int:
    return int(text)


def recurse() -> None:
    recurse()


def escape(depth: int) -> None:
    if depth == 0:
        raise Escapes("nobody caught this")
    escape_deeper(depth)


def escape_deeper(depth: int) -> None:
    """Two functions by turns: Python folds calls that repeat."""
    escape(depth - 1)


Table = export(Raises)
