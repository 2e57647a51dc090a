"""OVER aggregates over one bucket, without Spark: what DuckDB gives over the rows that the watermark has passed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed import over
from penstock.sql.incremental.keyed.event_time import WaitingRows
from penstock.sql.incremental.keyed.files import spooled_rows
from penstock.sql.incremental.keyed.over import FRAME, TOTALS, FrameSum, FrameSums, frame_sums
from penstock.sql.incremental.keyed.tables import BucketTables
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
from tests.sql.incremental.keyed.memory import MB, peak_bytes
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
    """Aggregates over one frame: in Flink's SQL, their types, and in DuckDB's, with `{w}` or before it, if another."""

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
        window = f"OVER ({WINDOW}{frame})"
        placed = (call if "{w}" in call else call + " {w}" for call in calls)
        return ", ".join(call.replace("{w}", window) for call in placed)

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
DOUBLE = "CASE WHEN amount = 5 THEN 1e16 ELSE amount * 1e-1 END"
"""Values of which a sum has other digits in another order."""
DOUBLES = (f"SUM({DOUBLE})", f"AVG({DOUBLE})", f"SUM({DOUBLE}) FILTER (WHERE amount > 0)")
FOLDED = "list_reduce(list({0} ORDER BY ts, n) FILTER (WHERE ({0}) IS NOT NULL{1}) {{w}}, lambda a, b: a + b, 0::DOUBLE)"
ADDED = (
    FOLDED.format(DOUBLE, ""),
    f"{FOLDED.format(DOUBLE, '')} / nullif(COUNT(amount) {{w}}, 0)",
    FOLDED.format(DOUBLE, " AND amount > 0"),
)
OF_DOUBLES = {"calls": DOUBLES, "types": [pa.float64()] * 3, "sql": ADDED}
TEXT = "CASE amount WHEN 1 THEN 'one' WHEN 5 THEN 'five' WHEN 9 THEN '' END"
SETS = (
    "COUNT(DISTINCT amount)",
    "SUM(DISTINCT amount)",
    "COUNT(DISTINCT amount) FILTER (WHERE amount > 0)",
    f"LISTAGG({TEXT}, '-')",
    f"LISTAGG({TEXT}) FILTER (WHERE amount < 9)",
)
IN_ORDER = "STRING_AGG({0}, '{1}' ORDER BY ts, n){2}"
OF_SETS = {
    "calls": SETS,
    "types": [LONG, LONG, LONG, pa.string(), pa.string()],
    "sql": (
        *SETS[:3],
        IN_ORDER.format(TEXT, "-", ""),
        IN_ORDER.format(TEXT, ",", " FILTER (WHERE amount < 9)"),
    ),
}
OF_SET = "list_reduce(list_sort(list(DISTINCT {0}) FILTER (WHERE ({0}) IS NOT NULL{1}) {{w}}), lambda a, b: a + b, 0::DOUBLE)"
OF_SETS_OF_DOUBLES = {
    "calls": (f"SUM(DISTINCT {DOUBLE})", f"SUM(DISTINCT {DOUBLE}) FILTER (WHERE amount < 9)"),
    "types": [pa.float64()] * 2,
    "sql": (OF_SET.format(DOUBLE, ""), OF_SET.format(DOUBLE, " AND amount < 9")),
}
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
    "totals of doubles": OverCase(**OF_DOUBLES),
    "totals of doubles by row": OverCase(**OF_DOUBLES, frame=" ROWS UNBOUNDED PRECEDING"),
    "an interval of doubles": OverCase(**OF_DOUBLES, frame=SECONDS.format(7)),
    "rows of doubles": OverCase(**OF_DOUBLES, frame=ROWS),
    "sets": OverCase(**OF_SETS),
    "sets by row": OverCase(**OF_SETS, frame=" ROWS UNBOUNDED PRECEDING"),
    "an interval of sets": OverCase(**OF_SETS, frame=SECONDS.format(7)),
    "rows of sets": OverCase(**OF_SETS, frame=ROWS),
    "sets of doubles": OverCase(**OF_SETS_OF_DOUBLES),
    "rows of sets of doubles": OverCase(**OF_SETS_OF_DOUBLES, frame=ROWS),
    "an interval of sets of doubles": OverCase(**OF_SETS_OF_DOUBLES, frame=SECONDS.format(7)),
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


def check_rows_come_once(name: str) -> None:
    """Each in the batch whose watermark passes it; rows of one time in order of arrival."""
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
def test_each_row_comes_once_with_those_before_it(name: str) -> None:
    check_rows_come_once(name)


@pytest.mark.parametrize("name", [name for name in CASES if "of doubles" in name])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_sums_go_on_behind_the_rows_that_are_in_memory(
    monkeypatch: pytest.MonkeyPatch, name: str, rows: int
) -> None:
    monkeypatch.setattr(over, "_ROWS", rows)
    check_rows_come_once(name)


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


def _one_after_the_other(values: Sequence[float], first: int, last: int) -> str:
    found = 0.0
    for value in values[first : last + 1]:
        found += value
    return found.hex()


@pytest.mark.parametrize("seed", range(6))
def test_values_of_a_frame_are_added_one_after_the_other(seed: int) -> None:
    """To the last bit, in frames that move, grow, or are longer than what is added in one call."""
    draw = random.Random(seed)
    small = [draw.uniform(-1, 1) * 10 ** draw.randint(-9, 20) for _ in range(400)]
    values = [*small, float("inf"), -0.0, -0.0, *small]
    ends = sorted(draw.randrange(len(values)) for _ in range(300))
    frames = {
        "moving": [(max(0, end - draw.randint(0, 40)), end) for end in ends],
        "growing": [(0, end) for end in ends],
        "of zeros": [(401, 402), (401, 401), (402, 402)],
        "none": [],
    }
    for given in frames.values():
        first, last = (np.array([one[n] for one in given], np.int64) for n in (0, 1))
        found = frame_sums(np.array(values), first, last)

        assert [x.hex() for x in found.tolist()] == [
            _one_after_the_other(values, *one) for one in given
        ]


def test_a_frame_that_is_longer_than_one_call_is_added_in_one_order() -> None:
    """Beside many short ones."""
    values = 1 / (np.arange(300_000) % 977 + 3.0)
    ends = np.arange(250_000, 300_000, 10_000)
    first = np.concatenate([np.zeros(len(ends), np.int64), np.arange(2_000)])
    last = np.concatenate([ends, np.arange(2_000) + 300])
    found = frame_sums(values, first, last)
    given = values.tolist()
    some = [0, len(ends) - 1, len(ends), len(found) - 1]

    assert [found[n].hex() for n in some] == [
        _one_after_the_other(given, int(first[n]), int(last[n])) for n in some
    ]


@pytest.mark.parametrize("name", ["totals of doubles by row", "rows of doubles"])
def test_sums_of_doubles_do_not_depend_on_batches(name: str) -> None:
    """The rows are the same in one batch and in many, to the last digit."""
    rows = [
        ("EUR", at(second), amount, second, INSERT)
        for second, amount in enumerate([5, 1, 9, -3, 5, 1, 1, 9] * 4, start=1)
    ]
    whole, parts = CASES[name].opened(), CASES[name].opened()
    at_once = whole.give(40, feed_0=rows)
    found: list[Row] = []
    for n in range(0, len(rows), 3):
        found += parts.give(n + 3, feed_0=rows[n : n + 3])

    assert found == at_once
    assert len(found) == len(rows)


@pytest.mark.parametrize("frame", ["UNBOUNDED", "9"])
def test_sums_over_a_key_of_many_rows_take_the_memory_of_some(
    monkeypatch: pytest.MonkeyPatch, frame: str
) -> None:
    """Of one key, all of which are due: 400,000 rows of 40 bytes."""
    monkeypatch.setattr(over, "_ROWS", 1 << 14)
    monkeypatch.setattr(over, "_CELLS", 1 << 14)
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", MB)
    rows = WaitingRows(
        name="feed_0", columns=tuple(ORDERS), key=("currency",), time="ts", waits_for=(0,)
    )
    window = (
        f" OVER (PARTITION BY c0 ORDER BY c1, c4 ROWS BETWEEN {frame} PRECEDING AND CURRENT ROW)"
    )
    total = FrameSum(field=pa.field("total", pa.float64()), value="c2::DOUBLE")
    sums = FrameSums(window=window, sums=(total,))
    made = "SELECT 'EUR' AS c0, make_timestamp(range) AS c1, 2 AS c2, 0 AS c3, range AS c4 FROM range({})"
    with BucketTables() as tables:
        tables.create("few", made.format(10))
        sums.joined(tables, rows, "few", "TRUE")  # which imports what it takes
        tables.create("many", made.format(400_000))
        with peak_bytes() as taken:
            joined = sums.joined(tables, rows, "many", "TRUE")
            peak = taken()
        last = tables.value(f"SELECT arg_max(d0, c4)::BIGINT FROM {joined}")

    assert last == (800_000 if frame == "UNBOUNDED" else 20)
    assert peak < 6 * MB
