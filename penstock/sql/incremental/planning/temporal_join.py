"""Temporal joins in event time as a stage: each row with the version that a table had at the row's time.

Flink's rules: TemporalJoinUtil, StreamPhysicalTemporalJoin, TemporalJoinRewriteWithUniqueKeyRule.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.incremental.planning.join import Join, keyed
from penstock.sql.incremental.planning.relation import column, operator_at
from penstock.sql.incremental.planning.source import ChangelogSource
from penstock.sql.incremental.stages import VALID_FROM, VALID_TO, TemporalJoin
from penstock.sql.plan.clauses.joins import pair_of
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal


def plan_temporal_join(
    left: ChangelogSource,
    right: ChangelogSource,
    kind: nodes.JoinType,
    conditions: Sequence[exp.Expr],
    join: nodes.TemporalJoin,
    node: exp.Join,
) -> ChangelogSource | Refusal:
    """Join `left`, whose rowtime the FOR SYSTEM_TIME AS OF of `node` names, with the versions `right`.

    The whole key of the versions is compared.
    """
    if (refusal := _refuse_kind(left, kind, node.this.args["version"])) is not None:
        return refusal
    pairs = [pair_of(condition, left, right) for condition in conditions]
    by_key: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    rest: list[exp.Expr] = []
    for condition, pair in zip(conditions, pairs, strict=True):
        name = None if pair is None else _key_column(pair[1], right, join.key)
        if pair is None or name is None or name in by_key:
            rest.append(condition)
        else:
            by_key[name] = pair
    missing = [name for name in join.key if name not in by_key]
    if missing:
        alias = node.this.alias_or_name
        return Refusal(
            message=f"Temporal table's primary key ({', '.join(join.key)}) must be included in the equivalence "
            f"condition of a temporal join: {', '.join(missing)} of {join.label} is not compared",
            hint="ON " + " AND ".join(f"s.x = {alias}.{name}" for name in join.key),
            span=span_of(node),
        )
    if (refusal := left.beside(right).refuse(rest)) is not None:
        return refusal
    one, row_key = keyed(left, [by_key[name][0] for name in join.key], 0)
    joined = Join(kind=kind, left=one, right=right, keys=(row_key, join.key), rest=rest)
    return _stage(joined, join, one.rewritten(join.version).name, node)


def _refuse_kind(left: ChangelogSource, kind: nodes.JoinType, version: exp.Expr) -> Refusal | None:
    if kind not in (nodes.JoinType.INNER, nodes.JoinType.LEFT):
        return Refusal(
            message=f"a temporal join is INNER or LEFT, not {kind}", span=span_of(version)
        )
    if not left.rows.inserts:
        return Refusal(
            message="the left side of a temporal join has rows that are updated or deleted, and only inserts can wait "
            "for the watermark",
            hint="join the table of inserts first, and aggregate the result",
            span=span_of(version),
        )
    return None


def _key_column(value: exp.Expr, right: ChangelogSource, key: tuple[str, ...]) -> str | None:
    """Name the column of the key that a compared value is."""
    own = right.rewritten(value) if isinstance(value, exp.Column) else None
    return own.name if isinstance(own, exp.Column) and own.name in key else None


def _stage(joined: Join, join: nodes.TemporalJoin, time: str, node: exp.Join) -> ChangelogSource:
    rows, right, names = joined.left.rows, joined.right.rows, joined.names
    at, start, end = (
        column(time, rows.name),
        column(VALID_FROM, right.name),
        column(VALID_TO, right.name),
    )
    valid = [
        exp.GTE(this=at, expression=start),
        exp.paren(
            exp.or_(
                exp.Is(this=end, expression=exp.null()),
                exp.LT(this=at.copy(), expression=end.copy()),
            )
        ),
    ]
    state = (
        f"rows until the watermark has passed their {time}; of {join.label} the versions after it, and the last one "
        "before it"
    )
    stages = joined.left.stages
    stage = TemporalJoin(
        name=stages.name("temporal"),
        rows=rows.name,
        time=time,
        row_key=joined.keys[0],
        versions=right.name,
        version_time=join.time,
        version_key=join.key,
        waits_for=tuple(sorted(join.waits_for)),
        query=joined.query(names, valid),
        key=joined.key(names),
        mechanism=operator_at(OperatorKind.TEMPORAL_JOIN, join.key, state, node),
    )
    return joined.named(stages.waiting(stage, columns=tuple(names.values())), names)
