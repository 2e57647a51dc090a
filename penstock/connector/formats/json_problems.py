"""What can be wrong with a value inside a record, with its place in it; and how a record is quoted in an error."""

from __future__ import annotations

from typing import Any, Self

from penstock.connector.formats.json_text import Float, Integer, tree_text

__all__ = ["Misfit", "Problem", "Unfillable", "excerpt"]

EXCERPT = 200
"""Characters of a record shown in an error."""

VALUE_EXCERPT = 80
"""Characters of a single value shown in an error."""


class Problem(Exception):
    """Something about one value: `what`, without its place; `within` adds the place from the inside out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path = ""

    def within(self, step: str) -> Self:
        """Say that the value is inside of `step`: a field's name, or `[...]` for an element."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"field '{self.path}': {self.what}" if self.path else self.what


class Misfit(Problem):
    """A value that its type does not take; ignore-parse-errors makes it NULL.

    Raises MalformedError instead where the value is, or holds, what only Python takes for JSON.
    """

    def __init__(self, what: str, value: Any) -> None:
        super().__init__(f"{what}: {_shown(value)}")


class Unfillable(Problem):
    """No value where the type is NOT NULL: NULL cannot stand in, the row goes."""


def excerpt(value: bytes, limit: int = EXCERPT) -> str:
    """Give the beginning of a record as one line of text."""
    text = value[: limit * 4].decode("utf-8", "backslashreplace")
    line = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit]
    )
    return line if len(value) <= limit * 4 and len(text) <= limit else line[:limit] + "..."


def _shown(value: Any) -> str:
    if isinstance(value, Integer | Float):
        text = str(value)
    else:
        text = tree_text(value, decimals=False)
    return excerpt(text.encode("utf-8", "backslashreplace"), VALUE_EXCERPT)
