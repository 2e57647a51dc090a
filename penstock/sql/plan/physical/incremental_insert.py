"""Incremental queries in Spark: from the rows of the inputs to those of a sink, or to one result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.connector.changelog import ROW_KIND
from penstock.connector.contract import MicroBatch, Sink, SinkSettings
from penstock.connector.failpoints import reach
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.sql.checkpoint.directory import batch_watermarks
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.operators.query import FOLDER, IncrementalRun
from penstock.sql.incremental.stages import EventTimeStage, IncrementalQuery
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.sink_rows import SinkCounts, by_key

__all__ = ["IncrementalInsert", "run_bounded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalInsert:
    """An INSERT of an incremental query; its state is in `checkpoint`, with a time to live (0: none).

    `shaped` names and types rows as the target's, `target_key` is its PRIMARY KEY. `counts` are the rows sent, `late`
    those dropped, under the name `sink`.
    """

    analysed: AnalysedQuery
    maintained: IncrementalQuery
    checkpoint: str
    state_ttl_ms: int
    shaped: Callable[[DataFrame], DataFrame]
    target: Sink
    target_key: tuple[str, ...]
    sink: str
    counts: SinkCounts = field(compare=False, repr=False)
    late: SinkCounts = field(compare=False, repr=False)

    def columns_of(self, frame: DataFrame) -> DataFrame:
        """Return an empty frame with the columns that the sink gets. `frame` is that of the inputs."""
        return self._sent(self._run().check(frame))

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the streaming query. Raises StateMismatchError where the target is not the checkpoint's."""
        if self.target.capabilities.resumable:
            self.target.check_resumes(frame.sparkSession, self.checkpoint, "")
        run = self._run()

        def write(rows: DataFrame, batch: MicroBatch) -> None:
            with run.batch(rows, batch.batch_id, self._watermarks(batch)) as changes:
                reach("maintained")
                self.target.write_batch(self._sent(changes), batch)
                self.counts.add(batch.batch_id, {self.sink: changes.count()})
                self.late.add(batch.batch_id, {self.sink: run.late_rows})

        return micro_batch_query(frame, settings, write)

    def _watermarks(self, batch: MicroBatch) -> Watermarks | None:
        """Return the watermarks of a batch, where a stage waits for them."""
        if not any(isinstance(stage, EventTimeStage) for stage in self.maintained.stages):
            return None
        sources = len(self.analysed.followed)
        return batch_watermarks(batch.spark, batch.checkpoint, batch.batch_id, sources)

    def _run(self) -> IncrementalRun:
        return IncrementalRun(self.maintained, f"{self.checkpoint}/{FOLDER}", self.state_ttl_ms)

    def _sent(self, changes: DataFrame) -> DataFrame:
        """Return changes as the sink takes them."""
        if not self.analysed.flow.kinds:
            return self.shaped(changes.drop(ROW_KIND))
        rows = self.shaped(changes)
        # by their own key changes come in order; without one, those of a row of the target may not
        if self.analysed.flow.key is None and self.target_key:
            rows = by_key(rows, self.target_key)
        return rows


def run_bounded(maintained: IncrementalQuery, frame: DataFrame, workdir: Path) -> DataFrame:
    """Run the stages once, from nothing, over all rows of a bounded query; `frame` is that of its inputs.

    The result is kept in `workdir`, with ROW_KIND as last column.
    """
    folder = tempfile.mkdtemp(dir=workdir)
    result = f"file:{folder}/result"
    with IncrementalRun(maintained, f"file:{folder}/{FOLDER}").batch(frame, 0) as changes:
        changes.write.parquet(result)
        schema = changes.schema
    return frame.sparkSession.read.schema(schema).parquet(result)
