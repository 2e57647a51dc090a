"""A streaming SELECT that is followed: a query into the screen, as an INSERT is one into a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import (
    AvailableNow,
    Continuous,
    Guarantee,
    MicroBatch,
    Sink,
    SinkCapabilities,
    SinkSettings,
)
from penstock.connector.spark.session import configured, streaming_conf
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.sql.errors.spark_analysis import as_input_error
from penstock.sql.jobs.query_start import start_in_turn
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.insert import IncrementalInsert, SinkCounts, to_display_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.sql.plan.physical.planner import Planner

__all__ = ["LiveQuery", "Row", "live_query"]

ROWS_PER_BATCH = 1000
"""Rows of a batch that are shown, as more would only scroll by; and the size of a chunk."""

SCREEN = "screen"

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """A query to start. `frame` has the rows that are shown; for an incremental query it is that of the inputs.

    `conf` are the Spark settings to start it with.
    """

    query: AnalysedQuery
    frame: DataFrame
    conf: Mapping[str, str]
    state_ttl_ms: int

    @property
    def shown(self) -> DataFrame:
        """A frame with the columns that are shown: the query's own, or an empty one where Spark streams its inputs."""
        kept = self._kept(_Screen(take=_drop), "")
        return self.frame if kept is None else kept.columns_of(self.frame)

    def start(
        self,
        folder: Path,
        take: Callable[[list[Row]], None],
        *,
        available_now: bool = False,
        whole: bool = False,
    ) -> StreamingQuery:
        """Start it; `take` gets the first rows of each batch, on its thread. `folder` is for its checkpoint.

        With `whole` it gets all of them, in chunks.

        Raises AnalysisException for what Spark cannot stream.
        """
        settings = SinkSettings(
            checkpoint=folder.as_uri(),
            query_name=f"{SCREEN}-{uuid4().hex[:8]}",
            trigger=AvailableNow() if available_now else Continuous(interval_ms=0),
            output=self.query.output,
            changes=self.query.changes,
        )
        screen = _Screen(take=take, whole=whole)
        kept = self._kept(screen, settings.checkpoint)
        conf = {**self.conf, **streaming_conf(self.frame, self.query.output)}

        def begin() -> StreamingQuery:
            with configured(self.frame.sparkSession, conf):
                return (kept or screen).start(self.frame, settings)

        return start_in_turn(begin)

    def _kept(self, screen: _Screen, checkpoint: str) -> IncrementalInsert | None:
        if self.query.maintained is None:
            return None
        return IncrementalInsert(
            analysed=self.query,
            maintained=self.query.maintained,
            checkpoint=checkpoint,
            state_ttl_ms=self.state_ttl_ms,
            shaped=partial(to_display_rows, query=self.query, streaming=True),
            target=screen,
            target_key=(),
            sink=SCREEN,
            counts=SinkCounts(),
            late=SinkCounts(),
        )


def live_query(query: AnalysedQuery, planner: Planner, spark: SparkSession) -> LiveQuery:
    """Build the follower of a streaming query, which was analysed for a sink that accepts all
    changes. Raises InputError.
    """
    builder, query = planner.builder(spark), planner.ready(query)
    try:
        frame = builder.build(query, streaming=True)
    except AnalysisException as error:
        raise as_input_error(error) from error
    if query.maintained is None:
        frame = to_display_rows(frame, query, streaming=True)
    return LiveQuery(query=query, frame=frame, conf=builder.conf, state_ttl_ms=planner.state_ttl_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Screen(Sink):
    """Passes on the first rows of a batch, or all."""

    take: Callable[[list[Row]], None]
    whole: bool = False

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(guarantee=Guarantee.NONE, accepts=ChangelogMode.ALL)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Do nothing: there is no target."""

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  nothing is remembered
        self.write(frame)

    def write(self, frame: DataFrame) -> None:
        if not self.whole:
            self.take([tuple(row) for row in frame.limit(ROWS_PER_BATCH).collect()])
            return
        rows = (tuple(row) for row in frame.toLocalIterator(prefetchPartitions=True))
        while some := list(islice(rows, ROWS_PER_BATCH)):
            self.take(some)


def _drop(rows: list[Row]) -> None:
    """Collect rows that nobody reads."""
