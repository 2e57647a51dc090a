"""A row of a source table as a test defines it: its cells, and what a broker would know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.connector.changelog import RowKind

__all__ = ["MARKS", "InputRow"]

MARKS = ("$split", "$offset", "$timestamp", "$key", "$kind", "$headers", "$raw")
"""What may stand beside the columns of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """A row of a source table. `cells` are its columns, as written; texts where `from_csv`.

    `split` is a partition or file, None for the first one; `offset` is None for the next one; `raw` are bytes in the
    place of the record's value, `key` in the place of its key; `timestamp` is an instant as SQL writes it.
    """

    cells: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: bytes | None = None
    kind: RowKind = RowKind.INSERT
    headers: tuple[tuple[str, bytes | None], ...] = ()
    raw: bytes | None = None
    from_csv: bool = False
