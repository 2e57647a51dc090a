"""Records between a split reader and the engine: Arrow batches labelled with their split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa


class Stage(StrEnum):
    """Where a record turned out to be bad: its key, its value, or the time that rows take from it."""

    KEY = "key"
    VALUE = "value"
    ROWTIME = "rowtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """A record as the external system holds it: what a row was decoded from. `where` names it for people.

    `topic` and `partition` are set for a record of a log, `path` for one of a file. `timestamp_ms` is epoch ms, None
    where records have no time.
    """

    position: int
    key: bytes | None
    value: bytes | None
    where: str
    topic: str | None = None
    partition: int | None = None
    path: str | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A record without a row, and why: `error` is without the record's place and text."""

    record: RawRecord
    stage: Stage
    error: str


class RowOrigins(Protocol):
    """Which record each row of one split's batch came from; nothing is looked up before it is asked for."""

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Return the records of rows, by their index in the batch. Two rows may have come from one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWithSplitIds:
    """One fetch of a split reader (Flink's RecordsWithSplitIds, with batches in the place of records).

    `batches` are (split id, rows) in reading order; `finished` are the splits that ended with this fetch; `positions`
    says how far each split was read with it: the next position to read, past gaps and past records that were left out;
    splits without progress are absent. `skipped` counts the bad records that the table's options told the reader to
    leave out, `lost` the positions that were deleted before they were read, where they tolerate that. `origins` has the
    records behind the rows of a split, where the request asked for them; such a split has one batch in the fetch.
    `read` counts the records of each split, those without rows included. `bad` are the records that `bad-records` left
    out, by split; `skipped` counts them too.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...] = ()
    finished: frozenset[str] = frozenset()
    positions: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    lost: int = 0
    origins: Mapping[str, RowOrigins] = field(default_factory=dict, compare=False, repr=False)
    read: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    bad: Mapping[str, Sequence[BadRecord]] = field(default_factory=dict, compare=False, repr=False)
