"""Views that stand on a table or view: a change that would break one is refused (Flink finds out at the next use)."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.table import Table, View
from penstock.sql.binding.binder import bind_query
from penstock.sql.dialect.flink.trees import named_tables, parse_query
from penstock.sql.syntax.positions import Source, attach

__all__ = ["check_views", "stands_on"]


def check_views(before: Table | View, after: Table | View, namespace: Namespace) -> None:
    """Check that the views over `before` are right over `after` too. Raises DefinitionError."""
    if _looks_alike(before, after):
        return
    draft = namespace.overlay()
    draft.replace(before, after)
    for view in _views_over(before.identifier, namespace):
        problem = _problem(view, draft)
        if problem is not None and _problem(view, namespace) is None:
            raise DefinitionError(
                f"the view {view.identifier} would no longer be right: {problem}",
                hint=f"ALTER VIEW {view.identifier} AS ... first, or drop it",
            )


def stands_on(query: str, target: Identifier, namespace: Namespace) -> bool:
    """Return whether a view's query reads `target`, directly or by other views."""
    seen: set[Identifier] = set()
    waiting = [query]
    while waiting:
        for name in _names(waiting.pop(), namespace):
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                found = _lookup(name, namespace)
                waiting += [found.query] if isinstance(found, View) else []
    return False


def _looks_alike(before: Table | View, after: Table | View) -> bool:
    """Return whether nothing that a query sees has changed."""
    if before.identifier != after.identifier:
        return False
    if isinstance(before, Table) and isinstance(after, Table):
        return before.schema.columns == after.schema.columns
    return before == after


def _views_over(target: Identifier, namespace: Namespace) -> Iterator[View]:
    """The views that stand on a table or view. Only those that mention a name on the way are parsed."""
    stored = (namespace.catalog.get(identifier) for identifier in namespace.catalog.views())
    views = [v for v in (*stored, *namespace.temporary()) if isinstance(v, View)]
    reached, fresh = {target}, True
    while fresh:
        mentions = {quoted(identifier.name) for identifier in reached}
        found = [
            view
            for view in views
            if view.identifier not in reached
            and any(mention in view.query for mention in mentions)
            and reached & _names(view.query, namespace)
        ]
        fresh = bool(found)
        reached |= {view.identifier for view in found}
        yield from found


def _names(query: str, namespace: Namespace) -> set[Identifier]:
    tables = named_tables(parse_query(query))
    return {namespace.resolve(tuple(part.name for part in table.parts)) for table in tables}


def _lookup(name: Identifier, namespace: Namespace) -> Table | View | None:
    try:
        return namespace.lookup(name)
    except InputError:
        return None


def _problem(view: View, namespace: Namespace) -> str | None:
    """What is wrong with a view; None if nothing is."""
    # only what has a place in a text is an error
    source = Source(file=str(view.identifier), text=view.query)
    bound = bind_query(attach(parse_query(view.query), source), namespace)
    if bound.errors:
        return bound.errors[0].message
    if view.columns and bound.output is not None and len(view.columns) != len(bound.output):
        return f"it names {len(view.columns)} columns, its query would have {len(bound.output)}"
    return None
