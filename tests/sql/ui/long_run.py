"""A page over a simulated pipeline that never ends: `python -m tests.sql.ui.long_run FOLDER` prints its URL.

Each line of standard input asks for so many more batches; the answer is the resident memory of the process in bytes, and
how many threads it has, once they are done.
"""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import replace
from pathlib import Path

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.jobs.batch_counters import BatchCounters, JobBatches
from penstock.sql.jobs.batch_history import BatchHistory
from penstock.sql.jobs.job import Job
from penstock.sql.jobs.progress import Totals
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.sql.metrics.metered import NOON_MS, MeteredRunner, read_batch, source_of, split
from tests.sql.sql_objects import run

SPLITS = 40
TABLE = """CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')"""


class LongRunner(MeteredRunner):
    """Counts batches as the supervisor of a job does: sums, the last ones, and the history of splits."""

    def __init__(self) -> None:
        super().__init__()
        self._totals, self._counters, self._history = Totals(), BatchCounters(), BatchHistory()

    def commit(self, number: int) -> None:
        """Add a batch in which every split has moved."""
        at_ms = NOON_MS + 1_000 * number
        splits = (
            split(each, number + each % 7, at_ms - each, paused="waits" if each % 5 == 0 else None)
            for each in range(SPLITS)
        )
        batch = read_batch(number, source_of(*splits), committed_at_ms=at_ms)
        self._totals, self._counters = self._totals.add(batch), self._counters.add(batch)
        self._history = self._history.add(batch)
        self.done_batches = (batch,)

    def batches(self) -> JobBatches:
        """What is known after the last batch."""
        return replace(
            super().batches(),
            counters=self._counters,
            last=self._totals.last,
            recent=self._totals.recent,
            history=self._history,
        )


def resident_bytes() -> int:
    """The memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main(folder: Path) -> None:
    """Serve the page until the input ends."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{folder}/catalog.db"))
    run(TABLE, namespace)
    runner = LongRunner()
    runner.commit(0)
    jobs = (Job(runner),)
    stored = StoredPipelines(namespace=namespace, project=folder)
    done = 1
    with serving_pages(StatusView(jobs=lambda: jobs, stored=stored), port=0) as url:
        print(url, flush=True)
        for line in sys.stdin:
            for _ in range(int(line)):
                runner.commit(done)
                done += 1
            gc.collect()
            print(resident_bytes(), threading.active_count(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
