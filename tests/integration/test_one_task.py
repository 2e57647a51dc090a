"""One task or tasks by bucket run the batches of a query, by its setting: the table is the same, also where both did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.sql.incremental.keyed.runtime.job import KeyedJob
from tests.delta_tables import read_delta

EVENTS = 1_200
BATCH = 600
"""Events of a run, which are one batch."""
EVENTS_TABLE = """
CREATE TEMPORARY TABLE events (bid ROW<auction BIGINT, bidder BIGINT, price BIGINT>)
WITH ('connector' = 'nexmark', 'events.num' = '{events}', {options});
"""
ENDLESS = "'keep-alive' = 'true', 'first-event.rate' = '100'"
BOUNDED = "'first-event.rate' = '100'"
SIZES = """
CREATE TABLE IF NOT EXISTS sizes (n BIGINT, members BIGINT, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'sizes');
INSERT INTO sizes SELECT n, COUNT(*) FROM (
  SELECT bid.bidder AS k, COUNT(*) + 1 AS n FROM events WHERE bid.price > 10 GROUP BY bid.bidder
) GROUP BY n;
"""


def run(spark: SparkSession, project: Path, events: int, most: str | None) -> None:
    """Read all events that there are, in batches of which one task runs those of up to `most` records."""
    bound = "" if most is None else f"SET 'penstock.keyed.one-task-records' = '{most}';"
    table = EVENTS_TABLE.format(events=events, options=ENDLESS)
    (project / "job.sql").write_text(bound + table + SIZES, encoding="utf-8")
    with penstock.connect(spark, publish="off") as session:
        (job,) = session.run_file(project / "job.sql", available_now=True)
    assert job.exception is None


def answer(spark: SparkSession, events: int) -> Counter[int]:
    """The batch answer over all of them."""
    with penstock.connect(spark, publish="off") as session:
        session.sql(EVENTS_TABLE.format(events=events, options=BOUNDED))
        found = session.sql("SELECT bid.bidder, bid.price FROM events WHERE bid.price > 10")
        assert isinstance(found, DataFrame)
        bidders = Counter(row[0] for row in found.collect())
    return Counter(n + 1 for n in bidders.values())


@pytest.mark.parametrize(
    ("most", "ways"),
    [
        ((None, None), ["_in_one_task"]),
        ((str(BATCH), "0"), ["_in_one_task", "_by_bucket"]),
        ((str(BATCH - 1), None), ["_by_bucket", "_in_one_task"]),
    ],
    ids=["by default", "until it is set to none", "once it may"],
)
def test_one_task_runs_batches_of_few_records(
    spark: SparkSession,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: tuple[str | None, str | None],
    ways: list[str],
) -> None:
    """A checkpoint goes on either way."""
    seen: list[str] = []

    def noted(name: str) -> None:
        original = getattr(KeyedJob, name)

        def call(job: KeyedJob, *arguments: object) -> DataFrame:
            seen.append(name)
            found: DataFrame = original(job, *arguments)
            return found

        monkeypatch.setattr(KeyedJob, name, call)

    for name in ("_in_one_task", "_by_bucket"):
        noted(name)
    run(spark, project, BATCH, most[0])
    run(spark, project, EVENTS, most[1])

    assert list(dict.fromkeys(seen)) == ways
    assert len(seen) >= 2
    table = read_delta(str(project / "sizes"))
    rows = zip(*(table.column(name).to_pylist() for name in ("n", "members")), strict=True)
    assert dict(rows) == dict(answer(spark, EVENTS))
