"""What a keyed operator is: a function from the changes of one bucket of keys, and its state, to changes of the result.

Runs in the tasks of a batch. Whoever runs it gives each bucket all changes of its keys, and keeps the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from penstock.sql.checkpoint.watermarks import ALL_READ, EventTimeSpan, Watermarks
from penstock.sql.incremental.stages import COUNT, TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedLayout:
    """The state of one input of a stage: `dims` identify a row, `values` are added up, the last one is COUNT.

    `key` is a part of `dims`, by which rows go to buckets; empty: all rows are in one bucket. A row expires
    `time_to_live_ms` (0: never) after the newest change of any row of its key; of itself where `by_row`. `expiry_key`
    are those of `dims` by which rows expire together in place of the key. `rowtime` is
    the one of `dims` by which rows are looked up, too; None: by key alone. `ends` is the time of a row of which the
    operator tells which rows are not needed any more; only inserts are written of such rows. None: rows do not end.
    `inserts`: only inserts are written, nothing but their number is added up, and none expires, so that files are never
    added up.
    """

    dims: tuple[pa.Field, ...]
    values: tuple[pa.Field, ...]
    key: tuple[str, ...]
    time_to_live_ms: int = 0
    by_row: bool = False
    expiry_key: tuple[str, ...] = ()
    rowtime: str | None = None
    ends: str | None = None
    inserts: bool = False

    def __post_init__(self) -> None:
        assert self.values[-1].name == COUNT, "the number of rows comes last"
        counted = len(self.values) == 1 and not self.time_to_live_ms
        assert counted or not self.inserts, "rows are only added"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that identify rows."""
        return tuple(field.name for field in self.dims)

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns that are added up."""
        return tuple(field.name for field in self.values)

    @property
    def expires_by(self) -> tuple[str, ...]:
        """The columns by which rows expire together, but for those that do `by_row`."""
        return self.expiry_key or self.key

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """The types in which keys are hashed and looked up: whole numbers as BIGINT, of whatever type each input is."""
        types = (self.dims[self.names.index(name)].type for name in self.key)
        return tuple(pa.int64() if pa.types.is_integer(kind) else kind for kind in types)

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of keys that are looked up."""
        return pa.schema(
            [pa.field(name, kind) for name, kind in zip(self.key, self.key_types, strict=True)]
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of stored rows: `dims`, `values`, TIME."""
        return pa.schema([*self.dims, *self.values, pa.field(TIME, pa.int64())])


class KeyedState(Protocol):
    """Stored rows of one input of a stage in one bucket, as before the batch, in the columns of its KeyedLayout."""

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the rows of distinct keys, in which NULL equals NULL; columns as `key` and `key_types` of the layout.

        Added up or not: rows that agree in `dims` count together. All rows where the layout has no key.
        """
        ...

    def rows_between(self, after: int | None, until: int) -> pa.Table:
        """Return the rows, of any key, whose `rowtime` is later than `after` (None: any) and at most `until`.

        Both in microseconds since the epoch. Added up or not.
        """
        ...

    def write(self, changes: pa.Table) -> None:
        """Add net changes: `values` as they are to be added, TIME the batch's. At most once a batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBatch:
    """The batch of the changes; the same values on a replay.

    `watermarks` are those of the query's sources; None where the batch has all rows of bounded tables.
    """

    batch_id: int
    now_ms: int
    watermarks: Watermarks | None = None

    def span(self, sources: Iterable[int]) -> EventTimeSpan:
        """Return the span of event time that the batch passes, by the watermarks of some sources."""
        return ALL_READ if self.watermarks is None else self.watermarks.span(sources)


class KeyedOperator(Protocol):
    """A stage over the changes of one bucket. Can be pickled."""

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The layouts of the state, by the names of the inputs."""
        ...

    @property
    def ordered(self) -> frozenset[str]:
        """The inputs whose changes count in the order of the rows of their table.

        That of a batch, before any shuffle, and the same on a replay; the order of other inputs makes no difference.
        """
        ...

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the changes of the result: its columns, ROW_KIND last, -U in front of the +U of its key.

        `changes` by the names of the inputs, those without a row left out or empty: their columns in the order of the
        schema, ROW_KIND last. Writes the states that change, once each. The same on a replay, in the same order.
        """
        ...


@runtime_checkable
class EventTimeOperator(KeyedOperator, Protocol):
    """A keyed operator that drops rows that are late."""

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
        """Return by input the number of rows that are dropped, as the watermark before the batch has passed them."""
        ...


@runtime_checkable
class WatermarkOperator(EventTimeOperator, Protocol):
    """A keyed operator whose rows wait for the watermark: it runs in each bucket with rows, also without changes."""

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark releases rows; none: rows do not wait."""
        ...


@runtime_checkable
class EndingOperator(KeyedOperator, Protocol):
    """A keyed operator whose rows end with the watermark."""

    def ended(self, batch: KeyedBatch) -> Mapping[str, int]:
        """Return by input up to which time rows are not needed behind a batch, in microseconds since the epoch.

        That is of the column `ends` of its layout. Inputs of which nothing is known are left out.
        """
        ...


def ended_rows(
    operators: Mapping[str, KeyedOperator], batch: KeyedBatch
) -> Mapping[tuple[str, str], int]:
    """Return by stage and input up to which time rows are not needed behind a batch, in microseconds."""
    return {
        (stage, name): until
        for stage, operator in operators.items()
        if isinstance(operator, EndingOperator)
        for name, until in operator.ended(batch).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBySpark:
    """A stage has no keyed operator, because of `reason`: a noun phrase, with the expression or the type.

    `hint` says what to write instead; None: nothing is known to help. `is_open`: the reason is a type that only the
    start of the query tells.
    """

    reason: str
    hint: str | None = None
    is_open: bool = False
