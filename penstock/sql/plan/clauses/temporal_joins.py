"""Refuse temporal joins in event time that no stage runs: sides without a rowtime, and what has no versions."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "refuse_kind_or_updates",
    "refuse_left_without_rowtime",
    "refuse_missing_key",
    "refuse_table_versions",
    "refuse_unversioned",
]

_LAST = (
    "SELECT a, b, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS n FROM t) WHERE n = 1, "
    "where ts is the rowtime of t"
)


def refuse_kind_or_updates(kind: JoinType, version: exp.Expr, *, inserts: bool) -> Refusal | None:
    """Return why a join as of `version` cannot be: it is neither INNER nor LEFT, or its left side is updated."""
    if kind not in (JoinType.INNER, JoinType.LEFT):
        return Refusal(
            message=f"a temporal join is INNER or LEFT, not {kind}", span=span_of(version)
        )
    if not inserts:
        return Refusal(
            message="the left side of a temporal join has rows that are updated or deleted, and only inserts can wait "
            "for the watermark",
            hint="join the table of inserts first, and aggregate the result",
            span=span_of(version),
        )
    return None


def refuse_left_without_rowtime(version: exp.Expr) -> Refusal:
    """Refuse a join as of a column that is no rowtime of its left side."""
    point = version.expression
    return Refusal(
        message=f"{to_text(point)} is not a rowtime of the rows on the left side of this temporal join",
        hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; regular joins "
        "and aggregations give rows without one. With the rows of now: FOR SYSTEM_TIME AS OF PROCTIME()",
        span=span_of(point) or span_of(version),
    )


def refuse_missing_key(
    node: exp.Join, label: str, key: Sequence[str], compared: Sequence[str]
) -> Refusal | None:
    """Return why a join does not choose one version: of the `key` of `label`, columns are not `compared`."""
    missing = [name for name in key if name not in compared]
    if not missing:
        return None
    return Refusal(
        message=f"Temporal table's primary key ({', '.join(key)}) must be included in the equivalence condition "
        f"of a temporal join: {', '.join(missing)} of {label} is not compared",
        hint="ON " + " AND ".join(f"s.x = {node.this.alias_or_name}.{name}" for name in key),
        span=span_of(node),
    )


def refuse_table_versions(table: ScanFlow, version: exp.Expr) -> Refusal | None:
    """Return why the rows of a table are no versions: it has no rowtime, or no PRIMARY KEY."""
    if table.rowtime is None:
        return Refusal(
            message="a temporal join in event time requires a row time attribute in the versioned table: "
            f"{table.name} is no stream with a WATERMARK",
            hint="declare WATERMARK FOR the column that says from when a version is valid; or join the rows of now, "
            "with a column `pt AS PROCTIME()`: FOR SYSTEM_TIME AS OF s.pt",
            span=span_of(version),
        )
    if table.key is None:
        return Refusal(
            message="a temporal join requires a primary key in the versioned table, and "
            f"{table.name} has none",
            hint=f"declare PRIMARY KEY (...) NOT ENFORCED; or join a view of its last rows: {_LAST}",
            span=span_of(version),
        )
    return None


def refuse_unversioned(node: exp.Subquery) -> Refusal:
    """Refuse a query that is no view of the last rows of a stream."""
    return Refusal(
        message=f"{node.alias} is not versioned: a temporal join in event time joins a table with a PRIMARY KEY and a "
        "WATERMARK, or a view of the last rows of a stream of inserts by their rowtime",
        hint=_LAST,
        span=span_of(node.args["version"]),
    )
