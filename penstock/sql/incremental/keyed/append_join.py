# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of a join of inserts, which compares nothing: new rows of each side, and all of the other.

Rows of both sides are stored as they come; with times of both sides only until they match no later row. A row that an
outer join keeps then comes with NULLs, if the rows of the other side that it may have matched do not: those are stored
until then, so that nothing is noted of a match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.files.spooled_rows import spooled
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import KeyedInput, SideQuery
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    listed,
    storage_type,
    typed,
    with_one_zero,
)
from penstock.sql.incremental.stages import JoinTimes

OLD, NEW, ALL = "old", "new", "all"
"""Tables of an input, with its number behind: the stored rows of the keys, those of the batch, both."""
IN_TIME, DUE, MARKED, MATCHED = "in_time", "due", "marked", "__matched"
"""Tables of the rows of an input in the batch that are not late, of those and stored ones that match no later row, and
of the rows of the other with MATCHED, which is TRUE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedSide:
    """The rows of an input that an outer join keeps: the `number` of the input, 0 or 1.

    `query` reads the tables `due` of it and `marked` of the other, and returns MATCHED last: NULL where no row matches.
    """

    number: int
    query: SideQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendJoin:
    """Joins the inserts of two inputs; each row of the result is one.

    `of_left` reads the tables `new0` and `old1`, `of_right` `all0` and `new1`. `result` are the columns of the result.
    Rows of the result come in no order, unless they are `sorted` by all columns: equal ones may change places, so
    that the order is the same whatever order the inputs have. `times`: rows that are late are dropped, and those that
    match no later row of the other side are not stored. `padded`: the sides whose rows come without a match, too, when
    they end; they end by the time by which they are late, and their rows do not come in closed windows.
    """

    inputs: tuple[KeyedInput, KeyedInput]
    of_left: SideQuery
    of_right: SideQuery
    result: tuple[pa.Field, ...]
    times: JoinTimes | None = None
    padded: tuple[PaddedSide, ...] = ()
    sorted: bool = False

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark gives rows without a match; none: there are no such rows."""
        return self.times.waits_for if self.times is not None and self.padded else ()

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The layouts of the state, by the names of the inputs."""
        return {one.name: one.layout for one in self.inputs}

    @property
    def ordered(self) -> frozenset[str]:
        """No input: the order of rows makes no difference."""
        return frozenset()

    def ended(self, batch: KeyedBatch) -> Mapping[str, int]:
        """Return by input up to which time rows are not needed behind a batch."""
        found = {one.name: self._ended(n, batch) for n, one in enumerate(self.inputs)}
        return {name: until for name, until in found.items() if until is not None}

    def _ended(self, n: int, batch: KeyedBatch) -> int | None:
        """Return that of an input, in microseconds since the epoch; None: nothing is known of it."""
        if self.times is None or batch.watermarks is None:
            return None
        own, other = self.times.sides[n], self.times.sides[1 - n]
        span = batch.span(self.times.waits_for)
        # those of windows that Spark closes come a batch behind the watermark
        behind = other.rowtime is None and not self.times.at_once
        watermark_ms = span.before_ms if behind else span.now_ms
        if watermark_ms is None:
            return None
        # rows of the other side that come without a match may end later, and are compared with it then
        more = max(0, other.micros) if any(side.number != n for side in self.padded) else 0
        return watermark_ms * 1000 - own.micros - more

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
        """Return by input the number of rows of a time that the watermark before the batch has passed."""
        late: dict[str, int] = {}
        for one, rowtime in zip(self.inputs, self._rowtimes, strict=True):
            rows, before = changes.get(one.name), self._before(batch)
            if rowtime is not None and before is not None and rows is not None:
                times = rows.column(rowtime)
                bound = pa.scalar(before, pa.int64()).cast(times.type)
                late[one.name] = pc.sum(pc.less_equal(times, bound)).as_py() or 0
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
        new = [changes.get(one.name) for one in self.inputs]
        came = [0 if rows is None else rows.num_rows for rows in new]
        ending = [self._ending(side.number, states, batch) for side in self.padded]
        schema = pa.schema([*self.result, pa.field(ROW_KIND, pa.int8())])
        if not any(came) and not any(rows.num_rows for rows in ending):
            return schema.empty_table()
        with BucketTables() as tables:
            before = self._before(batch)
            in_time = [
                _inserts(one, rows, rowtime, before)
                for one, rows, rowtime in zip(self.inputs, new, self._rowtimes, strict=True)
            ]
            matching = [
                _matching(one, rows) for one, rows in zip(self.inputs, in_time, strict=True)
            ]
            for n, rows in enumerate(matching):
                tables.give(f"{NEW}{n}", rows)
            due = [False, False]
            for side, stored in zip(self.padded, ending, strict=True):
                n = side.number
                due[n] = self._take_due(tables, n, in_time[n], stored, batch) or came[n] > 0
            sides, most = self._matches(tables, states, came, due)
            sides += [_without_match(side) for side in self.padded if due[side.number]]
            for n, one in enumerate(self.inputs):
                if came[n]:
                    rows, until = matching[n], self._ended(n, batch)
                    if until is not None:
                        rows = _filtered(rows, pc.greater(_ends_of(one, rows), until))
                    states[one.name].write(_stored(rows, one.layout, batch))
            if not sides:
                return schema.empty_table()
            order = " ORDER BY ALL" if self.sorted else ""
            found = tables.rows(" UNION ALL ".join(sides) + order, most=most)
            return typed(found, schema)

    def _matches(
        self,
        tables: BucketTables,
        states: Mapping[str, KeyedState],
        came: Sequence[int],
        due: Sequence[bool],
    ) -> tuple[list[str], int]:
        """Return the queries of the rows that match, and name the tables of stored rows and of `all`.

        With the number of rows that there are at most: those of a skewed key are many more than came.
        """
        stored = [
            _look_up(tables, n, one, states[one.name], self.inputs[1 - n], due=due[1 - n])
            if came[1 - n] or due[1 - n]
            else 0
            for n, one in enumerate(self.inputs)
        ]
        for n, count in enumerate(stored):
            old = f" UNION ALL SELECT * FROM {OLD}{n}" if count else ""
            tables.name(f"{ALL}{n}", f"SELECT * FROM {NEW}{n}{old}")
            if due[1 - n]:
                mark = f"TRUE AS c{len(self.inputs[n].columns)}"
                tables.name(f"{MARKED}{n}", f"SELECT *, {mark} FROM {ALL}{n}")
        sides = []
        if came[0] and stored[1]:
            sides.append(self.of_left)
        if came[1] and (came[0] or stored[0]):
            sides.append(self.of_right)
        kind = f"{int(RowKind.INSERT)}::TINYINT"
        queries = [f"SELECT {listed([*side.columns, kind])} FROM ({side.sql})" for side in sides]
        return queries, came[0] * stored[1] + came[1] * (came[0] + stored[0])

    def _ending(self, n: int, states: Mapping[str, KeyedState], batch: KeyedBatch) -> pa.Table:
        """Return the stored rows of an input that end in the batch."""
        one = self.inputs[n]
        assert self.times is not None, "rows without a match come when they end"
        span, micros = batch.span(self.times.waits_for), self.times.sides[n].micros
        if batch.watermarks is None or span.now_ms is None or span.now_ms == span.before_ms:
            return one.layout.schema.empty_table()
        after = None if span.before_ms is None else span.before_ms * 1000 - micros
        return states[one.name].rows_between(after, span.now_ms * 1000 - micros)

    def _take_due(
        self,
        tables: BucketTables,
        n: int,
        in_time: pa.Table,
        stored: pa.Table,
        batch: KeyedBatch,
    ) -> bool:
        """Name as `due` the rows of an input that match no later row: those that end, and those that match none at all.

        Returns if some of them were stored.
        """
        one = self.inputs[n]
        assert self.times is not None, "its rows end"
        tables.give(f"{IN_TIME}{n}", in_time)
        tables.give(f"ending{n}", stored)
        tests = [f"{key} IS NULL" for key in one.change_key] + [f"{_end(one)} IS NULL"]
        now_ms = batch.span(self.times.waits_for).now_ms
        if batch.watermarks is None:
            tests = ["TRUE"]
        elif now_ms is not None:
            tests.append(f"{_end(one)} <= {now_ms * 1000 - self.times.sides[n].micros}")
        came = f"SELECT * FROM {IN_TIME}{n} WHERE {' OR '.join(tests)}"
        old = _each_once(f"ending{n}", one, stored)
        tables.name(f"{DUE}{n}", f"{came} UNION ALL {old}")
        return bool(stored.num_rows)


def _without_match(side: PaddedSide) -> str:
    """Write the query of the rows of a side that match none."""
    *columns, matched = side.query.columns
    kind = f"{int(RowKind.INSERT)}::TINYINT"
    return f"SELECT {listed([*columns, kind])} FROM ({side.query.sql}) WHERE {matched} IS NULL"


def _end(one: KeyedInput) -> str:
    """Write the time of a row by which it ends, in microseconds since the epoch."""
    assert one.layout.ends is not None, "its rows end"
    return f"epoch_us(c{one.layout.names.index(one.layout.ends)})"


def _inserts(
    one: KeyedInput, rows: pa.Table | None, rowtime: int | None, before: int | None
) -> pa.Table:
    """Return the rows of the batch that are not late: later than `before`, in microseconds, or without a time."""
    columns = pa.schema(one.columns)
    if rows is None:
        return columns.empty_table()
    inserts = typed(rows.select(range(len(columns))), columns)
    inserts = pa.Table.from_arrays([with_one_zero(of) for of in inserts.columns], schema=columns)
    if before is None or rowtime is None:
        return inserts
    in_time = pc.greater(_micros(inserts.column(rowtime)), before)
    return _filtered(inserts, pc.fill_null(in_time, fill_value=True))


def _matching(one: KeyedInput, rows: pa.Table) -> pa.Table:
    """Leave out rows with a NULL in their key or without a time by which they end: they match no other."""
    names = (*one.layout.key, *([] if one.layout.ends is None else [one.layout.ends]))
    known = [rows.column(one.layout.names.index(name)) for name in names]
    if not any(column.null_count for column in known):
        return rows
    tests = [pc.is_valid(column) for column in known]
    return _filtered(rows, reduce(pc.and_, tests))


def _filtered(rows: pa.Table, test: pa.ChunkedArray) -> pa.Table:
    """Return the rows of which a test holds; no copy where it holds of all, and of many none in memory."""
    if pc.all(test).as_py():
        return rows
    tested = rows.append_column("test", test).to_batches()
    width = rows.num_columns
    left = (of.select(range(width)).filter(of.column(width)) for of in tested)
    return spooled(rows.schema, left)


def _ends_of(one: KeyedInput, rows: pa.Table) -> pa.ChunkedArray:
    """Return the times by which rows end, in microseconds since the epoch."""
    assert one.layout.ends is not None, "its rows end"
    return _micros(rows.column(one.layout.names.index(one.layout.ends)))


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times in microseconds since the epoch."""
    return times.cast(storage_type(times.type)).cast(pa.int64())


def _stored(rows: pa.Table, layout: KeyedLayout, batch: KeyedBatch) -> pa.Table:
    """Return rows as they are stored: each is there once, as of the batch."""
    more = [pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows) for value in (1, batch.now_ms)]
    columns = [*rows.columns, *(pa.chunked_array([one]) for one in more)]
    return pa.Table.from_arrays(columns, schema=layout.schema)


def _look_up(
    tables: BucketTables,
    n: int,
    one: KeyedInput,
    state: KeyedState,
    other: KeyedInput,
    *,
    due: bool,
) -> int:
    """Name as `old` the stored rows of the keys that new rows of the other input have, and those that are `due`.

    Returns their number.
    """
    named = [f"{column} AS k{i}" for i, column in enumerate(other.change_key)]
    rows = f"SELECT {listed(named) or '0'} FROM {NEW}{1 - n}"
    if due:
        rows += f" UNION ALL SELECT {listed(named) or '0'} FROM {DUE}{1 - n}"
    keys = tables.rows(f"SELECT DISTINCT * FROM ({rows})")
    stored = state.rows_of(typed(keys, one.layout.key_schema))
    tables.give(f"stored{n}", stored)
    tables.name(f"{OLD}{n}", _each_once(f"stored{n}", one, stored))
    count: int = stored.num_rows
    return count


def _each_once(name: str, one: KeyedInput, stored: pa.Table) -> str:
    """Write the query of stored rows that gives each as often as it is there: equal ones are one in merged files.

    Rows that expired were subtracted by an operator with a time to live, which has the same state.
    """
    dims = listed(one.dims)
    count = len(one.dims) + one.count
    least = pc.min(stored.column(count)).as_py()
    if least is not None and least < 1:
        summed = f"SELECT {dims}, SUM(c{count})::BIGINT AS n FROM {name} GROUP BY ALL"
        return f"SELECT {dims} FROM (SELECT {dims}, unnest(range(n)) FROM ({summed}))"
    if (pc.max(stored.column(count)).as_py() or 0) > 1:
        return f"SELECT {dims} FROM (SELECT {dims}, unnest(range(c{count})) FROM {name})"
    return f"SELECT {dims} FROM {name}"
