"""Files and databases as targets: runners that were paused, statements that meet, an answer that is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.catalog.definitions.leases import LEASE_TIMEOUT_MS
from tests.connector.jdbc.tables import jdbc_table, sink_of
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline, thaw
from tests.faults.proxy import HOST, Proxy, Weather
from tests.postgres_server import USER, PostgresServer

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

OUT = "CREATE TABLE IF NOT EXISTS out (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');"
COPY = f"""
CREATE TABLE IF NOT EXISTS numbers (id BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'scan.parallelism' = '3');
{OUT}
INSERT INTO out SELECT id FROM numbers;
"""


def ids(folder: Path) -> list[int]:
    """The ids in the files of a table, sorted."""
    lines = (line for file in folder.glob("part-*") for line in file.read_text().splitlines())
    return sorted(json.loads(line)["id"] for line in lines)


@pytest.mark.faults
def test_a_runner_that_is_paused_between_two_files_loses_no_row(
    pipeline: Make, project: Path
) -> None:
    """Case 16: it wakes up when another has its lease and has moved all files of the batch."""
    (project / "in").mkdir()
    for start in (0, 100, 200):
        lines = "".join(f'{{"id": {n}}}\n' for n in range(start, start + 100))
        (project / "in" / f"{start}.json").write_text(lines)
    first, second = pipeline(COPY), pipeline(COPY)
    first.hold_at("moving", visit=2)
    moved = ids(project / "out")
    frozen = first.freeze()
    time.sleep(LEASE_TIMEOUT_MS / 1000 + 5)  # the fault itself: longer than a claim lasts
    second.start_clean()
    second.finish(CATCH_UP_S)
    before = ids(project / "out")
    first.let_go()
    thaw(frozen)
    status, _ = first.end()

    assert 0 < len(moved) < 300
    assert before == list(range(300))
    assert status != 0
    assert ids(project / "out") == list(range(300))


PARQUET = """
CREATE TABLE IF NOT EXISTS numbers (id BIGINT) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
  'source.max-bytes-per-batch' = '4 kb');
CREATE TABLE IF NOT EXISTS kept (id BIGINT, part BIGINT) PARTITIONED BY (part) WITH (
  'connector' = 'filesystem', 'path' = 'kept', 'format' = 'parquet', 'sink.partition-commit.policy.kind' = 'success-file');
INSERT INTO kept SELECT id, MOD(id, 3) FROM numbers;
"""


def kept(folder: Path) -> list[int]:
    """The ids in the Parquet files that readers see, sorted."""
    files = folder.glob("part=*/part-*.parquet")
    return sorted(each for file in files for each in pq.ParquetFile(file).read()["id"].to_pylist())


@pytest.mark.faults
def test_killed_between_the_files_of_tasks_and_their_places(pipeline: Make, project: Path) -> None:
    """Tasks have staged the files of a batch; then the manifest has some of them: each row comes once all the same."""
    (project / "in").mkdir()
    for start in range(0, 1_000, 100):
        lines = "".join(f'{{"id": {n}}}\n' for n in range(start, start + 100))
        (project / "in" / f"{start:04}.json").write_text(lines)
    job, out = pipeline(PARQUET, "--available-now"), project / "kept"
    job.hold_at("files-written", visit=2)
    before, staged = kept(out), len(list((out / "_penstock").rglob("*.parquet")))
    job.kill()
    job.hold_at("moving", visit=2)
    meanwhile = kept(out)
    job.kill()
    job.catch_up()

    assert 0 < len(before) < 1_000
    assert staged > 0
    assert len(before) < len(meanwhile) < 1_000
    assert kept(out) == list(range(1_000))
    assert list((out / "_penstock").rglob("*.parquet")) == []
    assert "arrow" in pq.ParquetFile(next(out.glob("part=*/*.parquet"))).metadata.created_by
    assert all((folder / "_SUCCESS").exists() for folder in out.glob("part=*"))


@pytest.mark.faults
def test_two_inserts_of_values_at_once_are_one_after_the_other(
    pipeline: Make, project: Path
) -> None:
    """The second waits, and is refused by name while the first is held up; what was killed is finished by the next."""
    first = pipeline(f"{OUT} INSERT INTO out VALUES (1), (2);", name="first")
    second = pipeline(f"{OUT} INSERT INTO out VALUES (3);", name="second")
    first.hold_at("moving")
    second.start_clean()
    refused, document = second.end()
    meanwhile = ids(project / "out")
    first.kill()
    second.catch_up()

    assert refused != 0
    assert "another INSERT of process" in json.dumps(document)
    assert 3 not in meanwhile
    assert ids(project / "out") == [1, 2, 3]


@pytest.mark.faults
def test_an_overwrite_that_takes_its_manifest_back_loses_no_row(
    pipeline: Make, project: Path
) -> None:
    """It was paused behind its manifest until its lease was over, and once more just before it removes that."""
    pipeline(f"{OUT} INSERT INTO out VALUES (1), (2);", name="seed").catch_up()
    first = pipeline(f"{OUT} INSERT OVERWRITE out VALUES (9);", name="first")
    second = pipeline(f"{OUT} INSERT INTO out VALUES (3);", name="second")
    third = pipeline(f"{OUT} INSERT INTO out VALUES (4);", name="third")
    behind, before = project / "behind", project / "before"
    behind.touch()
    before.touch()
    first.start_with(f"decided=wait:{behind};taking-back=wait:{before}")
    first.until_taken("decided")
    frozen = first.freeze()
    time.sleep(LEASE_TIMEOUT_MS / 1000 + 5)  # the fault itself: longer than a claim lasts
    second.catch_up()
    behind.unlink()
    thaw(frozen)
    first.until_taken("taking-back")
    third.catch_up()
    before.unlink()
    status, _ = first.end()
    after = ids(project / "out")
    pipeline(f"{OUT} INSERT INTO out VALUES (5);", name="last").catch_up()

    assert status != 0
    assert after == [1, 2, 3, 4]
    assert ids(project / "out") == [1, 2, 3, 4, 5]


@pytest.fixture
def proxy(seed: int, postgres: PostgresServer) -> Iterator[Proxy]:
    """One in front of PostgreSQL."""
    made = Proxy(seed)
    made.listen()
    made.forward(postgres.port)
    yield made
    made.close()


@pytest.mark.faults
def test_a_commit_of_values_whose_answer_is_lost_is_done_once(
    spark: SparkSession, postgres: PostgresServer, proxy: Proxy
) -> None:
    """PostgreSQL has committed, the connection is reset before it says so: the next attempt finds that out."""
    with postgres.schema() as schema:
        postgres.execute("CREATE TABLE orders (id BIGINT, name TEXT)", schema=schema)
        url = f"jdbc:postgresql://{HOST}:{proxy.port}/postgres?currentSchema={schema}"
        options = {"url": url, "username": USER, "password": "none"}
        sink = sink_of(jdbc_table(options, key=()))
        frame = spark.sql("SELECT 1L AS id, 'a' AS name")
        sink.prepare(spark, frame.schema)
        proxy.weather = Weather(lost=b"COMMIT\0")
        sink.write(frame)
        lost = proxy.reset_connections
        rows = postgres.execute("SELECT id, name FROM orders", schema=schema)
        ledger = postgres.execute("SELECT * FROM penstock_ledger", schema=schema)

    assert lost == 1
    assert rows == [(1, "a")]
    assert ledger == []
