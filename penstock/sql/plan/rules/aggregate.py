"""Aggregates, and aggregations without a window as Spark's update mode runs them.

Each row replaces that of its group. Over inserts run all aggregates; over changes with the row before and after SUM,
COUNT and AVG, which can take rows back (Flink's retractable aggregates). `plan/spark_text/changes.py` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    WHICH_SET,
    is_determined,
    key_text,
    telling_calls,
)
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    constant_columns,
    is_computed,
    output_names,
)
from penstock.sql.plan.rules.flow import (
    Flow,
    OperatorKind,
    UpdatingOperator,
)
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes

_ANY_ORDER = (
    exp.Avg, exp.Count, exp.Max, exp.Min, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance,
    exp.VariancePop,
)  # fmt: skip


def without_filter(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return an aggregate without its FILTER, and the condition of that."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def is_of_any_order(aggregate: exp.Expr) -> bool:
    """Return whether an aggregate gives the same value for rows in any order."""
    name = aggregate.name.upper() if isinstance(aggregate, exp.AnonymousAggFunc) else ""
    return isinstance(aggregate, _ANY_ORDER) or name == "APPROX_COUNT_DISTINCT"


def is_listed(aggregate: exp.Expr) -> bool:
    """Return whether an aggregate lists values, which can be sorted: LISTAGG, ARRAY_AGG."""
    name = aggregate.name.upper() if isinstance(aggregate, exp.AnonymousAggFunc) else ""
    return isinstance(aggregate, exp.GroupConcat) or name == "ARRAY_AGG"


def refuse_ordered(value: exp.Expr) -> Refusal | None:
    """Return why an aggregate in an expression cannot be computed again; None where all of them can."""
    for aggregate in value.find_all(exp.AggFunc):
        if not is_of_any_order(aggregate) and not is_listed(aggregate):
            return Refusal(
                message=f"{to_text(aggregate)} is not supported here: its value depends on the order in which rows "
                "came, which is not kept",
                hint="number the rows: ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS n in a query in FROM, and "
                "WHERE n = 1 in the query around it",
                span=span_of(aggregate),
            )
    return None


# --- aggregations in update mode ---

WHOLE = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
FRACTIONS = (exp.DType.FLOAT, exp.DType.DOUBLE)


def is_subtracted(node: exp.AggFunc) -> bool:
    """Return whether a row that goes can be subtracted from an aggregate, so that its rows need not be kept."""
    value = node.this
    if isinstance(node, exp.Count):
        return not isinstance(value, exp.Distinct) and not node.expressions
    if not isinstance(node, exp.Sum | exp.Avg) or isinstance(value, exp.Distinct):
        return False
    # an average of decimals has digits of its own
    summed = (*WHOLE, exp.DType.DECIMAL) if isinstance(node, exp.Sum) else WHOLE
    return bool(value.is_type(*summed))


def own_aggregates(select: exp.Select) -> list[exp.AggFunc]:
    """Return the aggregates of a SELECT, without those of queries inside it and of OVER."""
    return [
        node
        for node in find_nodes(select, exp.AggFunc)
        if node.find_ancestor(exp.Select) is select and node.find_ancestor(exp.Window) is None
    ]


def computed_arguments(aggregates: Sequence[exp.AggFunc]) -> list[exp.Expr]:
    """Return the arguments that are no columns, each once."""
    found: dict[exp.Expr, None] = {}
    for node in aggregates:
        arguments = node.this.expressions if isinstance(node.this, exp.Distinct) else [node.this]
        for value in arguments:
            if not isinstance(value, exp.Column | exp.Star | exp.Literal):
                found.setdefault(value)
    return list(found)


def aggregate_flow(
    select: exp.Select, relations: list[QualifiedRelation], source: Flow
) -> Flow | Refusal:
    """Return the flow of an aggregation over `source` in update mode; refuses what cannot be updated."""
    group = select.args.get("group")
    if (refusal := refuse_ordinals(group.expressions if group is not None else ())) is not None:
        return refusal
    keys = _keys(select, group)
    if isinstance(keys, Refusal):
        return keys
    retracting = source.changes is ChangelogMode.ALL
    if (refusal := _check_retract(select) if retracting else check_distinct(select)) is not None:
        return refusal
    mechanism = UpdatingOperator(
        way=OperatorKind.RETRACTING_AGGREGATE if retracting else OperatorKind.AGGREGATE,
        key=keys,
        state=_state_words(select) + (", and how many rows there are" if retracting else ""),
        span=span_of(group or select),
    )
    return Flow(
        columns=output_names(_written(select, retracting=retracting), relations),
        changes=ChangelogMode.UPSERT,
        key=keys,
        constants=constant_columns(select),
        kinds=may_delete(select, retracting=retracting),
        mechanism=mechanism,
    )


def _keys(select: exp.Select, group: exp.Expr | None) -> tuple[str, ...] | Refusal:
    """Name the output columns of the grouping columns."""
    found: list[str] = []
    for key in group.expressions if group is not None else ():
        if isinstance(key, exp.Literal) or is_determined(key):
            continue  # a text or a fraction, the same for all rows: whole numbers are refused
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


def refuse_ordinals(keys: Sequence[exp.Expr]) -> Refusal | None:
    """Refuse a number as a grouping column: a constant in Flink, a position in Spark, so that rows have two keys."""
    ordinal = next((key for key in keys if isinstance(key, exp.Literal) and key.is_int), None)
    if ordinal is None:
        return None
    return Refusal(
        message=f"GROUP BY {ordinal.name} is one group for all rows in Flink, and column {ordinal.name} in Spark",
        hint="name the column",
        span=span_of(ordinal),
    )


def is_same(value: exp.Expr, key: exp.Expr) -> bool:
    """Return whether an expression is that of a grouping column; either name may omit the table."""
    if isinstance(value, exp.Column) and isinstance(key, exp.Column):
        qualified = {value.table, key.table} - {""}
        return value.name == key.name and len(qualified) < 2
    return value == key


def _state_words(select: exp.Select) -> str:
    values = sorted({to_text(node) for node in own_aggregates(select)})
    return ", ".join(values) or "that it was there"


def _written(select: exp.Select, *, retracting: bool) -> list[exp.Expr]:
    """Return the SELECT list with the names that `write_aggregate` gives its columns."""
    group = select.args.get("group")
    keys = group.expressions if group is not None else ()
    deletes = may_delete(select, retracting=retracting)
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


def may_delete(select: exp.Select, *, retracting: bool) -> bool:
    """Return whether the row of a group may be a delete: of a group without rows, or that HAVING drops."""
    return retracting or select.args.get("having") is not None


def is_windowed(keys: Sequence[exp.Expr]) -> bool:
    """Return whether the bounds of a window are among grouping columns, or selected columns, by their names."""
    columns = (key for key in keys if isinstance(key.unalias(), exp.Column))
    return {key.alias_or_name for key in columns} >= {"window_start", "window_end"}


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
    return isinstance(node, exp.Sum | exp.Avg) and total_type(distinct.expressions[0]) is not None


def total_type(value: exp.Expr) -> exp.DType | None:
    """Return the type of the sum of a set of values; None where it is not known for sure."""
    if value.is_type(*WHOLE):
        return exp.DType.BIGINT
    # of 0.5 the tree says DOUBLE, and Spark DECIMAL
    sure = isinstance(value, exp.Column | exp.Cast)
    return exp.DType.DOUBLE if sure and value.is_type(*FRACTIONS) else None


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
