"""Writes rows to stdout as they come: one JSON object a line, or columns under a header."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock.sql.runner.summary import plain, time_text

_CONTROLS = re.compile("[\x7f-\x9f]")

WIDEST = 40
"""Characters that a column is padded to; longer values stand as they are."""


class RowFormat(StrEnum):
    """What stdout gets."""

    TABLE = "table"
    JSON = "json"


class RowWriter:
    """Writes rows of one table. Columns are as wide as the first rows need, and grow with later ones."""

    def __init__(self, columns: Sequence[str], output: RowFormat) -> None:
        self._columns = tuple(columns)
        self._output = output
        self._widths: list[int] = []
        self.written = 0

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows, all before this returns. Nothing is written for no rows, not even a header."""
        taken = [tuple(row) for row in rows]
        if not taken:
            return
        lines = self._objects(taken) if self._output is RowFormat.JSON else self._aligned(taken)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self.written += len(taken)

    def _objects(self, rows: list[tuple[Any, ...]]) -> list[str]:
        return [
            _without_controls(
                json.dumps(
                    dict(zip(self._columns, map(plain, row), strict=True)), ensure_ascii=False
                )
            )
            for row in rows
        ]

    def _aligned(self, rows: list[tuple[Any, ...]]) -> list[str]:
        cells = [tuple(map(_cell, row)) for row in rows]
        if not self._widths:
            self._widths = [0] * len(self._columns)
            cells.insert(0, tuple(map(_cell, self._columns)))
        for row in cells:
            self._widths = [
                max(width, min(len(cell), WIDEST))
                for width, cell in zip(self._widths, row, strict=True)
            ]
        return [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)
            ).rstrip()
            for row in cells
        ]


class RowLines:
    """Writes the rows of running queries, with a header where the query changes."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._writer: RowWriter | None = None

    def write(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows under their columns."""
        if self._writer is None or tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._writer = RowWriter(self._columns, RowFormat.TABLE)
        self._writer.write(rows)


def _without_controls(document: str) -> str:
    """Escape what JSON leaves as it is and a terminal takes for an escape: the control characters of 8 bits."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _cell(value: Any) -> str:
    """Write one value on one line."""
    if isinstance(value, datetime):
        return time_text(value)
    value = plain(value)
    match value:
        case None:
            return "NULL"
        case str():
            # a record's text must neither break the columns nor send commands to the terminal
            return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)
        case bool() | int() | float():
            return str(value)
    return json.dumps(value, ensure_ascii=False)
