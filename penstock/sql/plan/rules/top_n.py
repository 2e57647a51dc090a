"""Deduplication and Top-N: Flink's ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) <= n, in Spark's update mode.

Numbers are never retracted over inserts: row 3 of a key is replaced by another row 3, so (key, number) is the key of
the result. `plan/spark_text/top_n.py` writes it.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator
from penstock.sql.plan.rules.row_number import RowNumberQuery, check_row_number
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["in_reverse", "is_descending", "is_downwards", "top_n_flow"]


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
        way = OperatorKind.LAST_ROW if is_downwards(numbered) else OperatorKind.FIRST_ROW
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


def is_downwards(numbered: RowNumberQuery) -> bool:
    """Return whether the greatest value is the first."""
    return is_descending(numbered.window.args["order"].expressions[0])


def is_descending(part: exp.Ordered) -> bool:
    """Return whether a value of ORDER BY is in descending order."""
    return bool(part.args.get("desc"))


def _check_order(numbered: RowNumberQuery) -> Refusal | None:
    order = numbered.window.args.get("order")
    if order is None or not order.expressions:
        return Refusal(
            message="ROW_NUMBER without ORDER BY is not supported", span=span_of(numbered.item)
        )
    downwards = is_downwards(numbered)
    for part in order.expressions:
        if bool(part.args.get("nulls_first")) == is_descending(part):
            return Refusal(
                message="NULLS FIRST and NULLS LAST against the usual order (NULL is the smallest) are not supported "
                "in a stream",
                hint="order by COALESCE(...)",
                span=span_of(part),
            )
        if is_descending(part) != downwards and in_reverse(part.this) is None:
            return Refusal(
                message=f"ORDER BY mixes ASC and DESC, and {to_text(part.this)} cannot be turned round",
                hint="order by columns of one direction; numbers and times may have the other",
                span=span_of(part),
            )
    return None


def in_reverse(value: exp.Expr) -> exp.Expr | None:
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
