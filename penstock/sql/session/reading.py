"""Frames of a table or view by its name: what it holds now, or a stream that carries Flink's watermark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import parse_identifier, quote
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.registry import connector_of
from penstock.sql.convert.statement import parse_statement
from penstock.sql.errors.spark import as_input_error
from penstock.sql.expressions.rowtime import rowtime_of
from penstock.sql.jobs.live_query import LiveQuery, live_query
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.physical.insert import to_display_rows
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.catalog.definitions.resolver import Namespace
    from penstock.sql.plan.physical.planner import Planner


_FRAME = SinkTable(name="the frame", accepts=ChangelogMode.ALL, columns=())


def select_all(name: str, namespace: Namespace) -> Select:
    """Make the query that reads a whole table or view. Raises InputError for a name that is none, or not known."""
    quoted = ".".join(map(quote, parse_identifier(name)))
    text = f"SELECT * FROM {quoted}"  # noqa: S608  quoted above
    (statement,) = split(text, "<name>")
    parsed = parse_statement(statement, namespace)
    assert isinstance(parsed, Select), "it is written above"
    return parsed


def table_frame(statement: Select, planner: Planner, spark: SparkSession) -> DataFrame:
    """Read what the tables of a query hold when the frame runs; of changes, their final rows.

    Raises InputError, UnsupportedError for changes without a key.
    """
    overlay = planner.namespace.overlay()
    for leaf in find_relations(statement.query, planner.namespace).leaves:
        modes = connector_of(leaf.table, project=planner.project).scan_modes
        if modes is not None:
            overlay.create(modes.with_end(leaf.table), replace=True)
    workdir = (
        planner.workdir
    )  # made here, so that both planners have it: files have to outlive this call
    ending = replace(planner, namespace=overlay)
    assert ending.workdir == workdir
    analysed = ending.ready(ending.analyse_once(statement.query))
    if analysed.maintained is not None:
        return ending.select(statement, spark)
    try:
        frame = ending.builder(spark).build(analysed, streaming=False)
    except AnalysisException as error:
        raise as_input_error(error) from error
    if not analysed.flow.kinds or analysed.flow.mechanism is not None:
        return to_display_rows(frame, analysed, streaming=False)
    if analysed.flow.key is None:
        raise UnsupportedError(
            "the rows of this table are changes, and without a PRIMARY KEY none can be told from another",
            hint="declare PRIMARY KEY (...) NOT ENFORCED; or SELECT them with session.sql, which shows each change",
            span=statement.span,
        )
    return _newest(frame, analysed.flow.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The frame of a SELECT over bounded tables; or `live`, the follower of an unbounded one, and its frame."""

    frame: DataFrame
    live: LiveQuery | None = None


def select_frame(statement: Select, planner: Planner, spark: SparkSession) -> Selected:
    """Return a SELECT as a frame: over tables that all have an end its rows, else those that come.
    Raises InputError.
    """
    query = planner.analyse_once(statement.query)
    if query.bounded:
        return Selected(frame=planner.select(statement, spark))
    live = live_query(_endless(statement, planner), planner, spark)
    return Selected(frame=live.frame, live=live)


def stream_frame(statement: Select, planner: Planner, spark: SparkSession) -> DataFrame:
    """Follow the tables of a query; their rowtimes are event time for what is built on the frame. Raises InputError."""
    query = _endless(statement, planner)
    if query.maintained is not None:
        raise UnsupportedError(
            "this query keeps its results up to date, which a frame cannot: it has to be an INSERT",
            hint="INSERT INTO a Delta table with a PRIMARY KEY, and read that",
            span=statement.span,
        )
    followed = replace(query, leaves=tuple(map(_followed, query.leaves)))
    return live_query(followed, planner, spark).frame


def _endless(statement: Select, planner: Planner) -> AnalysedQuery:
    return planner.analyse_followed(statement.query, _FRAME)


def _followed(leaf: TableScan) -> TableScan:
    """Carry a table's watermark, whether or not the query itself waits for it: what follows may."""
    watermark = leaf.table.schema.watermark
    if watermark is None or not leaf.by_splits or leaf.rowtime is not None:
        return leaf
    if watermark.column not in {*leaf.columns, *leaf.computed}:
        return leaf
    return replace(leaf, rowtime=rowtime_of(leaf.table), marked=True)


def _newest(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keep the last row of each key that is not a delete; a key is in one partition, read in order."""
    kind = F.col(ROW_KIND)
    keys = [F.col(f"`{name}`") for name in key]
    rows = frame.filter(kind != F.lit(int(RowKind.UPDATE_BEFORE)))
    rows = rows.withColumn("__at", F.monotonically_increasing_id())
    nth = F.row_number().over(Window.partitionBy(*keys).orderBy(F.col("__at").desc()))
    rows = rows.withColumn("__nth", nth).filter(
        (F.col("__nth") == 1) & (kind != F.lit(int(RowKind.DELETE)))
    )
    return rows.drop("__at", "__nth", ROW_KIND)
