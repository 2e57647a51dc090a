"""Joins of changes with a table that Spark reads by itself, as SQL.

The table is broadcast: a shuffle would lose the order of a key's changes.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.plan.rules.changelog_join import JoinedFlow

__all__ = ["write_joins"]


def write_joins(select: exp.Select, joined: JoinedFlow) -> None:
    """Rewrite the joins of a SELECT over changes: the tables are broadcast, and upserts keep rows without a match."""
    for alias in joined.broadcast:
        _broadcast(select, alias)
    joins = select.args.get("joins") or []
    for place in joined.outer:
        joins[place].set("side", "LEFT")
        joins[place].set("kind", None)


def _broadcast(select: exp.Select, alias: str) -> None:
    hint = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(alias, quoted=True)])
    known = select.args.get("hint")
    if known is None:
        select.set("hint", exp.Hint(expressions=[hint]))
    else:
        known.append("expressions", hint)
