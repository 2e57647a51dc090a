"""The hints STATE_TTL of a query, by the relations that they name."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.binding.hints import StateTtl, bounds_state, state_ttls, take_state_ttl
from penstock.sql.plan.logical.plan import StateHint
from penstock.sql.syntax.traversal import find_nodes

__all__ = ["StateHints"]


class StateHints:
    """Collects the hints of a query, in which each relation has an alias, and removes them from it.

    Rows that are read for a hint and without one are the same rows.
    """

    def __init__(self, tree: exp.Expr) -> None:
        self._hints: list[StateTtl] = []
        self._taken: set[int] = set()
        self._numbers: dict[int, dict[str, int]] = {}
        for select in find_nodes(tree, exp.Select) if bounds_state(tree) else ():
            for hint in state_ttls(select):
                names = self._numbers.setdefault(id(select), {})
                names[hint.relation.alias_or_name] = len(self._hints)
                self._hints.append(hint)
            if id(select) in self._numbers:
                take_state_ttl(select)

    def of(self, select: exp.Select, alias: str) -> int | None:
        """Return the time to live, in milliseconds, of an operator's state of a relation; None without a hint."""
        number = self._numbers.get(id(select), {}).get(alias)
        if number is None:
            return None
        self._taken.add(number)
        return self._hints[number].milliseconds

    @property
    def hints(self) -> tuple[StateHint, ...]:
        """The hints in order of the text, and whether an operator took each."""
        return tuple(
            StateHint(hint=hint, used=number in self._taken)
            for number, hint in enumerate(self._hints)
        )
