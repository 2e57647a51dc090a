"""Write an explained plan as lines: an operator in a line, its facts in lines that begin with a dash, its inputs
below, indented.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.sql.plan.explain.document import ExplainedOperator

__all__ = ["plan_lines"]

_INDENT = "  "


def plan_lines(
    root: ExplainedOperator, *, keys: bool = False, shown: set[int] | None = None
) -> list[str]:
    """Write a plan. `keys`: the key of every operator; else of those with state that update their rows.

    How a table is read is told where it is named first; `shown` are the numbers of tables that were told before.
    """
    return list(_lines(root, 0, set() if shown is None else shown, keys=keys))


def _lines(node: ExplainedOperator, depth: int, shown: set[int], *, keys: bool) -> Iterator[str]:
    indent = _INDENT * depth
    again = node.scan is not None and node.number in shown
    line = node.line + (", as above" if again else "")
    yield f"{indent}{line} [{_place(node)}] [{','.join(node.changes)}]"
    if not again:
        yield from (f"{indent}- {fact}" for fact in _facts(node, keys=keys))
    if node.number is not None:
        shown.add(node.number)
    for given in node.inputs:
        yield from _lines(given, depth + 1, shown, keys=keys)


def _place(node: ExplainedOperator) -> str:
    if node.stage is None:
        return node.runs
    return f"stage {node.stage}" if node.runs == "stage" else f"{node.runs}, {node.stage}"


def _facts(node: ExplainedOperator, *, keys: bool) -> Iterator[str]:
    updates = node.state is not None and node.changes != ("I",)
    if keys or updates:
        yield f"key: {_key(node.key)}"
    sets = node.details.get("grouping_sets")
    if sets:
        yield f"grouping sets: {sets}; each row counts in every one"
    if node.state is not None:
        yield f"state: {node.state.keeps}"
        yield f"bound: {node.state.bound or 'none'}"
    if node.scan is not None:
        yield from node.scan.lines


def _key(key: tuple[str, ...] | None) -> str:
    if key is None:
        return "none"
    return ", ".join(key) or "none: one row in all"
