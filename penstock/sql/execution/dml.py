"""Runs UPDATE, DELETE, TRUNCATE and CALL: bounded statements that change a table in place, or ask Spark to."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.table import Schema, Table
from penstock.connector.capabilities import RowLevelEditor, TableEditor
from penstock.connector.registry import connector_of
from penstock.sql.dialect.spark.casts import at_precision
from penstock.sql.execution.ddl import Listing
from penstock.sql.expressions.expression import to_spark
from penstock.sql.statements.definitions import CallProcedure
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.sql.execution.context import SessionContext


Change = UpdateRows | DeleteRows | TruncateTable | CallProcedure


def check_change(statement: Change, namespace: Namespace, project: Path) -> None:
    """Check without a JVM that the table can be changed so. Raises InputError with the statement's place."""
    match statement:
        case CallProcedure(name=name):
            if name.split(".")[0] in namespace.catalogs():
                raise UnsupportedError(
                    f"there is no procedure {name}: catalogs of Penstock have none",
                    hint="CALL runs the procedures of Spark's own catalogs (spark.sql.catalog.<name>)",
                    span=statement.span,
                )
        case TruncateTable():
            editor_of(_table(statement, namespace), project, "emptied")
        case UpdateRows() | DeleteRows():
            table = _table(statement, namespace)
            _row_editor(table, project)
            if isinstance(statement, UpdateRows):
                _check_key(statement, table)
        case _:
            assert_never(statement)


def run_change(statement: Change, context: SessionContext) -> Listing | None:
    """Run the statement, to its end. Returns the number of rows of UPDATE and DELETE, and the result of a procedure."""
    if isinstance(statement, CallProcedure):
        return _call(statement, context)
    table = _table(statement, context.namespace)
    spark = context.spark()
    alias = table.identifier.name
    match statement:
        case TruncateTable():
            from penstock.sql.clock import SystemClock
            from penstock.sql.jobs.lease import table_lease

            # an INSERT .. VALUES or INSERT OVERWRITE at the same time would leave a part of its rows
            with table_lease(context.leases, str(table.identifier), SystemClock()):
                editor_of(table, context.project, "emptied").truncate(spark)
            return None
        case DeleteRows(condition=condition):
            sql = None if condition is None else to_spark(condition, table.schema)
            return _rows(_row_editor(table, context.project).delete(spark, alias, sql))
        case UpdateRows(condition=condition):
            sql = None if condition is None else to_spark(condition, table.schema)
            values = _values(statement, table.schema)
            editor = _row_editor(table, context.project)
            return _rows(editor.update(spark, alias, values, sql))
        case _:
            assert_never(statement)


def editor_of(table: Table, project: Path, what: str) -> TableEditor:
    """Return the editor of a table. Raises UnsupportedError for a connector without one; `what` is
    the change in words.
    """
    connector = connector_of(table, project=project)
    editor = connector.editor(table)
    if editor is not None:
        return editor
    raise UnsupportedError(
        f"{table.identifier}: tables of the connector '{connector.name}' cannot be {what}",
        hint="tables of delta and filesystem can be overwritten and emptied, rows of delta tables changed",
    )


def _row_editor(table: Table, project: Path) -> RowLevelEditor:
    editor = editor_of(table, project, "changed").row_level
    if editor is not None:
        return editor
    raise UnsupportedError(
        f"{table.identifier}: rows of the connector '{table.connector}' cannot be changed",
        hint="rows of delta tables can; rewrite these with INSERT OVERWRITE",
    )


def _table(statement: UpdateRows | DeleteRows | TruncateTable, namespace: Namespace) -> Table:
    table = namespace.lookup(statement.table)
    assert isinstance(table, Table), "views were refused where the statement was read"
    return table


def _check_key(statement: UpdateRows, table: Table) -> None:
    key = table.schema.primary_key
    for name, _ in statement.assignments:
        if key is not None and name in key.columns:
            raise DefinitionError(
                f"'{name}' is a part of the PRIMARY KEY of {table.identifier}: it cannot be set",
                hint="two rows could get the same key; DELETE the rows and INSERT them with their new key",
                span=statement.span,
            )


def _values(statement: UpdateRows, schema: Schema) -> dict[str, str]:
    from penstock.connector.spark.types import spark_type

    values = {}
    for name, tree in statement.assignments:
        kind = schema.column(name).type
        assert kind is not None, "a stored column has a type"
        cast = f"CAST({to_spark(tree, schema)} AS {spark_type(kind).simpleString()})"
        values[name] = at_precision(cast, kind)
    return values


def _rows(count: int) -> Listing:
    return Listing(columns=("rows",), rows=((str(count),),))


def _call(statement: CallProcedure, context: SessionContext) -> Listing | None:
    from pyspark.errors import AnalysisException

    from penstock.sql.errors.spark import as_input_error

    try:
        frame = context.spark().sql(statement.call)
    except AnalysisException as error:
        failure = as_input_error(error)
        failure.span = statement.span
        raise failure from error
    rows = tuple(
        tuple(None if value is None else str(value) for value in row) for row in frame.collect()
    )
    return Listing(columns=tuple(frame.columns), rows=rows) if frame.columns else None
