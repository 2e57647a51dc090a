"""Plans INSERT and SELECT: analysis first, without a JVM; then frames, targets and checkpoints in Spark."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import InputError, UnsupportedError
from penstock.catalog.names import Namespace
from penstock.catalog.options import Resolved, resolve
from penstock.catalog.schema import MetadataColumn, PhysicalColumn
from penstock.catalog.table import Table
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import Sink, SinkSettings, Trigger
from penstock.connector.registry import connector_of
from penstock.connector.spark.configured import configured
from penstock.connector.spark.dead_letters import BadRecordDesk, bad_record_desk
from penstock.connector.spark.types import spark_type
from penstock.sql.dialect import to_text
from penstock.sql.plan.analysis import AnalysedLeaf, AnalysedQuery, analyse
from penstock.sql.plan.build import FrameBuilder
from penstock.sql.plan.checkpoint import check_checkpoint, checkpoint_location, record_shape
from penstock.sql.plan.engine import engine_conf
from penstock.sql.plan.metrics import BatchMetrics, read_batch_metrics
from penstock.sql.plan.projection import is_plain_projection
from penstock.sql.plan.sent_rows import sent_changes, sent_rows, shown_rows
from penstock.sql.plan.settings import (
    CHECKPOINT_DIR,
    CHECKPOINT_INTERVAL,
    PIPELINE_NAME,
    SETTINGS,
    STATE_TTL,
)
from penstock.sql.plan.shape import QueryShape, shape_of
from penstock.sql.plan.sink_changes import SinkTable
from penstock.sql.plan.spark_errors import as_input_error
from penstock.sql.statements import InsertInto, Select

__all__ = ["AnalysedInsert", "PlannedInsert", "Planner"]

log = logging.getLogger(__name__)

CONTINUOUS_LIMIT = 1_000_000  # records of a micro-batch, where the table sets no limit
ROWS_OUT = "penstock_rows_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedInsert:
    """An INSERT that passed every check that needs no JVM."""

    statement: InsertInto
    target: Table
    query: AnalysedQuery
    sink: Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInsert:
    """An INSERT as a Spark query that may be started, and started again after a failure.

    `pipeline` is the name that one runner at a time may hold; `checkpoint` its directory. `unused` are frames
    that were built for a check and not started yet. `text` is the query without views.
    """

    spark: SparkSession
    sink: str
    sources: tuple[str, ...]
    bounded: bool
    pipeline: str
    checkpoint: str
    target: Sink
    builder: FrameBuilder
    analysed: AnalysedQuery
    columns: tuple[tuple[str, str], ...]
    shape: QueryShape
    text: str
    kind: str = "INSERT"
    unused: list[DataFrame] = field(default_factory=list, compare=False, repr=False)

    @property
    def is_stream(self) -> bool:
        """Whether the query reads tables; INSERT .. VALUES writes one batch and has no checkpoint."""
        return bool(self.sources)

    @property
    def leaves(self) -> tuple[AnalysedLeaf, ...]:
        """The tables that the query reads, in the order that its checkpoint knows them by."""
        return self.analysed.followed

    @property
    def project(self) -> Path:
        """The folder that relative paths of tables are relative to."""
        return self.builder.project

    @property
    def rows_by_sink(self) -> None:
        """It writes into one table."""
        return None

    @property
    def changes(self) -> ChangelogMode:
        """What the rows for the sink are; unless INSERT_ONLY they have ROW_KIND as last column."""
        return sent_changes(self.analysed, self.target.accepts)

    @property
    def bad_records(self) -> BadRecordDesk | None:
        """Where the bad records of the tables read come together; None where each of those fails the query."""
        return bad_record_desk(
            [leaf.table for leaf in self.leaves],
            checkpoint=self.checkpoint,
            pipeline=self.pipeline,
            project=self.project,
        )

    @property
    def sends_on_each_row(self) -> bool:
        """Whether rows out are as many as rows in: counting them would be an operator of its own in each task."""
        return is_plain_projection(self.analysed.query)

    def check(self) -> None:
        """Let Spark analyse the query. Raises InputError."""
        frame = self._frame(checking=True)
        if all(leaf.by_splits for leaf in self.analysed.leaves):
            self.unused.append(frame)

    def check_checkpoint(self) -> None:
        """Check that the checkpoint, where there is one, is whole and of this query. Raises StateMismatchError."""
        if self.is_stream:
            check_checkpoint(self.spark, self.checkpoint, self.shape)

    def prepare(self) -> None:
        """Create or check the sink's target. Raises InputError."""
        frame = self.unused[-1] if self.unused else self._frame(checking=True)
        self.target.prepare(self.spark, frame.drop(ROW_KIND).schema)
        if self.bad_records is not None:
            self.bad_records.prepare(self.spark)

    def write(self) -> None:
        """Write the rows of INSERT .. VALUES, all or none."""
        self.target.write(self._frame())

    def start(self, trigger: Trigger) -> StreamingQuery:
        """Start the streaming query from its checkpoint."""
        record_shape(self.spark, self.checkpoint, self.shape)
        bad_records = self.bad_records
        if bad_records is not None:
            bad_records.open(self.spark)
        # building a frame starts Python processes: the first start takes the one that was checked
        frame = self.unused.pop() if self.unused else self._frame()
        if not self.sends_on_each_row:
            frame = frame.observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))
        settings = SinkSettings(
            checkpoint=self.checkpoint,
            query_name=self.pipeline,
            trigger=trigger,
            plan=self.text,
            output=self.analysed.output,
            changes=self.changes,
            after_batch=None if bad_records is None else bad_records.after_batch,
        )
        with configured(self.spark, self.builder.conf):
            return self.target.start(frame, settings)

    def read_metrics(self, progress: Mapping[str, Any]) -> BatchMetrics:
        """Read what a batch did from its progress event."""
        metric = None if self.sends_on_each_row else ROWS_OUT
        return read_batch_metrics(progress, rows_out_metric=metric)

    def shaped(self, frame: DataFrame) -> DataFrame:
        """Name and type the columns of the query's rows as the target's. Raises InputError."""
        given = [name for name in frame.columns if name != ROW_KIND]
        if len(given) != len(self.columns):
            raise InputError(
                f"INSERT INTO {self.sink} gives {len(given)} columns "
                f"({', '.join(given)}), the table takes {len(self.columns)} "
                f"({', '.join(name for name, _ in self.columns)})",
                hint="name the columns: INSERT INTO t (a, b) SELECT ...",
            )
        kinds = [ROW_KIND] if len(given) < len(frame.columns) else []
        renamed = frame.toDF(*(name for name, _ in self.columns), *kinds)
        typed = renamed.select(
            *(F.col(f"`{name}`").cast(kind).alias(name) for name, kind in self.columns), *kinds
        )
        return sent_rows(typed, self.analysed, self.target.accepts) if kinds else typed

    def _frame(self, *, checking: bool = False) -> DataFrame:
        """Build the frame, its columns named and typed as the target's.

        Anew for each start: a failed query's streaming relations are not used again.
        """
        try:
            frame = self.builder.build(
                self.analysed,
                streaming=self.is_stream,
                engine_streaming=self.is_stream and not checking,
            )
            return self.shaped(frame)
        except AnalysisException as error:
            raise as_input_error(error) from error


@dataclass(slots=True, kw_only=True)
class Planner:
    """Plans statements against a namespace, with the settings of SET. The settings may change between plans.

    What checkpoints hold is not looked at: `PlannedInsert.check_checkpoint` does.
    """

    namespace: Namespace
    project: Path
    settings: dict[str, str] = field(default_factory=dict)
    default_pipeline: str = "session"
    _workdir: tempfile.TemporaryDirectory[str] | None = None
    _taken: dict[str, int] = field(default_factory=dict)

    def analyse_insert(self, statement: InsertInto) -> AnalysedInsert:
        """Check an INSERT as far as that needs no JVM. Raises InputError."""
        target = self.namespace.lookup(statement.target)
        if not isinstance(target, Table):
            raise UnsupportedError(
                f"{target.identifier} is a view; rows go into tables only", span=statement.span
            )
        if statement.options:
            options = {**target.option_map, **dict(statement.options)}
            target = replace(target, options=tuple(options.items()))
        connector = connector_of(target, project=self.project)
        connector.check(target)
        sink = connector.sink(target)
        key = target.schema.primary_key
        into = SinkTable(
            name=str(target.identifier),
            accepts=sink.accepts,
            columns=tuple(name for name, _ in _target_columns(statement, target)),
            key=key.columns if key is not None else (),
        )
        query = analyse(statement.query, self.namespace, self.project, appends=True, sink=into)
        return AnalysedInsert(statement=statement, target=target, query=query, sink=sink)

    def plan_insert(self, analysed: AnalysedInsert, spark: SparkSession) -> PlannedInsert:
        """Plan an analysed INSERT in Spark and check it as a whole. Raises InputError; nothing is started."""
        settings = self._resolved()
        pipeline = settings.get(PIPELINE_NAME) or self.default_pipeline
        sink = self.sink_name(analysed.target.identifier.name)
        base = settings.get(CHECKPOINT_DIR)
        columns = _target_columns(analysed.statement, analysed.target)
        checkpoint = checkpoint_location(base, self.project, pipeline, sink)
        planned = PlannedInsert(
            spark=spark,
            sink=str(analysed.target.identifier),
            sources=analysed.query.source_names,
            bounded=analysed.query.bounded,
            pipeline=self.pipeline_name(sink),
            checkpoint=checkpoint,
            target=analysed.sink,
            builder=replace(self.builder(spark), checkpoint=checkpoint),
            analysed=analysed.query,
            columns=columns,
            shape=shape_of(
                analysed.query.query, analysed.query.source_names, str(analysed.target.identifier)
            ),
            text=to_text(analysed.query.query),
        )
        planned.check()
        mechanism = analysed.query.flow.mechanism
        if mechanism is not None and self.state_ttl_ms > 0:
            log.warning(
                "%s is not applied: the %s into %s keeps its state for ever",
                STATE_TTL.key, mechanism.operator, planned.sink,
            )  # fmt: skip
        return planned

    def select(self, statement: Select, spark: SparkSession) -> DataFrame:
        """Give the frame of a query: streaming where one of its tables has no end, else a bounded one."""
        analysed = analyse(statement.query, self.namespace, self.project, appends=False)
        try:
            streaming = not analysed.bounded
            frame = self.builder(spark).build(analysed, streaming=streaming)
            return shown_rows(frame, analysed, streaming=streaming)
        except AnalysisException as error:
            raise as_input_error(error) from error

    def builder(self, spark: SparkSession) -> FrameBuilder:
        """Make a frame builder with the present settings."""
        if self._workdir is None:
            self._workdir = tempfile.TemporaryDirectory(prefix="penstock-")
        return FrameBuilder(
            spark=spark,
            workdir=Path(self._workdir.name),
            project=self.project,
            conf=self.engine_conf,
            default_limit=CONTINUOUS_LIMIT,
        )

    @property
    def engine_conf(self) -> dict[str, str]:
        """Spark settings that the present settings ask for."""
        return engine_conf(self._resolved())

    def pipeline_name(self, sink: str) -> str:
        """Name the pipeline of a query by the name that `sink_name` gave: what one runner at a time may hold."""
        return f"{self._resolved().get(PIPELINE_NAME) or self.default_pipeline}/{sink}"

    @property
    def checkpoint_interval_ms(self) -> int:
        """Time between the starts of two micro-batches of a continuous query; 0 is one after the other."""
        return self._resolved().get(CHECKPOINT_INTERVAL)

    @property
    def state_ttl_ms(self) -> int:
        """`table.exec.state.ttl`; 0 is none."""
        return self._resolved().get(STATE_TTL)

    def close(self) -> None:
        """Remove the files that told data sources what to read."""
        if self._workdir is not None:
            self._workdir.cleanup()
            self._workdir = None

    def _resolved(self) -> Resolved:
        """Read the settings that Penstock knows; Flink files carry many others, which are kept and ignored."""
        known = {option.key for option in SETTINGS}
        read = {key: value for key, value in self.settings.items() if key in known}
        return resolve(read, SETTINGS, owner="SET")

    def sink_name(self, name: str) -> str:
        """Tell several inserts into one table apart: t, t-2, t-3."""
        self._taken[name] = self._taken.get(name, 0) + 1
        return name if self._taken[name] == 1 else f"{name}-{self._taken[name]}"


def _target_columns(statement: InsertInto, target: Table) -> tuple[tuple[str, str], ...]:
    """Give the columns that the INSERT fills, in its order, with the Spark type that each is cast to."""
    schema = target.schema
    writable = [
        c
        for c in schema.columns
        if isinstance(c, PhysicalColumn) or (isinstance(c, MetadataColumn) and not c.virtual)
    ]
    by_name = {c.name: c for c in writable}
    names = statement.columns or tuple(by_name)
    return tuple((name, spark_type(by_name[name].type).simpleString()) for name in names)
