"""Aggregates of windows over groups of panes, in one bucket, without Spark: what DuckDB gives over the rows of each."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.sql.incremental.stages import WindowAggregate
from tests.sql.incremental.keyed.event_time_bucket import (
    INSERT,
    START,
    EventTimeBucket,
    Row,
    at,
    check_an_empty_batch_costs_nothing,
    operator_of,
    stage_of,
)

TIME = pa.timestamp("us")
GROUPS = pa.schema(
    [
        ("currency", pa.string()),
        ("__pane", TIME),
        *((f"__part{n}", pa.int64()) for n in range(4)),
        ("__rows", pa.int64()),
    ]
)
RESULT = pa.schema(
    [
        ("currency", pa.string()),
        ("window_start", TIME),
        ("window_end", TIME),
        *((f"__call{n}", pa.int64()) for n in range(4)),
    ]
)
WINDOWED = (
    "SELECT currency, window_start AS s, window_end AS e, COUNT(*) AS n, SUM(amount) AS t, MIN(amount) AS l, "
    "MAX(amount) FILTER (WHERE amount < 5) AS h FROM TABLE({}) GROUP BY currency, window_start, window_end"
)
SQL = f"SELECT a.n FROM ({WINDOWED}) AS a JOIN ({WINDOWED}) AS b ON a.currency = b.currency AND a.s = b.s AND a.e = b.e"
TUMBLE = "TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' SECOND)"
KINDS = {
    "tumble": (TUMBLE, 6, 6, 0),
    "tumble at an offset": (TUMBLE.replace("'6' SECOND", "'6' SECOND, INTERVAL '4' SECOND"), 6, 6, 4),
    "hop": ("HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)", 6, 2, 0),
    "cumulate": (
        "CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)", 6, 2, 0,
    ),
}  # fmt: skip
MILLISECOND = timedelta(milliseconds=1)
Window = tuple[datetime, datetime]


def panes(kind: str) -> EventTimeBucket:
    """An aggregation by the currency and windows of a kind."""
    stage = stage_of(SQL.replace("{}", KINDS[kind][0]), WindowAggregate)
    assert isinstance(stage, WindowAggregate)
    assert stage.panes is not None
    operator = operator_of(stage, {stage.rows: GROUPS, stage.name: RESULT})
    return EventTimeBucket(operator=operator, schemas={stage.rows: GROUPS}, before=(None,))


def floor(time: datetime, length: int, offset: int) -> datetime:
    """The last multiple of so many seconds, from the epoch on."""
    seconds = (time - datetime(1970, 1, 1)).total_seconds() - offset
    return time - timedelta(seconds=seconds % length)


def windows_of(kind: str, time: datetime) -> Iterator[Window]:
    """The windows of a row, one by one as Flink defines them."""
    _, size, pane, offset = KINDS[kind]
    first = floor(time, size if kind == "cumulate" else pane, offset)
    for n in range(size // pane):
        step = timedelta(seconds=n * pane)
        start = first if kind == "cumulate" else first - step
        end = (
            first + step + timedelta(seconds=pane)
            if kind == "cumulate"
            else start + timedelta(seconds=size)
        )
        if start <= time < end:
            yield start, end


@dataclass
class World:
    """Random rows, some of them late; each is in its windows that are open when it comes."""

    kind: str
    draw: random.Random
    windows: dict[Window, list[Row]] = field(default_factory=lambda: defaultdict(list))
    late: int = 0

    def batch(self, before: int) -> list[Row]:
        """Draw rows; returns their groups, those of each of two tasks."""
        return [group for _ in range(2) for group in self._groups(before)]

    def _groups(self, before: int) -> list[Row]:
        draw, _, pane, offset = self.draw, *KINDS[self.kind][1:]
        rows = []
        for _ in range(draw.randint(0, 12)):
            time = at(draw.randrange(before - 12, before + 20)) + timedelta(
                milliseconds=draw.randrange(1000)
            )
            if draw.random() < 0.05:
                time = None
            rows.append(
                (draw.choice(["EUR", "USD", None]), time, draw.choice([None, 1, 3, 7, 7, -(2**40)]))
            )
        for row in rows:
            self._take(row, before)
        groups: dict[Any, list[Any]] = defaultdict(list)
        for currency, time, amount in rows:
            start = None if time is None else floor(time, pane, offset)
            groups[currency, start].append(amount)
        return [(*key, *partial(values), len(values), INSERT) for key, values in groups.items()]

    def _take(self, row: Row, before: int) -> None:
        found = [] if row[1] is None else list(windows_of(self.kind, row[1]))
        still = [window for window in found if window[1] - MILLISECOND > at(before)]
        self.late += not still
        for window in still:
            self.windows[window].append(row)

    def closed(self, upto: int) -> Counter[Row]:
        """Return the aggregates of the windows that a watermark closes, which then are no more."""
        due = [window for window in self.windows if window[1] - MILLISECOND <= at(upto)]
        rows = [(*window, row[0], row[2]) for window in due for row in self.windows.pop(window)]
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE rows (s TIMESTAMP, e TIMESTAMP, c TEXT, a BIGINT)")
            if rows:
                connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
            found = connection.execute(
                "SELECT c, s, e, COUNT(*), SUM(a)::BIGINT, MIN(a), MAX(a) FILTER (WHERE a < 5) FROM rows GROUP BY ALL"
            )
            return Counter(found.fetchall())


def partial(values: Sequence[int | None]) -> tuple[int | None, ...]:
    """COUNT, SUM, MIN, and MAX of those below 5."""
    known = [value for value in values if value is not None]
    low = [value for value in known if value < 5]
    return (
        len(values),
        sum(known) if known else None,
        min(known, default=None),
        max(low, default=None),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_each_window_comes_once_with_the_rows_of_its_panes(kind: str, seed: int) -> None:
    """In the batch whose watermark closes it; a pane is kept until the last of its windows is closed."""
    bucket, world = panes(kind), World(kind=kind, draw=random.Random(seed))
    (name,) = bucket.schemas
    bucket.give(0)
    before, given = 0, 0
    for _ in range(14):
        now = before + world.draw.randint(0, 9)
        found = bucket.give(now, **{name: world.batch(before)})

        assert Counter(found) == world.closed(now)
        before, given = now, given + len(found)
    bucket.give(before + 100)

    assert given > 10
    assert bucket.late == world.late > 0
    assert bucket.kept() == {name: Counter()}


def test_a_pane_is_stored_once_for_all_its_windows() -> None:
    """A window of HOP that closes takes no pane away that a later one has."""
    bucket = panes("hop")
    (name,) = bucket.schemas
    pane = floor(at(20), 2, 0)
    group = ("EUR", pane, 4, 9, 1, 3, 4, INSERT)
    second = int((pane - START).total_seconds())
    assert bucket.give(second, **{name: [group]}) == []
    first = bucket.give(second + 2)
    kept = bucket.kept()[name]
    rest = bucket.give(second + 6)

    assert [row[1] for row in first] == [pane - timedelta(seconds=4)]
    assert list(kept.values()) == [1]
    assert sorted(row[1] for row in rest) == [pane - timedelta(seconds=2), pane]
    assert bucket.kept()[name] == Counter()


def test_windows_without_a_watermark_stay_open() -> None:
    """Nothing is closed and nothing late, but for rows without a time."""
    bucket = panes("tumble")
    (name,) = bucket.schemas
    group = (at(3), 1, 1, 1, 1, 1, INSERT)
    found = bucket.give(None, **{name: [("EUR", *group), (None, None, *group[1:4], 1, 5, INSERT)]})

    assert found == []
    assert sum(bucket.kept()[name].values()) == 1
    assert bucket.late == 5


def test_a_batch_that_closes_nothing_costs_nothing() -> None:
    """Where nothing comes and no watermark moves."""
    bucket = panes("cumulate")
    (name,) = bucket.schemas
    bucket.give(3, **{name: [("EUR", floor(at(8), 2, 0), 1, 1, 1, 1, 1, INSERT)]})

    check_an_empty_batch_costs_nothing(bucket, 3)
