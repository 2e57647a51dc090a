"""Stages whose rows wait for the watermark, over one bucket: each batch is run twice, and both give the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import (
    EndingOperator,
    KeyedBatch,
    RunBySpark,
    WatermarkOperator,
)
from penstock.sql.incremental.stages import EventTimeStage, Stage
from tests.sql.incremental.keyed.oracle import rows_in
from tests.sql.incremental.keyed.test_operators import MemoryState, bytes_of
from tests.sql.maintain.temporal_tables import planned

Row = tuple[Any, ...]
INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)
START = datetime(2026, 3, 29, 0, 59, 30)


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def ms(seconds: int | None) -> int | None:
    """The same as a watermark."""
    return None if seconds is None else int(at(seconds).replace(tzinfo=UTC).timestamp() * 1000)


def stage_of(sql: str, kind: type[EventTimeStage]) -> Stage:
    """Return the first stage of a kind of a query over the tables of `temporal_tables`."""
    found = planned(sql).maintained
    assert found is not None
    return next(stage for stage in found.stages if isinstance(stage, kind))


def operator_of(
    stage: Stage,
    schemas: Mapping[str, pa.Schema],
    ttl_ms: int = 0,
    inserts: frozenset[str] = frozenset(),
) -> WatermarkOperator:
    """Return the operator of a stage; `schemas` are those of its inputs and its result."""
    operator = keyed_operator(stage, schemas, ttl_ms, inserts)
    assert not isinstance(operator, RunBySpark), operator.reason
    assert isinstance(operator, WatermarkOperator)
    return operator


def table_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """Write changes, their kind last, as a task has them."""
    return rows_in(schema.append(pa.field(ROW_KIND, pa.int8())), rows)


@dataclass
class EventTimeBucket:
    """An operator and its state, batch by batch; `schemas` are the columns of its inputs."""

    operator: WatermarkOperator
    schemas: Mapping[str, pa.Schema]
    states: dict[str, MemoryState] = field(default_factory=dict)
    before: Sequence[int | None] = (None, None)
    batches: int = 0
    late: int = 0

    def __post_init__(self) -> None:
        if not self.states:
            self.states = {n: MemoryState(of) for n, of in self.operator.layouts.items()}

    def give(self, *watermarks: int | None, now_ms: int = 0, **changes: Sequence[Row]) -> list[Row]:
        """Run a batch with the watermarks of the sources, in seconds, twice; all that it gives are inserts.

        Rows that are not needed behind it are gone then, as they may be from a cache.
        """
        now = tuple(map(ms, watermarks))
        span = Watermarks(before_ms=self.before[: len(now)], now_ms=now)
        batch = KeyedBatch(batch_id=self.batches, now_ms=now_ms, watermarks=span)
        given = {name: table_of(self.schemas[name], rows) for name, rows in changes.items()}
        replayed = {name: replace(s, written=list(s.written)) for name, s in self.states.items()}
        again = self.operator.run(given, replayed, batch)
        result = self.operator.run(given, self.states, batch)

        assert result.equals(again), "a replay gives the same, in the same order"
        assert [bytes_of(s) for s in replayed.values()] == [
            bytes_of(s) for s in self.states.values()
        ]
        if isinstance(self.operator, EndingOperator):
            for name, until in self.operator.ended(batch).items():
                self.states[name].drop_ended(until)
        self.late += sum(self.operator.late_rows(given, batch).values())
        self.before, self.batches = now, self.batches + 1
        found = [tuple(row.values()) for row in result.to_pylist()]
        assert {row[-1] for row in found} <= {INSERT}
        return [row[:-1] for row in found]

    def give_all(self, **changes: Sequence[Row]) -> list[Row]:
        """Run the only batch of tables with an end."""
        given = {name: table_of(self.schemas[name], rows) for name, rows in changes.items()}
        result = self.operator.run(given, self.states, KeyedBatch(batch_id=0, now_ms=0))
        return [tuple(row.values())[:-1] for row in result.to_pylist()]

    def kept(self) -> dict[str, Counter[Row]]:
        """Return what is left of each state."""
        return {name: state.counts() for name, state in self.states.items()}

    def lookups(self) -> int:
        """Return how often states were looked up."""
        return sum(state.looked_up for state in self.states.values())

    def written(self) -> int:
        """Return how many batches were written into states."""
        return sum(len(state.written) for state in self.states.values())


def check_an_empty_batch_costs_nothing(bucket: EventTimeBucket, *watermarks: int) -> None:
    """Where no watermark moves and nothing comes, nothing is looked up, written or given."""
    lookups, written = bucket.lookups(), bucket.written()
    given = bucket.give(*watermarks) + bucket.give(*watermarks, **dict.fromkeys(bucket.schemas, ()))

    assert not given
    assert (bucket.lookups(), bucket.written()) == (lookups, written)
