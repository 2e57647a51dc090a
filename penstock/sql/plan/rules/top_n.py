"""Deduplication and Top-N: Flink's ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) <= n, without OVER.

Spark has no OVER in streams. The best row of each key is max_by or min_by of the whole row in update mode; the n best
are their form with a count, an array that is unfolded behind the aggregation, each row under its number. Numbers are
never retracted over inserts: row 3 of a key is replaced by another row 3, so (key, number) is the key of the result.
Of tied rows the first to arrive is taken, as in Flink (`tie_break.py`), where the tables record that.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS
from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expand_stars, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator
from penstock.sql.plan.rules.row_number import RowNumberQuery, check_row_number
from penstock.sql.plan.rules.tie_break import TieBreak
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["top_n_flow", "write_top_n"]

BEST, RANKED, KEY, ROW, ORDER = "__best", "__ranked", "__key", "__row_of_key", "__order"
NUMBER = "__number"

TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATE)
NUMBERS = exp.DataType.NUMERIC_TYPES


def top_n_flow(
    numbered: RowNumberQuery, relations: list[QualifiedRelation], source: Flow
) -> Flow | Refusal:
    """Return the flow of a query that numbers rows in update mode. `source` is the flow of its FROM clause."""
    refusal = _check(numbered, source)
    if refusal is not None:
        return refusal
    select, item = numbered.select, numbered.item
    items = expanded(select, relations)
    if isinstance(items, Refusal):
        return items
    columns = [i for i in items if i is not item]
    if any(not i.alias_or_name for i in columns):
        return Refusal(
            message="a column of a query that numbers rows has no name", span=span_of(select)
        )
    key = _key(numbered, columns)
    if isinstance(key, Refusal):
        return key
    refusal = _check_order(numbered)
    if refusal is not None:
        return refusal
    one = numbered.limit == 1
    way = OperatorKind.TOP_N
    if one:
        way = OperatorKind.LAST_ROW if _is_downwards(numbered) else OperatorKind.FIRST_ROW
    identity = key if one else (*key, numbered.name)
    kept = "the whole row" if one else f"the {numbered.limit} best rows, whole"
    return Flow(
        columns=(*(i.alias_or_name for i in columns), numbered.name),
        changes=ChangelogMode.UPSERT,
        key=identity,
        constants=frozenset({numbered.name}) if one else frozenset(),
        origin=item,
        mechanism=UpdatingOperator(way=way, key=identity, state=kept, span=span_of(item)),
    )


def write_top_n(
    numbered: RowNumberQuery, relations: list[QualifiedRelation], tie: TieBreak | None
) -> None:
    """Replace the query that numbers rows by an aggregation. `tie` breaks ties in the order; None leaves them open."""
    select = numbered.select
    expand_stars(select, relations)
    columns = [i for i in select.expressions if i is not numbered.item]
    names = tuple(i.alias_or_name for i in columns)
    partition = list(numbered.window.args.get("partition_by") or [])
    downwards = _is_downwards(numbered)
    _to_pairs(select, columns, names, partition, _order(numbered, tie))
    best = _best_one if numbered.limit == 1 else _best_rows
    new = best(select, names, numbered, len(partition), downwards=downwards)
    numbered.subquery.set("this", new)


def _check(numbered: RowNumberQuery, source: Flow) -> Refusal | None:
    if numbered.ties:
        return Refusal(
            message=f"{to_text(numbered.window.this)} of a stream is not supported in Spark's update mode",
            hint="use ROW_NUMBER()",
            span=span_of(numbered.item),
        )
    if source.is_changing:
        return Refusal(
            message="ROW_NUMBER over rows that are updated or deleted is not supported: when a row goes, the next one "
            "is not kept",
            hint="write the changes into a Delta table with a PRIMARY KEY, and number the rows of that table",
            span=span_of(numbered.item),
        )
    return check_row_number(numbered)


# --- key and order ---


def _key(numbered: RowNumberQuery, columns: list[exp.Expr]) -> tuple[str, ...] | Refusal:
    """Name the columns that PARTITION BY is of."""
    found: list[str] = []
    for part in numbered.window.args.get("partition_by") or []:
        name = _key_name(part, columns)
        if name is None:
            return Refusal(
                message=f"PARTITION BY {to_text(part)} is not selected, so that updates of a key cannot find its rows",
                hint="select it, and make it part of the target's PRIMARY KEY",
                span=span_of(part),
            )
        found.append(name)
    return tuple(found)


def _key_name(part: exp.Expr, columns: list[exp.Expr]) -> str | None:
    for item in columns:
        value = item.unalias()
        if value == part:
            return str(item.alias_or_name)
        if not isinstance(value, exp.Column) or not isinstance(part, exp.Column):
            continue
        if value.name == part.name and len({value.table, part.table} - {""}) < 2:
            return str(item.alias_or_name)
    return None


def _is_downwards(numbered: RowNumberQuery) -> bool:
    """Return whether the greatest value is the first."""
    return _is_descending(numbered.window.args["order"].expressions[0])


def _is_descending(part: exp.Ordered) -> bool:
    return bool(part.args.get("desc"))


def _check_order(numbered: RowNumberQuery) -> Refusal | None:
    order = numbered.window.args.get("order")
    if order is None or not order.expressions:
        return Refusal(
            message="ROW_NUMBER without ORDER BY is not supported", span=span_of(numbered.item)
        )
    downwards = _is_downwards(numbered)
    for part in order.expressions:
        if bool(part.args.get("nulls_first")) == _is_descending(part):
            return Refusal(
                message="NULLS FIRST and NULLS LAST against the usual order (NULL is the smallest) are not supported "
                "in a stream",
                hint="order by COALESCE(...)",
                span=span_of(part),
            )
        if _is_descending(part) != downwards and _turned(part.this) is None:
            return Refusal(
                message=f"ORDER BY mixes ASC and DESC, and {to_text(part.this)} cannot be turned round",
                hint="order by columns of one direction; numbers and times may have the other",
                span=span_of(part),
            )
    return None


def _order(numbered: RowNumberQuery, tie: TieBreak | None) -> exp.Expr:
    """Return the order as one value. NULL is the smallest, as in Flink."""
    downwards = _is_downwards(numbered)
    parts = [
        _ordered(part.this, turned=_is_descending(part) != downwards)
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
    given: exp.Expr | None = _turned(value) if turned else value.copy()
    assert given is not None, "it was checked"
    return given


def _turned(value: exp.Expr) -> exp.Expr | None:
    """Return a value whose order is the reverse; None where there is none."""
    if value.is_type(*NUMBERS) and not value.is_type(exp.DType.TINYINT, exp.DType.SMALLINT):
        # 0 - x would overflow at the smallest number of a type
        whole = value.is_type(exp.DType.INT, exp.DType.BIGINT)
        operand = exp.paren(value.copy())
        return exp.BitwiseNot(this=operand) if whole else exp.Neg(this=operand)
    if value.is_type(*TIMES):
        micros = exp.cast(value.copy(), exp.DType.TIMESTAMPLTZ)
        return exp.Neg(this=exp.Anonymous(this="unix_micros", expressions=[micros]))
    return None


# --- the aggregation ---


def _to_pairs(
    select: exp.Select,
    columns: list[exp.Expr],
    names: tuple[str, ...],
    partition: list[exp.Expr],
    order: exp.Expr,
) -> None:
    """Make `select` return key, whole row and order."""
    fields: list[exp.Expr] = []
    for name, item in zip(names, columns, strict=True):
        fields += [exp.Literal.string(name), item.unalias().copy()]
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
    fields = [exp.alias_(_field(exp.column(BEST), n), n, quoted=True) for n in names]
    query = exp.select(*fields, exp.alias_(number, numbered.name, quoted=True))
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
    place = exp.Add(this=exp.column("i"), expression=exp.Literal.number(1))
    pair = exp.Anonymous(
        this="named_struct",
        expressions=[
            exp.Literal.string(BEST), exp.column("r"),
            exp.Literal.string(NUMBER), exp.cast(place, exp.DType.BIGINT),
        ],
    )  # fmt: skip
    step = exp.Lambda(this=pair, expressions=[exp.to_identifier("r"), exp.to_identifier("i")])
    numbers = exp.Anonymous(this="transform", expressions=[value, step])
    unfolded = exp.Unnest(
        expressions=[exp.column(RANKED)],
        alias=exp.TableAlias(this=exp.to_identifier("__u"), columns=[exp.to_identifier(ROW)]),
        offset=False,
    )
    fields = [exp.alias_(_field(_field(exp.column(ROW), BEST), n), n, quoted=True) for n in names]
    number = exp.alias_(_field(exp.column(ROW), NUMBER), numbered.name, quoted=True)
    query = exp.select(*fields, number)
    query = query.from_(_aggregated(select, numbers, RANKED, keys), copy=False)
    query.append("joins", exp.Join(this=unfolded, kind="CROSS"))
    return query


def _field(value: exp.Expr, name: str) -> exp.Expr:
    return exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
