"""The columns that a table made of a query gets: names, and types where they are sure without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputErrors
from penstock.catalog.names import Namespace
from penstock.catalog.types import LogicalType, parse_type
from penstock.sql.bind import bind_query
from penstock.sql.dialect.access import to_text
from penstock.sql.positions import span_of

__all__ = ["item_of", "query_columns"]


def query_columns(
    query: exp.Expr, namespace: Namespace
) -> tuple[tuple[str, LogicalType | None], ...]:
    """Name and type of each column; None for a type that cannot be told.

    Raises InputErrors with all that is wrong in the query, DefinitionError where its columns cannot be told at all
    or two have one name.
    """
    bound = bind_query(query, namespace)
    if bound.errors:
        raise InputErrors(bound.errors)
    if bound.output is None:
        raise DefinitionError(
            "the columns of the query cannot be told",
            hint="name them: SELECT a AS x, b AS y FROM ...",
            span=span_of(query),
        )
    names = [name for name, _ in bound.output]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise DefinitionError(
                f"the query has two columns named '{name}'",
                hint="give them other names: SELECT ... AS name",
                span=span_of(item_of(query, name)),
            )
    written = list(_written_out(query, len(names)))
    return tuple(
        (name, _sure(kind, written=written[index]))
        for index, (name, kind) in enumerate(bound.output)
    )


def item_of(query: exp.Expr, name: str) -> exp.Expr:
    """What a query selects by a name, the last of several; the query itself where that cannot be told."""
    items: list[exp.Expr] = query.selects if isinstance(query, exp.Select) else []
    return next((item for item in reversed(items) if item.alias_or_name == name), query)


def _sure(kind: exp.DataType | None, *, written: bool) -> LogicalType | None:
    """The type, unless it is a decimal that was calculated: the digits of those are not followed here."""
    if kind is None or (not written and any(d.is_type(exp.DType.DECIMAL) for d in _parts(kind))):
        return None
    return parse_type(to_text(kind))


def _parts(kind: exp.DataType) -> Iterator[exp.DataType]:
    return kind.find_all(exp.DataType)


def _written_out(query: exp.Expr, count: int) -> Iterator[bool]:
    """Whether each column is, in every SELECT, a column or a CAST as it stands."""
    selects = [s for s in _selects(query) if len(s.selects) == count and not s.is_star]
    stars = all(select.is_star for select in _selects(query))
    for index in range(count):
        items = [select.selects[index].unalias() for select in selects]
        yield stars or (
            bool(items) and all(isinstance(item, exp.Column | exp.Cast) for item in items)
        )


def _selects(query: exp.Expr) -> list[exp.Select]:
    if isinstance(query, exp.SetOperation):
        return _selects(query.this) + _selects(query.expression)
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    return [inner] if isinstance(inner, exp.Select) else []
