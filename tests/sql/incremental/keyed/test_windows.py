"""Aggregates of windows over one bucket, without Spark: what DuckDB gives over the rows of the windows that close."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.sql.incremental.stages import WindowAggregate
from tests.sql.incremental.keyed.event_time_bucket import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    EventTimeBucket,
    Row,
    at,
    check_an_empty_batch_costs_nothing,
    operator_of,
    stage_of,
)
from tests.sql.incremental.keyed.oracle import answer, rows_in

TIME = pa.timestamp("us")
ROWS = pa.schema(
    [
        ("window_start", TIME),
        ("window_end", TIME),
        ("currency", pa.string()),
        ("total", pa.int64()),
        ("window_time", TIME),
    ]
)
OVER = "(SELECT ts, currency, SUM(amount) OVER (PARTITION BY currency ORDER BY ts) AS total FROM orders)"
SQL = (
    f"SELECT window_start, window_end, currency, {{}} FROM TABLE(TUMBLE({OVER}, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end, currency"
)
MILLISECOND = timedelta(milliseconds=1)


def windows(values: str, types: Sequence[pa.DataType]) -> EventTimeBucket:
    """An aggregation by windows and the currency."""
    stage = stage_of(SQL.format(values), WindowAggregate)
    assert isinstance(stage, WindowAggregate)
    more = [pa.field(f"v{n}", kind) for n, kind in enumerate(types)]
    schema = ROWS if "total" in values else ROWS.remove(ROWS.get_field_index("total"))
    result = pa.schema([*list(ROWS)[:3], *more])
    operator = operator_of(stage, {stage.rows: schema, stage.name: result})
    return EventTimeBucket(operator=operator, schemas={stage.rows: schema}, before=(None,))


def row(end: int, currency: str | None, total: int | None) -> Row:
    """A row of the window of ten seconds that ends then."""
    return (at(end - 10), at(end), currency, total, at(end) - MILLISECOND)


@dataclass
class Changing:
    """Random rows of windows that come and go, some of them late."""

    draw: random.Random
    rows: Counter[Row] = field(default_factory=Counter)
    late: int = 0

    def batch(self, before: int, *, inserts: bool) -> list[Row]:
        """Draw changes of windows, closed ones too; every row that goes is there."""
        return [self._change(before, inserts=inserts) for _ in range(self.draw.randint(4, 20))]

    def _change(self, before: int, *, inserts: bool) -> Row:
        draw = self.draw
        if not inserts and self.rows and draw.random() < 0.4:
            gone: Row = draw.choice(sorted(self.rows, key=repr))
            self.rows -= Counter([gone])
            return (*gone, draw.choice([BEFORE, DELETE]))
        end = draw.randrange(before // 10 * 10, before + 30, 10)
        new = row(end, draw.choice(["EUR", "USD", None]), draw.choice([None, 1, 2, 2, -(2**40)]))
        if new[4] <= at(before):
            self.late += 1
        else:
            self.rows[new] += 1
        return (*new, INSERT if inserts else draw.choice([INSERT, AFTER]))

    def closed(self, sql: str, upto: int) -> Counter[Row]:
        """Return the aggregates of the windows up to a time, whose rows then are no more."""
        due = [one for one in self.rows.elements() if one[4] <= at(upto)]
        self.rows = Counter({r: n for r, n in self.rows.items() if r[4] > at(upto)})
        query = f"SELECT window_start, window_end, currency, {sql} FROM rows GROUP BY ALL"
        return answer(query, {"rows": rows_in(ROWS, due)})


AGGREGATES: dict[str, tuple[str, str, list[pa.DataType]]] = {
    "sums": ("COUNT(*), COUNT(total), SUM(total)", "", [pa.int64()] * 3),
    "extremes": ("MIN(total), MAX(total), COUNT(DISTINCT total)", "", [pa.int64()] * 3),
    "doubles": (
        "SUM(CAST(total AS DOUBLE) / 4)",
        "SUM(CAST(total AS DOUBLE) / 4)",
        [pa.float64()],
    ),
    "texts": (
        "LISTAGG(CAST(total AS STRING), '-')",
        "string_agg(total::TEXT, '-' ORDER BY total::TEXT)",
        [pa.string()],
    ),
    "a filter": ("COUNT(*) FILTER (WHERE total > 1)", "", [pa.int64()]),
}


@pytest.mark.parametrize("inserts", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("name", AGGREGATES)
def test_each_window_comes_once_with_the_rows_that_are_left(name: str, inserts: bool) -> None:
    """In the batch whose watermark closes it; changes of a closed one are dropped, and nothing of it is kept."""
    values, sql, types = AGGREGATES[name]
    bucket, changing = windows(values, types), Changing(draw=random.Random(len(name)))
    (rows,) = bucket.schemas
    bucket.give(0)
    before, given = 0, 0
    for _ in range(12):
        now = before + changing.draw.randint(0, 14)
        found = bucket.give(now, **{rows: changing.batch(before, inserts=inserts)})

        assert Counter(found) == changing.closed(sql or values, now)
        assert bucket.kept()[rows] == changing.rows
        before, given = now, given + len(found)
    assert given > 5
    assert bucket.late == changing.late > 0


def test_what_comes_and_goes_leaves_nothing() -> None:
    """In one batch, over batches, and in whatever order within one: the window has no row, and gives none."""
    bucket = windows("COUNT(*)", [pa.int64()])
    (rows,) = bucket.schemas

    def change(end: int, kind: int) -> Row:
        start, last, currency, _, time = row(end, "EUR", None)
        return (start, last, currency, time, kind)

    bucket.give(0, **{rows: [change(10, INSERT), change(20, INSERT), change(20, DELETE)]})
    bucket.give(0, **{rows: [change(10, BEFORE), change(30, DELETE), change(30, INSERT)]})
    nothing = dict(bucket.kept())
    given = bucket.give(50)

    assert nothing == {rows: Counter()}
    assert not given


def test_a_late_deletion_changes_nothing() -> None:
    """The window is given already; the deletion is counted as late."""
    bucket = windows("SUM(total)", [pa.int64()])
    (rows,) = bucket.schemas
    first = bucket.give(10, **{rows: [(*row(10, "EUR", 3), INSERT)]})
    second = bucket.give(12, **{rows: [(*row(10, "EUR", 3), DELETE), (*row(10, None, 3), AFTER)]})

    assert first == [(at(0), at(10), "EUR", 3)]
    assert second == []
    assert bucket.late == 2


def test_a_batch_that_closes_nothing_costs_nothing() -> None:
    """Where nothing comes and no watermark moves."""
    bucket = windows("SUM(total)", [pa.int64()])
    (rows,) = bucket.schemas
    bucket.give(3, **{rows: [(*row(10, "EUR", 3), INSERT)]})

    check_an_empty_batch_costs_nothing(bucket, 3)


def test_rows_without_a_time_are_late() -> None:
    """They belong to no window."""
    bucket = windows("SUM(total)", [pa.int64()])
    (rows,) = bucket.schemas
    without: tuple[Any, ...] = (*row(10, "EUR", 3)[:-1], None, INSERT)

    assert bucket.give(50, **{rows: [without]}) == []
    assert bucket.late == 1
