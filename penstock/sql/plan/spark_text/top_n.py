"""Deduplication and Top-N as SQL of Spark's update mode, without OVER.

Spark has no OVER in streams. The best row of each key is max_by or min_by of the whole row in update mode; the n best
are their form with a count, an array that is unfolded behind the aggregation, each row under its number. Of tied rows
the first to arrive is taken, as in Flink (`rules/top_n.py`), where the tables record that.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS
from penstock.sql.plan.logical.facts import TieBreak
from penstock.sql.plan.rules.changelog_project import QualifiedRelation
from penstock.sql.plan.rules.top_n import RowNumberQuery, in_reverse, is_descending, is_downwards
from penstock.sql.plan.spark_text.changes import expand_stars

BEST, RANKED, KEY, ROW, ORDER = "__best", "__ranked", "__key", "__row_of_key", "__order"
NUMBER = "__number"


def write_top_n(
    numbered: RowNumberQuery, relations: list[QualifiedRelation], tie: TieBreak | None
) -> None:
    """Replace the query that numbers rows by an aggregation. `tie` breaks ties in the order; None leaves them open."""
    select = numbered.select
    expand_stars(select, relations)
    columns = [i for i in select.expressions if i is not numbered.item]
    names = tuple(i.alias_or_name for i in select.expressions)
    partition = list(numbered.window.args.get("partition_by") or [])
    downwards = is_downwards(numbered)
    _to_pairs(select, columns, partition, _order(numbered, tie))
    best = _best_one if numbered.limit == 1 else _best_rows
    new = best(select, names, numbered, len(partition), downwards=downwards)
    numbered.subquery.set("this", new)


def _order(numbered: RowNumberQuery, tie: TieBreak | None) -> exp.Expr:
    """Return the order as one value. NULL is the smallest, as in Flink."""
    downwards = is_downwards(numbered)
    parts = [
        _ordered(part.this, turned=is_descending(part) != downwards)
        for part in numbered.window.args["order"].expressions
    ]
    if tie is not None:
        parts += _in_order_of_arrival(turned=downwards is not (tie is TieBreak.LAST))
    return exp.Anonymous(this="struct", expressions=parts)


def _in_order_of_arrival(*, turned: bool) -> list[exp.Expr]:
    fields = [
        exp.Dot(this=exp.column(ARRIVED), expression=exp.to_identifier(n)) for n in ARRIVED_FIELDS
    ]
    return [exp.BitwiseNot(this=exp.paren(f)) if turned else f for f in fields]


def _ordered(value: exp.Expr, *, turned: bool) -> exp.Expr:
    ordered: exp.Expr | None = in_reverse(value) if turned else value.copy()
    assert ordered is not None, "it was checked"
    return ordered


def _to_pairs(
    select: exp.Select,
    columns: list[exp.Expr],
    partition: list[exp.Expr],
    order: exp.Expr,
) -> None:
    """Make `select` return key, whole row and order."""
    fields: list[exp.Expr] = []
    for item in columns:
        fields += [exp.Literal.string(item.alias_or_name), item.unalias().copy()]
    row = exp.Anonymous(this="named_struct", expressions=fields)
    keys = [exp.alias_(part.copy(), f"{KEY}{i}") for i, part in enumerate(partition)]
    select.set("expressions", [*keys, exp.alias_(row, ROW), exp.alias_(order, ORDER)])


def _aggregated(select: exp.Select, value: exp.Expr, name: str, keys: int) -> exp.Subquery:
    columns = [exp.column(f"{KEY}{i}") for i in range(keys)]
    query = exp.select(*(c.copy() for c in columns), exp.alias_(value, name))
    query = query.from_(select.copy().subquery("__rows"), copy=False)
    if columns:
        query = query.group_by(*columns, copy=False)
    return query.subquery("__keys")


def _best_one(
    select: exp.Select,
    names: tuple[str, ...],
    numbered: RowNumberQuery,
    keys: int,
    *,
    downwards: bool,
) -> exp.Select:
    kind = exp.ArgMax if downwards else exp.ArgMin
    value = kind(this=exp.column(ROW), expression=exp.column(ORDER))
    number = exp.cast(exp.Literal.number(1), exp.DType.BIGINT)
    values = {name: _field(exp.column(BEST), name) for name in names} | {numbered.name: number}
    query = exp.select(*(exp.alias_(values[name], name, quoted=True) for name in names))
    return query.from_(_aggregated(select, value, BEST, keys), copy=False)


def _best_rows(
    select: exp.Select,
    names: tuple[str, ...],
    numbered: RowNumberQuery,
    keys: int,
    *,
    downwards: bool,
) -> exp.Select:
    count = exp.Literal.number(numbered.limit)
    function = "max_by" if downwards else "min_by"
    value = exp.AnonymousAggFunc(
        this=function, expressions=[exp.column(ROW), exp.column(ORDER), count]
    )
    position = exp.Add(this=exp.column("i"), expression=exp.Literal.number(1))
    pair = exp.Anonymous(
        this="named_struct",
        expressions=[
            exp.Literal.string(BEST), exp.column("r"),
            exp.Literal.string(NUMBER), exp.cast(position, exp.DType.BIGINT),
        ],
    )  # fmt: skip
    step = exp.Lambda(this=pair, expressions=[exp.to_identifier("r"), exp.to_identifier("i")])
    numbers = exp.Anonymous(this="transform", expressions=[value, step])
    unfolded = exp.Unnest(
        expressions=[exp.column(RANKED)],
        alias=exp.TableAlias(this=exp.to_identifier("__u"), columns=[exp.to_identifier(ROW)]),
        offset=False,
    )
    row = exp.column(ROW)
    values: dict[str, exp.Expr] = {name: _field(_field(row.copy(), BEST), name) for name in names}
    values[numbered.name] = _field(row, NUMBER)
    query = exp.select(*(exp.alias_(values[name], name, quoted=True) for name in names))
    query = query.from_(_aggregated(select, numbers, RANKED, keys), copy=False)
    query.append("joins", exp.Join(this=unfolded, kind="CROSS"))
    return query


def _field(value: exp.Expr, name: str) -> exp.Expr:
    return exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
