"""A run by keyed operators dies between state, sink and commit: the table is the batch answer all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from penstock.connector.failpoints import KILLED
from tests.faults.faulty import FaultyPipeline
from tests.faults.workload import Workload
from tests.integration.pipeline import delta_rows

EACH = 1_500
GROUPS = 70
SIZES = """
CREATE TABLE IF NOT EXISTS sizes (n BIGINT, members BIGINT, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'sizes');
INSERT INTO sizes
SELECT n, COUNT(*) FROM (SELECT part, seq % 70 AS g, COUNT(*) AS n FROM events GROUP BY part, seq % 70) GROUP BY n;
"""
PAIRS = """
CREATE TABLE IF NOT EXISTS pairs (part BIGINT, seq BIGINT, after BIGINT) WITH ('connector' = 'delta', 'path' = 'pairs');
INSERT INTO pairs
SELECT a.part, a.seq, b.after FROM events AS a
JOIN (SELECT part, seq + 1 AS after FROM events WHERE seq >= 0) AS b ON a.part = b.part AND a.seq = b.after;
"""
FOLLOWED = """
CREATE TABLE IF NOT EXISTS followed (part BIGINT, seq BIGINT, after BIGINT)
WITH ('connector' = 'delta', 'path' = 'followed');
INSERT INTO followed
SELECT a.part, a.seq, b.seq FROM events AS a, events AS b
WHERE a.part = b.part AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL '2' SECOND;
"""
NUMBERED = """
CREATE TABLE IF NOT EXISTS numbered (part BIGINT, seq BIGINT, number BIGINT, minute BIGINT, before BIGINT)
WITH ('connector' = 'delta', 'path' = 'numbered');
INSERT INTO numbered
SELECT part, seq, ROW_NUMBER() OVER w, COUNT(*) OVER w, LAG(seq) OVER w FROM events
WINDOW w AS (PARTITION BY part ORDER BY ts RANGE BETWEEN INTERVAL '59' SECOND PRECEDING AND CURRENT ROW);
"""
AS_OF = """
CREATE TEMPORARY VIEW newest AS SELECT part, seq AS version, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY part ORDER BY ts DESC) AS n FROM events) WHERE n = 1;
CREATE TABLE IF NOT EXISTS versioned (part BIGINT, seq BIGINT, version BIGINT)
WITH ('connector' = 'delta', 'path' = 'versioned');
INSERT INTO versioned
SELECT e.part, e.seq, v.version FROM events AS e JOIN newest FOR SYSTEM_TIME AS OF e.ts AS v ON e.part = v.part;
"""
NOW = ("--available-now",)

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_by_keyed_operators_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Before the sink has the batch, before and after the manifest, and in tasks, which Spark runs again."""
    job = die_at_every_step(pipeline, workload, SIZES, states=3)
    sizes = Counter(
        Counter(seq % GROUPS for seq in range(count))[group]
        for count in workload.written.values()
        for group in range(GROUPS)
    )

    assert dict(delta_rows(job.project / "sizes", "SELECT n, members FROM {table}")) == dict(sizes)
    assert list((job.checkpoint("sizes") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_join_of_inserts_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row finds the one before it of its partition, in an earlier batch or the same, and once."""
    job = die_at_every_step(pipeline, workload, PAIRS, states=1)
    pairs = Counter(
        (part, seq, seq) for part, count in workload.written.items() for seq in range(1, count)
    )

    found = delta_rows(job.project / "pairs", "SELECT part, seq, after FROM {table}")
    assert Counter(map(tuple, found)) == pairs
    assert list((job.checkpoint("pairs") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_join_in_time_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row finds the two behind it, in its batch or later, and once; what has ended is not needed."""
    job = die_at_every_step(pipeline, workload, FOLLOWED, states=1)
    pairs = Counter(
        (part, seq, after)
        for part, count in workload.written.items()
        for seq in range(count)
        for after in range(seq + 1, min(seq + 3, count))
    )

    found = delta_rows(job.project / "followed", "SELECT part, seq, after FROM {table}")
    assert Counter(map(tuple, found)) == pairs
    assert list((job.checkpoint("followed") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_over_aggregates_die_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row that the watermark has passed is there once, with what was before it; others wait."""
    job = die_at_every_step(pipeline, workload, NUMBERED, states=1)
    query = "SELECT part, seq, number, minute, before FROM {table}"
    found = Counter(map(tuple, delta_rows(job.project / "numbered", query)))
    passed = Counter(part for part, *_ in found)
    rows = Counter(
        (part, seq, seq + 1, min(seq + 1, 60), seq - 1 if seq else None)
        for part, count in passed.items()
        for seq in range(count)
    )

    assert found == rows
    # a second of the watermark, of the partition that is behind all others
    assert set(passed.values()) == {min(workload.written.values()) - 1}
    assert list((job.checkpoint("numbered") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_temporal_join_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row that the watermark has passed is there once, with the version of its own time."""
    job = die_at_every_step(pipeline, workload, AS_OF, states=1)
    query = "SELECT part, seq, version FROM {table}"
    found = Counter(map(tuple, delta_rows(job.project / "versioned", query)))
    passed = Counter(part for part, *_ in found)

    assert found == Counter(
        (part, seq, seq) for part, count in passed.items() for seq in range(count)
    )
    assert set(passed.values()) == {min(workload.written.values()) - 1}
    assert list((job.checkpoint("versioned") / "keyed" / "manifests").glob("*.json"))


def die_at_every_step(
    pipeline: Make, workload: Workload, sql: str, *, states: int
) -> FaultyPipeline:
    """Run a pipeline that is killed at each step of a batch, and then to the end.

    A worker dies when it has written `states` states: the first batch has so many for each.
    """
    workload.write(EACH)
    job = pipeline(workload.script(sql), *NOW)
    for name in ("maintained", "state-sent", "written", "committed"):
        job.start_with(f"state-written=kill@{states};{name}=kill@2")
        status, _ = job.end()

        assert status in (KILLED, -9), job.log[-4000:]
        assert {mark.name for mark in job.taken.iterdir()} == {"state-written", name}
        workload.write(EACH)
    job.catch_up()
    return job
