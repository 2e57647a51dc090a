"""Temporal joins in event time, `JOIN t FOR SYSTEM_TIME AS OF s.rowtime`, as far as the text tells them.

Lookups, whose time is a processing time, are taken out before (lookup_joins.py). sql/maintain/temporal.py plans the
join itself.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.positions import span_of
from penstock.sql.walking import find_nodes

__all__ = ["has_temporal", "is_temporal", "refuse_temporal"]

_HINT = "FROM stream AS s JOIN t FOR SYSTEM_TIME AS OF s.ts AS t ON s.id = t.id"


def has_temporal(query: exp.Expr) -> bool:
    """Tell whether a query has a temporal join in event time.

    Raises UnsupportedError for FOR SYSTEM_TIME AS OF at another place than in a join, or of no column.
    """
    found = [node for node in find_nodes(query, exp.Table, exp.Subquery) if is_temporal(node)]
    for node in found:
        version = node.args["version"]
        if not isinstance(node.parent, exp.Join):
            raise UnsupportedError(
                "FOR SYSTEM_TIME AS OF stands in a join, behind the table on its right side",
                hint=_HINT,
                span=span_of(version),
            )
        if not isinstance(version.expression, exp.Column):
            raise UnsupportedError(
                "a temporal join in event time takes a column of its left side, its rowtime: the versions of a table "
                "at a fixed time are not kept",
                hint=f"{_HINT}; or FOR SYSTEM_TIME AS OF PROCTIME() for the rows of now",
                span=span_of(version.expression) or span_of(version),
            )
    return bool(found)


def is_temporal(node: exp.Expr) -> bool:
    """Tell whether a relation in FROM is joined as of an event time."""
    return node.args.get("version") is not None


def refuse_temporal(node: exp.Expr) -> None:
    """Raise UnsupportedError at a relation that is joined as of an event time: Spark does not stream that."""
    if is_temporal(node):
        raise UnsupportedError(
            "a temporal join in event time keeps versions, which Spark does not by itself",
            hint="write its rows into a table with a WATERMARK, and window those",
            span=span_of(node.args["version"]),
        )
