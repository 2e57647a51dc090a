"""Which fields of its rows a query needs of a table, so that nothing else is decoded.

A column of type ROW is narrowed to the fields that are named: `SELECT item.price` reads `item ROW<price>`. As with
whole columns the answer may be too large and is never too small: a name that stands anywhere by itself asks for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.schema import ComputedColumn, MetadataColumn, PhysicalColumn, Schema
from penstock.catalog.types import LogicalType, RowType
from penstock.sql.walking import all_nodes

__all__ = ["Paths", "field_paths", "merged", "narrowed", "path_texts", "row_paths"]

Paths = frozenset[tuple[str, ...]]
"""Fields below a column, each by its names from there; the empty one is the column itself."""

WHOLE: Paths = frozenset({()})


def field_paths(trees: Iterable[exp.Expr]) -> dict[str, Paths]:
    """Give, for every name that stands in the trees, the names that follow it, dot by dot."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for tree in trees:
        nodes, chained = all_nodes(tree), set[int]()
        for column in nodes:
            if not isinstance(column, exp.Column):
                continue
            parts = _chain(column)
            chained |= {id(part) for part in parts}
            names = tuple(part.name for part in parts)
            for index, name in enumerate(names):
                found.setdefault(name, set()).add(names[index + 1 :])
        for node in nodes:
            if isinstance(node, exp.Identifier) and id(node) not in chained:
                found.setdefault(node.name, set()).add(())
    return {name: frozenset(paths) for name, paths in found.items()}


def row_paths(
    schema: Schema, columns: Iterable[str], paths: Mapping[str, Paths]
) -> dict[str, Paths]:
    """Give the fields that are read of those of `columns` that are narrowed; nothing for whole ones."""
    narrow: dict[str, Paths] = {}
    known = {column.name: column.type for column in schema.columns}
    for name in columns:
        kind, wanted = known.get(name), paths.get(name, WHOLE)
        if isinstance(kind, RowType) and (asked := _within(kind, wanted)) != WHOLE:
            narrow[name] = asked
    return narrow


def merged(all_paths: Iterable[Paths]) -> Paths:
    """Give the fields that one of several readers of a column asks for."""
    together = frozenset[tuple[str, ...]]().union(*all_paths)
    return WHOLE if () in together else together


def narrowed(schema: Schema, paths: Mapping[str, Paths]) -> Schema:
    """Give the schema with the types of these columns narrowed to these fields."""
    if not paths:
        return schema
    columns = tuple(
        column
        if isinstance(column, ComputedColumn) or column.name not in paths
        else _narrowed_column(column, paths[column.name])
        for column in schema.columns
    )
    return replace(schema, columns=columns)


def path_texts(name: str, paths: Paths) -> list[str]:
    """Name the fields of a column that are read, as a query does: `item.price`."""
    return [".".join((name, *path)) for path in sorted(paths)]


def _narrowed_column(
    column: PhysicalColumn | MetadataColumn, paths: Paths
) -> PhysicalColumn | MetadataColumn:
    return replace(column, type=_type(column.type, paths))


def _type(kind: LogicalType, paths: Paths) -> LogicalType:
    if () in paths or not isinstance(kind, RowType):
        return kind
    return replace(
        kind,
        fields=tuple(
            replace(field, type=_type(field.type, _below(paths, field.name)))
            for field in kind.fields
            if _below(paths, field.name)
        ),
    )


def _within(kind: LogicalType, paths: Paths) -> Paths:
    """Cut paths where the rows end (an element, a function of Spark's); WHOLE where one names no field."""
    if () in paths or not isinstance(kind, RowType):
        return WHOLE
    names = {field.name for field in kind.fields}
    if any(path[0] not in names for path in paths):
        return WHOLE
    return frozenset(
        (field.name, *rest)
        for field in kind.fields
        if (below := _below(paths, field.name))
        for rest in _within(field.type, below)
    )


def _below(paths: Paths, name: str) -> Paths:
    return frozenset(path[1:] for path in paths if path[0] == name)


def _chain(column: exp.Column) -> list[exp.Expr]:
    """Give the names of a column and of what is taken of it, as far as dots go."""
    parts: list[exp.Expr] = list(column.parts)
    node: exp.Expr = column
    while node.parent is not None:
        above = node.parent
        if isinstance(above, exp.Paren):
            node = above
        elif isinstance(above, exp.Dot) and above.this is node:
            if not isinstance(above.expression, exp.Identifier):
                break
            parts.append(above.expression)
            node = above
        else:
            break
    return parts
