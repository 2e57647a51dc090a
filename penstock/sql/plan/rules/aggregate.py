"""Aggregations without a window, as Spark's update mode runs them: each row replaces that of its group.

Over inserts: all aggregates; those of DISTINCT values keep the set of values, as Spark has no DISTINCT in streams, and
those of windows do so, too. Over changes with the row before and after: SUM, COUNT and AVG add insertions and subtract
retractions (Flink's retractable aggregates); a group without rows is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.sql.dialect import to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    WHICH_SET,
    is_determined,
    key_text,
    telling_calls,
)
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    add_kind,
    compute_only_where,
    constant_columns,
    output_names,
)
from penstock.sql.plan.rules.flow import (
    Flow,
    OperatorKind,
    UpdatingOperator,
    delete,
    is_one_of,
    kind_literal,
    kind_of,
)
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import find_nodes

__all__ = [
    "aggregate",
    "is_same",
    "is_windowed",
    "keep_distinct",
    "keep_distinct_in_windows",
    "own_aggregates",
]

WHOLE = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
FRACTIONS = (exp.DType.FLOAT, exp.DType.DOUBLE)


def own_aggregates(select: exp.Select) -> list[exp.AggFunc]:
    """Return the aggregates of a SELECT, without those of queries inside it and of OVER."""
    return [
        node
        for node in find_nodes(select, exp.AggFunc)
        if node.find_ancestor(exp.Select) is select and node.find_ancestor(exp.Window) is None
    ]


def aggregate(select: exp.Select, relations: list[QualifiedRelation], source: Flow) -> Flow:
    """Rewrite an aggregation over `source` for update mode. Raises UnsupportedError for what cannot be updated."""
    group = select.args.get("group")
    span = span_of(group or select)
    keys = _keys(select, group)
    kept = _kept(select)
    retracting = source.changes is ChangelogMode.ALL
    if retracting:
        _retract(select, source)
    else:
        keep_distinct(select)
    kinds = _with_kind(select, source, retracting=retracting)
    mechanism = UpdatingOperator(
        way=OperatorKind.RETRACTING_AGGREGATE if retracting else OperatorKind.AGGREGATE,
        key=keys,
        state=kept + (", and how many rows there are" if retracting else ""),
        span=span,
    )
    return Flow(
        columns=output_names(select, relations),
        changes=ChangelogMode.UPSERT,
        key=keys,
        constants=constant_columns(select),
        kinds=kinds,
        origin=group or select,
        mechanism=mechanism,
    )


def _keys(select: exp.Select, group: exp.Expr | None) -> tuple[str, ...]:
    """Name the output columns of the grouping columns."""
    found: list[str] = []
    for key in group.expressions if group is not None else ():
        if isinstance(key, exp.Literal) or is_determined(key):
            continue
        name = next(
            (i.alias_or_name for i in select.expressions if is_same(i.unalias(), key)), None
        )
        if name is None:
            calls = telling_calls(key)
            what = f"the grouping column {key_text(key)}" if calls is None else WHICH_SET
            raise UnsupportedError(
                f"{what} is not selected, so that updates of a group cannot find its row",
                hint=f"select {calls or 'it'}, and make it part of the target's PRIMARY KEY",
                span=span_of(key) or span_of(select),
            )
        found.append(name)
    return tuple(found)


def is_same(value: exp.Expr, key: exp.Expr) -> bool:
    """Return whether an expression is that of a grouping column; either name may omit the table."""
    if isinstance(value, exp.Column) and isinstance(key, exp.Column):
        qualified = {value.table, key.table} - {""}
        return value.name == key.name and len(qualified) < 2
    return value == key


def _kept(select: exp.Select) -> str:
    values = sorted({to_text(node) for node in own_aggregates(select)})
    return ", ".join(values) or "that it was there"


def _with_kind(select: exp.Select, source: Flow, *, retracting: bool) -> bool:
    """Add the kind of a group's row, where it may be a delete; returns whether it did."""
    having = select.args.get("having")
    tests: list[exp.Expr] = []
    if retracting:
        rows = exp.Sum(this=_sign(source))
        tests.append(exp.GT(this=rows, expression=exp.Literal.number(0)))
    if having is not None:
        select.set("having", None)
        tests.append(exp.paren(having.this.copy()))
    if not tests:
        return False
    passes = exp.and_(*tests)
    group = select.args.get("group")
    compute_only_where(select, passes, group.expressions if group is not None else ())
    kept = exp.If(this=passes, true=kind_literal(RowKind.UPDATE_AFTER))
    add_kind(select, exp.Case(ifs=[kept], default=delete()))
    return True


# --- over inserts ---


def is_windowed(keys: Sequence[exp.Expr]) -> bool:
    """Return whether the bounds of a window are among grouping columns, or selected columns."""
    return {key.alias_or_name for key in keys} >= {"window_start", "window_end"}


def keep_distinct_in_windows(query: exp.Expr) -> None:
    """Rewrite the aggregates of DISTINCT values in a stream's windows. Raises UnsupportedError."""
    for select in find_nodes(query, exp.Select):
        group = select.args.get("group")
        if group is not None and is_windowed(group.expressions):
            keep_distinct(select)


def keep_distinct(select: exp.Select) -> None:
    """Rewrite aggregates of DISTINCT values as ones of the set of values. Raises UnsupportedError."""
    for node in own_aggregates(select):
        distinct = node.this if isinstance(node.this, exp.Distinct) else None
        if distinct is None:
            if node.find(exp.Distinct) is not None:
                raise _refuse_distinct(node)
            continue
        outer, condition = _with_filter(node)
        _replace(outer, _of_set(node, distinct, condition))


def _of_set(node: exp.AggFunc, distinct: exp.Distinct, condition: exp.Expr | None) -> exp.Expr:
    values = distinct.expressions
    if isinstance(node, exp.Min | exp.Max) and len(values) == 1:
        return type(node)(this=_where(condition, values[0].copy()))
    kept = exp.ArrayUniqueAgg(this=_where(condition, _one_value(values)))
    size = exp.cast(exp.Anonymous(this="size", expressions=[kept]), exp.DType.BIGINT)
    if isinstance(node, exp.Count):
        return size
    total_type = _total_type(values[0]) if len(values) == 1 else None
    if not isinstance(node, exp.Sum | exp.Avg) or total_type is None:
        raise _refuse_distinct(node)
    total = _typed(_total(kept.copy(), total_type), total_type)
    if isinstance(node, exp.Avg):
        size.type = exp.DataType.build(exp.DType.BIGINT)
        total = exp.Div(this=total, expression=size.copy())
    empty = exp.EQ(this=size.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=exp.not_(empty), true=total)])


def _one_value(values: list[exp.Expr]) -> exp.Expr:
    """Return the value, or values, as one; NULL if any is NULL, as COUNT(DISTINCT a, b) ignores such rows."""
    if len(values) == 1:
        return values[0].copy()
    there = exp.and_(*(_is_there(value) for value in values))
    together = exp.Anonymous(this="struct", expressions=[value.copy() for value in values])
    return exp.Case(ifs=[exp.If(this=there, true=together)])


def _total_type(value: exp.Expr) -> exp.DType | None:
    if value.is_type(*WHOLE):
        return exp.DType.BIGINT
    # of 0.5 the tree says DOUBLE, and Spark DECIMAL
    sure = isinstance(value, exp.Column | exp.Cast)
    return exp.DType.DOUBLE if sure and value.is_type(*FRACTIONS) else None


def _total(values: exp.Expr, kind: exp.DType) -> exp.Expr:
    names = [exp.to_identifier(name) for name in ("a", "b")]
    add = exp.Add(this=exp.column("a"), expression=exp.column("b"))
    start = exp.cast(exp.Literal.number(0), kind)
    step = exp.Lambda(this=add, expressions=names)
    return exp.Anonymous(this="aggregate", expressions=[values, start, step])


def _refuse_distinct(node: exp.AggFunc) -> UnsupportedError:
    return UnsupportedError(
        f"{to_text(node)} is not supported in a stream",
        hint="DISTINCT works in COUNT, MIN and MAX, and in SUM and AVG of whole numbers, FLOAT and DOUBLE: "
        "cast the value",
        span=span_of(node),
    )


# --- over changes ---


def _retract(select: exp.Select, source: Flow) -> None:
    for node in own_aggregates(select):
        outer, condition = _with_filter(node)
        _replace(outer, _signed(node, condition, source))


def _signed(node: exp.AggFunc, condition: exp.Expr | None, source: Flow) -> exp.Expr:
    value = node.this
    if isinstance(value, exp.Distinct) or not isinstance(node, exp.Count | exp.Sum | exp.Avg):
        raise UnsupportedError(
            f"{to_text(node)} cannot take rows back: over updates and deletes it would need every value ever seen",
            hint="SUM, COUNT and AVG can; or write the changes into a Delta table with a PRIMARY KEY, and "
            "aggregate that",
            span=span_of(node),
        )
    if isinstance(node, exp.Count):
        there = None if isinstance(value, exp.Star | exp.Literal) else _is_there(value)
        return _count(_both(condition, there), source)
    count = _count(_both(condition, _is_there(value)), source)
    negated = exp.Sub(this=exp.Literal.number(0), expression=exp.paren(value.copy()))
    added = is_one_of(kind_of(source), RowKind.INSERT, RowKind.UPDATE_AFTER)
    signed = exp.Case(ifs=[exp.If(this=added, true=value.copy())], default=negated)
    total: exp.Expr = exp.Sum(this=_where(condition, signed))
    if isinstance(node, exp.Avg):
        total = exp.Div(
            this=_typed(total, _total_type(value)),
            expression=_typed(count.copy(), exp.DType.BIGINT),
        )
        if not value.is_type(*WHOLE):
            total.this.type = exp.DataType.build(exp.DType.DOUBLE)
    some = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=total)])


def _sign(source: Flow) -> exp.Expr:
    added = is_one_of(kind_of(source), RowKind.INSERT, RowKind.UPDATE_AFTER)
    one, minus = exp.Literal.number(1), exp.Neg(this=exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=added, true=one)], default=minus)


def _count(condition: exp.Expr | None, source: Flow) -> exp.Expr:
    signs: exp.Expr = _sign(source)
    if condition is not None:
        signs = exp.Case(ifs=[exp.If(this=condition, true=signs)], default=exp.Literal.number(0))
    return exp.Sum(this=signs)


# --- both ---


def _with_filter(node: exp.AggFunc) -> tuple[exp.Expr, exp.Expr | None]:
    """Return the aggregate with its FILTER around it, and the condition of that."""
    parent = node.parent
    if isinstance(parent, exp.Filter) and parent.this is node:
        return parent, parent.expression.this
    return node, None


def _replace(old: exp.Expr, new: exp.Expr) -> None:
    new.type = old.type
    # a bare aggregate gives its column a name that its replacement would not
    if isinstance(old.parent, exp.Select):
        new = exp.alias_(new, to_text(old), quoted=True)
    old.replace(new)


def _is_there(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.null()))


def _both(*conditions: exp.Expr | None) -> exp.Expr | None:
    there = [condition.copy() for condition in conditions if condition is not None]
    return exp.and_(*there) if there else None


def _where(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    if condition is None:
        return value
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _typed(node: exp.Expr, kind: exp.DType | None) -> exp.Expr:
    if kind is not None:
        node.type = exp.DataType.build(kind)
    return node
