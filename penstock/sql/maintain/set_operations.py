"""UNION, INTERSECT and EXCEPT over changes."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND
from penstock.sql.maintain.grouping import distinct
from penstock.sql.maintain.relation import Relation, Staged, column
from penstock.sql.maintain.stage_list import StageList
from penstock.sql.maintain.stages import Input
from penstock.sql.plan.mechanism import Mechanism, Way
from penstock.sql.positions import span_of

__all__ = ["combine"]


def combine(node: exp.SetOperation, left: Relation, right: Relation, stages: StageList) -> Staged:
    """Combine the rows of two queries, column by column. Raises UnsupportedError where they do not fit."""
    for part in ("order", "limit", "offset"):
        if node.args.get(part) is not None:
            raise UnsupportedError(
                f"{part.upper()} of a stream is not supported", span=span_of(node.args[part])
            )
    one, two = stages.staged(left), stages.staged(right)
    if len(one.columns) != len(two.columns):
        raise UnsupportedError(
            f"the queries of this {node.key.upper()} give {len(one.columns)} and {len(two.columns)} columns",
            span=span_of(node),
        )
    if isinstance(node, exp.Union):
        rows = _union_all(one, two, stages)
        return distinct(rows, stages, node) if node.args.get("distinct") else rows
    return _compared(node, one, two if two.name != one.name else stages.renamed(two), stages)


def _union_all(one: Staged, two: Staged, stages: StageList) -> Staged:
    query = exp.Union(
        this=_read(one, one.columns), expression=_read(two, one.columns), distinct=False
    )
    names = dict.fromkeys((one.name, two.name))
    return stages.stateless(
        query,
        tuple(names),
        columns=one.columns,
        key=None,
        constants=frozenset(),
        like=one if one.mechanism is not None or not one.inserts else two,
        inserts=one.inserts and two.inserts,
    )


def _compared(node: exp.SetOperation, one: Staged, two: Staged, stages: StageList) -> Staged:
    query = type(node)(
        this=_read(one, one.columns, kind=False),
        expression=_read(two, two.columns, kind=False),
        distinct=bool(node.args.get("distinct")),
    )
    mechanism = Mechanism(
        way=Way.SET, key=one.columns, state="the rows of both sides", span=span_of(node)
    )
    return stages.recompute(
        node.key,
        [Input(name=one.name, key=one.columns), Input(name=two.name, key=two.columns)],
        query,
        columns=one.columns,
        key=one.columns if node.args.get("distinct") else None,
        mechanism=mechanism,
        origin=node,
    )


def _read(rows: Staged, names: tuple[str, ...], *, kind: bool = True) -> exp.Select:
    fields = [
        exp.alias_(column(own), name, quoted=True)
        for own, name in zip(rows.columns, names, strict=True)
    ]
    if kind:
        fields.append(column(ROW_KIND))
    return exp.select(*fields).from_(exp.to_table(rows.name, quoted=True), copy=False)
