"""Puts lineage together: views and materialized tables of a catalog, and the INSERTs of checked SQL files."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    Schema,
    Table,
    View,
)
from penstock.sql.binding.binder import columns_of_object
from penstock.sql.ddl.apply_ddl import defined_table, filling_insert
from penstock.sql.dialect import Flink, parse_query
from penstock.sql.expressions.expression import columns_of
from penstock.sql.lineage.graph import (
    ColumnFlow,
    Graph,
    LineageQuery,
    Node,
    NodeColumn,
    NodeKind,
    shown_name,
)
from penstock.sql.lineage.query import lineage_of_query
from penstock.sql.statements.definitions import CreateMaterializedTable
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import CreateView, Statement, StatementSet


class LineageBuilder:
    """Gathers objects and flows. What stands in a catalog and cannot be read is named in `notes`."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._nodes: dict[Identifier, Node] = {}
        self._flows: list[LineageQuery] = []
        self._defined: set[Identifier] = set()

    def graph(self) -> Graph:
        """Return what was gathered."""
        return Graph(nodes=dict(sorted(self._nodes.items())), flows=tuple(self._flows))

    def add_objects(self, identifiers: Iterable[Identifier], namespace: Namespace) -> None:
        """Add tables and views, and what their queries name."""
        for identifier in identifiers:
            self._add_object(identifier, namespace)

    def add_statement(self, statement: Statement, namespace: Namespace) -> None:
        """Add what a statement of a file defines, and its INSERTs; `namespace` is as of that statement."""
        if (defined := _defined(statement)) is not None:
            self._add_object(defined, namespace)
        for insert in _inserts(statement):
            self._add_object(insert.target, namespace)
            self._add_insert(insert, namespace)

    def _add_object(self, identifier: Identifier, namespace: Namespace) -> None:
        if identifier in self._defined:
            return
        self._defined.add(identifier)
        try:
            found = namespace.lookup(identifier)
            self._nodes[identifier] = _node(found, namespace)
            match found:
                case View():
                    self._add_query(found.identifier, found.query, found.columns, "VIEW", namespace)
                case Table(materialization=filled) if filled is not None:
                    columns = tuple(column.name for column in found.schema.physical)
                    kind = NodeKind.MATERIALIZED_TABLE
                    self._add_query(identifier, filled.query, columns, kind, namespace)
        except InputError as error:
            self.notes.append(f"{shown_name(identifier)}: {error.message}")
            self._nodes.setdefault(identifier, Node(identifier=identifier, kind=NodeKind.TABLE))

    def _add_query(
        self,
        target: Identifier,
        text: str,
        names: tuple[str, ...],
        by: str,
        namespace: Namespace,
    ) -> None:
        self._add_flow(target, parse_query(text), names, by, None, namespace)

    def _add_insert(self, insert: InsertInto, namespace: Namespace) -> None:
        if insert.target not in self._nodes:
            return
        target = namespace.lookup(insert.target)
        if isinstance(target, Table) and target.materialization is not None:
            return  # its own query is known by now
        names = insert.columns
        if not names and isinstance(target, Table):
            names = tuple(column.name for column in target.schema.columns if _is_written(column))
        position = f"{insert.span.file}:{insert.span.line}"
        self._add_flow(insert.target, insert.query, names, "INSERT", position, namespace)

    def _add_flow(
        self,
        target: Identifier,
        query: exp.Expr,
        names: tuple[str, ...],
        by: str,
        position: str | None,
        namespace: Namespace,
    ) -> None:
        found = lineage_of_query(query, namespace)
        for source in found.tables:
            self._add_object(source, namespace)
        columns = found.columns
        if columns is not None and names:
            columns = tuple(
                ColumnFlow(column=name, expression=each.expression, sources=each.sources)
                for name, each in zip(names, columns, strict=False)
            )
        flow = LineageQuery(
            target=target, sources=found.tables, by=by, position=position, columns=columns
        )
        if flow not in self._flows:
            self._flows.append(flow)


def _defined(statement: Statement) -> Identifier | None:
    match statement:
        case CreateView(view=view):
            return view.identifier
        case CreateMaterializedTable(table=table):
            return table.identifier
    made = defined_table(statement)
    return None if made is None else made[0].identifier


def _inserts(statement: Statement) -> Iterable[InsertInto]:
    match statement:
        case InsertInto():
            return (statement,)
        case StatementSet(inserts=inserts):
            return inserts
    insert = filling_insert(statement)
    return () if insert is None else (insert,)


def _is_written(column: Column) -> bool:
    match column:
        case PhysicalColumn():
            return True
        case MetadataColumn(virtual=virtual):
            return not virtual
    return False


# --- objects ---


def _node(found: Table | View, namespace: Namespace) -> Node:
    if isinstance(found, View):
        columns = columns_of_object(found, namespace) or {}
        return Node(
            identifier=found.identifier,
            kind=NodeKind.VIEW,
            columns=tuple(
                NodeColumn(name=name, kind="query", type=kind.sql(Flink) if kind else None)
                for name, kind in columns.items()
            ),
        )
    filled = found.materialization is not None
    return Node(
        identifier=found.identifier,
        kind=NodeKind.MATERIALIZED_TABLE if filled else NodeKind.TABLE,
        connector=found.connector,
        columns=tuple(_column(column, found.schema) for column in found.schema.columns),
    )


def _column(column: Column, schema: Schema) -> NodeColumn:
    kind = None if column.type is None else str(column.type)
    match column:
        case ComputedColumn():
            whole = columns_of(column.expression)
            sources = tuple(name for name in schema.names if name in whole)
            return NodeColumn(
                name=column.name,
                kind="computed",
                type=kind,
                expression=column.expression,
                sources=sources,
            )
        case MetadataColumn():
            return NodeColumn(
                name=column.name, kind="metadata", type=kind, expression=column.metadata_key
            )
    return NodeColumn(name=column.name, kind="physical", type=kind)
