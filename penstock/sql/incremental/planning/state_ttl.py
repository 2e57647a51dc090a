"""The hints STATE_TTL of a query: the operators that use them, and unused ones.

Flink applies them to regular joins, each side its own, and to aggregations over one relation (StateTtlHint).
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.binding.hints import StateTtl, state_ttls, take_state_ttl
from penstock.sql.plan.clauses.select_clauses import refuse_unused_hint
from penstock.sql.syntax.traversal import find_nodes

__all__ = ["StateTtlHints"]

NUMBERS = "penstock.state_ttl"
"""Set on a SELECT: the numbers of its hints, by the alias that they name. Copies of the SELECT keep it."""


class StateTtlHints:
    """Collects the hints of a query, in which each relation has an alias."""

    def __init__(self, tree: exp.Expr) -> None:
        self._hints: list[StateTtl] = []
        self._taken: set[int] = set()
        for select in find_nodes(tree, exp.Select):
            numbers: dict[str, int] = {}
            for hint in state_ttls(select):
                numbers[hint.relation.alias_or_name] = len(self._hints)
                self._hints.append(hint)
            if numbers:
                select.meta[NUMBERS] = numbers
                # rows that are read for a hint and without one are the same rows
                take_state_ttl(select)

    def of(self, select: exp.Select, alias: str) -> int | None:
        """Return the time to live, in milliseconds, of a join's state of a relation; None without a hint."""
        numbers: dict[str, int] = select.meta_get(NUMBERS) or {}
        number = numbers.get(alias)
        if number is None:
            return None
        self._taken.add(number)
        return self._hints[number].milliseconds

    def alone(self, select: exp.Select) -> int | None:
        """Return the time to live of an aggregation over the only relation in FROM."""
        from_ = select.args.get("from_")
        if from_ is None or select.args.get("joins") or select.args.get("laterals"):
            return None
        return self.of(select, from_.this.alias_or_name)

    def check(self) -> None:
        """Refuse an unused hint. Raises UnsupportedError."""
        for number, hint in enumerate(self._hints):
            if number not in self._taken:
                raise refuse_unused_hint(hint).error()
