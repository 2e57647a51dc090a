"""A run by keyed operators dies between state, sink and commit: the table is the batch answer all the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import add
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connector.failpoints import KILLED
from penstock.sql.incremental.keyed.files.manifest import StateManifest, read_manifest
from tests.faults.faulty import REACHED_S, FaultyPipeline
from tests.faults.workload import FIRST, UPSERTS, Workload
from tests.integration.pipeline import delta_rows
from tests.sql.incremental.keyed.oracle import answer

EACH = 1_500
BATCH = 1_000
"""Records of a micro-batch: three for each step that kills, and few for the run to the end."""
SMALL = 100
"""Records of a micro-batch, where there are many."""
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
ALONE_OR_FOLLOWED = """
CREATE TABLE IF NOT EXISTS following (seq BIGINT, after BIGINT) WITH ('connector' = 'delta', 'path' = 'following');
INSERT INTO following
SELECT a.seq, b.seq FROM (SELECT seq, ts FROM events WHERE part = 0 AND seq % 3 = 0) AS a
FULL JOIN (SELECT seq, ts FROM events WHERE part = 1 AND seq % 4 = 1) AS b
ON a.seq + 1 = b.seq AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' SECOND;
"""
WINDOWED = """
SELECT part, COUNT(*) AS n, window_start AS s, window_end AS e
FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
GROUP BY part, window_start, window_end
"""
BUSIEST = f"""
CREATE TABLE IF NOT EXISTS busiest (part BIGINT, n BIGINT, starts TIMESTAMP(3))
WITH ('connector' = 'delta', 'path' = 'busiest');
INSERT INTO busiest
SELECT a.part, a.n, a.s FROM ({WINDOWED}) AS a
JOIN (SELECT MAX(n) AS m, s, e FROM ({WINDOWED}) AS c GROUP BY s, e) AS b ON a.s = b.s AND a.e = b.e AND a.n >= b.m;
"""
NUMBERED = """
CREATE TABLE IF NOT EXISTS numbered (
  part BIGINT, seq BIGINT, number BIGINT, minute BIGINT, before BIGINT, total DOUBLE, kinds BIGINT
) WITH ('connector' = 'delta', 'path' = 'numbered');
INSERT INTO numbered
SELECT part, seq, ROW_NUMBER() OVER w, COUNT(*) OVER w, LAG(seq) OVER w, SUM(seq * 1e-1) OVER w,
  COUNT(DISTINCT seq % 70) OVER w FROM events
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
ONE_TASK, BY_BUCKET = "", "SET 'penstock.keyed.one-task-records' = '0';\n"
"""What runs a small batch: one task, as it does by default, or tasks by bucket."""
NOW = ("--available-now",)
FOUR_BUCKETS = ("--conf", "spark.default.parallelism=2")
"""On each machine: with more of them, files of a bucket are merged later."""


@dataclass(frozen=True, kw_only=True)
class KilledCase:
    """A query into the table `target`: `answer` is its SQL for DuckDB over the rows that were written."""

    columns: str
    query: str
    answer: str
    reads: str = ""

    @property
    def script(self) -> str:
        """The SQL of the pipeline."""
        target = f"CREATE TABLE IF NOT EXISTS target ({self.columns})"
        return f"{self.reads}{target} WITH ('connector' = 'delta', 'path' = 'target');\nINSERT INTO target {self.query};\n"


GROUPED = "(SELECT part, seq % 70 AS g, COUNT(*) AS n FROM events GROUP BY part, seq % 70)"
RANKED = (
    f"SELECT part, g, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY part ORDER BY n DESC, g) AS r FROM {GROUPED}) "
    "WHERE r <= 3"
)
LAST = (
    "SELECT part, g, seq FROM (SELECT part, seq % 70 AS g, seq, ROW_NUMBER() OVER (PARTITION BY part, seq % 70 "
    "ORDER BY seq DESC) AS r FROM events) WHERE r = 1"
)
OUTER = (
    f"SELECT a.g, a.n, b.n FROM (SELECT g, n FROM {GROUPED} WHERE part = 0) AS a "
    f"LEFT JOIN (SELECT g, n FROM {GROUPED} WHERE part = 1 AND n > 100) AS b ON a.g = b.g"
)
ALONE = (
    f"SELECT a.g, a.n FROM (SELECT g, n FROM {GROUPED} WHERE part = 0) AS a WHERE NOT EXISTS (SELECT 1 FROM events AS b "
    "WHERE b.part = 1 AND b.seq > 7000 AND b.seq < 7035 AND b.seq % 70 = a.g)"
)
VALUES = (
    "SELECT part, COUNT(DISTINCT n), MIN(n), MAX(n), COUNT(*) FILTER (WHERE n % 2 = 0), {} "
    f"FROM {GROUPED} GROUP BY part"
)
SEEN = (
    "SELECT seq % 70 AS g, COUNT(*) AS n, COUNT(DISTINCT part) AS parts, MAX(seq) AS hi, "
    "COUNT(DISTINCT seq % 11) FILTER (WHERE part = 1) AS rests FROM events GROUP BY seq % 70"
)
DIFFERENT = (
    f"SELECT g FROM {GROUPED} WHERE part = 0 EXCEPT SELECT g + 20 FROM {GROUPED} WHERE part = 1"
)
OVER_CHANGES = {
    "top n": KilledCase(
        columns="part INT, g BIGINT, n BIGINT, PRIMARY KEY (part, g) NOT ENFORCED",
        query=RANKED,
        answer=RANKED,
    ),
    "deduplication": KilledCase(
        columns="part INT, n BIGINT, total BIGINT, PRIMARY KEY (part) NOT ENFORCED",
        query=f"SELECT part, COUNT(*), SUM(seq) FROM ({LAST}) GROUP BY part",
        answer=f"SELECT part, COUNT(*), SUM(seq)::BIGINT FROM ({LAST}) GROUP BY part",
    ),
    "best row": KilledCase(
        columns="part INT, g BIGINT, seq BIGINT, PRIMARY KEY (part, g) NOT ENFORCED",
        query=LAST,
        answer=LAST,
    ),
    "distinct values": KilledCase(
        columns="g BIGINT, n BIGINT, parts BIGINT, hi BIGINT, rests BIGINT, PRIMARY KEY (g) NOT ENFORCED",
        query=SEEN,
        answer=SEEN,
    ),
    "distinct values of some groups": KilledCase(
        columns="g BIGINT, n BIGINT, parts BIGINT, hi BIGINT, rests BIGINT, PRIMARY KEY (g) NOT ENFORCED",
        query=f"{SEEN} HAVING MAX(seq) % 3 <> 0",
        answer=f"{SEEN} HAVING MAX(seq) % 3 <> 0",
    ),
    "outer join": KilledCase(
        columns="g BIGINT, n BIGINT, m BIGINT, PRIMARY KEY (g) NOT ENFORCED",
        query=OUTER,
        answer=OUTER,
    ),
    "anti join": KilledCase(
        columns="g BIGINT, n BIGINT, PRIMARY KEY (g) NOT ENFORCED", query=ALONE, answer=ALONE
    ),
    "set operation": KilledCase(
        columns="g BIGINT, PRIMARY KEY (g) NOT ENFORCED", query=DIFFERENT, answer=DIFFERENT
    ),
    "aggregates": KilledCase(
        columns="part INT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, PRIMARY KEY (part) NOT ENFORCED",
        query=VALUES.format("AVG(n)"),
        answer=VALUES.format("SUM(n)::BIGINT // COUNT(*)"),
    ),
    "running totals": KilledCase(
        columns="part INT, seq BIGINT, total BIGINT, lo BIGINT",
        query="SELECT part, seq, SUM(seq) OVER w, MIN(seq) OVER w FROM events WINDOW w AS (PARTITION BY part ORDER BY ts)",
        # the watermark is a second behind the last row, which waits
        answer="SELECT part, seq, SUM(seq) OVER (PARTITION BY part ORDER BY ts)::BIGINT, 0 FROM events "
        "QUALIFY seq < MAX(seq) OVER ()",
    ),
    "upserts": KilledCase(
        columns="part INT, n BIGINT, total BIGINT, PRIMARY KEY (part) NOT ENFORCED",
        query="SELECT part, COUNT(*), SUM(seq) FROM upserts GROUP BY part",
        answer="SELECT part, COUNT(*), SUM(seq)::BIGINT FROM events WHERE seq % 2 = 1 GROUP BY part",
        reads=UPSERTS,
    ),
    "windows over upserts": KilledCase(
        columns="part INT, starts TIMESTAMP(3), n BIGINT, total BIGINT",
        query="SELECT part, window_start, COUNT(*), SUM(seq) FROM "
        "TABLE(TUMBLE(TABLE upserts, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY part, window_start, window_end",
        # the watermark is a second behind the last row, and its window is open
        answer="SELECT part, date_trunc('minute', ts) AS w, COUNT(*), SUM(seq)::BIGINT FROM events WHERE seq % 2 = 1 "
        "AND seq // 60 < (SELECT MAX(seq) // 60 FROM events) GROUP BY part, w",
        reads=UPSERTS,
    ),
}
"""Operators over changes, and what their pipelines read and write."""

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [ONE_TASK, BY_BUCKET])
def test_a_run_by_keyed_operators_dies_at_every_step(
    pipeline: Make, workload: Workload, tasks: str
) -> None:
    """Before the sink has the batch, before and after the manifest, and in tasks, which Spark runs again."""
    job = die_at_every_step(pipeline, workload, tasks + SIZES, states=1 if tasks == ONE_TASK else 3)

    assert found_sizes(job) == sizes(workload)
    assert list((job.checkpoint("sizes") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_dies_beside_merges_of_its_state(pipeline: Make, workload: Workload) -> None:
    """With merged files that no manifest names, and with a manifest of them whose batch is run again.

    What the dead have left is gone in a while, and no file goes that a manifest names.
    """
    workload.write(10 * SMALL)
    job = pipeline(workload.script(SIZES, batch=SMALL), *NOW, *FOUR_BUCKETS)
    job.start_with("state-merged=kill")
    assert job.end(REACHED_S)[0] == KILLED, job.log[-4000:]
    state = SavedState(job.checkpoint("sizes") / "keyed")
    lost = state.files - state.named

    assert any(is_merged(name) for _, name in lost)
    workload.write(10 * SMALL)
    job.gate.touch()
    job.start_with(f"written=wait:{job.gate};committed=kill@2")
    job.until_taken("written")
    # one bucket after the other: that of the first is whole when there is one of a second
    job.until(lambda: len({b for b, name in state.files - lost if is_merged(name)}) > 1, "merges")
    before = state.newest
    job.let_go()
    assert job.end(REACHED_S)[0] == KILLED, job.log[-4000:]

    assert state.newest.batch_id == before.batch_id + 1 > job.logged("sizes", "commits")[-1]
    taken = {name for _, name in state.newest.names - before.names if is_merged(name)}
    assert taken
    assert located(before) <= state.files
    job.hold_at("written", visit=11)
    job.until(lambda: state.files == state.named, "only files that a manifest has")
    assert not taken & {name for _, name in state.files}
    assert any(is_merged(name) for _, name in state.files)
    job.let_go()
    job.finish(REACHED_S)

    assert found_sizes(job) == sizes(workload)


@pytest.mark.faults
@pytest.mark.timeout(10_800)
def test_keyed_operators_die_at_random_moments(
    pipeline: Make, workload: Workload, seed: int, kills: int
) -> None:
    """Sums and a join in one process, all of it or its Python process alone: merges and removals are among the moments."""
    draw = random.Random(seed)
    workload.write(10 * SMALL)
    job = pipeline(workload.script(SIZES, PAIRS, batch=SMALL), "--continuous", *FOUR_BUCKETS)
    for _ in range(kills):
        behind = draw.choice(["sizes", "pairs"])
        before = job.batches(behind)
        workload.write(2 * SMALL)
        job.start_clean()
        if draw.random() < 0.9:
            job.until(lambda name=behind, n=before: job.batches(name) > n, "a batch")
        job.pause(draw.uniform(0, 5.0))
        job.kill(everything=draw.random() < 0.5)
    job.arguments = (*job.arguments[:2], *NOW, *FOUR_BUCKETS)
    job.start_clean()
    job.finish(REACHED_S)

    assert found_sizes(job) == sizes(workload)
    assert found_pairs(job) == pairs(workload)
    for name in ("sizes", "pairs"):
        assert any(is_merged(file) for _, file in SavedState(job.checkpoint(name) / "keyed").files)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [ONE_TASK, BY_BUCKET])
def test_a_join_of_inserts_dies_at_every_step(
    pipeline: Make, workload: Workload, tasks: str
) -> None:
    """Each row finds the one before it of its partition, in an earlier batch or the same, and once."""
    job = die_at_every_step(pipeline, workload, tasks + PAIRS, states=1)

    assert found_pairs(job) == pairs(workload)
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
def test_an_outer_join_in_time_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row that has ended is there once, with its match or without one."""
    job = die_at_every_step(pipeline, workload, ALONE_OR_FOLLOWED, states=1)
    # a second of the watermark: a row of 0 ends two seconds behind its time, one of 1 at it
    until = min(workload.written.values()) - 2
    left = {seq for seq in range(min(workload.written.values())) if seq % 3 == 0}
    right = {seq for seq in range(min(workload.written.values())) if seq % 4 == 1}
    pairs = Counter((seq, seq + 1) for seq in left if seq + 1 in right)
    alone = Counter((seq, None) for seq in left if seq + 1 not in right and seq + 2 <= until)
    alone += Counter((None, seq) for seq in right if seq - 1 not in left and seq <= until)

    found = delta_rows(job.project / "following", "SELECT seq, after FROM {table}")
    assert Counter(map(tuple, found)) == pairs + alone
    assert list((job.checkpoint("following") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [ONE_TASK, BY_BUCKET])
def test_windows_over_inserts_die_at_every_step(
    pipeline: Make, workload: Workload, tasks: str
) -> None:
    """Each window that the watermark has closed is there once, with all rows of its panes, in whatever batch they came."""
    job = die_at_every_step(pipeline, workload, tasks + BUSIEST, states=1)
    query = "SELECT part, n, starts FROM {table}"
    found = Counter(map(tuple, delta_rows(job.project / "busiest", query)))
    # a second of the watermark, of the partition that is behind all others
    passed = min(workload.written.values()) - 2
    starts = range(-50, passed - 59, 10)

    assert found == Counter(
        (part, min(60, start + 60), FIRST + timedelta(seconds=start))
        for part in workload.written
        for start in starts
    )
    assert list((job.checkpoint("busiest") / "keyed" / "manifests").glob("*.json"))


@pytest.mark.nightly
@pytest.mark.slow
def test_over_aggregates_die_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Each row that the watermark has passed is there once, with what was before it; others wait."""
    job = die_at_every_step(pipeline, workload, NUMBERED, states=1)
    query = "SELECT part, seq, number, minute, before, total, kinds FROM {table}"
    found = Counter(map(tuple, delta_rows(job.project / "numbered", query)))
    passed = Counter(part for part, *_ in found)
    rows = Counter(
        (part, seq, seq + 1, length, seq - 1 if seq else None, added(seq - length + 1, seq), length)
        for part, count in passed.items()
        for seq in range(count)
        for length in (min(seq + 1, 60),)
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


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_CHANGES)
def test_an_operator_over_changes_dies_at_every_step(
    pipeline: Make, workload: Workload, name: str
) -> None:
    """What is in the table is the batch answer over all rows, of each operator."""
    case = OVER_CHANGES[name]
    job = die_at_every_step(pipeline, workload, case.script, states=1)
    rows = [
        (part, seq, FIRST + timedelta(seconds=seq))
        for part, count in workload.written.items()
        for seq in range(count)
    ]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    expected = answer(case.answer, {"events": pa.table(columns, names=["part", "seq", "ts"])})
    found = delta_rows(job.project / "target", "SELECT * FROM {table}")

    assert expected
    assert Counter(map(tuple, found)) == expected
    assert list((job.checkpoint("target") / "keyed" / "manifests").glob("*.json"))


def sizes(workload: Workload) -> Counter[int]:
    """Count the groups of each size, as SIZES does."""
    return Counter(
        Counter(seq % GROUPS for seq in range(count))[group]
        for count in workload.written.values()
        for group in range(GROUPS)
    )


def found_sizes(job: FaultyPipeline) -> dict[int, int]:
    """Read the table of SIZES."""
    return dict(delta_rows(job.project / "sizes", "SELECT n, members FROM {table}"))


def pairs(workload: Workload) -> Counter[tuple[int, int, int]]:
    """Give the rows of PAIRS."""
    return Counter(
        (part, seq, seq) for part, count in workload.written.items() for seq in range(1, count)
    )


def found_pairs(job: FaultyPipeline) -> Counter[tuple[int, int, int]]:
    """Read the table of PAIRS."""
    found = delta_rows(job.project / "pairs", "SELECT part, seq, after FROM {table}")
    return Counter((part, seq, after) for part, seq, after in found)


@dataclass(frozen=True)
class SavedState:
    """The keyed state in a folder of a checkpoint; files are known by their folders and names."""

    folder: Path

    @property
    def files(self) -> set[tuple[str, str]]:
        """All that are there, those that are half written, too."""
        found = (path.relative_to(self.folder) for path in self.folder.glob("*/*/*"))
        return {(str(file.parent), file.name) for file in found}

    @property
    def manifests(self) -> dict[int, StateManifest]:
        """The manifests by batch."""
        found: dict[int, StateManifest] = {}
        for path in self.folder.glob("manifests/*.json"):
            # one that a run removes meanwhile is none
            with suppress(FileNotFoundError):
                manifest = read_manifest(path.read_text(encoding="utf-8"), str(path))
                found[manifest.batch_id] = manifest
        return found

    @property
    def newest(self) -> StateManifest:
        """The manifest of the last batch."""
        manifests = self.manifests
        return manifests[max(manifests)]

    @property
    def named(self) -> set[tuple[str, str]]:
        """The files that a manifest has."""
        return set().union(*map(located, self.manifests.values()))


def located(manifest: StateManifest) -> set[tuple[str, str]]:
    """Give the files of a manifest."""
    return {(bucket.folder, name) for bucket, name in manifest.names}


def is_merged(name: str) -> bool:
    """Whether a file is one of a merge, which has its writer in its name."""
    return name.count(".") > 1


def added(first: int, last: int) -> float:
    """Add tenths of numbers one after the other."""
    return reduce(add, (seq * 1e-1 for seq in range(first, last + 1)), 0.0)


def die_at_every_step(
    pipeline: Make, workload: Workload, sql: str, *, states: int
) -> FaultyPipeline:
    """Run a pipeline that is killed at each step of a batch, and then to the end.

    A worker dies when it has written `states` states: the first batch has so many for each.
    """
    workload.write(EACH)
    job = pipeline(workload.script(sql, batch=BATCH), *NOW)
    for name in ("maintained", "state-sent", "written", "committed"):
        job.start_with(f"state-written=kill@{states};{name}=kill@2")
        status, _ = job.end(REACHED_S)

        assert status in (KILLED, -9), job.log[-4000:]
        assert {mark.name for mark in job.taken.iterdir()} == {"state-written", name}
        workload.write(EACH)
    job.catch_up()
    return job
