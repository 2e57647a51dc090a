"""Refuse windows over the rows of a stage that no watermark closes."""

from __future__ import annotations

from penstock.catalog.errors import Span
from penstock.sql.dialect.windows.window_tables import WindowKind
from penstock.sql.syntax.refusal import Refusal

__all__ = ["refuse_window"]


def refuse_window(
    kind: WindowKind,
    time_column: str,
    span: Span | None,
    sources: frozenset[int] | None,
    *,
    inserts: bool,
) -> Refusal | None:
    """Return why a stage's rows cannot be windowed: they are updated, have no rowtime there, or for SESSION.

    `sources` are the scans whose watermarks bound the time column; None: it is no rowtime.
    """
    if not inserts:
        return Refusal(
            message=f"{kind} over rows that are updated or deleted is not supported",
            hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
            span=span,
        )
    if not sources:
        return Refusal(
            message=f"{time_column} is not a rowtime of the rows that {kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    if kind is WindowKind.SESSION:
        return Refusal(
            message="SESSION over the results of OVER or of a temporal join is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    return None
