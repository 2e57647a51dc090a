"""Unique names of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from sqlglot import exp

__all__ = ["own_names", "unique_name"]


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted`, with a number behind it where that name is taken; Spark ignores case."""
    return _unique(wanted, {name.casefold() for name in taken})


def own_names(items: Sequence[exp.Expr]) -> tuple[str, ...]:
    """Name the columns of a SELECT list uniquely; unnamed ones get a reserved name."""
    names: list[str] = []
    known: set[str] = set()
    for index, item in enumerate(items):
        named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
        wanted = item.alias_or_name if named and item.alias_or_name else f"__column{index}"
        names.append(_unique(wanted, known))
        known.add(names[-1].casefold())
    return tuple(names)


def _unique(wanted: str, known: AbstractSet[str]) -> str:
    name, number = wanted, 1
    while name.casefold() in known:
        number += 1
        name = f"{wanted}__{number}"
    return name
