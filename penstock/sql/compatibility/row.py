"""One row of the compatibility tables: a form of Flink SQL, an example of it, and what becomes of it here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an example is: a whole statement, or a part that the tests put into one."""

    STATEMENT = "statement"
    """One statement, without a semicolon."""
    QUERY = "query"
    """A query over the tables of tables.py."""
    HINT = "hint"
    """A query with a hint in it."""
    EXPRESSION = "expression"
    """An expression without columns: the tests SELECT it."""
    FUNCTION = "function"
    """A call of a built-in function, without columns: the tests SELECT it."""
    FORMAT = "format"
    """A CREATE TABLE whose records are in a format, which its connector checks too."""
    TYPE = "type"
    """A data type: the tests declare a column of it and CAST a NULL to it."""


class Status(StrEnum):
    """What becomes of it."""

    NATIVE = "native"
    """Spark has it with the same meaning."""
    TRANSLATE = "translate"
    """It is written as Spark SQL, corrected to Flink's meaning."""
    OWN = "own layer"
    """Spark has nothing like it: the catalog, the planner or the source runtime of Penstock does it."""
    REFUSE = "refuse"
    """It parses, and is refused at its position before anything starts."""


@dataclass(frozen=True, slots=True)
class Row:
    """One form of the language.

    `name` is unique within its kind. `note` says what differs from Flink (empty: nothing); of a row
    that is refused it is a part of the error's text (message or hint), which the tests look for.
    `setup` are statements, each with its semicolon, that come before the example.
    """

    kind: Kind
    name: str
    example: str
    status: Status
    note: str = ""
    setup: str = ""

    def __post_init__(self) -> None:
        """Refuse a row that would tell nothing."""
        assert self.name, "a row without a name"
        assert self.example, f"{self.name}: a row without an example"
        assert self.note or self.status != Status.REFUSE, f"{self.name}: refused without a reason"
