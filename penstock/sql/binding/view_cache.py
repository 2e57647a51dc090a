"""What was found out about views, kept as long as the namespace that they were checked in.

A file names a view many times; its query is parsed and checked once, and again when what it reads has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.table import Table, View
from penstock.sql.binding.checked_query import Output
from penstock.sql.dialect.flink.trees import named_tables
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["KnownView", "keep_view", "known_view"]

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
