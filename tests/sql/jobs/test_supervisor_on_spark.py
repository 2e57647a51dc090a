"""The supervisor on real streaming queries: nothing that Spark reports is lost, stops are clean, failures are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.catalog.errors import QueryFailedError
from penstock.connector.contract import AvailableNow, Continuous
from penstock.sql.clock import SystemClock
from penstock.sql.errors.spark import is_permanent
from penstock.sql.jobs.supervisor import Supervisor, SupervisorSettings
from penstock.sql.observation.batch_metrics import BatchMetrics, read_batch_metrics
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits
from penstock.sql.settings import DEFAULT_RESTART

END_S = 90


@dataclass
class FrameInsert:
    """A PlannedInsert over any streaming frame, written to files; made anew for each start."""

    frame: Any
    target: Any
    checkpoint: str
    sink: str = "copy"
    pipeline: str = "test/copy"
    is_stream: bool = True
    leaves: tuple[Any, ...] = ()
    traits: PipelineTraits = field(default_factory=PipelineTraits)
    queries: list[Any] = field(default_factory=list)

    def outage(self) -> None:
        """Files are always there."""

    def record_failures(self, failures: Any) -> None:
        """None is kept."""

    def start(self, trigger: Any, lost_lease: Any = None) -> Any:
        writer = (
            self.frame()
            .writeStream.format("parquet")
            .option("path", str(self.target))
            .option("checkpointLocation", self.checkpoint)
        )
        if isinstance(trigger, AvailableNow):
            writer = writer.trigger(availableNow=True)
        self.queries.append(writer.start())
        return self.queries[-1]

    def read_metrics(self, progress: dict[str, Any]) -> BatchMetrics:
        return read_batch_metrics(progress, rows_out_metric="rows")


@pytest.fixture
def files(spark, tmp_path):
    """Gives a stream over 20 small files, one file a batch: many quick batches."""
    source = tmp_path / "source"
    spark.range(0, 2_000, 1, 20).write.parquet(str(source))
    schema = spark.read.parquet(str(source)).schema

    def stream():
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(source))

    return stream


def supervised(insert, trigger):
    """A supervisor over the insert, on the machine's clock."""
    settings = SupervisorSettings(trigger=trigger, restarts=DEFAULT_RESTART)
    return Supervisor(insert, settings=settings, clock=SystemClock())


def test_every_batch_of_a_quick_query_is_counted(spark, files, tmp_path):
    """Twenty batches in quick succession give twenty events and all rows."""
    insert = FrameInsert(files, tmp_path / "out", str(tmp_path / "checkpoint"))
    supervisor = supervised(insert, AvailableNow())

    supervisor.start()
    assert supervisor.done.wait(END_S)

    progress = supervisor.progress()
    assert (progress.status, progress.batches, progress.rows_in) == (JobStatus.FINISHED, 20, 2_000)
    assert supervisor.error is None


def test_a_stopped_query_has_finished_its_batch_and_goes_on_later(spark, files, tmp_path):
    """What was counted before the stop and after it adds up to every row, written once."""
    insert = FrameInsert(files, tmp_path / "out", str(tmp_path / "checkpoint"))
    first = supervised(insert, Continuous())
    first.start()
    while first.progress().batches < 3:
        assert not first.done.wait(0.05)
    first.request_stop()
    assert first.done.wait(END_S)
    before = first.progress()

    second = supervised(insert, AvailableNow())
    second.start()
    assert second.done.wait(END_S)

    after = second.progress()
    assert (before.status, after.status) == (JobStatus.STOPPED, JobStatus.FINISHED)
    assert before.rows_in + after.rows_in == 2_000
    assert spark.read.parquet(str(tmp_path / "out")).distinct().count() == 2_000
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2_000


def test_bad_data_in_a_query_is_permanent_and_told_in_a_line(spark, files, tmp_path):
    """Division by zero comes again with every attempt: no restart, no stack trace, no plan."""
    insert = FrameInsert(
        lambda: files().selectExpr("1 / (id - id) AS x"), tmp_path / "out", str(tmp_path / "c")
    )
    supervisor = supervised(insert, AvailableNow())

    supervisor.start()
    assert supervisor.done.wait(END_S)

    assert supervisor.progress().status is JobStatus.FAILED
    assert supervisor.error.message.startswith("Division by zero.")
    assert is_permanent(supervisor.error)
    assert "\n" not in supervisor.error.message
    assert len(insert.queries) == 1


def test_a_start_that_fails_is_told_in_a_line(spark, files, tmp_path):
    """The reason stays readable through Py4J's and Hadoop's layers of exceptions."""
    (tmp_path / "out").write_text("a file where the folder should be", encoding="utf-8")
    insert = FrameInsert(files, tmp_path / "out", str(tmp_path / "c"))

    with pytest.raises(QueryFailedError, match=r"^Parent path is not a directory: \S+/out$"):
        supervised(insert, AvailableNow()).start()
