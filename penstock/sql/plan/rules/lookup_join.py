"""Lookup joins: a stream with the rows of a table at the time of the batch, `FOR SYSTEM_TIME AS OF` a processing time.

Flink's rules (CommonPhysicalLookupJoin): an INNER or LEFT join that compares a column for equality. Each batch asks
the table for the rows of its keys (lookup_keys.py), or reads it whole; later changes of the table do not change
results that are written. Temporal joins in event time are not changed here (`incremental/planning/join.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.binding.hints import lookup_hints
from penstock.sql.plan.logical.facts import LookupRetry
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import conjuncts, find_nodes


def take_lookups(
    query: exp.Expr,
    tables: Sequence[ScanFlow],
    *,
    bounded: bool,
) -> frozenset[int]:
    """Remove FOR SYSTEM_TIME AS OF from `query`, in place; returns the leaves that are looked up.

    A `bounded` query reads all its tables once, so that each of them can be looked up.

    Raises UnsupportedError for other joins.
    """
    found: set[int] = set()
    for node in find_nodes(query, exp.Table, exp.Subquery):
        version = node.args.get("version")
        if version is None or not _is_processing_time(version, query, tables):
            continue
        if not isinstance(node, exp.Table):
            raise UnsupportedError(
                f"a lookup join reads a table, and {node.alias_or_name} is a view",
                hint="name the table that the view reads",
                span=span_of(version),
            )
        if not isinstance(node, ScanTable) or not (bounded or tables[node.scan].static):
            raise UnsupportedError(
                "a lookup join reads a table that Spark reads by itself, named once in the query; this one is followed "
                "as a stream",
                hint="look up a Delta table or a table of a database (jdbc); write a stream into one first",
                span=span_of(version),
            )
        table = tables[node.scan]
        if table.changes is not ChangelogMode.INSERT_ONLY:
            raise UnsupportedError(
                f"the table {table.name} is read as changes, and a lookup wants its rows",
                hint="read its rows: leave out the option that asks for changes",
                span=span_of(version),
            )
        _check_join(node, version)
        node.set("version", None)
        node.set("looked_up", True)
        found.add(node.scan)
    _take_hints(query)
    return frozenset(found)


def retry_of(join: exp.Join) -> LookupRetry | None:
    """Return how a lookup join retries keys without rows, by its hint."""
    found: LookupRetry | None = join.this.args.get("retry")
    return found


def _take_hints(query: exp.Expr) -> None:
    """Set on each table the options of its hint LOOKUP. Raises UnsupportedError for one that is not looked up."""
    for select in find_nodes(query, exp.Select):
        for hint in lookup_hints(select):
            if not _is_looked_up(hint.relation):
                raise UnsupportedError(
                    f"the hint LOOKUP is of lookup joins, and {hint.relation.alias_or_name} is not looked up",
                    hint="join it FOR SYSTEM_TIME AS OF a processing time, or leave the hint out",
                    span=hint.span,
                )
            if hint.options.retry is not None:
                retry = LookupRetry(retry=hint.options.retry, span=hint.span)
                hint.relation.set("retry", retry)


def is_lookup(join: exp.Expr) -> bool:
    """Return whether a join has no state, as its table is looked up in each batch."""
    return _is_looked_up(join.this)


def _is_looked_up(relation: object) -> bool:
    return isinstance(relation, ScanTable) and relation.looked_up


def _is_processing_time(version: exp.Expr, query: exp.Expr, tables: Sequence[ScanFlow]) -> bool:
    point = version.expression
    names = frozenset[str]().union(*(table.proctimes for table in tables))
    names |= {item.alias for item in query.find_all(exp.Alias) if _is_now(item.this)}
    return _is_now(point) or (isinstance(point, exp.Column) and point.name in names)


def _is_now(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME"


def _check_join(node: exp.Table, version: exp.Expr) -> None:
    join = node.parent
    if not isinstance(join, exp.Join):
        raise UnsupportedError(
            "FOR SYSTEM_TIME AS OF stands in a join, behind the table on its right side",
            hint="FROM stream AS s JOIN t FOR SYSTEM_TIME AS OF s.pt AS t ON s.id = t.id",
            span=span_of(version),
        )
    words = f"{join.side} {join.kind}".strip().upper()
    if words not in ("", "INNER", "LEFT", "LEFT OUTER"):
        raise UnsupportedError(
            f"a lookup join is INNER or LEFT, not {words}", span=span_of(version)
        )
    if not (
        join.args.get("using") or any(compared_columns(join.args.get("on"), node.alias_or_name))
    ):
        raise UnsupportedError(
            f"a lookup join compares a column of {node.alias_or_name} for equality",
            hint=f"ON s.id = {node.alias_or_name}.id",
            span=span_of(version),
        )


def compared_columns(on: exp.Expr | None, alias: str) -> Iterator[str]:
    """Iterate over the columns of a table that ON compares for equality with values of others."""
    for equal in conjuncts(on):
        if not isinstance(equal, exp.EQ):
            continue
        for side, other in ((equal.this, equal.expression), (equal.expression, equal.this)):
            own = isinstance(side, exp.Column) and side.table == alias
            if own and all(column.table != alias for column in other.find_all(exp.Column)):
                yield side.name
