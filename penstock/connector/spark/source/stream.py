"""A Penstock table as Spark's streaming source: Spark's calls, answered by the split runtime.

Runs in the source's own driver-side process (planning) and, pickled, in tasks (reading). What Spark does and
does not promise of these calls is noted at each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.connector.commits import OffsetCommitsFile
from penstock.connector.contract import SplitSource
from penstock.connector.failpoints import reach
from penstock.connector.file_output import RecordOutput
from penstock.connector.scan import Scan
from penstock.connector.source.state import SourceState, decode_state, encode_state
from penstock.connector.spark.errors import spark_readable
from penstock.connector.spark.source.offsets import INITIAL_OFFSET, TaskPartition, plan_partitions
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.spark.source.retry import OutageFile, RetryPolicy, retry_while_unavailable
from penstock.connector.spark.source.task import read_partition

# Spark asks an idle query again after 10 ms; a short wait here keeps planner and broker quiet
IDLE_WAIT_S = 0.05


class SplitStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a scan in micro-batches."""

    def __init__(self, scan: Scan, source: SplitSource, schema: StructType) -> None:
        self._scan = scan
        self._source = source
        self._schema = schema
        self._executor: PlanningExecutor | None = None
        self._committed: dict[str, int] = {}
        self._commits: OffsetCommitsFile | None = None
        self._available_now = False
        self._reached = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_executor": None, "_commits": None}

    @property
    def _planning(self) -> PlanningExecutor:
        if self._executor is None:
            self._executor = PlanningExecutor(self._scan, self._source)
        return self._executor

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the state before anything is known: asked twice for batch 0 and again on its replay."""
        return INITIAL_OFFSET

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the read limit of a batch, in records: the table's, else the scan's unless the run has an end.

        A batch that tasks write in transactions has a limit always: each reads in one, which the broker aborts after
        its time. Spark asks after `prepareForTriggerAvailableNow` (MicroBatchExecution, the plan's sources).
        """
        output = self._scan.output
        in_transactions = isinstance(output, RecordOutput) and output.tasks is not None
        bounded = self._available_now and not in_transactions
        default = None if bounded else self._scan.default_limit
        limit = self._source.max_records_per_batch or default
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @spark_readable
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the ends of this run; called before any other planning."""
        self._available_now = True
        self._planning.freeze_ends()

    @spark_readable
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Plan the next batch after `start`, the end of the last completed one.

        The same text comes back where there is no reason for a batch. Progress is published here as well as in
        `commit`, which Spark calls one batch late and never after the last one. Waits for an unavailable broker.
        """
        after = decode_state(start)
        self._publish(after)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        planned = self._plan(after, rows)
        if planned is None and self._available_now:
            for _ in self._planning.wait_for_stops():
                planned = self._plan(after, rows)
                if planned is not None:
                    break
        if planned is not None:
            reach("planned")
            return encode_state(planned)
        if self._available_now:
            # the run ends here and Spark kills this process: the last commit has to be out by then
            self._planning.close()
            self._note_commits()
        else:
            threading.Event().wait(IDLE_WAIT_S)
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends seen at the last planning, for the lag in progress events."""
        if self._executor is None or not self._executor.extents:
            return None
        return {split_id: extent.end for split_id, extent in sorted(self._executor.extents.items())}

    @spark_readable
    def partitions(  # Spark passes both offsets
        self,
        start: dict[str, Any],  # noqa: ARG002
        end: dict[str, Any],
    ) -> Sequence[InputPartition]:
        """Plan the tasks of a batch, from `end` alone: Spark may ask for a batch of an earlier process.

        Raises TopicChangedError for one whose topic was made again since: its offsets name other records there.
        """
        state, output = decode_state(end), self._scan.output
        self._planning.check_planned(state)
        tasks = plan_partitions(
            state,
            self._planning.planner,
            tasks=self._source.parallelism,
            tracks_event_time=self._scan.rowtime is not None,
            max_future_ms=self._source.watermark.max_future_ms,
            reports=self._planning.report_folder(state),
            slots=output.tasks if isinstance(output, RecordOutput) else None,
            size=self._source.task_size,
        )
        reach("partitioned")
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges, in a worker process."""
        assert isinstance(partition, TaskPartition), "Spark hands back what `partitions` planned"
        return read_partition(partition, self._scan, self._source, self._schema)

    @spark_readable
    def commit(self, end: dict[str, Any]) -> None:
        """Publish progress to the outside (Kafka: group offsets)."""
        completed = decode_state(end)
        self._publish(completed)
        self._planning.complete(completed)
        reach("offsets-committed")

    def stop(self) -> None:
        """Close the planner; Spark may also end the process without this call, nothing depends on it."""
        if self._executor is not None:
            self._executor.close()

    def _plan(self, after: SourceState, limit: int | None) -> SourceState | None:
        """Plan; once that has succeeded, wait for a broker that becomes unavailable.

        Not before, as the address may be wrong.
        """
        planning = self._planning
        planned = retry_while_unavailable(
            lambda: planning.plan(after, limit),
            what=f"planning {self._scan.table.identifier}",
            patience=RetryPolicy() if self._reached else RetryPolicy(total_s=0.0),
            outage_file=None
            if self._scan.outage_file is None
            else OutageFile(Path(self._scan.outage_file)),
            asked=f"the source of {self._scan.table.identifier.name}",
        )
        self._reached = True
        return planned

    def _publish(self, state: SourceState) -> None:
        positions = state.positions
        if positions and positions != self._committed:
            self._planning.planner.commit(positions)
            self._committed = positions
        elif self._executor is not None:
            self._executor.commit_owed()
        self._note_commits()

    def _note_commits(self) -> None:
        """Count for the query's process how the commits so far have ended: one that was just sent, at a later call."""
        commits = None if self._executor is None else self._executor.offset_commits
        if commits is None or self._scan.outage_file is None:
            return
        if self._commits is None:
            self._commits = OffsetCommitsFile(Path(self._scan.outage_file))
        self._commits.note(commits)
