"""Write the second phase of an aggregation in the SELECT that Spark runs, in place of its calls. Frames ask."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.connector.expression import COUNTED, PartialFunction, PartialResult
from penstock.sql.dialect import to_spark_query, to_text
from penstock.sql.dialect.spark.types import FRACTIONS, kind_of, number_kind
from penstock.sql.dialect.windows.window_tables import is_windowing
from penstock.sql.plan.rules.aggregate import own_aggregates, without_filter
from penstock.sql.plan.spark_text.two_phases import MergedCall, TwoPhases
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.traversal import find_nodes


def write_second_phase(query: exp.Expr, scan: int, phases: TwoPhases) -> None:
    """Write the aggregation over a table as one of groups, in place; the query has no WITH.

    Where tasks make the first phase, the windowing function or the aggregation reads the table, which is then one of
    groups.
    """
    (table,) = (node for node in find_nodes(query, ScanTable) if node.scan == scan)
    path = [*_ancestors(table)]
    if not phases.windowed:
        selects = (node for node in path if isinstance(node, exp.Select))
        select = next(node for node in selects if node.args.get("group"))
        _write_calls(select, phases)
        if phases.by_tasks:
            select.set("where", None)
            select.set("from_", exp.From(this=table.copy()))
        return
    call = next(i for i, node in enumerate(path) if is_windowing(node.parent or node))
    select = next(node for node in path[call:] if isinstance(node, exp.Select))
    _write_calls(select, phases)
    if not phases.by_tasks:
        return
    counts = phases.aggregate.counts_others
    select.set("where", exp.Where(this=exp.column(COUNTED, quoted=True)) if counts else None)
    if phases.aggregate.unnesting is not None:
        select.set("joins", None)
    read = table.copy()
    read.set("counts_late", True)
    # an argument may be given by its name
    argument = path[call - 2] if isinstance(path[call - 1], exp.Kwarg) else path[call - 1]
    argument.replace(read)


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    found: exp.Expr | None = node
    while found is not None:
        yield found
        found = found.parent


def _write_calls(select: exp.Select, phases: TwoPhases) -> None:
    merged = {call.call: call for call in phases.calls}
    keys = dict(phases.keys) if phases.by_tasks else {}
    items = [_named(item) for item in select.expressions]
    select.set("expressions", items)
    roots = [
        *items,
        *(part for n in ("group", "having") if (part := select.args.get(n)) is not None),
    ]
    pending: list[exp.Expr] = list(roots)
    while pending:
        node = pending.pop()
        if node in merged:
            node.replace(_second(node, merged[node], by_tasks=phases.by_tasks))
        elif node in keys:
            column = exp.column(keys[node], quoted=True)
            column.type = node.type
            node.replace(column)
        else:
            pending += [child for child in node.iter_expressions() if isinstance(child, exp.Expr)]
    assert not [*own_aggregates(select)], "one that is left would be of groups"


def _named(item: exp.Expr) -> exp.Expr:
    """Return a value of a SELECT under the name that it has by itself, or its text."""
    if isinstance(item, exp.Alias):
        return item
    return exp.alias_(item.copy(), item.output_name or to_text(item), quoted=True)


def _second(node: exp.Expr, call: MergedCall, *, by_tasks: bool) -> exp.Expr:
    core, condition = without_filter(node)
    parts = [
        f"`{part.name}`" if by_tasks else _of_row(part, core, condition) for part in call.parts
    ]
    text = exp.Var(this=call.text.format(*parts))
    # what is computed of it is written by its type
    known = number_kind(node) if kind_of(node) in FRACTIONS else kind_of(node)
    if known != exp.DType.UNKNOWN:
        text.type = node.type
    return text


def _of_row(part: PartialResult, core: exp.Expr, condition: exp.Expr | None) -> str:
    """Write the partial result of one row."""
    tests = [] if condition is None else [f"({to_spark_query(condition.copy())})"]
    if part.function is PartialFunction.COUNT:
        if part.argument is not None:
            tests.append(f"{to_spark_query(core.this.copy())} IS NOT NULL")
        return f"CASE WHEN {' AND '.join(tests)} THEN 1 ELSE 0 END" if tests else "1"
    value = to_spark_query(core.this.copy())
    if tests:
        value = f"CASE WHEN {tests[0]} THEN {value} END"
    return f"CAST({value} AS {part.type})" if part.function is PartialFunction.SUM else value
