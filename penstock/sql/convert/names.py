"""Resolve the names in a statement; errors point at the name. Refuse changes that would break a view.

Flink finds out about such a view at its next use.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.catalog.definitions.federated import with_location
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError, InputErrors
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.table import Table, View
from penstock.sql.binding.binder import bind_query
from penstock.sql.binding.checked_query import Output
from penstock.sql.dialect.flink.trees import named_tables, parse_query
from penstock.sql.script.splitter import StatementText
from penstock.sql.syntax.positions import Source, attach


def identifier_of(table: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    """The full name of a table node. Raises InputError."""
    assert isinstance(table, exp.Table), "the parser puts a table where a name stands"
    with text.placing(table):
        return namespace.resolve(tuple(part.name for part in table.parts))


def find_object(
    identifier: Identifier, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table | View:
    """The table or view of a name that stands at `node`. Raises UnknownObjectError."""
    with text.placing(node):
        return namespace.lookup(identifier)


def resolve_table_location(
    table: Table, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table:
    """A table with what its catalog decides: a folder of Delta tables decides its location. Raises DefinitionError."""
    with text.placing(node):
        return with_location(table, namespace.catalog)


def check_query(query: exp.Expr, namespace: Namespace) -> tuple[str, ...] | None:
    """The names of a query's columns, None if they are unsure. Raises InputErrors."""
    output = check_output(query, namespace)
    return None if output is None else tuple(name for name, _ in output)


def check_output(query: exp.Expr, namespace: Namespace) -> Output | None:
    """A query's columns with their types where they are known, None if they are unsure. Raises InputErrors."""
    bound = bind_query(query, namespace)
    if bound.errors:
        raise InputErrors(bound.errors)
    return bound.output


def function_identifier(node: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    """The full name of a function, in lower case: Flink does not tell cases of functions apart. Raises InputError."""
    full = identifier_of(node, text, namespace)
    return Identifier(catalog=full.catalog, database=full.database, name=full.name.lower())


def check_views(before: Table | View, after: Table | View, namespace: Namespace) -> None:
    """Check that the views over `before` are right over `after` too. Raises DefinitionError."""
    if _looks_alike(before, after):
        return
    overlay = namespace.overlay()
    overlay.replace(before, after)
    for view in _views_over(before.identifier, namespace):
        problem = _problem(view, overlay)
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
