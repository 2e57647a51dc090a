"""The queries as files, in Flink's dialect: `queries/qN.sql` is a SELECT that runs unchanged in Penstock and in Flink.

Comment lines at the top say what the result is: `title`, `result` (its columns), `key` (columns of its rows' key, where
the result is kept up to date), `determined` (the columns that do not hang on how ties are broken; default all).
`queries/tables.sql` has the table of events and its views. Where Spark's dialect is another,
`qN.spark.sql` has its text. `qN.paced.sql` is a query with one more column, which says what a row of its result is of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "queries"

_HEADER = re.compile(r"-- (title|result|key|determined): (.*)\n")

_COLUMN = re.compile(r"`?(\w+)`? ([A-Z]+(?:\(\d+(?:, \d+)?\))?)(?:, |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query and its result; `key` is empty where rows are only appended. `spark` is its text for Spark."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    determined: tuple[str, ...]
    select: str
    spark: str

    @property
    def declared(self) -> str:
        """The columns of a table for the result."""
        columns = [f"`{name}` {kind}" for name, kind in self.columns]
        if self.key:
            columns.append(f"PRIMARY KEY ({', '.join(f'`{n}`' for n in self.key)}) NOT ENFORCED")
        return ", ".join(columns)


def query_names() -> list[str]:
    """Return the names of all queries, in their order."""
    found = [path.stem for path in FOLDER.glob("q*.sql") if "." not in path.stem]
    return sorted(found, key=lambda name: int(name[1:]))


def read_query(name: str) -> Query:
    """Read a query's file."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    header = dict(_HEADER.findall(text))
    columns = tuple(_COLUMN.findall(header["result"]))
    select = _HEADER.sub("", text).strip()
    other = FOLDER / f"{name}.spark.sql"
    determined = _names(header.get("determined", ""))
    return Query(
        name=name,
        title=header["title"],
        columns=columns,
        key=_names(header.get("key", "")),
        determined=determined or tuple(name for name, _ in columns),
        select=select,
        spark=other.read_text(encoding="utf-8").strip() if other.exists() else select,
    )


def read_paced(name: str) -> Query:
    """Read the query that stands for one where the latency of its rows is measured."""
    paced = f"{name}.paced"
    return read_query(paced if (FOLDER / f"{paced}.sql").exists() else name)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def read_tables() -> tuple[str, tuple[str, ...]]:
    """Return the definition of the table of events, with a place for its options, and those of the views."""
    events, *views = (FOLDER / "tables.sql").read_text(encoding="utf-8").strip().split(";\n\n")
    return events, tuple(views)
