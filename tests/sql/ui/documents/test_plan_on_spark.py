"""The plan of pipelines that ran: what each operator keeps and what was written, of the job and of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import PenstockError
from penstock.sql.checkpoint.failure_record import read_failures
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session
from penstock.sql.ui.documents.live import live_pipeline
from penstock.sql.ui.documents.stored import StoredPipelines

TABLES = """
CREATE TABLE src (k STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'src', 'format' = 'json');
CREATE TABLE counted (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'counted');
CREATE TABLE spreads (k STRING, n DOUBLE, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'spreads');
CREATE TABLE large (k STRING, n BIGINT) WITH ('connector' = 'delta', 'path' = 'large');
CREATE VIEW newest AS SELECT k, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM src) WHERE place = 1
"""
TIMES = "2024-05-01 00:00:0"


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in a project with two keys in a file."""
    (project / "src").mkdir()
    rows = [f'{{"k": "{k}", "n": {n}, "ts": "{TIMES}{n}"}}' for n, k in enumerate("abba")]
    (project / "src/one.json").write_text("\n".join(rows) + "\n")
    with penstock.connect(spark) as session:
        for statement in TABLES.split(";"):
            session.sql(statement)
        yield session


def ended(session: Session, insert: str) -> Job:
    """A job that has read the file."""
    job = session.sql(insert)
    assert isinstance(job, Job)
    job.await_termination(120)
    return job


def stored(session: Session, project: Path, job: Job) -> dict[str, Any]:
    """What the checkpoint says of its pipeline."""
    found = StoredPipelines(namespace=session.namespace, project=project).pipeline(job.name)
    assert found is not None
    return found


def with_state(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in document["operators"] if "keeps" in each]


def test_a_keyed_query_tells_what_it_keeps_here_and_in_its_checkpoint(
    session: Session, project: Path
) -> None:
    """The same operators, rows and bytes; the version of the table is the job's to tell."""
    job = ended(session, "INSERT INTO counted SELECT k, COUNT(n) FROM newest GROUP BY k")
    here, there = live_pipeline(job), stored(session, project, job)

    assert with_state(here) == with_state(there)
    assert {each["mechanism"] for each in with_state(here)} == {"keyed operator"}
    assert all(each["rows"] > 0 and each["bytes"] > 0 for each in with_state(here))
    assert {"Aggregate", "Scan"} <= {each["name"].split()[0] for each in here["operators"]}
    (sink,), (kept,) = here["sinks"], there["sinks"]
    assert (sink["name"], sink["guarantee"], kept["guarantee"]) == (
        "counted",
        "exactly-once",
        "exactly-once",
    )


def test_a_query_that_spark_runs_in_stages_has_the_bytes_of_its_state(
    session: Session, project: Path
) -> None:
    """Keyed operators do not compute STDDEV_POP."""
    job = ended(session, "INSERT INTO spreads SELECT k, STDDEV_POP(n) FROM newest GROUP BY k")
    here, there = live_pipeline(job), stored(session, project, job)

    assert with_state(here) == with_state(there)
    assert {each["mechanism"] for each in with_state(here)} == {"spark, several jobs a batch"}
    assert all(each["bytes"] > 0 for each in with_state(here))


def test_rows_that_tasks_write_have_no_operator_with_state(session: Session, project: Path) -> None:
    """The commit is Penstock's own, so that its version and files are known."""
    job = ended(session, "INSERT INTO large SELECT k, n FROM src WHERE n > 0")
    here = live_pipeline(job)

    assert with_state(here) == []
    assert {each["mechanism"] for each in here["operators"]} == {"reading tasks"}
    (sink,) = here["sinks"]
    assert (sink["writer"], sink["commits"], sink["files"]) == ("reading tasks", 1, 1)
    assert sink["version"] >= 1
    assert stored(session, project, job)["operators"] == here["operators"]


def test_what_a_query_failed_of_is_in_its_checkpoint(session: Session, project: Path) -> None:
    """For its page, also once it is over."""
    session.sql("SET 'restart-strategy.type' = 'none'")
    job = session.sql("INSERT INTO large SELECT k, 7 / (n - 1) FROM src")
    assert isinstance(job, Job)
    with pytest.raises(PenstockError):
        job.await_termination(120)
    (here,), (there,) = live_pipeline(job)["errors"], stored(session, project, job)["errors"]

    assert here == there
    assert "zero" in here["message"]
    assert len(read_failures(LocalFiles(location=live_pipeline(job)["checkpoint"]))) == 1
