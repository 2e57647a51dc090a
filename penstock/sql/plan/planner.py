"""Plans INSERT and SELECT: analysis first, without a JVM; then frames, targets and checkpoints in Spark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.names import Namespace
from penstock.catalog.options import Resolved, resolve
from penstock.catalog.schema import MetadataColumn, PhysicalColumn
from penstock.catalog.secret_sealing import sealed
from penstock.catalog.table import Table
from penstock.connector.changelog import ROW_KIND
from penstock.connector.contract import (
    Connector,
    OnceOnly,
    Sink,
    WantsRowsBefore,
)
from penstock.connector.registry import connector_of
from penstock.connector.spark.types import spark_type
from penstock.sql.dialect import to_text
from penstock.sql.maintain.describe import is_settled, state_of, text_of
from penstock.sql.plan.analysis import AnalysedLeaf, AnalysedQuery, analyse
from penstock.sql.plan.build import FrameBuilder
from penstock.sql.plan.checkpoint import checkpoint_location
from penstock.sql.plan.engine import engine_conf
from penstock.sql.plan.maintained import answer_at_once
from penstock.sql.plan.overwriting import overwriting
from penstock.sql.plan.planned_insert import AnalysedInsert, PlannedInsert
from penstock.sql.plan.refresh_name import refresh_name
from penstock.sql.plan.sent_rows import shown_rows
from penstock.sql.plan.settings import (
    CHECKPOINT_DIR,
    CHECKPOINT_INTERVAL,
    PIPELINE_NAME,
    SETTINGS,
    STATE_TTL,
)
from penstock.sql.plan.shape import shape_of
from penstock.sql.plan.sink_changes import SinkTable
from penstock.sql.plan.spark_errors import as_input_error
from penstock.sql.positions import span_of
from penstock.sql.statements import InsertInto, Select

__all__ = ["Planner"]

CONTINUOUS_LIMIT = 1_000_000  # records of a micro-batch, where the table sets no limit


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
        if statement.overwrite:
            return self._analyse_overwrite(statement, target, connector, sink)
        key = target.schema.primary_key
        into = SinkTable(
            name=str(target.identifier),
            accepts=sink.accepts,
            columns=tuple(name for name, _ in _target_columns(statement, target)),
            key=key.columns if key is not None else (),
            wants_rows_before=isinstance(sink, WantsRowsBefore) and sink.wants_rows_before,
        )
        query = analyse(
            statement.query,
            self.namespace,
            self.project,
            appends=True,
            sink=into,
            state_ttl_ms=self.state_ttl_ms,
        )
        if query.followed and isinstance(sink, OnceOnly) and sink.once_only:
            raise UnsupportedError(
                f"{target.identifier} takes no stream: a batch that is written again would be in it twice",
                hint="make it a Delta table: those remember their batches",
                span=statement.span,
            )
        return AnalysedInsert(statement=statement, target=target, query=query, sink=sink)

    def _analyse_overwrite(
        self, statement: InsertInto, target: Table, connector: Connector, sink: Sink
    ) -> AnalysedInsert:
        """Check an INSERT OVERWRITE: its query runs once, over all rows. Raises InputError."""
        query = analyse(statement.query, self.namespace, self.project, appends=False)
        editor = overwriting(statement, target, query, connector)
        return AnalysedInsert(
            statement=statement, target=target, query=query, sink=sink, editor=editor
        )

    def plan_insert(self, analysed: AnalysedInsert, spark: SparkSession) -> PlannedInsert:
        """Plan an analysed INSERT in Spark and check it as a whole. Raises InputError; nothing is started."""
        analysed = self._ready_insert(analysed)
        settings = self._resolved()
        pipeline = settings.get(PIPELINE_NAME) or self.default_pipeline
        sink = self.name_of(analysed.target)
        base = settings.get(CHECKPOINT_DIR)
        columns, query = _target_columns(analysed.statement, analysed.target), analysed.query
        key = analysed.target.schema.primary_key
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
                query.query,
                query.source_names,
                str(analysed.target.identifier),
                () if query.maintained is None else state_of(query.maintained),
            ),
            text=_text_of(query),
            target_key=key.columns if key is not None else (),
            state_ttl_ms=self.state_ttl_ms,
            editor=analysed.editor,
            partition=analysed.statement.partition,
            # a partition that the query no longer has rows for is not to stay
            whole=analysed.statement.replaces or analysed.target.materialization is not None,
        )
        planned.check()
        return planned

    def select(self, statement: Select, spark: SparkSession) -> DataFrame:
        """Give the frame of a query: streaming where one of its tables has no end, else a bounded one."""
        analysed = self.ready(analyse(statement.query, self.namespace, self.project, appends=False))
        try:
            streaming = not analysed.bounded
            if analysed.maintained is not None:
                return self._select_maintained(analysed, statement, spark)
            frame = self.builder(spark).build(analysed, streaming=streaming)
            return shown_rows(frame, analysed, streaming=streaming)
        except AnalysisException as error:
            raise as_input_error(error) from error

    def ready(self, query: AnalysedQuery) -> AnalysedQuery:
        """Make a query ready to run: what the options of its tables refer to is there, and secrets are sealed.

        May block on I/O. Raises UnknownObjectError, ConfigError.
        """
        leaves = tuple(self.ready_leaf(leaf) for leaf in query.leaves)
        return query if leaves == query.leaves else replace(query, leaves=leaves)

    def ready_leaf(self, leaf: AnalysedLeaf) -> AnalysedLeaf:
        """Make one table of a query ready, as `ready` does."""
        table = sealed(leaf.table, self.namespace.secrets)
        return leaf if table is leaf.table else replace(leaf, table=table)

    def _ready_insert(self, analysed: AnalysedInsert) -> AnalysedInsert:
        query = self.ready(analysed.query)
        target = sealed(analysed.target, self.namespace.secrets)
        if target is not analysed.target:
            sink = connector_of(target, project=self.project).sink(target)
            return replace(analysed, query=query, target=target, sink=sink)
        return analysed if query is analysed.query else replace(analysed, query=query)

    def _select_maintained(
        self, analysed: AnalysedQuery, statement: Select, spark: SparkSession
    ) -> DataFrame:
        """Run the stages of a bounded query once, over all rows. Raises UnsupportedError for one without end."""
        assert analysed.maintained is not None, "it was asked"
        if not analysed.bounded:
            raise UnsupportedError(
                "this query keeps its results up to date, and reads tables without end: it has to be an INSERT",
                hint="INSERT INTO a table with connector = 'print' shows its changes as they come",
                span=span_of(statement.query),
            )
        frame = self.builder(spark).build(analysed, streaming=False)
        rows = answer_at_once(analysed.maintained, frame, self.workdir)
        if is_settled(analysed.maintained):
            return rows.drop(ROW_KIND)
        return shown_rows(rows, analysed, streaming=True)

    @property
    def workdir(self) -> Path:
        """The folder for files of this process, made when it is first asked for."""
        if self._workdir is None:
            self._workdir = tempfile.TemporaryDirectory(prefix="penstock-")
        return Path(self._workdir.name)

    def builder(self, spark: SparkSession) -> FrameBuilder:
        """Make a frame builder with the present settings."""
        return FrameBuilder(
            spark=spark,
            workdir=self.workdir,
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

    def name_of(self, target: Table) -> str:
        """Name a query by its target, the next one into it by another name; what keeps a table has one name."""
        if target.materialization is not None:
            return refresh_name(target.identifier)
        return self.sink_name(target.identifier.name)

    def sink_name(self, name: str) -> str:
        """Tell several inserts into one table apart: t, t-2, t-3."""
        self._taken[name] = self._taken.get(name, 0) + 1
        return name if self._taken[name] == 1 else f"{name}-{self._taken[name]}"


def _text_of(query: AnalysedQuery) -> str:
    """Write a query as the text that tells it from others."""
    text = to_text(query.query)
    return text if query.maintained is None else f"{text}\n{text_of(query.maintained)}"


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
