"""The rows of a small Delta table, read from its files: a batch at a time, of a few columns or of a few rows.

`delta/log.py` tells which files those are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.connector.storage import Folder

READ_FAILURES = (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException)
"""What reading a log or a file raises that is damaged, of another form, or cannot be reached."""

MOST_ROWS = 200_000
"""Rows that are looked at; a table of more is Spark's."""
MOST_BYTES = 256_000_000
"""The size of the files of such a table, as the log has it."""
_MANY, _FEW, _AHEAD_BYTES = 1_024, 32, 1 << 20
"""Rows that are held at a time: of a few columns, and whole ones, which may be long; what is read ahead of a column."""


class NotReadableHereError(Exception):
    """The table has what only an engine reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRows:
    """The rows of a small table as of a commit: of the columns that are asked for, a batch at a time."""

    folder: Folder
    files: tuple[str, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        """Yield columns of all rows, and of each batch the position of its first row: its file, and its number there.

        Raises NotReadableHereError.
        """
        rows = 0
        for number, path in enumerate(self.files):
            with _file_of_rows(self.folder, path) as file:
                rows += file.metadata.num_rows
                if rows > MOST_ROWS:
                    raise NotReadableHereError(f"more than {MOST_ROWS:,} rows")
                at = 0
                for batch in _batches_of(file, columns, _MANY, range(file.num_row_groups)):
                    yield (number, at), batch
                    at += batch.num_rows

    def pick(
        self, columns: Sequence[str], positions: Collection[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
        """Yield the rows at positions, as `batches` counts them. Raises NotReadableHereError."""
        for number in sorted({number for number, _ in positions}):
            wanted = sorted(row for of, row in positions if of == number)
            with _file_of_rows(self.folder, self.files[number]) as file:
                at = 0
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if _between(wanted, at, at + rows):
                        batches = _batches_of(file, columns, _FEW, [group])
                        for row, found in _picked(batches, wanted, at):
                            yield (number, row), found
                    at += rows


@contextmanager
def readable_here() -> Iterator[None]:
    """Turn what reading raises into NotReadableHereError."""
    try:
        yield
    except READ_FAILURES as error:
        raise NotReadableHereError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _file_of_rows(folder: Folder, path: str) -> Iterator[Any]:
    from pyarrow import parquet

    with readable_here():
        stream = folder.system.open_input_file(f"{folder.path}/{unquote(path)}")
        with parquet.ParquetFile(stream, buffer_size=_AHEAD_BYTES) as file:
            yield file


def _batches_of(
    file: Any, columns: Sequence[str], rows: int, groups: Sequence[int]
) -> Iterator[pa.Table]:
    if not {*columns} <= {*file.schema_arrow.names}:
        raise NotReadableHereError("a file lacks columns")
    for batch in file.iter_batches(rows, row_groups=[*groups], columns=[*columns]):
        yield in_utc(pa.Table.from_batches([batch])).select([*columns])


def _picked(
    batches: Iterator[pa.Table], wanted: Sequence[int], at: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    for batch in batches:
        here = _between(wanted, at, at + batch.num_rows)
        if here:
            yield from zip(here, batch.take([row - at for row in here]).to_pylist(), strict=True)
        at += batch.num_rows


def _between(wanted: Sequence[int], first: int, end: int) -> Sequence[int]:
    """Return those of the numbers, which are in order, from `first` on that are before `end`."""
    return wanted[bisect_left(wanted, first) : bisect_left(wanted, end)]


def in_utc(table: pa.Table) -> pa.Table:
    """Make instants of the times that Spark writes without a zone (INT96)."""
    instant = pa.timestamp("us", "UTC")
    fields = [f.with_type(instant) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields), safe=False)
