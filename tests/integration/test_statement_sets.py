"""Statement sets on a real broker: two Delta tables from one read, one of which fails, or after which the run dies."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from penstock.catalog.errors import InputErrors, PenstockError
from penstock.connector.delta.connector import DeltaSink
from penstock.sql.session.session import connect
from tests.integration.pipeline import Pipeline, delta_rows

ROWS = 300

SCRIPT = """
SET 'restart-strategy.type' = 'none';
CREATE TABLE IF NOT EXISTS clicks (id BIGINT, url STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '100', 'format' = 'json');
CREATE TABLE IF NOT EXISTS evens (id BIGINT) WITH ('connector' = 'delta', 'path' = 'evens');
CREATE TABLE IF NOT EXISTS copies (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 'copies');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO evens SELECT id FROM clicks WHERE MOD(id, 2) = 0;
  INSERT INTO copies SELECT id, UPPER(url) FROM clicks;
END;
"""


@pytest.fixture
def script(project, kafka, topic):
    """The script over a topic with rows, in a project folder."""
    name = topic(partitions=2)
    kafka.produce(name, [json.dumps({"id": n, "url": f"u{n}"}) for n in range(ROWS)])
    path = project / "job.sql"
    path.write_text(SCRIPT.format(topic=name, bootstrap=kafka.bootstrap), encoding="utf-8")
    return path


def written(project):
    """What both tables hold, sorted."""
    return (
        sorted(delta_rows(project / "evens", "SELECT id FROM {table}")),
        sorted(delta_rows(project / "copies", "SELECT id, url FROM {table}")),
    )


EXPECTED = (
    [(n,) for n in range(0, ROWS, 2)],
    [(n, f"U{n}") for n in range(ROWS)],
)


def test_a_sink_that_fails_stops_the_set_by_its_name_and_the_others_resume_with_it(
    spark, script, project, monkeypatch
):
    """The first sink has the batch already and passes over it when it is run again: each row is there once.

    A table that was removed afterwards is not gone on with.
    """
    write_batch, failed = DeltaSink.write_batch, []

    def failing(self, frame, batch):
        if batch.sink == "copies" and batch.batch_id == 1 and not failed:
            failed.append(batch)
            raise PermissionError("no space left on device")
        write_batch(self, frame, batch)

    monkeypatch.setattr(DeltaSink, "write_batch", failing)
    with (
        connect(spark) as session,
        pytest.raises(PenstockError, match=r"sink copies: .*no space left"),
    ):
        session.run_file(script)
    with connect(spark) as session:
        (job,) = session.run_file(script)
        (again,) = session.run_file(script)

    assert failed
    assert job.name == "job/statement-set"
    assert job.progress.rows_in == 200, "batch 1 again, and batch 2"

    assert again.progress.rows_in == 0
    assert written(project) == EXPECTED

    shutil.rmtree(project / "evens")
    with (
        connect(spark) as session,
        pytest.raises(PenstockError, match=r"sink evens: .*is another one"),
    ):
        session.run_file(script)


@pytest.mark.nightly
def test_a_set_that_can_no_longer_share_its_read_does_not_begin_anew_by_itself(
    spark, script, project
):
    """Its queries have other checkpoints then: refused, and from scratch a query per INSERT, side by side."""
    with connect(spark) as session:
        session.run_file(script)
        apart = script.read_text(encoding="utf-8").replace("MOD(id, 2) = 0", "RAND() >= 0")
        script.write_text(apart, encoding="utf-8")

        with pytest.raises(InputErrors, match="ran as one query before"):
            session.run_file(script)

        jobs = session.run_file(script, from_scratch=True)

    evens, copies = written(project)
    assert sorted(job.name for job in jobs) == ["job/copies", "job/evens"]
    assert (len(evens), len(copies)) == (ROWS // 2 + ROWS, 2 * ROWS)


@pytest.mark.faults
def test_killed_between_two_sinks_of_a_batch_each_row_is_written_once(script, project):
    """The summary tells the rows of each sink."""
    pipeline = Pipeline(project, script)
    os.environ["PENSTOCK_FAILPOINTS"] = "sink-written=kill@3"
    try:
        assert pipeline.start().wait(240) != 0
    finally:
        del os.environ["PENSTOCK_FAILPOINTS"]
    pipeline.kill()
    evens, copies = written(project)
    assert len(copies) < len(EXPECTED[1])
    assert 2 * len(evens) > len(copies), "killed after the first sink of the second batch"

    pipeline.start()
    summary = pipeline.finish(240)["statements"][-1]

    assert written(project) == EXPECTED
    assert summary["kind"] == "STATEMENT SET"
    assert {each["sink"] for each in summary["sinks"]} == {"evens", "copies"}
    assert sum(each["rows_out"] for each in summary["sinks"]) == summary["rows_out"]
