"""Windows over rows that only a stage gives: each row with its windows, and aggregates of those that are closed.

Windows over tables are Spark's (changelog.py); these are behind a stage, and wait for the watermark as it did.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect.windows import WINDOW_COLUMNS, WindowKind, WindowTable
from penstock.sql.maintain.relation import Staged, column
from penstock.sql.maintain.rowtimes import rowtime_sources
from penstock.sql.maintain.source import StagedSource, StreamedSource
from penstock.sql.maintain.stage_list import StageList
from penstock.sql.plan.flow import TableInput

__all__ = ["closes_by", "time_of_windows", "with_windows"]

_START, _END, _TIME = WINDOW_COLUMNS


def with_windows(
    window: WindowTable, rows: Staged, tables: Sequence[TableInput], stages: StageList
) -> Staged:
    """Give each row of a stage with its windows. Raises UnsupportedError for SESSION, and without a rowtime."""
    if not rows.inserts:
        raise UnsupportedError(
            f"{window.kind} over rows that are updated or deleted is not supported",
            hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
            span=window.span,
        )
    if not rowtime_sources(window.input, window.time_column, tables):
        raise UnsupportedError(
            f"{window.time_column} is not a rowtime of the rows that {window.kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=window.span,
        )
    if window.kind is WindowKind.SESSION:
        raise UnsupportedError(
            "SESSION over the results of OVER or of a temporal join is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=window.span,
        )
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


def closes_by(
    select: exp.Select, source: StreamedSource | StagedSource, tables: Sequence[TableInput]
) -> frozenset[int]:
    """Give the leaves whose watermarks close the windows of a stage's rows that a SELECT groups by; else none."""
    if isinstance(source, StreamedSource) or not source.rows.inserts:
        return frozenset()
    group, from_ = select.args.get("group"), select.args.get("from_")
    keys = {key.name for key in group.expressions} if group is not None else set[str]()
    if not keys >= {_START, _END} or from_ is None or select.args.get("joins"):
        return frozenset()
    return rowtime_sources(from_.this, _TIME, tables) or frozenset()


def time_of_windows(select: exp.Select) -> exp.Column:
    """Name the time of the windows that a SELECT groups by."""
    return column(_TIME, select.args["from_"].this.alias_or_name or None)
