"""What is kept while a query is checked on a copy, and what was found out about views.

Which node of the copy is which of the original is known; views are kept as long as the namespace they were checked in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, Span
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.sql.dialect.flink.trees import named_tables
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copies, copy_tree

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


Read = tuple[tuple[str, ...], Table | View]
"""A name in a view's query, and what it stood for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownView:
    """The query of a view that is right, its nodes typed; the columns of the query; all that it reads."""

    tree: exp.Query
    output: Output
    reads: tuple[Read, ...]

    def body(self) -> exp.Query:
        """Return the query to write out where the view is named: a copy, which may be changed."""
        return copy_tree(self.tree)  # type: ignore[return-value]  # a copy is of the same class

    def holds(self, namespace: Namespace) -> bool:
        """Return whether all that it reads is still there, and as it was."""
        try:
            return all(
                namespace.lookup(namespace.resolve(parts)) == found for parts, found in self.reads
            )
        except InputError:
            return False


_KNOWN: WeakKeyDictionary[Namespace, dict[View, KnownView]] = WeakKeyDictionary()


def known_view(
    view: View, namespace: Namespace, check: Callable[[], tuple[exp.Query, Output] | None]
) -> KnownView | None:
    """The checked query of a view. `check` computes it again, where it is unknown or out of date.

    None where `check` returns None: the view is faulty, or its columns are unknown. That is not cached.
    """
    known = _KNOWN.setdefault(namespace, {})
    found = known.get(view)
    if found is not None and found.holds(namespace):
        return found
    checked = check()
    if checked is None:
        return None
    keep_view(view, *checked, namespace)
    return known[view]


def keep_view(view: View, tree: exp.Query, output: Output, namespace: Namespace) -> None:
    """Keep what a check of a view found; `tree` is the caller's no more, and its nodes have no place."""
    known = _KNOWN.setdefault(namespace, {})
    reads = tuple(_reads(tree, namespace, known))
    known[view] = KnownView(tree=tree, output=output, reads=reads)


def _reads(query: exp.Query, namespace: Namespace, known: dict[View, KnownView]) -> Iterator[Read]:
    """The tables and views that a query names, and those that these name."""
    for table in named_tables(query):
        parts = tuple(part.name for part in table.parts)
        found = namespace.lookup(namespace.resolve(parts))
        yield parts, found
        if isinstance(found, View):
            # the columns of a view over one that is not known cannot be determined
            yield from known[found].reads
