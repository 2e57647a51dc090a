"""Aggregations without a window, as Spark's update mode runs them: each row replaces that of its group.

Over inserts: all aggregates; those of DISTINCT values keep the set of values, as Spark has no DISTINCT in streams, and
those of windows do so, too. Over changes with the row before and after: SUM, COUNT and AVG add insertions and subtract
retractions (Flink's retractable aggregates); a group without rows is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

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
    is_computed,
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
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes

__all__ = [
    "aggregate_flow",
    "check_distinct",
    "is_same",
    "is_windowed",
    "keep_distinct",
    "keep_distinct_in_windows",
    "own_aggregates",
    "write_aggregate",
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


def aggregate_flow(
    select: exp.Select, relations: list[QualifiedRelation], source: Flow
) -> Flow | Refusal:
    """Return the flow of an aggregation over `source` in update mode; refuses what cannot be updated."""
    group = select.args.get("group")
    keys = _keys(select, group)
    if isinstance(keys, Refusal):
        return keys
    retracting = source.changes is ChangelogMode.ALL
    refusal = _check_retract(select) if retracting else check_distinct(select)
    if refusal is not None:
        return refusal
    mechanism = UpdatingOperator(
        way=OperatorKind.RETRACTING_AGGREGATE if retracting else OperatorKind.AGGREGATE,
        key=keys,
        state=_kept(select) + (", and how many rows there are" if retracting else ""),
        span=span_of(group or select),
    )
    return Flow(
        columns=output_names(_written(select, retracting=retracting), relations),
        changes=ChangelogMode.UPSERT,
        key=keys,
        constants=constant_columns(select),
        kinds=_may_delete(select, retracting=retracting),
        origin=group or select,
        mechanism=mechanism,
    )


def write_aggregate(select: exp.Select, source: Flow) -> None:
    """Rewrite an aggregation over `source` for update mode."""
    retracting = source.changes is ChangelogMode.ALL
    if retracting:
        _retract(select, source)
    else:
        keep_distinct(select)
    if _may_delete(select, retracting=retracting):
        _add_kind(select, source, retracting=retracting)


def _keys(select: exp.Select, group: exp.Expr | None) -> tuple[str, ...] | Refusal:
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
            return Refusal(
                message=f"{what} is not selected, so that updates of a group cannot find its row",
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


def _written(select: exp.Select, *, retracting: bool) -> list[exp.Expr]:
    """Return the SELECT list with the names that `write_aggregate` gives its columns."""
    group = select.args.get("group")
    keys = group.expressions if group is not None else ()
    deletes = _may_delete(select, retracting=retracting)
    items: list[exp.Expr] = []
    for item in select.expressions:
        call = item.this if isinstance(item, exp.Filter) else item
        if isinstance(call, exp.AggFunc) and (retracting or isinstance(call.this, exp.Distinct)):
            items.append(exp.alias_(exp.null(), to_text(item), quoted=True))
        elif deletes and not isinstance(item, exp.Alias) and is_computed(item) and item not in keys:
            items.append(exp.Case())  # one without a name
        else:
            items.append(item)
    return items


def _may_delete(select: exp.Select, *, retracting: bool) -> bool:
    """Return whether the row of a group may be a delete: of a group without rows, or that HAVING drops."""
    return retracting or select.args.get("having") is not None


def _add_kind(select: exp.Select, source: Flow, *, retracting: bool) -> None:
    """Add the kind of a group's row."""
    having = select.args.get("having")
    tests: list[exp.Expr] = []
    if retracting:
        rows = exp.Sum(this=_sign(source))
        tests.append(exp.GT(this=rows, expression=exp.Literal.number(0)))
    if having is not None:
        select.set("having", None)
        tests.append(exp.paren(having.this.copy()))
    passes = exp.and_(*tests)
    group = select.args.get("group")
    compute_only_where(select, passes, group.expressions if group is not None else ())
    kept = exp.If(this=passes, true=kind_literal(RowKind.UPDATE_AFTER))
    add_kind(select, exp.Case(ifs=[kept], default=delete()))


# --- over inserts ---


def is_windowed(keys: Sequence[exp.Expr]) -> bool:
    """Return whether the bounds of a window are among grouping columns, or selected columns."""
    return {key.alias_or_name for key in keys} >= {"window_start", "window_end"}


def keep_distinct_in_windows(query: exp.Expr) -> None:
    """Rewrite the aggregates of DISTINCT values in a stream's windows. Raises UnsupportedError."""
    for select in find_nodes(query, exp.Select):
        group = select.args.get("group")
        if group is not None and is_windowed(group.expressions):
            refusal = check_distinct(select)
            if refusal is not None:
                raise refusal.error()
            keep_distinct(select)


def check_distinct(select: exp.Select) -> Refusal | None:
    """Refuse aggregates of DISTINCT values that the set of values does not give."""
    for node in own_aggregates(select):
        distinct = node.this if isinstance(node.this, exp.Distinct) else None
        refused = node.find(exp.Distinct) if distinct is None else not _is_of_set(node, distinct)
        if refused:
            return Refusal(
                message=f"{to_text(node)} is not supported in a stream",
                hint="DISTINCT works in COUNT, MIN and MAX, and in SUM and AVG of whole numbers, FLOAT and DOUBLE: "
                "cast the value",
                span=span_of(node),
            )
    return None


def _is_of_set(node: exp.AggFunc, distinct: exp.Distinct) -> bool:
    if isinstance(node, exp.Count):
        return True
    if len(distinct.expressions) != 1:
        return False
    if isinstance(node, exp.Min | exp.Max):
        return True
    return isinstance(node, exp.Sum | exp.Avg) and _total_type(distinct.expressions[0]) is not None


def keep_distinct(select: exp.Select) -> None:
    """Rewrite aggregates of DISTINCT values as ones of the set of values."""
    for node in own_aggregates(select):
        if isinstance(node.this, exp.Distinct):
            outer, condition = _with_filter(node)
            _replace(outer, _of_set(node, node.this, condition))


def _of_set(node: exp.AggFunc, distinct: exp.Distinct, condition: exp.Expr | None) -> exp.Expr:
    values = distinct.expressions
    if isinstance(node, exp.Min | exp.Max):
        return type(node)(this=_where(condition, values[0].copy()))
    kept = exp.ArrayUniqueAgg(this=_where(condition, _one_value(values)))
    size = exp.cast(exp.Anonymous(this="size", expressions=[kept]), exp.DType.BIGINT)
    if isinstance(node, exp.Count):
        return size
    total_type = _total_type(values[0])
    assert total_type is not None, "it was checked"
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


# --- over changes ---


def _retract(select: exp.Select, source: Flow) -> None:
    for node in own_aggregates(select):
        outer, condition = _with_filter(node)
        _replace(outer, _signed(node, condition, source))


def _check_retract(select: exp.Select) -> Refusal | None:
    """Refuse aggregates that cannot take rows back."""
    for node in own_aggregates(select):
        counts = isinstance(node, exp.Count | exp.Sum | exp.Avg)
        if isinstance(node.this, exp.Distinct) or not counts:
            return Refusal(
                message=f"{to_text(node)} cannot take rows back: over updates and deletes it would need every value "
                "ever seen",
                hint="SUM, COUNT and AVG can; or write the changes into a Delta table with a PRIMARY KEY, and "
                "aggregate that",
                span=span_of(node),
            )
    return None


def _signed(node: exp.AggFunc, condition: exp.Expr | None, source: Flow) -> exp.Expr:
    value = node.this
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
