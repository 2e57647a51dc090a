"""Plan an aggregation whose SELECT list is computed behind its stage, row by row.

The stage gives keys and aggregates alone, which keyed operators compute whatever the list makes of them: a ROUND or an
UPPER in it would put the whole query on Spark's stages. Only for checkpoints that begin in this form of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND
from penstock.sql.incremental.planning.aggregate import plan_aggregate
from penstock.sql.incremental.planning.relation import ChangelogRelation, column, written
from penstock.sql.incremental.planning.source import Source
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.logical.facts import Item, WindowTime, unique_name
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.syntax.refusal import Refusal

_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def plan_aggregation(
    select: exp.Select,
    listed: Sequence[Item],
    source: Source,
    stages: StageList,
    time_to_live_ms: int | None = None,
    closed: WindowTime | None = None,
) -> ChangelogRelation | Refusal:
    """Add an aggregation as `plan_aggregate` does, with its SELECT list apart where `stages` have these so."""
    apart = _Apart.of(select, listed) if stages.options.lists_apart and closed is None else None
    if apart is None:
        return plan_aggregate(select, listed, source, stages, time_to_live_ms, closed)
    rows = plan_aggregate(select, apart.staged, source, stages, time_to_live_ms)
    if isinstance(rows, Refusal):
        return rows
    shown: dict[str, str] = {}
    for name, value in apart.computed:
        if isinstance(value, exp.Column):
            shown.setdefault(value.name, name)
    key = None if rows.key is None else tuple(shown.get(name, "") for name in rows.key)
    query = exp.select(*written(apart.computed), column(ROW_KIND))
    query = query.from_(exp.to_table(rows.name, quoted=True), copy=False)
    found = replace(
        rows,
        columns=tuple(name for name, _ in listed),
        key=None if key is None or "" in key else key,
        constants=frozenset(shown[name] for name in rows.constants if name in shown),
    )
    return stages.calc(query, (rows.name,), found)


@dataclass(slots=True, kw_only=True)
class _Apart:
    """A SELECT list in two: what the stage has to give, and what is `computed` of that."""

    keys: Sequence[exp.Expr]
    shown: Sequence[str]
    computed: list[Item] = field(default_factory=list)
    _names: dict[exp.Expr, str] = field(default_factory=dict)

    @classmethod
    def of(cls, select: exp.Select, listed: Sequence[Item]) -> _Apart | None:
        """Divide a list; None where the stage gives all of it, or it reads what is neither a key nor an aggregate."""
        group = select.args.get("group")
        keys = list(group.expressions) if group is not None else []
        if any(isinstance(key, exp.Literal) for key in keys):
            return None
        found = cls(keys=keys, shown=[name for name, _ in listed])
        bare = [(name, value) for name, value in listed if found.is_of_stage(value)]
        if len(bare) == len(listed):
            return None
        for name, value in bare:
            found._names.setdefault(value, name)
        found.computed += [(name, value.transform(found._own)) for name, value in listed]
        if not found._names:  # of constants alone: a stage gives some column
            return None
        known = {name for name, _ in found.staged}
        read = (c for _, value in found.computed for c in value.find_all(exp.Column, exp.Query))
        return found if all(isinstance(c, exp.Column) and c.name in known for c in read) else None

    @property
    def staged(self) -> list[Item]:
        """What the stage gives, under the names that the list has for it where it does."""
        return [(name, value) for value, name in self._names.items()]

    def is_of_stage(self, node: exp.Expr) -> bool:
        """Return whether an expression is a key or an aggregate."""
        return isinstance(node, _AGGREGATES) or any(is_same(node, key) for key in self.keys)

    def _own(self, node: exp.Expr) -> exp.Expr:
        if not self.is_of_stage(node):
            return node
        if node not in self._names:
            name = f"__item{len(self._names)}"
            self._names[node] = unique_name(name, [*self.shown, *self._names.values()])
        return column(self._names[node], like=node)
