"""Executors die, tasks stand still and are tried elsewhere, on a standalone cluster of two workers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from penstock.connector.failpoints import FOLDER_VARIABLE, VARIABLE
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline
from tests.faults.test_kafka_sink import is_right, publishing
from tests.faults.test_keyed_state import (
    BY_BUCKET,
    FOUR_BUCKETS,
    PAIRS,
    SIZES,
    found_pairs,
    found_sizes,
    pairs,
    sizes,
)
from tests.faults.workload import COPY, Workload
from tests.integration.pipeline import wait_until
from tests.spark_cluster import Cluster

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(1500)

EACH = 3_000
KILLS = 6
NOW = ("--available-now",)
SPECULATION = (
    "--conf", "spark.speculation=true", "--conf", "spark.speculation.interval=200ms",
    "--conf", "spark.speculation.quantile=0.5", "--conf", "spark.speculation.multiplier=1.1",
)  # fmt: skip
UNCHECKED = (
    sys.executable,
    "-c",
    "from penstock.connector.kafka.sink import sink; sink._refuse_speculation = lambda *_: None; "
    "from penstock.sql.cli.commands.app import main; main()",
)
"""The command line without the check of the setting."""


@pytest.fixture
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose workers have an address each (Linux has the whole of 127/8)."""
    hosts = ("127.0.0.1", "127.0.0.2")
    with Cluster(tmp_path_factory.mktemp("cluster"), hosts) as cluster:
        yield cluster


def kill(victims: list[int], draw: random.Random) -> None:
    """Kill -9 one of these."""
    if victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(victims), signal.SIGKILL)


@pytest.mark.faults
def test_executors_and_their_workers_are_killed(
    pipeline: Make, workload: Workload, cluster: Cluster, seed: int
) -> None:
    """JVMs and Python processes in turn, while one query writes to Delta and one to Kafka, both exactly once."""
    draw = random.Random(seed)
    workload.write(EACH)
    target, script = publishing(workload, batch=600)
    job = pipeline(script + workload.script(COPY, batch=600), *NOW, "--master", cluster.url)
    job.start_clean()
    for number in range(KILLS):
        done = job.batches("copied")
        job.until(
            lambda done=done: job.batches("copied") > done, "a batch, with executors that work"
        )
        kill(cluster.executors() if number % 2 else cluster.python_workers(), draw)
    job.finish(2 * CATCH_UP_S)

    assert workload.check_copy(job.project / "copied").findings == {}
    is_right(workload, target)


@pytest.mark.nightly
@pytest.mark.slow
def test_keyed_operators_go_on_when_all_executors_have_been_replaced(
    pipeline: Make, workload: Workload, cluster: Cluster
) -> None:
    """An aggregation and a join, by bucket: what an executor cached is gone, and others have the checkpoint alone."""
    workload.write(2_000)
    script = workload.script(BY_BUCKET + SIZES, PAIRS, batch=200)
    job = pipeline(script, *NOW, *FOUR_BUCKETS, "--master", cluster.url)
    job.start_clean()

    def until_two_more(name: str) -> None:
        done = job.batches(name)
        job.until(lambda: job.batches(name) >= done + 2, f"two batches of {name}")

    # one query after the other
    for name in ("sizes", "pairs"):
        until_two_more(name)
        job.until(lambda: len(cluster.executors()) == 2, "two executors")
        first = cluster.executors()
        for executor in first:
            os.kill(executor, signal.SIGKILL)
            until_two_more(name)
        assert not set(first) & set(cluster.executors())
    job.finish(2 * CATCH_UP_S)

    assert found_sizes(job) == sizes(workload)
    assert found_pairs(job) == pairs(workload)
    for name in ("sizes", "pairs"):
        assert list((job.checkpoint(name) / "keyed" / "manifests").glob("*.json"))


@pytest.mark.faults
def test_speculative_attempts_are_refused_by_the_sink(
    pipeline: Make, workload: Workload, cluster: Cluster
) -> None:
    """Case 11: exactly-once into Kafka says so before anything starts; Delta takes it."""
    workload.write(10)
    target, script = publishing(workload)
    job = pipeline(script, *NOW, *SPECULATION, "--master", cluster.url)
    job.start_clean()
    status, _ = job.end()
    copy = pipeline(workload.script(COPY), *NOW, *SPECULATION, "--master", cluster.url, name="copy")
    copy.catch_up()

    assert status != 0
    assert "spark.speculation = true" in job.log
    assert workload.kafka.watermarks(target) == (0, 0)
    assert workload.check_copy(copy.project / "copied").findings == {}


@pytest.mark.faults
def test_without_the_check_speculative_attempts_double_nothing(
    pipeline: Make, workload: Workload, two_hosts: Cluster
) -> None:
    """Case 11: a task that stands still with its transaction open is overtaken by another attempt, and wakes up."""
    workload.write(EACH)
    target, script = publishing(workload, batch=1_000)
    job = pipeline(script, *NOW, *SPECULATION, "--master", two_hosts.url)
    job.command = UNCHECKED
    job.taken.mkdir()
    of_executors = {VARIABLE: "produced=stop@2", FOLDER_VARIABLE: str(job.taken)}
    for key, value in of_executors.items():
        job.arguments = (*job.arguments, "--conf", f"spark.executorEnv.{key}={value}")
    job.start_clean()
    zombie = job.until_taken("produced")
    done = job.batches("published")
    job.until(lambda: job.batches("published") > done + 1, "batches after it stood still")
    with contextlib.suppress(ProcessLookupError):
        os.kill(zombie, signal.SIGCONT)
    job.finish(CATCH_UP_S)
    wait_until(lambda: not two_hosts.executors(), seconds=60, what="the executors' end")

    is_right(workload, target)
