"""Records on their way from a split reader to the engine: Arrow batches labelled with their split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["RecordsWithSplitIds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWithSplitIds:
    """One fetch of a split reader (Flink's RecordsWithSplitIds, with batches in the place of records).

    `batches` are (split id, rows) in reading order; `finished` are the splits that ended with this fetch;
    `positions` says how far each split was read with it: the next position to read, past gaps and past records
    that were left out; splits that did not move are absent. `skipped` counts the bad records that the table's
    options told the reader to leave out.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...] = ()
    finished: frozenset[str] = frozenset()
    positions: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
