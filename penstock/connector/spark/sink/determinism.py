"""Find the expressions of a Spark plan by which a replayed batch may return other rows.

Slots are chosen by the bytes of a record, so a row that differs may be sent in another slot: lost or
duplicated. An expression that is not known to be deterministic counts as nondeterministic. The current time is
deterministic: Spark stores it with the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.connector.spark.internals import analyzed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ROW_BY_ROW = frozenset({
    "CollectMetrics", "EventTimeWatermark", "Expand", "Filter", "Generate", "LocalRelation", "LogicalRDD",
    "OneRowRelation", "Project", "Range", "ResolvedHint", "StreamingRelation", "StreamingRelationV2", "SubqueryAlias",
    "Union", "View",
})  # fmt: skip
_GROUPING = frozenset({"Aggregate", "Join"})
_SOUND_AGGREGATES = frozenset({
    "Average", "BitAndAgg", "BitOrAgg", "BitXorAgg", "Count", "CountIf", "Max", "Min", "Sum",
})  # fmt: skip
_SCALARS_OF_USERS = frozenset({"HiveGenericUDF", "HiveSimpleUDF", "PythonUDF", "ScalaUDF"})
_OF_USERS = _SCALARS_OF_USERS | {"PythonUDTF"}
_ROUNDED = ("float", "double")
_SUBQUERIES = ("ScalarSubquery", "ListQuery", "Exists", "InSubquery")


def nondeterminism(frame: DataFrame) -> tuple[str, ...]:
    """Describe what may make a replay of a batch differ; empty where each row follows from the batch."""
    return tuple(dict.fromkeys(_of_plan(analyzed_plan(frame))))


def nondeterministic_functions(frame: DataFrame) -> tuple[str, ...]:
    """Name the users' functions of a frame that are declared not deterministic."""
    return tuple(dict.fromkeys(_nondeterministic_in_plan(analyzed_plan(frame), _OF_USERS)))


def nondeterministic_scalars(frame: DataFrame) -> tuple[str, ...]:
    """Name such functions but those of tables, which pyspark declares so unless they say otherwise."""
    return tuple(dict.fromkeys(_nondeterministic_in_plan(analyzed_plan(frame), _SCALARS_OF_USERS)))


def _nondeterministic_in_plan(plan: Any, kinds: frozenset[str]) -> Iterator[str]:
    for expression in _all(plan.expressions()):
        yield from _nondeterministic_in(expression, kinds)
    for child in _all(plan.children()):
        yield from _nondeterministic_in_plan(child, kinds)


def _nondeterministic_in(expression: Any, kinds: frozenset[str]) -> Iterator[str]:
    if expression.deterministic():
        return  # what is inside of it is, too
    if expression.getClass().getSimpleName() in kinds:
        yield expression.sql()
    for child in _all(expression.children()):
        yield from _nondeterministic_in(child, kinds)


def _of_plan(plan: Any) -> Iterator[str]:
    name = plan.getClass().getSimpleName()
    if name not in _ROW_BY_ROW | _GROUPING:
        yield f"the operator {name}"
    elif name == "Join" and not all(child.isStreaming() for child in _all(plan.children())):
        yield "a join with a table that may change meanwhile"
    for expression in _all(plan.expressions()):
        if not expression.deterministic():
            yield f"the expression {expression.sql()}"
        yield from _of_expression(expression)
    for child in _all(plan.children()):
        yield from _of_plan(child)


def _of_expression(expression: Any) -> Iterator[str]:
    name = expression.getClass().getSimpleName()
    if name == "AggregateExpression":
        yield from _of_aggregate(expression.aggregateFunction())
    elif name in _SUBQUERIES:
        yield "a query in an expression, which reads its table again"
        return
    for child in _all(expression.children()):
        yield from _of_expression(child)


def _of_aggregate(function: Any) -> Iterator[str]:
    name = function.getClass().getSimpleName()
    if name not in _SOUND_AGGREGATES:
        yield f"the aggregate {name}, which may depend on the order of rows"
    elif name in ("Average", "Sum"):
        types = [child.dataType().simpleString() for child in _all(function.children())]
        if any(kind in _ROUNDED for kind in types):
            yield f"the aggregate {name} of {types[0]}, whose last digits depend on the order of rows"


def _all(seq: Any) -> Iterator[Any]:
    for index in range(seq.size()):
        yield seq.apply(index)
