"""A run by keyed operators dies between state, sink and commit: the table is the batch answer all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from penstock.connector.failpoints import KILLED
from tests.faults.faulty import FaultyPipeline
from tests.faults.workload import Workload
from tests.integration.pipeline import delta_rows

EACH = 1_500
GROUPS = 70
SIZES = """
CREATE TABLE IF NOT EXISTS sizes (n BIGINT, members BIGINT, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'sizes');
INSERT INTO sizes
SELECT n, COUNT(*) FROM (SELECT part, seq % 70 AS g, COUNT(*) AS n FROM events GROUP BY part, seq % 70) GROUP BY n;
"""
NOW = ("--available-now",)

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_by_keyed_operators_dies_at_every_step(pipeline: Make, workload: Workload) -> None:
    """Before the sink has the batch, before and after the manifest, and in tasks, which Spark runs again."""
    workload.write(EACH)
    job = pipeline(workload.script(SIZES), *NOW)
    for name in ("maintained", "state-sent", "written", "committed"):
        job.start_with(f"state-written=kill@3;{name}=kill@2")
        status, _ = job.end()

        assert status in (KILLED, -9), job.log[-4000:]
        assert {mark.name for mark in job.taken.iterdir()} == {"state-written", name}
        workload.write(EACH)
    job.catch_up()
    sizes = Counter(
        Counter(seq % GROUPS for seq in range(count))[group]
        for count in workload.written.values()
        for group in range(GROUPS)
    )

    assert dict(delta_rows(job.project / "sizes", "SELECT n, members FROM {table}")) == dict(sizes)
    assert list((job.checkpoint("sizes") / "keyed" / "manifests").glob("*.json"))
