"""Decide who writes the rows of an INSERT: the tasks that read them, or Spark. Planning and EXPLAIN ask.

Tasks write where a stream takes columns of one table as they are, and the sink takes their files (`TaskWriter`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.catalog.model.identifier import quote
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Sink
from penstock.connector.file_output import FileOutput, FilledColumn, WrittenByEngine
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.rules.inline import is_plain_projection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def choose_table_writer(
    query: AnalysedQuery,
    columns: Sequence[str],
    sink: Sink,
    spark: SparkSession | None = None,
) -> FileOutput | WrittenByEngine | None:
    """Return what tasks need to write the rows of a streaming query into the target's `columns`, or why Spark writes.

    None: the sink takes rows alone. Without `spark` its session's settings are taken for the default ones.
    """
    writer = sink.task_writer
    if writer is None:
        return None
    filled = _filled(query, columns)
    return filled if isinstance(filled, WrittenByEngine) else writer.output(filled, spark)


_OTHER = "the query does more than take columns of one table"


def _filled(
    query: AnalysedQuery, columns: Sequence[str]
) -> tuple[FilledColumn, ...] | WrittenByEngine:
    """Return the column of the table read that fills each of the target's, in the order of the target's."""
    reason = next(_reasons(query), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    assert query.plan is not None, "it was asked"
    (leaf,) = query.leaves
    taken = _taken(query.plan.root.logical, leaf)
    if taken is None:
        return WrittenByEngine(reason=_OTHER)
    if len(taken) != len(columns):
        return WrittenByEngine(reason="the query gives other columns than the table takes")
    filled = []
    for name, (_, source) in zip(columns, taken, strict=True):
        if source is None:
            return WrittenByEngine(reason=f"column {quote(name)} is computed")
        kind = leaf.table.schema.column(source).type
        assert kind is not None, "it is no computed column"
        filled.append(FilledColumn(name=name, source=source, type=kind))
    return tuple(filled)


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
    if query.plan is None or not is_plain_projection(query.query):
        yield _OTHER
    if leaf.fields:
        yield "the query takes fields of rows"


def _taken(node: nodes.Node, leaf: TableScan) -> tuple[tuple[str, str | None], ...] | None:
    """Return the names of an operator's columns, each with the column of the table that it is, or None for others.

    None where the operator is no projection.
    """
    match node:
        case nodes.Scan():
            return tuple((name, name) for name in leaf.columns)
        case nodes.SubqueryAlias(input=below, names=names):
            taken = _taken(below, leaf)
            if taken is None or not names:
                return taken
            return tuple((name, source) for name, (_, source) in zip(names, taken, strict=True))
        case nodes.Project(input=below, items=items, block=block):
            taken = _taken(below, leaf)
            if taken is None:
                return None
            known, relations = dict(taken), ("", *block.relations)
            return tuple((name, _source(value, known, relations)) for name, value in items)
        case _:
            return None


def _source(
    value: exp.Expr, known: Mapping[str, str | None], relations: Sequence[str]
) -> str | None:
    column = value.unalias()
    if isinstance(column, exp.Column) and column.table in relations:
        return known.get(column.name)
    return None
