"""Read temporal joins in event time: what has versions, by which rowtime and key; refuse what has none.

The right side is a versioned table, or Flink's view of the last rows of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.logical.facts import Item
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.top_n import (
    RowNumberQuery,
    check_limit,
    check_row_number,
    find_row_number,
)
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

_LAST = (
    "SELECT a, b, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS n FROM t) WHERE n = 1, "
    "where ts is the rowtime of t"
)


def refuse_left_without_rowtime(version: exp.Expr) -> Refusal:
    """Refuse a join as of a column that is no rowtime of its left side."""
    point = version.expression
    return Refusal(
        message=f"{to_text(point)} is not a rowtime of the rows on the left side of this temporal join",
        hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; regular joins "
        "and aggregations give rows without one. With the rows of now: FOR SYSTEM_TIME AS OF PROCTIME()",
        span=span_of(point) or span_of(version),
    )


def refuse_unversioned(node: exp.Subquery) -> Refusal:
    """Refuse a query that is no view of the last rows of a stream."""
    return Refusal(
        message=f"{node.alias} is not versioned: a temporal join in event time joins a table with a PRIMARY KEY and a "
        "WATERMARK, or a view of the last rows of a stream of inserts by their rowtime",
        hint=_LAST,
        span=span_of(node.args["version"]),
    )


# --- versions ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What makes a relation versioned: the key of its versions, and the rowtime from which each is valid.

    `items` are the columns of a view of last rows over what its query numbers, of which each row is a version.
    """

    key: tuple[str, ...]
    time: str
    items: tuple[Item, ...] = ()


def read_table_versions(node: ScanTable, tables: Sequence[ScanFlow]) -> Versions | Refusal:
    """Read a table behind FOR SYSTEM_TIME AS OF a rowtime; a refusal without a PRIMARY KEY or a WATERMARK."""
    table = tables[node.scan]
    if table.rowtime is None:
        return Refusal(
            message="a temporal join in event time requires a row time attribute in the versioned table: "
            f"{table.name} is no stream with a WATERMARK",
            hint="declare WATERMARK FOR the column that says from when a version is valid; or join the rows of now, "
            "with a column `pt AS PROCTIME()`: FOR SYSTEM_TIME AS OF s.pt",
            span=span_of(node.args["version"]),
        )
    if table.key is None:
        return Refusal(
            message="a temporal join requires a primary key in the versioned table, and "
            f"{table.name} has none",
            hint=f"declare PRIMARY KEY (...) NOT ENFORCED; or join a view of its last rows: {_LAST}",
            span=span_of(node.args["version"]),
        )
    return Versions(key=table.key, time=table.rowtime)


def read_last_row(view: exp.Subquery) -> RowNumberQuery | Refusal:
    """Return the numbering query of a view that selects only the last row of each key by a column, `last_by`.

    A refusal for any other query. Whether the column is a rowtime is not asked.
    """
    reader = view.this
    if not isinstance(reader, exp.Select) or reader.args.get("from_") is None:
        return refuse_unversioned(view)
    numbered = find_row_number(reader.args.get("where"), reader.args["from_"].this)
    others = ("joins", "laterals", "group", "having", "distinct", "order", "limit")
    if numbered is None or any(reader.args.get(part) for part in others):
        return refuse_unversioned(view)
    if (many := check_limit(numbered)) is not None:
        return many
    order, select = numbered.window.args.get("order"), numbered.select
    if numbered.rest is not None or numbered.ties or numbered.limit != 1:
        return refuse_unversioned(view)
    if order is None or len(order.expressions) != 1:
        return refuse_unversioned(view)
    if not order.expressions[0].args.get("desc") or not numbered.window.args.get("partition_by"):
        return refuse_unversioned(view)
    if (more := check_row_number(numbered)) is not None:
        return more
    joined = select.args.get("joins") or select.args.get("laterals")
    if not isinstance(last_by(numbered), exp.Column) or joined:
        return refuse_unversioned(view)
    return numbered


def last_by(numbered: RowNumberQuery) -> exp.Expr:
    """Return what the rows of a numbering query are ordered by first."""
    order: exp.Expr = numbered.window.args["order"].expressions[0].this
    return order


def read_view_versions(
    view: exp.Subquery, numbered: RowNumberQuery, values: Mapping[str, exp.Expr]
) -> Versions | Refusal:
    """Read a view of the last row of each key by rowtime; a refusal where it does not give the key or the rowtime.

    `values` are those of its numbering query, in which stars are written out.
    """
    names = _view_names(view.this, list(values))
    items = tuple((name, values[own]) for name, own in names.items())
    key = [_shown(part, items) for part in numbered.window.args["partition_by"]]
    time = _shown(last_by(numbered), items)
    known = tuple(name for name in key if name is not None)
    if time is None or len(known) < len(key):
        return refuse_unversioned(view)
    return Versions(key=known, time=time, items=items)


def _view_names(reader: exp.Select, inner: Sequence[str]) -> dict[str, str]:
    """Return the columns of a view by their names, with their names in the numbering query.

    The number itself, which is always 1, and computed values are left out.
    """
    if any(item.find(exp.Star) for item in reader.expressions):
        return {name: name for name in inner}
    columns = ((i.alias_or_name, i.unalias()) for i in reader.expressions)
    return {
        name: value.name
        for name, value in columns
        if isinstance(value, exp.Column) and value.name in inner
    }


def _shown(part: exp.Expr, items: Sequence[Item]) -> str | None:
    """Name the column of the view for a value of the numbering query; None where there is none."""
    return next((name for name, value in items if is_same(value, part)), None)
