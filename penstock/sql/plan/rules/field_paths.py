"""The fields of rows that a query reads of a table's columns, and the schema that has these alone.

A source decodes no other field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.model.table import ComputedColumn, MetadataColumn, PhysicalColumn, Schema
from penstock.catalog.model.types import LogicalType, RowType
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.traversal import all_nodes

Paths = frozenset[tuple[str, ...]]
"""Fields below a column, each by its names from there; the empty one is the column itself."""

WHOLE: Paths = frozenset({()})


def field_paths(trees: Iterable[exp.Expr]) -> dict[str, Paths]:
    """Return, for every name in the trees, the names that follow it, dot by dot."""
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


def scan_paths(query: exp.Expr) -> dict[int, dict[str, Paths]]:
    """Return what `field_paths` gives of each table by its number, of the SELECTs alone that read it.

    Without the tables of which that is not known: in FROM beside another relation, below a star, or a function.
    """
    found: dict[int, dict[str, Paths]] = {}
    open_scans = set[int]()
    for node in query.find_all(ScanTable):
        paths = _paths_of_reader(node)
        if paths is None:
            open_scans.add(node.scan)
            continue
        known = found.setdefault(node.scan, {})
        for name, more in paths.items():
            known[name] = known.get(name, frozenset()) | more
    return {scan: paths for scan, paths in found.items() if scan not in open_scans}


def _paths_of_reader(node: ScanTable) -> dict[str, Paths] | None:
    """Return the fields that the SELECT around a table reads; None where it reads others, or it is not known."""
    clause = node.parent
    select = clause.parent if isinstance(clause, exp.From) else None
    if (
        not isinstance(select, exp.Select)
        or select.args.get("joins")
        or select.args.get("laterals")
    ):
        return None
    parts = [part for name, part in select.args.items() if name != "from_"]
    trees = [
        tree
        for part in parts
        for tree in (part if isinstance(part, list) else [part])
        if isinstance(tree, exp.Expr)
    ]
    if any(tree.find(exp.Star, exp.Query) for tree in trees):
        return None
    return _paths_within(trees, {node.alias_or_name, node.name, node.db, node.catalog})


def _paths_within(trees: Iterable[exp.Expr], relations: set[str]) -> dict[str, Paths]:
    """Return, for every name of the trees by which a column may begin, the names that follow it.

    `relations` are names that may stand in front of a column's.
    """
    found: dict[str, set[tuple[str, ...]]] = {}
    for tree in trees:
        nodes, others = all_nodes(tree), set[int]()
        for column in nodes:
            if isinstance(column, exp.Alias | exp.TableAlias):
                others |= {id(name) for name in all_nodes(column.args["alias"])}
            if not isinstance(column, exp.Column):
                continue
            parts = _chain(column)
            others |= {id(part) for part in parts}
            names = tuple(part.name for part in parts)
            for index, name in enumerate(names):
                found.setdefault(name, set()).add(names[index + 1 :])
                if name not in relations:
                    break
        for node in nodes:
            if isinstance(node, exp.Identifier) and id(node) not in others:
                found.setdefault(node.name, set()).add(())
    return {name: frozenset(paths) for name, paths in found.items()}


def row_paths(
    schema: Schema, columns: Iterable[str], paths: Mapping[str, Paths]
) -> dict[str, Paths]:
    """Return the fields that are read of those of `columns` that are narrowed; nothing for whole ones."""
    narrow: dict[str, Paths] = {}
    known = {column.name: column.type for column in schema.columns}
    for name in columns:
        kind, wanted = known.get(name), paths.get(name, WHOLE)
        if isinstance(kind, RowType) and (asked := _within(kind, wanted)) != WHOLE:
            narrow[name] = asked
    return narrow


def merged(all_paths: Iterable[Paths]) -> Paths:
    """Return the fields that any of several readers of a column needs."""
    together = frozenset[tuple[str, ...]]().union(*all_paths)
    return WHOLE if () in together else together


def narrowed(schema: Schema, paths: Mapping[str, Paths]) -> Schema:
    """Return the schema with the types of these columns narrowed to these fields."""
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
    """Cut paths at the end of the rows (an element, a function of Spark's); WHOLE where one names no field."""
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
    """Return the names of a column and of its fields, dot by dot."""
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
