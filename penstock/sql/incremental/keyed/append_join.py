# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of an inner join of inserts, which compares nothing: new rows of each side, and all of the other.

Rows of both sides are stored as they come; with times of both sides only until they match no later row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import KeyedInput, SideQuery
from penstock.sql.incremental.keyed.tables import BucketTables, listed, normalized, typed
from penstock.sql.incremental.stages import JoinTimes

OLD, NEW, ALL = "old", "new", "all"
"""Tables of an input, with its number behind: the stored rows of the keys, those of the batch, both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendJoin:
    """Joins the inserts of two inputs; each row of the result is one.

    `of_left` reads the tables `new0` and `old1`, `of_right` `all0` and `new1`. `result` are the columns of the result.
    Rows of the result come in no order. `times`: rows that are late are dropped, and those that match no later row of
    the other side are not stored.
    """

    inputs: tuple[KeyedInput, KeyedInput]
    of_left: SideQuery
    of_right: SideQuery
    result: tuple[pa.Field, ...]
    times: JoinTimes | None = None

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The layouts of the state, by the names of the inputs."""
        return {one.name: one.layout for one in self.inputs}

    @property
    def ordered(self) -> frozenset[str]:
        """No input: the order of rows makes no difference."""
        return frozenset()

    def ended(self, batch: KeyedBatch) -> Mapping[str, int]:
        """Return by input up to which time rows match no later row of the other side."""
        if self.times is None or batch.watermarks is None:
            return {}
        span = batch.span(self.times.waits_for)
        found: dict[str, int] = {}
        for one, own, other in zip(
            self.inputs, self.times.sides, self.times.sides[::-1], strict=True
        ):
            # rows of closed windows come a batch behind the watermark
            watermark_ms = span.before_ms if other.rowtime is None else span.now_ms
            if watermark_ms is not None:
                found[one.name] = watermark_ms * 1000 - own.micros
        return found

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> int:
        """Return the number of rows of a time that the watermark before the batch has passed."""
        late = 0
        for one, rowtime in zip(self.inputs, self._rowtimes, strict=True):
            rows, before = changes.get(one.name), self._before(batch)
            if rowtime is not None and before is not None and rows is not None:
                times = rows.column(rowtime)
                bound = pa.scalar(before, pa.int64()).cast(times.type)
                late += pc.sum(pc.less_equal(times, bound)).as_py() or 0
        return late

    @property
    def _rowtimes(self) -> tuple[int | None, int | None]:
        """The places of the columns by which rows of both sides are late."""
        if self.times is None:
            return None, None
        left, right = (
            None if side.rowtime is None else [of.name for of in one.columns].index(side.rowtime)
            for one, side in zip(self.inputs, self.times.sides, strict=True)
        )
        return left, right

    def _before(self, batch: KeyedBatch) -> int | None:
        """Return the watermark before a batch, in microseconds since the epoch; None: no row is late."""
        if self.times is None or batch.watermarks is None:
            return None
        before_ms = batch.span(self.times.waits_for).before_ms
        return None if before_ms is None else before_ms * 1000

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the new rows of the result, and write the rows of the batch."""
        left, right = self.inputs
        new = [changes.get(one.name) for one in self.inputs]
        came = [rows is not None and rows.num_rows > 0 for rows in new]
        schema = pa.schema([*self.result, pa.field(ROW_KIND, pa.int8())])
        if not any(came):
            return schema.empty_table()
        with BucketTables() as tables:
            for n, (one, rows) in enumerate(zip(self.inputs, new, strict=True)):
                _take_inserts(tables, n, one, rows, self._in_time(n, batch))
            sides = []
            if came[0] and _look_up(tables, 1, right, states[right.name], left):
                sides.append(self.of_left)
            if came[1]:
                is_stored = _look_up(tables, 0, left, states[left.name], right)
                if came[0] or is_stored:
                    old = f" UNION ALL SELECT * FROM {OLD}0" if is_stored else ""
                    tables.name(f"{ALL}0", f"SELECT * FROM {NEW}0{old}")
                    sides.append(self.of_right)
            ended = self.ended(batch)
            for n, one in enumerate(self.inputs):
                if came[n]:
                    until = ended.get(one.name)
                    lasting = "" if until is None else f" WHERE {_end(one)} > {until}"
                    rows = f"SELECT *, 1::BIGINT, {batch.now_ms}::BIGINT FROM {NEW}{n}{lasting}"
                    states[one.name].write(typed(tables.rows(rows), one.layout.schema))
            if not sides:
                return schema.empty_table()
            kind = f"{int(RowKind.INSERT)}::TINYINT"
            queries = (
                f"SELECT {listed([*side.columns, kind])} FROM ({side.sql})" for side in sides
            )
            return typed(tables.rows(" UNION ALL ".join(queries)), schema)

    def _in_time(self, n: int, batch: KeyedBatch) -> tuple[str, ...]:
        """Write the conditions of rows that are not late, and end at some time."""
        if self.times is None:
            return ()
        before, rowtime = self._before(batch), self._rowtimes[n]
        later = () if before is None or rowtime is None else (f"epoch_us(c{rowtime}) > {before}",)
        return (f"{_end(self.inputs[n])} IS NOT NULL", *later)


def _end(one: KeyedInput) -> str:
    """Write the time of a row by which it ends, in microseconds since the epoch."""
    assert one.layout.ends is not None, "its rows end"
    return f"epoch_us(c{one.layout.names.index(one.layout.ends)})"


def _take_inserts(
    tables: BucketTables, n: int, one: KeyedInput, rows: pa.Table | None, tests: Sequence[str]
) -> None:
    """Name as `new` the rows of the batch but those with a NULL in their key, which match no other.

    And but those of which one of `tests` does not hold.
    """
    columns = pa.schema(one.columns)
    inserts = columns.empty_table() if rows is None else rows.select(range(len(columns)))
    tables.give(f"given{n}", inserts)
    named = (f"{normalized(f'c{i}', of.type)} AS c{i}" for i, of in enumerate(columns))
    known = " AND ".join([*(f"{key} IS NOT NULL" for key in one.change_key), *tests]) or "TRUE"
    tables.name(f"{NEW}{n}", f"SELECT {listed(named)} FROM given{n} WHERE {known}")


def _look_up(
    tables: BucketTables, n: int, one: KeyedInput, state: KeyedState, other: KeyedInput
) -> bool:
    """Name as `old` the stored rows of the keys that new rows of the other input have. Returns if there are."""
    named = (f"{column} AS k{i}" for i, column in enumerate(other.change_key))
    keys = tables.rows(f"SELECT DISTINCT {listed(named)} FROM {NEW}{1 - n}")
    kinds = zip(one.layout.key, one.layout.key_types, strict=True)
    stored = state.rows_of(typed(keys, pa.schema([pa.field(name, kind) for name, kind in kinds])))
    tables.give(f"stored{n}", stored)
    dims = listed(one.dims)
    count = len(one.dims) + one.count
    rows = f"SELECT {dims} FROM stored{n}"
    if (pc.max(stored.column(count)).as_py() or 0) > 1:
        # equal rows become one when files are merged
        rows = f"SELECT {dims} FROM (SELECT {dims}, unnest(range(c{count})) FROM stored{n})"
    tables.name(f"{OLD}{n}", rows)
    return bool(stored.num_rows)
