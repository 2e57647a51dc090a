"""Plan windows over a stage's rows: they wait for the watermark as the stage did. Windows over tables are Spark's."""

from __future__ import annotations

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowTable
from penstock.sql.incremental.planning.relation import ChangelogRelation, column
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.logical.nodes import Aggregate

__all__ = ["window_time", "window_watermark_sources", "with_windows"]

_START, _END, _TIME = WINDOW_COLUMNS


def with_windows(
    window: WindowTable, rows: ChangelogRelation, stages: StageList
) -> ChangelogRelation:
    """Return each row of a stage with its windows."""
    read = window.node.copy()
    for part in ("alias", "joins", "laterals"):
        read.set(part, None)
    inner = next(node for node in read.this.find_all(type(window.input)) if node == window.input)
    inner.replace(exp.to_table(rows.name, quoted=True))
    columns = (*rows.columns, *WINDOW_COLUMNS)
    query = exp.select(*map(column, (*columns, ROW_KIND))).from_(read, copy=False)
    return stages.stateless(
        query,
        (rows.name,),
        columns=columns,
        key=None,
        constants=rows.constants,
        like=rows,
        inserts=True,
    )


def window_watermark_sources(
    node: Aggregate, source: AppendSource | ChangelogSource
) -> frozenset[int]:
    """Return the leaves whose watermarks close the windows of a stage's rows that are grouped by; else none."""
    if isinstance(source, AppendSource) or not source.rows.inserts:
        return frozenset()
    if not {key.value.name for key in node.keys} >= {_START, _END}:
        return frozenset()
    if node.block.select.args.get("joins"):
        return frozenset()
    return node.input.facts.sources(_TIME) or frozenset()


def window_time(select: exp.Select) -> exp.Column:
    """Name the time of the windows that a SELECT groups by."""
    return column(_TIME, select.args["from_"].this.alias_or_name or None)
