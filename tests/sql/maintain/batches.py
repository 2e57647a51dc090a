"""A maintained query that tests run batch by batch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.keyed.runtime.run import KeyedRun
from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.incremental.stages import IncrementalQuery
from tests.sql.maintain.maintaining import open_run
from tests.sql.maintain.temporal_tables import planned

__all__ = ["Batches", "epoch_ms"]


def epoch_ms(time: datetime) -> int:
    """A time without a zone as a watermark."""
    return int(time.replace(tzinfo=UTC).timestamp() * 1000)


@dataclass
class Batches:
    """The query `sql` over the tables of `temporal_tables`; its state is in `folder`.

    `keyed`: it runs by keyed operators, else by stages that compute rows anew.
    """

    spark: SparkSession
    folder: Path
    sql: str
    time_to_live_ms: int = 0
    run: IncrementalRun | KeyedRun | None = field(init=False, default=None)
    query: IncrementalQuery = field(init=False)
    batches: int = 0
    runs: int = 0
    keyed: bool = False
    clock: datetime = datetime(2026, 4, 1, tzinfo=UTC)

    def __post_init__(self) -> None:
        found = planned(self.sql).maintained
        assert found is not None
        self.query = found

    def restart(self) -> None:
        """Begin again from what is in the folder."""
        self.run = None

    def batch(
        self, frame: DataFrame, watermarks: Watermarks | None = None
    ) -> AbstractContextManager[DataFrame]:
        """Run the next batch, at the time of the clock."""
        if self.run is None:
            folder = f"file:{self.folder}"
            self.run = open_run(frame, self.query, folder, self.time_to_live_ms, keyed=self.keyed)
        match self.run:
            case KeyedRun():
                now_ms = int(self.clock.timestamp() * 1000)
                # every second batch is run by one task; one that is run again, the other way
                self.runs += 1
                records = 1 if self.runs % 2 else None
                return self.run.batch(frame, self.batches, now_ms, watermarks, records=records)
            case IncrementalRun():
                return self.run.batch(frame, self.batches, watermarks)

    @property
    def late_rows(self) -> int:
        """The late rows of the last batch."""
        assert self.run is not None, "a batch has run"
        return self.run.late_rows
