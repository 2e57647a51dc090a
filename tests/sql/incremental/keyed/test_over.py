"""OVER aggregates over one bucket, without Spark: what DuckDB gives over the rows that the watermark has passed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.over import FRAME, TOTALS
from penstock.sql.incremental.stages import OverAggregate
from tests.sql.incremental.keyed.event_time_bucket import (
    INSERT,
    EventTimeBucket,
    Row,
    at,
    check_an_empty_batch_costs_nothing,
    operator_of,
    stage_of,
)
from tests.sql.incremental.keyed.oracle import answer, rows_in

ORDERS = pa.schema(
    [
        ("currency", pa.string()),
        ("ts", pa.timestamp("us")),
        ("amount", pa.int32()),
        ("id", pa.int32()),
    ]
)
WINDOW = "PARTITION BY currency ORDER BY ts"
LONG = pa.int64()


@dataclass(frozen=True, kw_only=True)
class OverCase:
    """Aggregates over one frame: in Flink's SQL, their types, and in DuckDB's where it is another."""

    calls: Sequence[str]
    types: Sequence[pa.DataType]
    frame: str = ""
    sql: Sequence[str] = ()

    @property
    def by_row(self) -> bool:
        """Return whether rows of one time count in order of arrival, and not together."""
        return "ROWS" in self.frame or self.calls[0].startswith(("LAG", "ROW_NUMBER"))

    def written(self, calls: Sequence[str], frame: str) -> str:
        """Write the calls with their window."""
        return ", ".join(f"{call} OVER ({WINDOW}{frame})" for call in calls)

    def opened(self, ttl_ms: int = 0) -> EventTimeBucket:
        """Return the operator over an empty state."""
        stage = stage_of(
            f"SELECT amount, id, {self.written(self.calls, self.frame)} FROM orders", OverAggregate
        )
        result = pa.schema([*ORDERS, *(pa.field(f"v{n}", t) for n, t in enumerate(self.types))])
        operator = operator_of(stage, {"feed_0": ORDERS, stage.name: result}, ttl_ms)
        return EventTimeBucket(operator=operator, schemas={"feed_0": ORDERS}, before=(None,))


TOTAL = ("SUM(amount)", "COUNT(amount)", "MIN(amount)", "MAX(amount)")
VALUES = ("FIRST_VALUE(amount)", "LAST_VALUE(amount)")
OF_ROWS = (
    "FIRST_VALUE(amount ORDER BY ts, n IGNORE NULLS)",
    "LAST_VALUE(amount ORDER BY ts, n IGNORE NULLS)",
)
TYPES = [LONG, LONG, pa.int32(), pa.int32()]
SECONDS = " RANGE BETWEEN INTERVAL '{}' SECOND PRECEDING AND CURRENT ROW"
ROWS = " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"
CASES = {
    "totals": OverCase(calls=TOTAL, types=TYPES),
    "first and last": OverCase(calls=VALUES, types=[pa.int32()] * 2, sql=OF_ROWS),
    "totals by row": OverCase(calls=TOTAL, types=TYPES, frame=" ROWS UNBOUNDED PRECEDING"),
    "an interval": OverCase(calls=TOTAL, types=TYPES, frame=SECONDS.format(7)),
    "rows": OverCase(calls=TOTAL, types=TYPES, frame=ROWS),
    "the row before": OverCase(calls=("LAG(amount, 2)",), types=[pa.int32()]),
    "numbers": OverCase(calls=("ROW_NUMBER()",), types=[LONG]),
}


@dataclass
class Orders:
    """Random orders: out of order, many at one time, with NULLs, some late."""

    draw: random.Random
    rows: list[Row] = field(default_factory=list)
    waiting: Counter[int] = field(default_factory=Counter)
    late: int = 0
    number: int = 0

    def batch(self, before: int) -> list[Row]:
        """Draw orders, some behind the watermark before the batch."""
        found = [self._order(before) for _ in range(self.draw.randint(0, 12))]
        self.late += sum(row[1] <= at(before) for row in found)
        in_time = [row for row in found if row[1] > at(before)]
        self.rows += in_time
        self.waiting += Counter(row[3] for row in in_time)
        return [(*row, INSERT) for row in found]

    def _order(self, before: int) -> Row:
        draw = self.draw
        self.number += 1
        currency = draw.choice(["EUR", "USD", None])
        amount = draw.choice([None, -3, 0, 1, 5, 9])
        return (currency, at(draw.randrange(before - 3, before + 15)), amount, self.number)

    def due(self, values: str, upto: int) -> Counter[Row]:
        """Return the orders up to a time that have not been given, with the values over all in time."""
        rows = [(*row, n) for n, row in enumerate(self.rows)]
        given = rows_in(ORDERS.append(pa.field("n", pa.int32())), rows)
        found = answer(
            f"SELECT * EXCLUDE (n) FROM (SELECT *, {values} FROM orders) WHERE ts <= '{at(upto)}'",
            {"orders": given},
        )
        due = Counter(row for row in found.elements() if row[3] in self.waiting)
        self.waiting -= Counter(row[3] for row in due)
        return due


@pytest.mark.parametrize("name", CASES)
def test_each_row_comes_once_with_those_before_it(name: str) -> None:
    """In the batch whose watermark passes it; rows of one time in order of arrival."""
    case = CASES[name]
    bucket, orders = case.opened(), Orders(draw=random.Random(len(name)))
    values = case.written(case.sql or case.calls, ", n" * case.by_row + case.frame)
    bucket.give(0)
    before, seen = 0, 0
    for _ in range(8):
        now = before + orders.draw.randint(0, 9)
        found = bucket.give(now, feed_0=orders.batch(before))

        assert Counter(found) == orders.due(values, now)
        assert [row[1] for row in found] == sorted(row[1] for row in found)
        before, seen = now, seen + len(found)
    assert seen > 10
    assert bucket.late == orders.late > 0
    bucket.give(before + 100)

    assert not bucket.kept()["feed_0"], "no row waits"


@pytest.mark.parametrize("name", CASES)
def test_a_batch_in_which_nothing_comes_and_no_time_passes_costs_nothing(name: str) -> None:
    """Whatever waits, and whatever is kept for rows to come."""
    bucket = CASES[name].opened()
    rows = [("EUR", at(second), second, second, INSERT) for second in (1, 2, 9)]
    bucket.give(3, feed_0=rows)

    check_an_empty_batch_costs_nothing(bucket, 3)


def test_rows_that_are_out_of_reach_of_their_interval_are_dropped() -> None:
    """Of all keys, also of those without a new row."""
    bucket = CASES["an interval"].opened()
    bucket.give(5, feed_0=[("EUR", at(1), 1, 1, INSERT), ("USD", at(5), 2, 2, INSERT)])
    both = bucket.kept()[FRAME].total()
    bucket.give(8)
    one = bucket.kept()[FRAME].total()
    bucket.give(30)

    assert (both, one, bucket.kept()[FRAME].total()) == (2, 1, 0)


def test_the_last_rows_and_one_row_of_totals_are_kept_of_a_key() -> None:
    """As many as a frame has before its current row; accumulators once."""
    many = [("EUR", at(second), second, second, INSERT) for second in range(1, 9)]
    kept = {}
    for name, state in {"rows": FRAME, "totals": TOTALS, "numbers": TOTALS}.items():
        bucket = CASES[name].opened()
        bucket.give(4, feed_0=many)
        bucket.give(9)
        kept[name] = bucket.kept()[state].total()

    assert kept == {"rows": 3, "totals": 1, "numbers": 1}
