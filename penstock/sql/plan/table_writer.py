"""Decide who writes the rows of an INSERT: the tasks that read them, or Spark. Planning and EXPLAIN ask.

Tasks write where a stream takes columns of one table, rows of its arrays, and checks conditions as tasks do
(`rules/push_filters.py`), and the sink takes what they wrote (`TaskWriter`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn
from penstock.catalog.model.types import (
    LogicalType,
    TimestampLtzType,
    TimestampType,
)
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Sink
from penstock.connector.expression import Expression
from penstock.connector.file_output import (
    FilledColumn,
    TaskOutput,
    WrittenByEngine,
    stored_type,
)
from penstock.sql.dialect.spark.casts import MICROS, digits_of_times
from penstock.sql.expressions.time_functions import to_precision
from penstock.sql.expressions.value_types import OutsideError, converted, differs_in
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.rules.inline import is_plain_projection
from penstock.sql.settings import TIME_ZONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def choose_table_writer(
    query: AnalysedQuery,
    columns: Sequence[PhysicalColumn | MetadataColumn],
    sink: Sink,
    spark: SparkSession | None = None,
    checkpoint: str | None = None,
) -> TaskOutput | WrittenByEngine | None:
    """Return what tasks need to write the rows of a streaming query into the target's `columns`, or why Spark writes.

    None: the sink takes rows alone. Without `spark` its session's settings are taken for the default ones.
    """
    writer = sink.task_writer
    if writer is None:
        return None
    filled = _filled(query, columns, _zone(spark))
    if isinstance(filled, WrittenByEngine):
        return filled
    return writer.output(filled, spark, checkpoint)


def _zone(spark: SparkSession | None) -> str:
    return "UTC" if spark is None else spark.conf.get(TIME_ZONE) or "UTC"


_OTHER = "the query does more than take columns of one table"


def _filled(
    query: AnalysedQuery, columns: Sequence[PhysicalColumn | MetadataColumn], zone: str
) -> tuple[FilledColumn, ...] | WrittenByEngine:
    """Return what fills each of the target's columns, in the order of the target's."""
    reason = next(_reasons(query), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    (leaf,) = query.leaves
    values = None if leaf.fragment is None else leaf.fragment.columns
    if values is None:
        return WrittenByEngine(reason=_OTHER)
    if len(values) != len(columns):
        return WrittenByEngine(reason="the query gives other columns than the table takes")
    filled = []
    for column, (_, delivered) in zip(columns, values, strict=True):
        name = column.name
        if delivered is None:
            return WrittenByEngine(reason=f"column {quote(name)} is computed")
        try:
            value = _as_column(delivered, column.type)
        except OutsideError:
            return WrittenByEngine(reason=f"column {quote(name)} is cut to {column.type}")
        if differs_in(zone, value):
            return WrittenByEngine(reason=f"column {quote(name)} depends on the time zone {zone}")
        filled.append(FilledColumn(name=name, source=value))
    return tuple(filled)


def _as_column(value: Expression, kind: LogicalType) -> Expression:
    """Return a value as a column takes it, where tasks have Spark's cast; else as it is, which the sink refuses.

    Raises OutsideError where it has times of more digits of a second than the column, and tasks do not cut them.
    """
    wanted = stored_type(kind)
    if stored_type(value.type) != wanted:
        return converted(value, wanted) or value
    had, has = digits_of_times(value.type), digits_of_times(kind)
    if max(had, default=0) <= min(has, default=MICROS):
        return value
    if isinstance(kind, TimestampType | TimestampLtzType):
        return to_precision(value, kind.precision)
    raise OutsideError


def _reasons(query: AnalysedQuery) -> Iterator[str]:
    if len(query.leaves) != 1:
        yield _OTHER
        return
    (leaf,) = query.leaves
    if not leaf.by_splits or leaf.looked_up:
        yield "Spark reads the table, too"
    changes = query.flow.mechanism is not None or query.changes is not ChangelogMode.INSERT_ONLY
    if query.maintained is not None or changes:
        yield "the rows are changes"
    if not is_plain_projection(query.query, filtered=True, unnested=True):
        yield _OTHER
    if leaf.fragment is not None and leaf.fragment.open:
        yield "a condition is checked by Spark"
