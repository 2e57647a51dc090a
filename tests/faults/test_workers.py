"""Python workers and the source's planner process die or freeze: Spark or the runner does their work again, once."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.faulty import CATCH_UP_S, FaultyPipeline, spark_log, transactions
from tests.faults.workload import BOUNDED, COPY, COUNT, Workload, counted

EACH = 1_500
NOW = ("--available-now",)

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)


@pytest.mark.nightly
@pytest.mark.slow
def test_processes_of_python_die_at_every_failpoint(pipeline: Make, workload: Workload) -> None:
    """Case 8: a worker's task is tried again, a planner's query is started again, and the run ends well."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.start_with(
        "read=kill@2;file-written=kill@2;read-to-end=kill@3;planned=kill@3;partitioned=kill@2;offsets-committed=kill"
    )
    job.finish(CATCH_UP_S)

    victims = {mark.name for mark in job.taken.iterdir()}
    assert victims == {
        *("read", "file-written", "read-to-end"),
        *("planned", "partitioned", "offsets-committed"),
    }
    assert "starting again from its checkpoint" in job.log
    assert workload.check_copy(job.project / "copied").findings == {}
    assert (committed := transactions(job.project / "copied")) == sorted(set(committed))


@pytest.mark.faults
def test_a_worker_that_was_frozen_goes_on(pipeline: Make, workload: Workload) -> None:
    """Case 9, of the source: a batch that stands still for 30 s is slow and nothing else."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.start_with("read=stop@2")
    worker = job.until_taken("read")
    with pytest.raises(AssertionError, match="not within"):
        job.until(lambda: job.batches("copied") > 2, "a batch after it", seconds=30)
    os.kill(worker, signal.SIGCONT)
    job.finish(CATCH_UP_S)

    assert workload.check_copy(job.project / "copied").findings == {}


@pytest.mark.faults
def test_a_worker_without_memory_says_so(pipeline: Make, workload: Workload) -> None:
    """Case 10: a limit of memory (RLIMIT_AS) below what the records need: a clear error, and no row of the batch."""
    workload.write(10)
    big = "x" * 900_000
    for _ in range(20):
        workload.kafka.produce_json(workload.topic, [{"part": 9, "payload": big}] * 50)
    limit = ("--conf", "spark.executor.pyspark.memory=1g")
    script = workload.script(COPY, batch=2_000)
    job = pipeline("SET 'restart-strategy' = 'none';\n" + script, *NOW, *limit)
    job.start_clean()
    status, summary = job.end()

    (insert,) = [each for each in summary["statements"] if each["kind"] == "INSERT"]
    assert status == 1
    assert re.search("Python worker|MemoryError", insert["error"])
    assert "memory" in job.log
    assert transactions(job.project / "copied") == []


@pytest.mark.faults
def test_a_stage_is_run_again_for_shuffle_files_that_are_lost(
    project: Path, pipeline: Make, workload: Workload
) -> None:
    """Case 12: a map task's output vanishes before it is fetched: its range is read again, and counted once."""
    workload.write(EACH)
    blocks = project / "blocks"
    job = pipeline(workload.script(COUNT, options=BOUNDED), "--conf", f"spark.local.dir={blocks}")
    job.hold_at("read", visit=3)
    offsets = job.checkpoint("counted") / "offsets" / str(job.logged("counted", "offsets")[-1])
    began_s = offsets.stat().st_mtime
    job.until(lambda: is_settled(blocks, began_s), "the output of the batch's other task")
    for file in blocks.rglob("shuffle_*"):
        file.unlink()
    job.let_go()
    job.finish(CATCH_UP_S)

    assert "FetchFailed" in spark_log(project)
    assert counted(project / "counted") == workload.windows()


def is_settled(blocks: Path, began_s: float) -> bool:
    """Tell whether shuffle files were written since a time (epoch seconds), and none in the last three seconds."""
    newest_s = max((file.stat().st_mtime for file in blocks.rglob("shuffle_*.data")), default=0.0)
    return began_s < newest_s < time.time() - 3
