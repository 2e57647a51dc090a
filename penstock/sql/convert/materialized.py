"""CREATE, ALTER and DROP MATERIALIZED TABLE: from the syntax tree to the statement.

A materialized table is a table whose columns are its query's, and an INSERT that fills it: a streaming one that runs
at its freshness (CONTINUOUS), or one that rewrites the table as often (FULL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    ObjectExistsError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Materialization,
    PhysicalColumn,
    PrimaryKey,
    RefreshMode,
    Schema,
    Table,
    TableDistribution,
    View,
)
from penstock.sql.binding.columns import as_written
from penstock.sql.convert.names import find_object, identifier_of, resolve_table_location
from penstock.sql.convert.show import partition_values
from penstock.sql.convert.table_builder import TableBuilder
from penstock.sql.convert.table_definition import read_distribution
from penstock.sql.convert.tables import item_of, query_columns
from penstock.sql.dialect.flink.trees import named_tables, parse_query, to_text
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import (
    ChangeMaterializedTable,
    CreateMaterializedTable,
    DropMaterializedTable,
    MaterializedChange,
)
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.nodes import Distribution as DistributionNode
from penstock.sql.syntax.positions import attach

AGAIN = "DROP MATERIALIZED TABLE it and create it again"
OTHERWISE = {
    "SET": "with other options",
    "RESET": "with other options",
    "SET FRESHNESS": "with another FRESHNESS",
    "SET REFRESH_MODE": "with another REFRESH_MODE",
    "RENAME": "by another name",
}
"""How a table is created again in place of an ALTER; its columns, key and watermark hang on its query."""


def convert_create_materialized(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> CreateMaterializedTable:
    """The value of CREATE [OR ALTER] MATERIALIZED TABLE. Raises InputErrors."""
    schema_node = tree.this if isinstance(tree.this, exp.Schema) else None
    name = tree.this.this if schema_node is not None else tree.this
    identifier = identifier_of(name, text, namespace)
    query = attach(tree.expression.pop(), text.source)
    written = as_written(query)
    columns = _columns(query, text, namespace)
    key = _key(schema_node, [c.name for c in columns], text) if schema_node is not None else None
    distribution = _distribution(tree.args.get("distribution"), columns)
    stored = _with_full_names(written, namespace)
    try:
        table = Table(
            identifier=identifier,
            schema=Schema(columns=columns, primary_key=key),
            options=tuple(
                (option.this.name, option.args["value"].name)
                for option in tree.args.get("options") or []
            ),
            partition_keys=tuple(n.name for n in tree.args.get("partitions") or []),
            distribution=distribution,
            comment=tree.args["comment"].name if tree.args.get("comment") is not None else None,
            materialization=_materialization(tree, stored, text),
        )
    except InputError as error:
        error.span = error.span or text.locate(name)
        raise
    table = resolve_table_location(table, name, text, namespace)
    _check_free(table, tree, name, text, namespace)
    return CreateMaterializedTable(
        table=table,
        insert=_insert(table, query, text),
        or_alter=bool(tree.args.get("alter")),
        span=text.span,
    )


def convert_alter_materialized(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> ChangeMaterializedTable:
    """The value of ALTER MATERIALIZED TABLE. Raises InputError."""
    table, materialization = _found(tree.this, text, namespace)
    action = tree.text("action")
    if action not in tuple(MaterializedChange):
        raise UnsupportedError(
            f"ALTER MATERIALIZED TABLE ... {action} is not supported",
            hint=f"{AGAIN} {OTHERWISE.get(action, 'with another query')}; its data stays where it is",
            span=text.span if tree.expression is None else text.locate(tree.expression),
        )
    for option in tree.args.get("options") or []:
        raise UnsupportedError(
            "RESUME WITH (...) is not supported",
            hint="SET options before it",
            span=text.locate(option),
        )
    change = MaterializedChange(action)
    continuous = materialization.refresh_mode is RefreshMode.CONTINUOUS
    if change in (MaterializedChange.REFRESH, MaterializedChange.AS) and continuous:
        what = "is refreshed by its streaming query" if action == "REFRESH" else "has a checkpoint"
        hint = f"{AGAIN}; " if action == "AS" else ""
        raise UnsupportedError(
            f"{table.identifier} {what}: REFRESH_MODE is CONTINUOUS",
            hint=f"{hint}only a table of REFRESH_MODE = FULL can be changed so",
            span=text.span,
        )
    return _changed(change, table, materialization, tree, text, namespace)


def convert_drop_materialized(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> DropMaterializedTable:
    """The value of DROP MATERIALIZED TABLE. Raises InputError."""
    if_exists = bool(tree.args.get("exists"))
    identifier = identifier_of(tree.this, text, namespace)
    try:
        found: Table | View | None = find_object(identifier, tree.this, text, namespace)
    except UnknownObjectError:
        if not if_exists:
            raise
        found = None
    if found is not None:
        _found(tree.this, text, namespace)
    return DropMaterializedTable(identifier=identifier, if_exists=if_exists, span=text.span)


def _changed(
    change: MaterializedChange,
    table: Table,
    materialization: Materialization,
    tree: exp.Expr,
    text: StatementText,
    namespace: Namespace,
) -> ChangeMaterializedTable:
    query: exp.Expr = parse_query(materialization.query)
    if change is MaterializedChange.AS:
        query = attach(tree.expression.pop(), text.source)
        written = as_written(query)
        columns = _columns(query, text, namespace)
        known = [(c.name, str(c.type)) for c in table.schema.columns]
        if [(c.name, str(c.type)) for c in columns] != known:
            raise UnsupportedError(
                f"the query has other columns than {table.identifier}",
                hint=f"it takes {', '.join(f'{n} {k}' for n, k in known)}; or {AGAIN}",
                span=text.locate(query),
            )
        materialization = replace(materialization, query=_with_full_names(written, namespace))
    if change in (MaterializedChange.SUSPEND, MaterializedChange.RESUME):
        suspended = change is MaterializedChange.SUSPEND
        materialization = replace(materialization, suspended=suspended)
    table = replace(table, materialization=materialization)
    insert = None if change is MaterializedChange.SUSPEND else _insert(table, query, text)
    if insert is not None and tree.args.get("partition") is not None:
        partition = partition_values(tree.args["partition"], text)
        insert = replace(insert, query=_part_of(query, partition, table), partition=partition)
    return ChangeMaterializedTable(change=change, table=table, insert=insert, span=text.span)


def _part_of(query: exp.Expr, partition: tuple[tuple[str, str], ...], table: Table) -> exp.Query:
    """The rows of a query that belong into a partition."""
    conditions = []
    for name, value in partition:
        if name not in table.partition_keys:
            keys = ", ".join(table.partition_keys)
            raise DefinitionError(
                f"'{name}' is no partition column of {table.identifier}",
                hint=f"it is PARTITIONED BY ({keys})" if keys else "it has none",
            )
        kind = exp.DataType.build(str(table.schema.column(name).type), dialect="flink")
        column = exp.column(exp.to_identifier(name, quoted=True))
        literal = exp.Cast(this=exp.Literal.string(value), to=kind)
        conditions.append(exp.EQ(this=column, expression=literal))
    assert isinstance(query, exp.Query), "VALUES have no partitions"
    whole = query.subquery("q", copy=True)
    return exp.select("*").from_(whole, copy=False).where(*conditions, copy=False)


def _insert(table: Table, query: exp.Expr, text: StatementText) -> InsertInto:
    assert table.materialization is not None, "the table is a materialized one"
    assert isinstance(query, exp.Query | exp.Values), "the parser asks for a query"
    return InsertInto(
        target=table.identifier,
        query=query,
        output=table.schema.names,
        overwrite=table.materialization.refresh_mode is RefreshMode.FULL,
        source=text,
        span=text.span,
    )


def _columns(
    query: exp.Expr, text: StatementText, namespace: Namespace
) -> tuple[PhysicalColumn, ...]:
    """The columns of the query, as the table's. Raises InputErrors, DefinitionError for an unknown type."""
    columns = []
    for name, kind in query_columns(query, namespace):
        if kind is None:
            raise DefinitionError(
                f"the type of the column '{name}' could not be determined",
                hint=f"say it: CAST(... AS type) AS {name}",
                span=text.locate(item_of(query, name)),
            )
        columns.append(PhysicalColumn(name=name, type=kind))
    return tuple(columns)


def _distribution(
    node: DistributionNode | None, columns: Sequence[PhysicalColumn]
) -> TableDistribution | None:
    """The value of DISTRIBUTED. Raises InputErrors for a column that the query has not."""
    if node is None:
        return None
    builder = TableBuilder(where=node, nodes={column.name: node for column in columns})
    found = read_distribution(node, builder)
    if builder.errors:
        raise InputErrors(builder.errors)
    return found


def _key(schema: exp.Schema, names: list[str], text: StatementText) -> PrimaryKey | None:
    key = None
    for element in schema.expressions:
        named = element.this.name if isinstance(element, exp.Constraint) else None
        found = element.expressions[0] if isinstance(element, exp.Constraint) else element
        if not isinstance(found, exp.PrimaryKey):
            raise UnsupportedError(
                "columns of a materialized table are not declared",
                hint="they are the query's; a PRIMARY KEY (...) NOT ENFORCED may stand here",
                span=text.locate(element),
            )
        if key is not None:
            raise DefinitionError("a table has one PRIMARY KEY", span=text.locate(element))
        for part in found.expressions:
            if part.name not in names:
                raise UnknownObjectError(
                    f"PRIMARY KEY: the query has no column '{part.name}'",
                    hint=f"it has {', '.join(names)}",
                    span=text.locate(part),
                )
        key = PrimaryKey(columns=tuple(part.name for part in found.expressions), name=named)
    return key


def _materialization(tree: exp.Expr, query: str, text: StatementText) -> Materialization:
    freshness, mode = tree.args.get("freshness"), tree.args.get("mode")
    freshness_ms = None
    if freshness is not None:
        value = interval_value(freshness)
        if value.year_month:
            raise DefinitionError(
                "FRESHNESS is a time of SECOND, MINUTE, HOUR or DAY", span=text.locate(freshness)
            )
        freshness_ms = value.millis
    try:
        return Materialization(
            query=query,
            freshness_ms=freshness_ms,
            mode=None if mode is None else RefreshMode(mode.name),
        )
    except InputError as error:
        error.span = text.locate(freshness) if freshness is not None else text.span
        raise


def _with_full_names(query: exp.Expr, namespace: Namespace) -> str:
    """The query's text with its tables by their full names: a later USE does not change what it reads."""
    full = query.copy()
    for table in named_tables(full):
        found: Identifier = namespace.resolve(tuple(part.name for part in table.parts))
        for part, word in (
            ("catalog", found.catalog),
            ("db", found.database),
            ("this", found.name),
        ):
            table.set(part, exp.Identifier(this=word, quoted=True))
    return to_text(full)


def _check_free(
    table: Table, tree: exp.Expr, name: exp.Expr, text: StatementText, namespace: Namespace
) -> None:
    """Return whether the name is free, or that of an object that OR ALTER may change."""
    try:
        found = namespace.lookup(table.identifier)
    except UnknownObjectError:
        return
    if not tree.args.get("alter"):
        raise ObjectExistsError(
            f"there is a {'view' if isinstance(found, View) else 'table'} {table.identifier} already",
            hint="CREATE OR ALTER MATERIALIZED TABLE changes one that exists: write that in a file "
            "that is run again",
            span=text.locate(name),
        )
    _found(name, text, namespace)


def _found(
    node: exp.Expr, text: StatementText, namespace: Namespace
) -> tuple[Table, Materialization]:
    """The materialized table of a name. Raises UnknownObjectError, DefinitionError."""
    identifier = identifier_of(node, text, namespace)
    found = find_object(identifier, node, text, namespace)
    if isinstance(found, View) or found.materialization is None:
        kind = "view" if isinstance(found, View) else "table"
        raise DefinitionError(
            f"{identifier} is a {kind}, not a materialized table", span=text.locate(node)
        )
    return found, found.materialization
