"""Tell which aggregations of a plan run as stages over panes: windows over inserts, and over windows that are closed.

A stage makes partial results of each pane as rows come, and a keyed operator puts them together when the watermark
closes a window. Spark runs other aggregations by windows.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowKind
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinType,
    Node,
    Project,
    SubqueryAlias,
    TopN,
    WindowAssign,
)
from penstock.sql.plan.logical.plan import inputs, walk
from penstock.sql.plan.rules.aggregate import WHOLE, own_aggregates

_KINDS = (WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE)


def windows_below(node: Aggregate) -> WindowAssign | None:
    """Return the windowing function whose rows an aggregation groups by pane; None for other aggregations.

    None, too, where rows are filtered between the two: those that a WHERE leaves out may be late, and are counted.
    """
    below = node.input
    if isinstance(below, SubqueryAlias) and not below.names:
        below = below.input
    if not isinstance(below, WindowAssign) or below.kind not in _KINDS:
        return None
    # Spark ends groups by the window that their keys name, and knows it by name
    named = [key.value.name for key in node.keys if isinstance(key.value, exp.Column)]
    taken = set(below.input.facts.names or WINDOW_COLUMNS) & set(WINDOW_COLUMNS)
    if taken or node.closed is None or not set(WINDOW_COLUMNS[:2]) <= set(named):
        return None
    return below if _is_plain(node) and all(map(_is_partial, _calls(node))) else None


def is_of_closed_windows(node: Aggregate) -> bool:
    """Return whether an aggregation groups by the bounds of windows of which all rows come in one batch.

    They are those of one aggregation by windows, filtered and projected. Its results are the same in a replay.
    """
    if not node.windowed or node.closed is not None or not _is_plain(node):
        return False
    below: Node = node.input
    while isinstance(below, SubqueryAlias | Project | Filter):
        below = below.input
    return isinstance(below, Aggregate) and below.windowed and all(map(_is_partial, _calls(node)))


def runs_by_panes(node: Node) -> bool:
    """Return whether an operator is an aggregation that runs by panes, or of windows that are closed."""
    if not isinstance(node, Aggregate):
        return False
    return windows_below(node) is not None or is_of_closed_windows(node)


def has_windows_for_stages(root: Node) -> bool:
    """Return whether a plan has inner joins within a time over aggregated windows, and all its windows run by panes."""
    parts = list(walk(root))
    joins = [part for part in parts if isinstance(part, Join) and part.ends is not None]
    joined = joins and all(join.kind in (JoinType.INNER, JoinType.CROSS) for join in joins)
    found = [windows_below(part) for part in parts if isinstance(part, Aggregate)]
    of_stages = {id(windows) for windows in found if windows is not None}
    others = any(isinstance(part, WindowAssign) and id(part) not in of_stages for part in parts)
    return bool(joined and of_stages) and not others and not any(map(_waits_in_spark, parts))


def _waits_in_spark(node: Node) -> bool:
    """Return whether an operator is one of windows that only Spark runs."""
    match node:
        case Aggregate(windowed=True):
            return not runs_by_panes(node)
        case Distinct(windowed=True):
            return True
        case TopN():
            return any(child.facts.windows for child in inputs(node))
        case _:
            return False


def _is_plain(node: Aggregate) -> bool:
    """Return whether an aggregation has keys that are all its own, of one relation, and no star."""
    if node.star or node.grouping_sets is not None or len(node.block.relations) != 1:
        return False
    select = node.block.select
    inner = select.find(exp.Window) is not None
    return not inner and not any(key.determined or key.telling_calls for key in node.keys)


def _calls(node: Aggregate) -> Iterator[exp.AggFunc]:
    yield from own_aggregates(node.block.select)


def _is_partial(call: exp.AggFunc) -> bool:
    """Return whether partial results of an aggregate give the same result to the bit, whatever rows they are of."""
    value = call.this
    if call.expressions or isinstance(value, exp.Distinct):
        return False
    match call:
        case exp.Count() | exp.Min() | exp.Max():
            return True
        case exp.Sum():
            return bool(value.is_type(*WHOLE))
        case _:
            return False
