"""Windows over tables whose rows are updated and deleted: what is left of each window when the watermark closes it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.describe import state_of
from penstock.sql.incremental.stages import INPUT_INDEX, INPUT_TIME, WindowAggregate, input_column
from tests.sql.maintain.batches import Batches, epoch_ms
from tests.sql.maintain.temporal_tables import planned

Row = tuple[Any, ...]
START = datetime(2026, 3, 29)
STRUCT = f"STRUCT<currency: STRING, rate: INT, region: STRING, since: TIMESTAMP_NTZ, {ROW_KIND}: TINYINT>"
AFTER, DELETE = int(RowKind.UPDATE_AFTER), int(RowKind.DELETE)
WINDOWS = {
    "TUMBLE": "INTERVAL '10' SECOND",
    "HOP": "INTERVAL '5' SECOND, INTERVAL '10' SECOND",
    "CUMULATE": "INTERVAL '5' SECOND, INTERVAL '10' SECOND",
}
SQL = (
    "SELECT window_start, window_end, region, COUNT(*) AS n, SUM(rate) AS total, MAX(rate) AS most, MIN(currency) AS c "
    "FROM TABLE({}(TABLE rates, DESCRIPTOR(since), {})) GROUP BY window_start, window_end, region"
)


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


@dataclass
class Rates(Batches):
    """A query over rates (currency, rate, region, since), which are updated by currency, batch by batch."""

    clock: datetime = datetime(2026, 4, 1, tzinfo=UTC)
    before: int | None = None
    last: int | None = None

    def give(self, rates: Sequence[Row], watermark: int) -> Counter[Row]:
        """Run a batch up to a watermark, in seconds; all that it gives are inserts."""
        now = epoch_ms(at(watermark))
        span = Watermarks(before_ms=[self.before], now_ms=[now])
        with self.batch(self.frame(rates), span) as changes:
            rows = [tuple(row) for row in changes.collect()]
        self.last, self.before, self.batches = self.before, now, self.batches + 1
        assert {row[-1] for row in rows} <= {int(RowKind.INSERT)}
        return Counter(row[:-1] for row in rows)

    def again(self, rates: Sequence[Row], watermark: int) -> Counter[Row]:
        """Run the last batch again, in another process."""
        self.restart()
        self.before, self.batches = self.last, self.batches - 1
        return self.give(rates, watermark)

    def frame(self, rates: Sequence[Row]) -> DataFrame:
        """What the streaming query gives."""
        rows = [(0, self.clock, row) for row in rates]
        schema = f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {input_column(0)} {STRUCT}"
        return self.spark.createDataFrame(rows, schema).coalesce(1)


@dataclass
class Table:
    """Random upserts and deletes of few keys, and the rows that they leave."""

    draw: random.Random
    rows: dict[str, Row] = field(default_factory=dict)

    def batch(self, before: int, upto: int) -> list[Row]:
        """Draw changes of rows whose windows are open, or just closed."""
        return [self._change(before, upto) for _ in range(18)]

    def _change(self, before: int, upto: int) -> Row:
        draw, key = self.draw, self.draw.choice("ABCDEFGHIJ")
        if draw.random() < 0.25:
            self.rows.pop(key, None)
            return (key, None, None, None, DELETE)
        row = (
            key,
            draw.choice([None, 1, 5]),
            draw.choice(["x", "y", None]),
            at(draw.randrange(max(before - 4, 0), upto)),
        )
        self.rows[key] = row
        return (*row, AFTER)

    def closed(self, kind: str, before: int, now: int) -> Counter[Row]:
        """Return the aggregates of the windows that end between two watermarks, by another engine."""
        with duckdb.connect() as connection:
            connection.execute(
                "CREATE TABLE rates (currency TEXT, rate INT, region TEXT, since TIMESTAMP)"
            )
            if self.rows:
                connection.executemany(
                    "INSERT INTO rates VALUES (?, ?, ?, ?)", list(self.rows.values())
                )
            step = 10 if kind == "TUMBLE" else 5
            start = {
                "TUMBLE": "e - INTERVAL 10 SECOND",
                "HOP": "e - INTERVAL 10 SECOND",
                "CUMULATE": "time_bucket(INTERVAL 10 SECOND, e - INTERVAL 1 MILLISECOND)",
            }[kind]
            found = connection.execute(
                f"SELECT s, e, region, COUNT(*), SUM(rate), MAX(rate), MIN(currency) FROM (SELECT {start} AS s, e FROM "
                f"(SELECT unnest(range(?::TIMESTAMP, ?::TIMESTAMP, INTERVAL {step} SECOND)) AS e)) "
                "JOIN rates ON since >= s AND since < e "
                "WHERE e - INTERVAL 1 MILLISECOND > ? AND e - INTERVAL 1 MILLISECOND <= ? GROUP BY ALL",
                [at(0), at(200), at(before), at(now)],
            )
            return Counter(found.fetchall())


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_has_the_rows_that_are_left_of_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, keyed: bool
) -> None:
    """When it closes, once; the same when a batch is run again, and from state that was put together."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    running = Rates(spark, tmp_path, SQL.format(kind, WINDOWS[kind]), keyed=keyed)
    table, before, windows = Table(draw=random.Random(5)), 0, 0
    running.give([], 0)
    for now in (13, 16, 31):
        changes = table.batch(before, now + 12)
        found = running.give(changes, now)
        if now == 31:
            assert running.again(changes, now) == found

        assert found == table.closed(kind, before, now)
        before, windows = now, windows + len(found)
    assert windows > 3
    assert running.late_rows > 0


def test_the_stage_tells_of_changes_and_its_rows_are_inserts() -> None:
    """What a checkpoint is compared with names them."""
    query = planned(SQL.format("TUMBLE", WINDOWS["TUMBLE"]))
    assert query.maintained is not None
    stage = query.maintained.stages[-1]

    assert isinstance(stage, WindowAggregate)
    assert stage.changes
    assert query.flow.changes is ChangelogMode.INSERT_ONLY
    assert (
        " CLOSED CHANGES OF rows_2 AT window_time WAITS FOR (0) " in state_of(query.maintained)[-1]
    )


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("SESSION(TABLE rates, DESCRIPTOR(since), INTERVAL '10' SECOND)", "SESSION over changes"),
        (
            "TUMBLE((SELECT region, MAX(since) AS since FROM rates GROUP BY region), DESCRIPTOR(since), "
            "INTERVAL '10' SECOND)",
            "since is not a rowtime",
        ),
    ],
)
def test_what_no_watermark_closes_is_refused(source: str, what: str) -> None:
    """With a hint."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        planned(f"SELECT COUNT(*) FROM TABLE({source}) GROUP BY window_start, window_end")

    assert caught.value.hint
