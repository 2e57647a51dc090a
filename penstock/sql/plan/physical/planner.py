"""Plans INSERT and SELECT in Spark, on top of the analysis: frames, targets and checkpoints."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.connector.changelog import ROW_KIND
from penstock.connector.registry import connector_of
from penstock.connector.spark.types import spark_type
from penstock.sql.binding.binder import bind_query
from penstock.sql.checkpoint.directory import checkpoint_files, saved_shape
from penstock.sql.checkpoint.identity import QueryLocation
from penstock.sql.dialect import to_text
from penstock.sql.dialect.spark.casts import MICROS, digits_of_times
from penstock.sql.dialect.spark.types import precision_of
from penstock.sql.errors.spark import as_input_error
from penstock.sql.expressions.expression import find_nondeterministic, parse_expression
from penstock.sql.incremental.describe import is_settled, text_of
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery, TableScan
from penstock.sql.plan.analyzer import Analyzer, filled_columns
from penstock.sql.plan.physical.frames import FrameBuilder
from penstock.sql.plan.physical.incremental import run_bounded
from penstock.sql.plan.physical.insert import PlannedInsert, to_display_rows
from penstock.sql.plan.query_location import (
    LocatedStatement,
    Unit,
    as_checkpointed,
    insert_fingerprint,
    locate_statements,
)
from penstock.sql.settings import engine_conf
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree

log = logging.getLogger(__name__)

_TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ)

CONTINUOUS_LIMIT = 1_000_000  # records of a micro-batch, where the table sets no limit


@dataclass(slots=True, kw_only=True)
class Planner(Analyzer):
    """Plans what it has checked, in Spark.

    Does not check whether a query fits its checkpoint: `PlannedInsert.check_checkpoint` does. `from_scratch`: no query
    resumes from one.
    """

    from_scratch: bool = False
    _workdir: tempfile.TemporaryDirectory[str] | None = None

    def plan_insert(self, analysed: AnalysedInsert, spark: SparkSession) -> PlannedInsert:
        """Plan an analysed INSERT in Spark and check it as a whole. Raises InputError; nothing is started."""
        location = analysed.location or self.locate(Unit(inserts=(analysed,)), spark).locations[0]
        if analysed.earlier_forms is not None and not self.from_scratch:
            analysed = _going_on(analysed, location, spark)
        analysed = self._ready_insert(analysed)
        columns, query = _target_columns(analysed.statement, analysed.target), analysed.query
        key = analysed.target.schema.primary_key
        planned = PlannedInsert(
            spark=spark,
            sink=str(analysed.target.identifier),
            sources=analysed.query.source_names,
            bounded=analysed.query.bounded,
            location=location,
            target=analysed.sink,
            builder=replace(self.builder(spark), checkpoint=location.checkpoint),
            analysed=analysed.query,
            columns=columns,
            cut=_cut_columns(analysed, self.namespace),
            filled=tuple(filled_columns(analysed.statement, analysed.target).values()),
            shape=insert_fingerprint(analysed),
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

    def locate(
        self, unit: Unit, spark: SparkSession, *, instead: LocatedStatement | None = None
    ) -> LocatedStatement:
        """Choose names and checkpoints for a single statement, after those before it.

        `instead` are those that were chosen for it before and are not used. Raises StateMismatchError.
        """
        files = checkpoint_files(spark)
        if self.running is not None:
            running = self.running()
            (placed,) = locate_statements((unit,), self.project, files, running=running)
            return placed
        self.taken -= instead.jobs if instead is not None else frozenset()
        (placed,) = locate_statements((unit,), self.project, files, taken=self.taken)
        self.taken |= placed.jobs
        return placed

    def select(self, statement: Select, spark: SparkSession) -> DataFrame:
        """Return the frame of a query: streaming where one of its tables has no end, else a bounded one."""
        analysed = self.ready(self.analyse_once(statement.query))
        try:
            streaming = not analysed.bounded
            if analysed.maintained is not None:
                return self._select_maintained(analysed, statement, spark)
            frame = self.builder(spark).build(analysed, streaming=streaming)
            return to_display_rows(frame, analysed, streaming=streaming)
        except AnalysisException as error:
            raise as_input_error(error) from error

    def ready(self, query: AnalysedQuery) -> AnalysedQuery:
        """Make a query ready to run: references in the options of its tables exist, and secrets are encrypted.

        May block on I/O. Raises UnknownObjectError, ConfigError.
        """
        leaves = tuple(self.ready_leaf(leaf) for leaf in query.leaves)
        return query if leaves == query.leaves else replace(query, leaves=leaves)

    def ready_leaf(self, leaf: TableScan) -> TableScan:
        """Make one table of a query ready, as `ready` does."""
        table = encrypt_references(leaf.table, self.namespace.secrets)
        return leaf if table is leaf.table else replace(leaf, table=table)

    def _ready_insert(self, analysed: AnalysedInsert) -> AnalysedInsert:
        query = self.ready(analysed.query)
        target = encrypt_references(analysed.target, self.namespace.secrets)
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
        rows = run_bounded(analysed.maintained, frame, self.workdir)
        if is_settled(analysed.maintained):
            return rows.drop(ROW_KIND)
        return to_display_rows(rows, analysed, streaming=True)

    @property
    def workdir(self) -> Path:
        """The folder for files of this process, made on first use."""
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
        """The Spark settings of the present settings."""
        return engine_conf(self._resolved())

    def close(self) -> None:
        """Remove the files that described to data sources what to read."""
        if self._workdir is not None:
            self._workdir.cleanup()
            self._workdir = None


def _going_on(
    analysed: AnalysedInsert, location: QueryLocation, spark: SparkSession
) -> AnalysedInsert:
    """Plan an INSERT as earlier versions did where its checkpoint is of one of those."""
    found = as_checkpointed(analysed, saved_shape(spark, location.checkpoint))
    if found is not analysed and found.query.phases != analysed.query.phases:
        log.info(
            "%s goes on with a checkpoint whose aggregations run in %s, as their state stays; --from-scratch starts "
            "anew, with %s",
            location.job,
            _phases_of(found.query),
            _phases_of(analysed.query),
        )
    if analysed.query.follows_windows and not found.query.follows_windows:
        log.warning(
            "%s resumes from a checkpoint of an earlier version: its results by windows whose bounds have other names "
            "than window_start and window_end are updated, as before, and their state stays; --from-scratch starts "
            "anew, with results that come once, when the watermark closes the window",
            location.job,
        )
    elif analysed.query.ranks_rows and found.query is analysed.earlier[0]:
        log.info(
            "%s goes on with a checkpoint whose Top-1 runs in Spark's update mode, as its state stays; --from-scratch "
            "starts anew, with a keyed operator",
            location.job,
        )
    elif analysed.query.accumulates and found is not analysed:
        log.info(
            "%s goes on with a checkpoint whose aggregation %s, as its state stays; --from-scratch starts anew, with a "
            "keyed operator that keeps values",
            location.job,
            "runs in Spark's update mode"
            if found.query.maintained is None
            else "keeps the rows of each key",
        )
    elif found is not analysed and (analysed.query.lists_apart or analysed.query.streams_joins):
        log.info(
            "%s goes on with a checkpoint whose stages Spark computes in several jobs a batch, as their state stays; "
            "--from-scratch starts anew, in one job a batch",
            location.job,
        )
    elif found is not analysed and found.query.query != analysed.query.query:
        log.warning(
            "%s resumes from a checkpoint of an earlier version: which of rows with equal order ROW_NUMBER() takes, "
            "and what is left when one of several rows with the target's PRIMARY KEY is deleted, stays as it was; "
            "--from-scratch starts anew, by Flink's rules",
            location.job,
        )
    return found


def _phases_of(query: AnalysedQuery) -> str:
    if any(leaf.grouped is not None for leaf in query.leaves):
        return "two phases, the first in the reading tasks"
    return "two phases, both in Spark" if query.phases else "Spark"


def _text_of(query: AnalysedQuery) -> str:
    """Write a query as its canonical text."""
    text = to_text(query.query)
    return text if query.maintained is None else f"{text}\n{text_of(query.maintained)}"


def _target_columns(statement: InsertInto, target: Table) -> tuple[tuple[str, str], ...]:
    """Return the columns that the INSERT fills, in its order, with the Spark type that each is cast to."""
    return tuple(
        (name, spark_type(column.type).simpleString())
        for name, column in filled_columns(statement, target).items()
    )


def _cut_columns(analysed: AnalysedInsert, namespace: Namespace) -> frozenset[str]:
    """Return the columns that may be given times of more digits of a second than their types have.

    None where no time of the query has more: what is of the column's type is not cast, in Flink neither.
    """
    columns = filled_columns(analysed.statement, analysed.target)
    wanted = {name: min(digits_of_times(c.type), default=MICROS) for name, c in columns.items()}
    if all(digits == MICROS for digits in wanted.values()):
        return frozenset()
    query = copy_tree(analysed.statement.query)
    kinds: list[exp.DataType | None] = [
        kind for _, kind in bind_query(query, namespace).output or ()
    ]
    if len(kinds) != len(wanted):
        kinds = [None] * len(wanted)
    finest = MICROS if _reads_clock(analysed.query) else max(_digits(query, kinds), default=0)
    return frozenset(
        name
        for (name, digits), kind in zip(wanted.items(), kinds, strict=True)
        if digits < (MICROS if kind is None or kind.this == exp.DType.UNKNOWN else finest)
    )


def _reads_clock(query: AnalysedQuery) -> bool:
    """Return whether a value may be the time of now, which has milliseconds in Flink, and more digits in Spark."""
    computed = (text for leaf in query.leaves for text in leaf.computed.values())
    trees = (query.query, *query.inputs, *map(parse_expression, computed))
    return any(True for tree in trees for _ in find_nondeterministic(tree))


def _digits(query: exp.Expr, kinds: Iterable[exp.DataType | None]) -> Iterator[int]:
    """Yield the digits of a second of each time in a query and in its columns' types; all for what it computes."""
    for kind in kinds:
        yield from _digits_of(kind)
    for node in query.walk():
        if isinstance(node, exp.DataType):
            yield from _digits_of(node)
        elif isinstance(node, exp.Column | exp.Cast | exp.Alias | exp.Paren):
            yield from _digits_of(node.type)
        elif any(True for _ in _digits_of(node.type)):
            yield MICROS


def _digits_of(kind: exp.DataType | None) -> Iterator[int]:
    for part in () if kind is None else kind.find_all(exp.DataType):
        if part.this in _TIMES:
            yield min(precision_of(part, MICROS), MICROS)
