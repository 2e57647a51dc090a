"""A SELECT whose rows a person watches: analysed as for a table that takes every change, where it never ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.sink_changes import SinkTable

if TYPE_CHECKING:
    from sqlglot import exp

    from penstock.sql.plan.analysed_query import AnalysedQuery
    from penstock.sql.plan.analyzer import Analyzer

__all__ = ["unending"]

_SCREEN = SinkTable(name="the screen", accepts=ChangelogMode.ALL, columns=())


def unending(query: exp.Expr, analyzer: Analyzer) -> AnalysedQuery | None:
    """Analyse a SELECT; gives it as it is watched, or None for one that ends by itself. Raises InputError."""
    if analyse(query, analyzer.namespace, analyzer.project, appends=False).bounded:
        return None
    return analyse(
        query,
        analyzer.namespace,
        analyzer.project,
        appends=True,
        sink=_SCREEN,
        state_ttl_ms=analyzer.state_ttl_ms,
    )
