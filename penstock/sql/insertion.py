"""INSERT: the target and its columns, the query and what it gives, and whether the two fit."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.schema import ComputedColumn, MetadataColumn, PhysicalColumn, Schema
from penstock.catalog.table import Table, View
from penstock.connector.older_options import translated
from penstock.sql.bind import check_hints, forget_types
from penstock.sql.checking import Output
from penstock.sql.dialect.access import table_options
from penstock.sql.insert_partition import add_columns, fixed_partition, partition_errors
from penstock.sql.lookup import check_output, find_object, identifier_of
from penstock.sql.positions import attach
from penstock.sql.script import StatementText
from penstock.sql.sink_types import type_errors
from penstock.sql.statements import Conflict, ConflictAction, InsertInto

__all__ = ["lower_insert"]


def lower_insert(tree: exp.Expr, text: StatementText, namespace: Namespace) -> InsertInto:
    """The value of an INSERT. Raises InputErrors with all that is wrong in it."""
    listed: Sequence[exp.Expr] = tree.this.expressions if isinstance(tree.this, exp.Schema) else ()
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    query = attach(tree.expression.pop(), text.source)
    errors: list[InputError] = []
    identifier = identifier_of(name, text, namespace)
    target: Table | View | None = None
    try:
        target = find_object(identifier, name, text, namespace)
        check_hints(name, target)
    except InputError as error:
        errors.append(error)
    if isinstance(target, View):
        message = f"{identifier} is a view; rows go into tables only"
        errors.append(UnsupportedError(message, span=text.locate(name)))
    elif target is not None:
        if target.materialization is not None:
            errors.append(_materialized_error(target, name, text))
        errors += _column_list_errors(listed, target.schema, text)
        errors += partition_errors(tree, target, listed, text)
        errors += _conflict_errors(tree, target, text)
    typed: Output | None = None
    try:
        typed = check_output(query, namespace)
    except InputErrors as found:
        errors += found.errors
    output = None if typed is None else tuple(name for name, _ in typed)
    columns = tuple(column.name for column in listed)
    fixed = fixed_partition(tree)
    if not errors and isinstance(target, Table):
        if fixed:
            columns = columns or tuple(n for n in _writable(target.schema) if n not in fixed)
        takes = columns or _writable(target.schema)
        errors += _count_errors(query, output, takes, identifier, text) or type_errors(
            query, typed, takes, target, text
        )
    if errors:
        raise InputErrors(errors)
    if fixed:
        add_columns(query, tuple(fixed.values()))
        forget_types(query)
        columns = (*columns, *fixed)
        output = None if output is None else (*output, *fixed)
    return InsertInto(
        target=identifier,
        columns=columns,
        query=query,
        options=tuple(translated(table_options(name)).options.items()),
        output=output,
        overwrite=bool(tree.args.get("overwrite")),
        partition=tuple((name, value.name) for name, value in fixed.items()),
        conflict=_conflict(tree, text),
        source=text,
        span=text.span,
    )


def _materialized_error(target: Table, node: exp.Expr, text: StatementText) -> InputError:
    return UnsupportedError(
        f"{target.identifier} is a materialized table; its rows are its query's",
        hint="change its query, or write into a table of its own",
        span=text.locate(node),
    )


def _conflict(tree: exp.Expr, text: StatementText) -> Conflict | None:
    node = tree.args.get("conflict")
    if node is None:
        return None
    return Conflict(action=ConflictAction(node.name.upper()), span=text.locate(node))


def _conflict_errors(tree: exp.Expr, target: Table, text: StatementText) -> list[InputError]:
    """ON CONFLICT of what has no key, or is replaced; whether the sink can do it the planner finds out."""
    conflict = _conflict(tree, text)
    if conflict is None:
        return []
    words = f"ON CONFLICT {conflict.action}"
    if tree.args.get("overwrite"):
        message = f"{words} is not supported with INSERT OVERWRITE, which replaces all rows"
        return [UnsupportedError(message, hint="write INSERT INTO", span=conflict.span)]
    if target.schema.primary_key is None:
        return [
            DefinitionError(
                f"{words}: {target.identifier} has no PRIMARY KEY, by which rows could be in conflict",
                hint="leave it out, or add PRIMARY KEY (...) NOT ENFORCED to the table",
                span=conflict.span,
            )
        ]
    return []


def _writable(schema: Schema) -> tuple[str, ...]:
    """The columns that an INSERT fills: physical ones, and metadata columns that are not virtual."""
    return tuple(
        column.name
        for column in schema.columns
        if isinstance(column, PhysicalColumn)
        or (isinstance(column, MetadataColumn) and not column.virtual)
    )


def _column_list_errors(
    listed: Sequence[exp.Expr], schema: Schema, text: StatementText
) -> list[InputError]:
    errors: list[InputError] = []
    names, writable = list(schema.names), _writable(schema)
    seen: set[str] = set()
    for column in listed:
        span = text.locate(column)
        if column.name not in names:
            hint = did_you_mean(column.name, writable) or f"columns are: {', '.join(writable)}"
            errors.append(
                UnknownObjectError(f"there is no column '{column.name}'", hint=hint, span=span)
            )
        elif column.name not in writable:
            computed = isinstance(schema.column(column.name), ComputedColumn)
            what = "computed" if computed else "a virtual metadata column"
            message = f"'{column.name}' is {what}: nothing can be written to it"
            errors.append(DefinitionError(message, span=span))
        elif column.name in seen:
            errors.append(DefinitionError(f"the column '{column.name}' is named twice", span=span))
        seen.add(column.name)
    return errors


def _count_errors(
    query: exp.Expr,
    output: tuple[str, ...] | None,
    columns: tuple[str, ...],
    target: Identifier,
    text: StatementText,
) -> list[InputError]:
    rows = query.expressions if isinstance(query, exp.Values) else []
    wrong = next((row for row in rows if len(row.expressions) != len(columns)), None)
    given = len(wrong.expressions) if wrong is not None else len(output or columns)
    if given == len(columns):
        return []
    what = "this row" if wrong is not None else f"the query ({', '.join(output or ())})"
    return [
        DefinitionError(
            f"{what} has {given} column{'s' if given != 1 else ''}, "
            f"{target} takes {len(columns)} ({', '.join(columns)})",
            hint="name the columns that are filled: INSERT INTO t (a, b) SELECT ...",
            span=text.locate(wrong if wrong is not None else query),
        )
    ]
