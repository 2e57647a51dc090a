"""What is kept while a query is checked on a copy: which node of the copy is which of the original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, Span
from penstock.catalog.model.identifier import Identifier
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copies

__all__ = ["ORIGIN", "CheckedQuery", "Columns", "Output"]

Columns = Mapping[str, exp.DataType | None]
"""Names of a relation's columns, in order, and their types where they are known."""

Output = tuple[tuple[str, exp.DataType | None], ...]
"""A query's columns: names, which may repeat, and types where they are known."""

ORIGIN = "penstock.origin"


@dataclass(slots=True)
class CheckedQuery:
    """The state of one check of a query.

    `nodes` are those of the original, by the number that the nodes of copies carry; `relations` are
    the tables by their names in the copy, `by_table` by the identity of the original's node;
    `unsure`: the columns of one of them are not known.
    """

    namespace: Namespace | None = None
    viewing: tuple[Identifier, ...] = ()
    nodes: list[exp.Expr] = field(default_factory=list)
    errors: list[InputError] = field(default_factory=list)
    relations: dict[str, Columns] = field(default_factory=dict)
    by_table: dict[int, Columns] = field(default_factory=dict)
    unsure: bool = False

    def copy(self, query: exp.Expr) -> exp.Expr:
        """A copy of `query` whose nodes know what they were copied from."""
        pairs = copies(query)
        self.nodes = [node for node, _ in pairs]
        for number, (_, copied) in enumerate(pairs):
            copied.meta[ORIGIN] = number
        return pairs[0][1]

    def origin(self, node: exp.Expr) -> exp.Expr | None:
        """The original of a node of the copy; None for one made since."""
        number = node.meta_get(ORIGIN)
        return None if number is None else self.nodes[number]

    def span(self, node: exp.Expr) -> Span | None:
        """The place of a node of the copy."""
        original = self.origin(node)
        return span_of(original) if original is not None else None
