"""The disk is full, and others write into the same Delta table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from penstock.connector.kafka.broker.broker import free_port
from tests.faults.debugger import Debugger, agent
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline, versions
from tests.faults.workload import BOUNDED, COPY, COUNT, Workload, counted
from tests.integration.pipeline import delta_rows
from tests.small_disk import Disk, small_disk

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

EACH = 1_500
NOW = ("--available-now",)
WITHOUT_RESTARTS = "SET 'restart-strategy' = 'none';\n"
STRANGER = -1
"""Number of the partition that the rows of another writer carry."""


def write_elsewhere(table: Path, seq: int = 0) -> None:
    """Append a row as another program would, without Spark and without asking anybody."""
    columns = {
        "part": pa.array([STRANGER], pa.int32()),
        "seq": pa.array([seq], pa.int64()),
        "payload": pa.array(["elsewhere"]),
        "crc": pa.array([0], pa.int64()),
    }
    write_deltalake(str(table), pa.table(columns), mode="append")


def strangers(table: Path) -> list[int]:
    """Give the numbers of the other writer's rows, sorted."""
    query = f"SELECT seq FROM {{table}} WHERE part = {STRANGER} ORDER BY 1"
    return [row[0] for row in delta_rows(table, query)]


def own_rows_are_right(table: Path, workload: Workload) -> bool:
    """Tell whether the pipeline's own rows are all there, once."""
    return {
        kind: found
        for kind, found in workload.check_copy(table).findings.items()
        if any(part != STRANGER for part, _ in found)
    } == {}


@pytest.mark.faults
def test_others_append_compact_and_vacuum_meanwhile(pipeline: Make, workload: Workload) -> None:
    """Case 49: a commit, an OPTIMIZE and a VACUUM in the middle of a batch, and a VACUUM before its replay."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    job.hold_at("partitioned", visit=3)
    write_elsewhere(table)
    job.let_go()
    job.until(lambda: versions(table) > 4, "the batch")
    job.kill()
    job.hold_at("partitioned", visit=1)
    DeltaTable(str(table)).optimize.compact()
    DeltaTable(str(table)).vacuum(dry_run=False)
    job.let_go()
    job.finish(CATCH_UP_S)

    assert own_rows_are_right(table, workload)
    assert strangers(table) == [0]


@pytest.mark.faults
def test_a_column_that_another_adds_meanwhile(pipeline: Make, workload: Workload) -> None:
    """Case 49: the batch in flight conflicts with the new schema: it is written again, or refused in words."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    table = job.project / "copied"
    job.hold_at("partitioned", visit=3)
    DeltaTable(str(table)).alter.add_columns([Field("more", "string")])
    job.let_go()
    job.finish(CATCH_UP_S)

    assert workload.check_copy(table).findings == {}


# --- a full disk -----------------------------------------------------------------------------------------


@pytest.fixture
def disk(project: Path) -> Iterator[Disk]:
    """A small disk in the project."""
    with small_disk(project / "disk") as made:
        yield made


@pytest.mark.faults
def test_a_full_disk_stops_the_pipeline_and_costs_nothing(
    pipeline: Make, workload: Workload, disk: Disk, project: Path
) -> None:
    """Case 43: no room for checkpoint, state, table and log, in a copy and in a count; with room both end well."""
    workload.write(EACH)
    for sink, statement in (("copied", COPY), ("counted", COUNT)):
        script = WITHOUT_RESTARTS + workload.script(statement, options=BOUNDED)
        job = pipeline(script, name=sink, folder=disk.outside)
        job.wrapper = disk.enter
        job.hold_at("partitioned", visit=3)
        commits = job.logged(sink, "commits")
        disk.fill()
        job.let_go()
        status, _ = job.end()
        disk.free()

        assert status != 0
        assert job.logged(sink, "commits") == commits
        job.catch_up()
        shutil.copytree(disk.outside / sink, project / sink)

    assert workload.check_copy(project / "copied").findings == {}
    assert counted(project / "counted") == workload.windows()


# --- two writers -----------------------------------------------------------------------------------------


@pytest.mark.faults
def test_without_a_lease_two_writers_of_a_local_table_lose_commits(
    pipeline: Make, workload: Workload
) -> None:
    """Case 50, the negative control: Delta looks for a version's file and then renames onto it, which is two steps.

    A driver that is stopped between the two overwrites what another has committed meanwhile: so there are leases.
    """
    workload.write(1)
    port = free_port()
    options = f"spark.driver.extraJavaOptions={agent(port)}"
    job = pipeline(workload.script(COPY), "--continuous", "--conf", options)
    table = job.project / "copied"
    job.start_clean()
    job.until(lambda: job.batches("copied") > 0, "a first batch")
    batches, version = job.batches("copied"), versions(table)
    with Debugger(port) as debugger:
        debugger.stop_in("java.io.File.renameTo")
        workload.write(1)
        debugger.until_stopped()
        while not is_a_commit(debugger.value("this.path")):
            debugger.go_on()
            debugger.until_stopped()
        write_elsewhere(table)
        theirs = version_file(table, version).read_bytes()
    job.until(lambda: job.batches("copied") > batches, "the batch")

    assert version_file(table, version).read_bytes() != theirs
    assert strangers(table) == []


def is_a_commit(path: str) -> bool:
    """Tell whether a file that is renamed is to become a version of a Delta table."""
    return "_delta_log" in path and ".json." in path


def version_file(table: Path, version: int) -> Path:
    """Give the path of a version's file."""
    return table / "_delta_log" / f"{version:020}.json"
