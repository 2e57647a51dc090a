"""Micro-batches that a function writes: the same name for the same batch, and errors that keep their kind."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import SinkError
from penstock.connector.contract import AvailableNow, Continuous, MicroBatch, SinkSettings
from penstock.connector.spark.sink.micro_batch import (
    BatchInterruptedError,
    batch_digest,
    micro_batch_query,
    translate_interruptions,
)
from penstock.sql.errors.spark import translate
from tests.integration.pipeline import wait_until


def run(
    spark: SparkSession,
    folder: Path,
    write: Callable[[DataFrame, MicroBatch], None],
    after: Callable[[MicroBatch], None] | None = None,
    plan: str = "SELECT",
) -> None:
    """Run what the folder `in` holds through a query whose checkpoint is in `folder`."""
    frame = spark.readStream.schema("id INT").json(str(folder / "in"))
    settings = SinkSettings(
        checkpoint=str(folder / "checkpoint"),
        query_name="q",
        trigger=AvailableNow(),
        plan=plan,
        after_batch=after,
    )
    micro_batch_query(frame, settings, write).awaitTermination()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file to read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    return tmp_path


def test_a_batch_that_is_written_again_has_the_same_name(spark: SparkSession, folder: Path) -> None:
    """Query, number and digest, although the process that ran it failed; another plan has another digest."""
    seen: list[tuple[str, int, str]] = []

    def write(_rows: DataFrame, batch: MicroBatch) -> None:
        seen.append((batch.application_id, batch.batch_id, batch_digest(batch)))
        if len(seen) == 1:
            raise SinkError("refused")

    with pytest.raises(Exception, match="refused"):
        run(spark, folder, write)
    run(spark, folder, write)
    (folder / "checkpoint" / "commits" / "0").unlink()
    (folder / "checkpoint" / "commits" / ".0.crc").unlink()
    run(spark, folder, write, plan="SELECT 1")
    first, second, other = seen

    assert first == second
    assert first[:2] == other[:2] == (other[0], 0)
    assert first[2] != other[2]


def test_what_comes_after_a_batch_sees_it_written(spark: SparkSession, folder: Path) -> None:
    """And a failure of it fails the batch, with its own kind of error."""
    order: list[str] = []

    def after(batch: MicroBatch) -> None:
        order.append(f"after {batch.batch_id}")
        raise SinkError("no letters")

    with pytest.raises(Exception, match="no letters") as caught:
        run(spark, folder, lambda _rows, _batch: order.append("write"), after)

    assert order == ["write", "after 0"]
    assert isinstance(translate(caught.value), SinkError)


# --- A batch that is interrupted when its query is stopped: what Spark is told, and that it ---


PROXY_ERROR = re.compile(
    r"py4j\.protocol\.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)(java\.lang\.InterruptedException)"
)
"""Spark's, of StreamExecution."""


class JavaError(Py4JJavaError):
    """An error of Java, with its stack."""

    def __init__(self, kind: str) -> None:
        Exception.__init__(self, kind)
        self.text = (
            f"An error occurred while calling o1.collect.\n: {kind}\n" + "\tat a.b.C\n" * 999
        )

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    "kind",
    ["java.lang.InterruptedException", "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED]"],
)
def test_an_interruption_is_told_in_few_words(kind: str) -> None:
    """Also where a sink put it into an error of its own: the report that Spark gets has no stack of Java."""

    def write() -> None:
        try:
            raise JavaError(kind)
        except JavaError as error:
            raise SinkError("the table cannot be written") from error

    with pytest.raises(BatchInterruptedError) as caught, translate_interruptions():
        write()
    report = "".join(traceback.format_exception(caught.value))

    found = PROXY_ERROR.search(report)
    assert found is not None
    assert len(report) - found.start() < 200


def test_other_errors_pass() -> None:
    """With all that is known of them."""
    with pytest.raises(JavaError) as caught, translate_interruptions():
        raise JavaError("java.io.IOException: no space left on device")

    assert "a.b.C" in str(caught.value)


def test_a_query_that_is_stopped_in_its_batch_is_stopped_and_did_not_fail(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's thread ended with a StackOverflowError here."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    begun = Event()

    def write(rows: DataFrame, _batch: MicroBatch) -> None:
        begun.set()
        rows.sparkSession.range(1 << 50).selectExpr("sum(id * id)").collect()

    frame = spark.readStream.schema("id INT").json(str(tmp_path / "in"))
    settings = SinkSettings(
        checkpoint=str(tmp_path / "checkpoint"), query_name="q", trigger=Continuous(interval_ms=0)
    )
    query = micro_batch_query(frame, settings, write)
    assert begun.wait(30)
    status = spark.sparkContext.statusTracker()
    wait_until(lambda: bool(status.getActiveJobsIds()), seconds=30, what="the job of the batch")
    query.stop()

    assert query.exception() is None
    assert query.status["message"] == "Stopped"
