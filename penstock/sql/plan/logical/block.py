"""A block of a query: one SELECT, from which several operators are built."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

__all__ = ["Block"]

_SKELETON = ("from_", "joins", "laterals", "where", "hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The SELECT that operators are built from, which is never changed in place.

    `relations` are the names in its FROM, from left to right. `bounded`: an interval of time or a window is compared
    in its joins or its WHERE, so that they end with the watermark. `has_query`: its WHERE has a query without such a
    comparison.
    """

    select: exp.Select = field(compare=False, repr=False)
    relations: tuple[str, ...]
    bounded: bool = False
    has_query: bool = False

    @property
    def first(self) -> str:
        """The name of the first relation in FROM; empty where there is none."""
        return self.relations[0] if self.relations else ""

    def skeleton(self) -> exp.Select:
        """Return a query for all columns of FROM and WHERE."""
        bare = exp.Select(expressions=[exp.Star()])
        for part in _SKELETON:
            value = self.select.args.get(part)
            if value is not None:
                copied = [v.copy() for v in value] if isinstance(value, list) else value.copy()
                bare.set(part, copied)
        return bare
