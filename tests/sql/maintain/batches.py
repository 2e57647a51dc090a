"""A maintained query that tests run batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.incremental.stages import IncrementalQuery
from tests.sql.maintain.temporal_tables import planned

__all__ = ["Batches", "epoch_ms"]


def epoch_ms(time: datetime) -> int:
    """A time without a zone as a watermark."""
    return int(time.replace(tzinfo=UTC).timestamp() * 1000)


@dataclass
class Batches:
    """The query `sql` over the tables of `temporal_tables`; its state is in `folder`."""

    spark: SparkSession
    folder: Path
    sql: str
    time_to_live_ms: int = 0
    run: IncrementalRun = field(init=False)
    query: IncrementalQuery = field(init=False)
    batches: int = 0

    def __post_init__(self) -> None:
        found = planned(self.sql).maintained
        assert found is not None
        self.query = found
        self.restart()

    def restart(self) -> None:
        """Begin again from what is in the folder."""
        self.run = IncrementalRun(self.query, f"file:{self.folder}", self.time_to_live_ms)
