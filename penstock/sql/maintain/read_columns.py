"""The columns that an aggregation reads of the rows below it, under names of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.maintain.relation import Item, column, unique_name
from penstock.sql.plan.aggregation import is_same

__all__ = ["ReadColumns"]


@dataclass(slots=True)
class ReadColumns:
    """The columns that an operator needs: its keys first, then what its expressions read.

    `items` are the values to project below it.
    """

    keys: Sequence[exp.Expr]
    items: list[Item] = field(default_factory=list)
    _read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, key in enumerate(self.keys):
            wanted = key.name if isinstance(key, exp.Column) else f"__group{index}"
            self.items.append((unique_name(wanted, self._taken()), key))

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over these columns."""
        found: exp.Expr = value.transform(self._own)
        return found

    def _own(self, node: exp.Expr) -> exp.Expr:
        for (name, _), key in zip(self.items, self.keys, strict=False):
            if is_same(node, key):
                return column(name, like=node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        text = to_text(node)
        if text not in self._read:
            self._read[text] = unique_name(node.name, self._taken())
            self.items.append((self._read[text], node.copy()))
        return column(self._read[text], like=node)

    def _taken(self) -> list[str]:
        return [name for name, _ in self.items]
