"""UPDATE, DELETE, TRUNCATE and CALL: from the syntax tree to the statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.table import PhysicalColumn, Table, View
from penstock.sql.convert.names import check_query, find_object, identifier_of
from penstock.sql.dialect.flink.trees import table_options
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.changes import CallProcedure
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import attach

__all__ = [
    "convert_analyze",
    "convert_call",
    "convert_delete",
    "convert_truncate",
    "convert_update",
]


def convert_update(tree: exp.Expr, text: StatementText, namespace: Namespace) -> UpdateRows:
    """The value of an UPDATE. Raises InputErrors with all that is wrong in it."""
    table = _table(tree.this, text, namespace)
    errors: list[InputError] = []
    seen: set[str] = set()
    for change in tree.expressions:
        error = _column_error(change.this, table, seen, text)
        errors += [error] if error is not None else []
        seen.add(change.this.name)
    if errors:
        raise InputErrors(errors)
    where = tree.args.get("where")
    values, condition = _checked(
        tree.this, [c.expression for c in tree.expressions], where, text, namespace
    )
    names = [change.this.name for change in tree.expressions]
    return UpdateRows(
        table=table.identifier,
        assignments=tuple(zip(names, values, strict=True)),
        condition=condition,
        span=text.span,
    )


def convert_delete(tree: exp.Expr, text: StatementText, namespace: Namespace) -> DeleteRows:
    """The value of a DELETE. Raises InputErrors with all that is wrong in it."""
    table = _table(tree.this, text, namespace)
    _, condition = _checked(tree.this, [], tree.args.get("where"), text, namespace)
    return DeleteRows(table=table.identifier, condition=condition, span=text.span)


def convert_truncate(tree: exp.Expr, text: StatementText, namespace: Namespace) -> TruncateTable:
    """The value of TRUNCATE TABLE. Raises InputError."""
    table = _table(tree.expressions[0], text, namespace)
    return TruncateTable(table=table.identifier, span=text.span)


def convert_analyze(tree: exp.Expr, text: StatementText, namespace: Namespace) -> NoReturn:
    """Refuse ANALYZE TABLE. Raises UnsupportedError, or what is wrong with its names before that."""
    table = _table(tree.this, text, namespace)
    physical = tuple(column.name for column in table.schema.physical)
    for node in tree.args.get("columns") or []:
        if node.name not in physical:
            hint = did_you_mean(node.name, physical) or f"columns are: {', '.join(physical)}"
            raise UnknownObjectError(
                f"there is no column '{node.name}'", hint=hint, span=text.locate(node)
            )
    raise UnsupportedError(
        "ANALYZE TABLE is not supported",
        hint="leave it out: Delta keeps statistics of each file as it writes it, and Spark computes none of tables "
        "that are known by their path",
        span=text.span,
    )


def convert_call(tree: exp.Expr, text: StatementText, _: Namespace) -> CallProcedure:
    """The value of a CALL. Raises UnsupportedError for an argument that Spark cannot be given."""
    parts = [part.name for part in tree.this.parts]
    if len(parts) < 2:
        raise DefinitionError(
            f"'{parts[0]}' is no name of a procedure",
            hint="procedures are Spark's, of one of its catalogs: CALL catalog.database.procedure(...)",
            span=text.locate(tree.this),
        )
    arguments = []
    for argument in tree.expressions:
        named = isinstance(argument, exp.Kwarg)
        value = argument.expression if named else argument
        try:
            sql = write_spark(value)
        except NodeError as error:
            span = text.locate(error.node)
            raise UnsupportedError(error.message, hint=error.hint, span=span) from None
        arguments.append(f"{argument.this.name} => {sql}" if named else sql)
    name = ".".join(quoted(part) for part in parts)
    return CallProcedure(
        name=".".join(parts), call=f"CALL {name}({', '.join(arguments)})", span=text.span
    )


def _table(node: exp.Expr, text: StatementText, namespace: Namespace) -> Table:
    identifier: Identifier = identifier_of(node, text, namespace)
    if table_options(node):  # type: ignore[arg-type]
        raise UnsupportedError(
            "OPTIONS are for tables that are read, or that INSERT writes",
            hint="leave the hint out",
            span=text.locate(node),
        )
    found = find_object(identifier, node, text, namespace)
    if isinstance(found, Table) and found.materialization is None:
        return found
    kind = "view" if isinstance(found, View) else "materialized table"
    raise UnsupportedError(
        f"{identifier} is a {kind}; rows are changed in tables only", span=text.locate(node)
    )


def _column_error(
    node: exp.Expr, table: Table, seen: set[str], text: StatementText
) -> InputError | None:
    span, names = text.locate(node), [c.name for c in table.schema.physical]
    if node.name in seen:
        return DefinitionError(f"the column '{node.name}' is set twice", span=span)
    if node.name not in table.schema.names:
        hint = did_you_mean(node.name, names) or f"columns are: {', '.join(names)}"
        return UnknownObjectError(f"there is no column '{node.name}'", hint=hint, span=span)
    if not isinstance(table.schema.column(node.name), PhysicalColumn):
        return DefinitionError(
            f"'{node.name}' is not stored in the table: it cannot be set", span=span
        )
    return None


def _checked(
    table: exp.Expr,
    values: Sequence[exp.Expr],
    where: exp.Expr | None,
    text: StatementText,
    namespace: Namespace,
) -> tuple[tuple[exp.Expr, ...], exp.Expr | None]:
    """Check expressions over a table by the query that reads them from it; they come back with their types."""
    parts = [*values, *([where.this] if where is not None else [])]
    for part in parts:
        for node in part.find_all(exp.Query, exp.AggFunc, exp.Window):
            raise UnsupportedError(
                "only values of the row itself can be used here",
                hint="read other tables in a query first: INSERT OVERWRITE ... SELECT",
                span=text.locate(node),
            )
    items = [exp.alias_(value.copy(), f"v{i}") for i, value in enumerate(values)]
    query = exp.select(*(items or [exp.Literal.number(1)])).from_(table.copy(), copy=False)
    if where is not None:
        query.set("where", where.copy())
    check_query(attach(query, text.source), namespace)
    typed = tuple(item.this for item in query.expressions[: len(values)])
    return typed, query.args["where"].this if where is not None else None
