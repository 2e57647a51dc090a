"""Read joins as of an event time: the versions on the right side, and what rows of the left side wait for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.plan.builder.joins import read_using, written_conditions
from penstock.sql.plan.builder.names import Scope
from penstock.sql.plan.clauses.joins import join_type, words_of
from penstock.sql.plan.clauses.temporal_joins import (
    refuse_left_without_rowtime,
    refuse_unversioned,
)
from penstock.sql.plan.clauses.versions import (
    LastRows,
    Versions,
    last_by,
    read_last_row,
    read_table_versions,
)
from penstock.sql.plan.logical.block import Block
from penstock.sql.plan.logical.column import Facts
from penstock.sql.plan.logical.derive import facts_of_join, facts_of_temporal_join
from penstock.sql.plan.logical.nodes import (
    Node,
    Refused,
    Scan,
    SubqueryAlias,
    TemporalJoin,
    TopN,
)
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.refusal import Refusal

__all__ = ["temporal_node"]


def temporal_node(
    left: Node,
    right: SubqueryAlias,
    node: exp.Join,
    scope: Scope,
    block: Block,
    *,
    joined: Sequence[SubqueryAlias],
    tables: Sequence[ScanFlow],
) -> TemporalJoin | Refused:
    """Return a join of `left`, whose names are in `scope`, with the versions of `right`.

    `joined` are the relations of the FROM before, of which the first alone may have been joined otherwise. Refused
    where the right side has no versions, or the left one no such rowtime.
    """
    version = node.this.args["version"]
    found = _versions(right, node.this, tables)
    if isinstance(found, Refusal):
        return _refused(left, right, node, found)
    first, others = joined[0], (*joined[1:], right)
    sources = None
    if version.expression.table in ("", first.alias) and all(map(_is_versioned, others)):
        sources = first.facts.sources(version.expression.name)
    if not sources:
        return _refused(left, right, node, refuse_left_without_rowtime(version))
    return TemporalJoin(
        facts=facts_of_temporal_join(left.facts, right.facts, _scans(right)),
        place=node,
        left=left,
        right=right,
        kind=join_type(node),
        version=version.expression,
        time=found.time,
        key=found.key,
        conditions=tuple(written_conditions(node, scope, right.alias)),
        using=read_using(node),
        waits_for=sources.union(*map(_scans, others)),
        text=f"{words_of(node)} JOIN".strip(),
        block=block,
    )


def _versions(
    right: SubqueryAlias, node: exp.Expr, tables: Sequence[ScanFlow]
) -> Versions | Refusal:
    if isinstance(node, ScanTable):
        return read_table_versions(node, tables)
    assert isinstance(node, exp.Subquery), "tables and views have versions"
    numbered = read_last_row(node)
    if isinstance(numbered, Refusal):
        return numbered
    best = next(
        found
        for found in walk(right)
        if isinstance(found, TopN) and found.syntax is numbered.select
    )
    if best.input.facts.sources(last_by(numbered).name) is None:
        return refuse_unversioned(node)
    values = {name: value for name, value in best.items if name != best.number}
    return LastRows.of(node, numbered, values).versions or refuse_unversioned(node)


def _refused(left: Node, right: Node, node: exp.Join, refusal: Refusal) -> Refused:
    columns = facts_of_join(left.facts, right.facts).columns
    return Refused(facts=Facts(columns=columns), place=node, input=left, stage=refusal)


def _is_versioned(relation: SubqueryAlias) -> bool:
    return relation.syntax is not None and relation.syntax.args.get("version") is not None


def _scans(node: Node) -> frozenset[int]:
    return frozenset(found.index for found in walk(node) if isinstance(found, Scan))
