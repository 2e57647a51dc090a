"""All rows, family by family, and docs/flink-compatibility.md, which is written from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.sql.compatibility.definitions import DEFINITIONS, FORMATS
from penstock.sql.compatibility.expressions import EXPRESSIONS, FUNCTION_ROWS, TYPES
from penstock.sql.compatibility.queries import HINTS, QUERIES
from penstock.sql.compatibility.row import Kind, Row, Status
from penstock.sql.compatibility.statements import STATEMENTS

ROWS: tuple[Row, ...] = (
    *DEFINITIONS,
    *STATEMENTS,
    *QUERIES,
    *HINTS,
    *EXPRESSIONS,
    *FUNCTION_ROWS,
    *TYPES,
    *FORMATS,
)
"""Every row of every family, in the order of the page."""


PAGE = Path("docs/flink-compatibility.md")
"""Where the page is, from the root of a checkout."""

HEAD = """\
# Flink SQL in Penstock

What of Flink 2.2's SQL runs, what differs, and what is refused. This page is written by
`python -m penstock.sql.compatibility` from the tables that the tests execute: every example here is
parsed, written again and read back as the same, and either runs or is refused with the message shown.

"""
TITLES = {
    Kind.STATEMENT: "Statements",
    Kind.QUERY: "Queries",
    Kind.HINT: "Hints",
    Kind.EXPRESSION: "Literals and expressions",
    Kind.FUNCTION: "Functions",
    Kind.TYPE: "Types",
    Kind.FORMAT: "Formats",
}
MEANINGS = {
    Status.NATIVE: "written in Spark SQL as it is, with the same meaning; EXPLAIN says what runs it",
    Status.TRANSLATE: "written as Spark SQL, corrected to Flink's meaning",
    Status.OWN: "done by Penstock's own catalog, planner or source runtime",
    Status.REFUSE: "refused before anything starts, at its position, with the message in the note",
}


def write_page(rows: Sequence[Row]) -> str:
    """The text of the page, in Markdown."""
    parts = [HEAD]
    parts += ["| status | rows | meaning |\n|---|---:|---|\n"]
    for status, meaning in MEANINGS.items():
        number = sum(row.status == status for row in rows)
        parts.append(f"| {status} | {number} | {meaning} |\n")
    for kind, title in TITLES.items():
        if found := [row for row in rows if row.kind == kind]:
            parts.append(f"\n## {title}\n\n| what | example | status | note |\n|---|---|---|---|\n")
            parts += [_line(row) for row in found]
    return "".join(parts)


def _line(row: Row) -> str:
    cells = (_cell(row.name), _code(row.example), row.status.value, _cell(row.note))
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


def _code(text: str) -> str:
    """An example on one line; a text with backticks stands between double ones."""
    line = " ".join(text.split()).replace("|", r"\|")
    return f"`` {line} ``" if "`" in line else f"`{line}`"
