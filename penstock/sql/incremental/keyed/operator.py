"""What a keyed operator is: a function from the changes of one bucket of keys, and its state, to changes of the result.

Runs in the tasks of a batch. Whoever runs it gives each bucket all changes of its keys, and keeps the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.sql.incremental.stages import COUNT, TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedLayout:
    """The state of one input of a stage: `dims` identify a row, `values` are added up, the last one is COUNT.

    `key` is a part of `dims`, by which rows go to buckets; empty: all rows are in one bucket. A row expires
    `time_to_live_ms` (0: never) after the newest change of any row of its key; of itself where `by_row`.
    """

    dims: tuple[pa.Field, ...]
    values: tuple[pa.Field, ...]
    key: tuple[str, ...]
    time_to_live_ms: int = 0
    by_row: bool = False

    def __post_init__(self) -> None:
        assert self.values[-1].name == COUNT, "the number of rows comes last"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that identify rows."""
        return tuple(field.name for field in self.dims)

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns that are added up."""
        return tuple(field.name for field in self.values)

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """The types in which keys are hashed and looked up: whole numbers as BIGINT, of whatever type each input is."""
        types = (self.dims[self.names.index(name)].type for name in self.key)
        return tuple(pa.int64() if pa.types.is_integer(kind) else kind for kind in types)

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

    def write(self, changes: pa.Table) -> None:
        """Add net changes: `values` as they are to be added, TIME the batch's. At most once a batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBatch:
    """The batch of the changes; the same values on a replay."""

    batch_id: int
    now_ms: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBySpark:
    """A stage has no keyed operator, because of `reason`: a noun phrase, with the expression or the type."""

    reason: str
