"""The tables of temporal joins: what is read of them, their rowtimes, their numbers in the query that Spark runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.catalog.errors import UnsupportedError
from penstock.connector.rowtime import Rowtime
from penstock.sql.dialect import WindowTable
from penstock.sql.maintain.stages import Maintained, Temporal, Waits
from penstock.sql.plan.flow import TableInput

__all__ = ["check_rowtimes", "numbered_anew", "unnamed_columns"]


def unnamed_columns(
    windows: Sequence[WindowTable], versioned: Sequence[TableInput]
) -> frozenset[str]:
    """Give the columns that a query reads, named or not.

    Windows read their time column, temporal joins key and rowtime of `versioned` tables.
    """
    times = {table.rowtime for table in versioned if table.rowtime is not None}
    keys = frozenset[str]().union(*(table.key or () for table in versioned))
    return keys | times | {window.time_column for window in windows}


def check_rowtimes(
    maintained: Maintained, rowtimes: Sequence[Rowtime | None], names: Sequence[str]
) -> None:
    """Refuse a temporal join of a local time with an instant, as Flink does. Raises UnsupportedError.

    `rowtimes` and `names` are those of the tables by their numbers in the stages.
    """
    for stage in maintained.stages:
        if not isinstance(stage, Temporal):
            continue
        found = [(rowtimes[index], names[index]) for index in stage.waits_for]
        if len({rowtime.instant for rowtime, _ in found if rowtime is not None}) > 1:
            raise UnsupportedError(
                "the rowtimes of a temporal join have to be of one type, and of those of "
                f"{', '.join(name for _, name in found)} some are TIMESTAMP and some TIMESTAMP_LTZ",
                hint="declare the WATERMARK of one of them for a computed column: CAST(ts AS TIMESTAMP_LTZ(3))",
                span=stage.mechanism.span,
            )


def numbered_anew(maintained: Maintained, order: Sequence[int]) -> Maintained:
    """Give the stages with other numbers of their tables: `order` are the old ones in the order of the new."""
    stages = tuple(
        replace(stage, waits_for=tuple(sorted(map(order.index, stage.waits_for))))
        if isinstance(stage, Waits)
        else stage
        for stage in maintained.stages
    )
    return replace(maintained, stages=stages)
