"""kill -9 of the driver, its JVM and all workers at each boundary between two stages: the result is the batch answer.

Each test holds or watches the pipeline until it is exactly there, says so by what the disk then has, kills, and lets a
run without faults catch up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.faults.faulty import FaultyPipeline, transactions, versions
from tests.faults.workload import BOUNDED, COPY, COUNT, KEEP, Workload, counted

EACH = 1_500
NOW = ("--available-now",)

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)


def caught_up(pipeline: FaultyPipeline, workload: Workload) -> None:
    """A run without faults ends in time, and then every record is in the copy once and every batch in one commit."""
    pipeline.catch_up()
    committed = transactions(pipeline.project / "copied")

    assert workload.check_copy(pipeline.project / "copied").findings == {}
    assert committed == sorted(set(committed))


@pytest.mark.faults
def test_killed_before_the_offsets_are_written(pipeline: Make, workload: Workload) -> None:
    """Case 1: a batch was decided and is not in the checkpoint: the same or a larger one is planned."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.hold_at("planned", visit=3)
    before = job.logged("copied", "offsets")
    job.kill()
    workload.write(100)

    assert before == [0, 1]
    caught_up(job, workload)


@pytest.mark.faults
def test_killed_before_any_task_runs(pipeline: Make, workload: Workload) -> None:
    """Case 2: the offsets are written and nothing is read: the same ranges are read by the next run."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.hold_at("partitioned", visit=3)
    offsets, commits = job.logged("copied", "offsets"), job.logged("copied", "commits")
    job.kill()
    workload.write(100)

    assert (offsets[-1], commits[-1]) == (2, 1)
    caught_up(job, workload)


@pytest.mark.faults
def test_killed_while_tasks_write(pipeline: Make, workload: Workload) -> None:
    """Case 3: a task of two has written its file, which no commit names: nobody sees it, its rows come again."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    job.hold_at("read-to-end", visit=2)
    job.until(lambda: data_files(table) > named_files(table), "a file that no commit names")
    orphans = data_files(table) - named_files(table)
    job.kill()

    assert orphans > 0
    caught_up(job, workload)
    assert data_files(table) >= named_files(table) + orphans


@pytest.mark.faults
def test_killed_between_the_files_and_the_commit(pipeline: Make, workload: Workload) -> None:
    """All tasks of a batch have written their files, the driver knows them, and no commit names them."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    job.hold_at("files-written", visit=2)
    lost, committed = unnamed_files(table), transactions(table)
    job.kill()

    assert (len(lost), committed) == (workload.partitions, [0])
    caught_up(job, workload)
    assert unnamed_files(table) == lost


@pytest.mark.faults
def test_killed_before_files_that_are_put_together_are_committed(
    pipeline: Make, workload: Workload
) -> None:
    """The new file is no part of the table, the others are: the next run puts files together again."""
    workload.write(EACH)
    few = ("--conf", "spark.databricks.delta.autoCompact.minNumFiles=4")
    job = pipeline(workload.script(COPY), *NOW, *few)
    table = job.project / "copied"
    job.hold_at("put-together")
    lost, live = unnamed_files(table), named_files(table)
    job.kill()

    assert (len(lost), live) == (1, 4)
    caught_up(job, workload)
    assert unnamed_files(table) == lost
    assert named_files(table) < 4


@pytest.mark.faults
def test_optimize_and_vacuum_beside_a_run_cost_nothing(pipeline: Make, workload: Workload) -> None:
    """Another program compacts the table and removes what is no part of it, again and again, through two kills."""
    workload.write(4 * EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    done = 0
    for _ in range(2):
        before = job.batches("copied")
        job.start_clean()
        job.until(lambda before=before: job.batches("copied") > before, "a batch")
        for _ in range(10):
            done += compact_and_vacuum(table)
        job.kill()
    assert done > 0
    caught_up(job, workload)
    compact_and_vacuum(table)

    assert workload.check_copy(table).findings == {}


@pytest.mark.faults
def test_killed_between_the_delta_commit_and_the_checkpoints(
    pipeline: Make, workload: Workload
) -> None:
    """Case 4: the table has the batch and the checkpoint does not know it: the replay commits nothing."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    job.hold_at("written", visit=2)
    committed, known = transactions(table), job.logged("copied", "commits")
    job.kill()

    assert (committed, known) == ([0, 1], [0])
    caught_up(job, workload)
    assert transactions(table)[: len(committed)] == committed


@pytest.mark.faults
def test_killed_between_an_upserts_commit_and_the_checkpoints(
    pipeline: Make, workload: Workload
) -> None:
    """Case 4, where batches are written by Penstock: after the sink, and after what follows the sink."""
    workload.write(EACH)
    job = pipeline(workload.script(KEEP), *NOW)
    table = job.project / "kept"
    for name in ("written", "committed"):
        job.hold_at(name, visit=2)
        batch, known = transactions(table)[-1], job.logged("kept", "commits")
        job.kill()

        assert batch not in known
    job.catch_up()
    committed = transactions(table)

    assert workload.check_copy(table).findings == {}
    assert committed == sorted(set(committed))


@pytest.mark.faults
def test_killed_between_the_commit_of_the_state_and_the_sinks(
    pipeline: Make, workload: Workload
) -> None:
    """Case 7: the windows' new state is stored, their rows are not in the table: no record is counted twice."""
    workload.write(EACH)
    job = pipeline(workload.script(COUNT, options=BOUNDED))
    table = job.project / "counted"
    job.start_clean()
    state = job.checkpoint("counted") / "state"
    job.until(lambda: any(state.rglob("3.*")), "the state of the third batch")
    job.kill()
    commits = job.logged("counted", "commits")

    assert 2 not in transactions(table)
    assert 2 not in commits
    job.catch_up()
    assert counted(table) == workload.windows()


@pytest.mark.faults
def test_killed_after_the_offsets_are_published(pipeline: Make, workload: Workload) -> None:
    """Kafka's group is behind or ahead of the table, and nobody goes by it: every record comes once."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.hold_at("offsets-committed", visit=2)
    job.kill()

    caught_up(job, workload)


@pytest.mark.faults
def test_killed_by_itself_while_its_jvm_goes_on(pipeline: Make, workload: Workload) -> None:
    """Only the Python process dies, again and again: its JVM may end the batch, and the next run knows that."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    for visit in (1, 3):
        job.hold_at("partitioned", visit=visit)
        job.kill(everything=False)
        job.let_go()

    caught_up(job, workload)


@pytest.mark.faults
@pytest.mark.timeout(7200)
def test_killed_at_a_hundred_random_moments(
    pipeline: Make, workload: Workload, seed: int, kills: int
) -> None:
    """Wherever it is, start and end included; the table is right at the end and no batch is in two commits."""
    draw = random.Random(seed)
    workload.write(100)
    job = pipeline(workload.script(COPY, options="", batch=50), "--continuous")
    for _ in range(kills):
        before = job.batches("copied")
        workload.write(25)  # a batch in all: more would be left for the run that catches up
        job.start_clean()
        if draw.random() < 0.8:
            job.until(lambda before=before: job.batches("copied") > before, "a batch")
        job.pause(draw.uniform(0, 1.0))
        job.kill(everything=draw.random() < 0.5)
    job.arguments = (*job.arguments[:-1], *NOW)

    caught_up(job, workload)


def data_files(table: Path) -> int:
    """Count the Parquet files in a table's folder, whoever names them."""
    return len(list(table.glob("*.parquet")))


def named_files(table: Path) -> int:
    """Count the files that the table's newest version consists of."""
    return len(DeltaTable(str(table)).file_uris()) if versions(table) else 0


def unnamed_files(table: Path) -> set[str]:
    """Name the Parquet files in a table's folder that no commit ever named."""
    logs = (table / "_delta_log").glob("*.json")
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    named = {action["add"]["path"] for action in actions if "add" in action}
    return {file.name for file in table.glob("*.parquet")} - named


def compact_and_vacuum(table: Path) -> int:
    """Compact a table and remove its old files, as another program; 0 where a commit was in the way."""
    try:
        DeltaTable(str(table)).optimize.compact()
        DeltaTable(str(table)).vacuum(dry_run=False)
    except DeltaError:
        return 0
    return 1
