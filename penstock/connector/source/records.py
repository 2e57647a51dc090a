"""Records on their way from a split reader to the engine: Arrow batches labelled with their split."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["RecordsWithSplitIds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWithSplitIds:
    """One fetch of a split reader (Flink's RecordsWithSplitIds, with batches in the place of records).

    `batches` are (split id, rows) in reading order; `finished` are the splits that ended with this fetch;
    `skipped` counts the bad records that the table's options told the reader to leave out.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...] = ()
    finished: frozenset[str] = frozenset()
    skipped: int = 0
