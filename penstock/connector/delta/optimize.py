"""Runs OPTIMIZE over a Delta table when it is due."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.delta.commit_history import LOOK_BACK
from penstock.connector.delta.options import DeltaTarget

__all__ = ["Optimizer"]

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Optimizer:
    """Runs OPTIMIZE when it is due. `clock` returns seconds that only grow.

    A run counts from the last OPTIMIZE among the table's newest commits, and if there is none it is due.
    """

    clock: Callable[[], float] = time.monotonic
    _due_s: float | None = field(default=None, init=False)

    def run_if_due(self, spark: SparkSession, target: DeltaTarget, interval_ms: int | None) -> None:
        """Compact small files, on the calling thread. A failure only warns; the next try is an interval away."""
        if interval_ms is None or (self._due_s is not None and self.clock() < self._due_s):
            return
        try:
            table = DeltaTable.forPath(spark, target.location)
            age_ms = _last_optimize_ms(table) if self._due_s is None else None
            waiting_ms = 0 if age_ms is None else interval_ms - age_ms
            if waiting_ms > 0:
                self._due_s = self.clock() + waiting_ms / 1000
                return
            table.optimize().executeCompaction()
        except (PySparkException, Py4JError) as error:
            text = str(error).strip().split("\n", 1)[0]
            log.warning("OPTIMIZE of the Delta table at %s failed: %s", target.shown, text)
        self._due_s = self.clock() + interval_ms / 1000


def _last_optimize_ms(table: DeltaTable) -> int | None:
    """Return how long ago the table was last optimized, in ms, as far as its newest commits show."""
    done = table.history(LOOK_BACK).where("operation = 'OPTIMIZE'")
    newest = F.unix_millis(F.max("timestamp"))
    found = done.agg((F.unix_millis(F.current_timestamp()) - newest).alias("age")).collect()
    age: int | None = found[0]["age"]
    return age
