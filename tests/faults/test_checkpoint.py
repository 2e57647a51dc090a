"""Two runners of one pipeline, a checkpoint that is copied, and one that is gone."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.catalog.definitions.leases import LEASE_TIMEOUT_MS
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline, thaw, transactions, versions
from tests.faults.workload import COPY, KEEP, Workload
from tests.integration.pipeline import delta_rows

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

EACH = 1_000
REFUSED_S = 5
"""From the start of a second runner to its end."""

NOW = ("--available-now",)


@pytest.mark.faults
def test_a_second_runner_is_refused_by_the_name_of_the_first(
    pipeline: Make, workload: Workload
) -> None:
    """Case 13: within 5 s, with status 2, it names the owner; the first goes on, and every record is there once."""
    workload.write(EACH)
    script = workload.script(COPY)
    first, second = pipeline(script, *NOW), pipeline(script, *NOW)
    first.hold_at("read", visit=2)
    assert first.process is not None
    began = time.monotonic()
    second.start_clean()
    status, document = second.end()
    took_s = time.monotonic() - began
    first.let_go()
    first.finish(CATCH_UP_S)

    assert status == 2
    assert took_s < REFUSED_S
    assert f"process {first.process.pid}" in json.dumps(document) + second.log
    assert workload.check_copy(first.project / "copied").findings == {}


@pytest.mark.faults
def test_a_runner_that_lost_its_lease_does_nothing_more(pipeline: Make, workload: Workload) -> None:
    """Case 16: it stands still until another has taken over and ended; then it goes on, and only finds that out."""
    workload.write(EACH)
    script = workload.script(COPY)
    first, second = pipeline(script, *NOW), pipeline(script, *NOW)
    first.hold_at("read", visit=2)
    frozen = first.freeze()
    time.sleep(LEASE_TIMEOUT_MS / 1000 + 5)  # the fault itself: longer than a claim lasts
    second.start_clean()
    second.finish(CATCH_UP_S)
    before = transactions(first.project / "copied")
    first.let_go()
    thaw(frozen)
    status, _ = first.end()

    assert status != 0
    assert transactions(first.project / "copied") == before
    assert workload.check_copy(first.project / "copied").findings == {}


@pytest.mark.faults
def test_a_copied_checkpoint_is_noticed(pipeline: Make, workload: Workload) -> None:
    """Case 14: another pipeline resumes from a copy, after the first has: it stops, and the table stays as it is."""
    workload.write(EACH)
    script = workload.script(KEEP)
    first = pipeline(script, *NOW)
    first.catch_up()
    copy = first.checkpoint("kept").parent.with_name("other")
    shutil.copytree(first.checkpoint("kept").parent, copy)
    # that says whose it is, and is refused by that already; one of an earlier version does not
    shutil.rmtree(copy / "kept" / "penstock-identity")
    workload.write(100)
    first.catch_up()
    before = versions(first.project / "kept")
    workload.write(100)
    other = pipeline(script, *NOW, name="other")
    other.start_clean()
    status, document = other.end()

    (insert,) = [each for each in document["statements"] if each["kind"] == "INSERT"]
    assert status != 0
    assert "checkpoint" in insert["error"]
    assert versions(first.project / "kept") == before


@pytest.mark.faults
def test_a_deleted_checkpoint_gives_everything_again_and_skips_nothing(
    pipeline: Make, workload: Workload
) -> None:
    """Case 15: the query is a new one: what the table has comes a second time, what is new comes once."""
    workload.write(EACH)
    job = pipeline(workload.script(COPY), *NOW)
    job.catch_up()
    shutil.rmtree(job.checkpoint("copied"))
    workload.write(100)
    job.catch_up()

    times = occurrences(job.project / "copied")
    assert times == {identity: 2 if identity[1] < EACH else 1 for identity in workload.expected}


def occurrences(table: Path) -> Counter[tuple[int, int]]:
    """Count how often each record is in a table."""
    rows = delta_rows(table, "SELECT part, seq, count(*) FROM {table} GROUP BY ALL")
    return Counter({(part, seq): count for part, seq, count in rows})
