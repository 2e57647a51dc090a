"""Convert INSERT: the target and its columns, PARTITION, the query; check that its columns and types fit the
target.

Flink allows implicit casts (LogicalTypeCasts.supportsImplicitCast) and refuses the rest before the job starts.
Here only kinds are distinguished: a text is no number, a number no time; within a kind the value is cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    Schema,
    Table,
    View,
)
from penstock.connector.options.legacy import translate_legacy_options
from penstock.sql.binding.binder import check_hints, data_type, forget_types
from penstock.sql.binding.checked_query import Output
from penstock.sql.convert.names import check_output, find_object, identifier_of
from penstock.sql.dialect.flink.trees import table_options, to_text
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.dml import Conflict, ConflictAction, InsertInto
from penstock.sql.syntax.positions import attach

__all__ = ["add_columns", "convert_insert", "fixed_partition", "partition_errors", "type_errors"]


def fixed_partition(tree: exp.Expr) -> dict[str, exp.Literal]:
    """The partition columns for which the statement has a value, in its order."""
    spec = tree.args.get("partition")
    parts: list[exp.Expr] = spec.expressions if spec is not None else []
    values = {p.this.name: p.args["value"] for p in parts if isinstance(p, exp.Property)}
    return {name: value for name, value in values.items() if isinstance(value, exp.Literal)}


def partition_errors(
    tree: exp.Expr, target: Table, listed: Sequence[exp.Expr], text: StatementText
) -> list[InputError]:
    """What is wrong with the PARTITION clause of an INSERT into `target`."""
    spec = tree.args.get("partition")
    if spec is None:
        return []
    errors: list[InputError] = []
    keys, seen = target.partition_keys, set[str]()
    listed_names = {column.name for column in listed}
    for part in spec.expressions:
        name = part.this.name if isinstance(part, exp.Property) else part.name
        span = text.locate(part)
        value = part.args.get("value") if isinstance(part, exp.Property) else None
        if name not in keys:
            what = f"'{name}' is no partition column of {target.identifier}"
            hint = did_you_mean(name, keys)
            if hint is None:
                hint = f"it is PARTITIONED BY ({', '.join(keys)})" if keys else "it has none"
            errors.append(UnknownObjectError(what, hint=hint, span=span))
        elif name in seen or (value is not None and name in listed_names):
            errors.append(DefinitionError(f"the column '{name}' is named twice", span=span))
        elif value is None:
            hint = (
                "give it a value, or leave it out and let the query give it: its columns come last"
            )
            errors.append(DefinitionError(f"'{name}' has no value", hint=hint, span=span))
        elif not isinstance(value, exp.Literal):
            hint = f"write {name} = 'value'"
            errors.append(DefinitionError("a partition has a plain value", hint=hint, span=span))
        seen.add(name)
    return errors


def add_columns(query: exp.Expr, values: Sequence[exp.Expr]) -> None:
    """Add constant columns behind those of a query, in each of its branches."""
    match query:
        case exp.Values():
            for row in query.expressions:
                for value in values:
                    row.append("expressions", value.copy())
        case exp.SetOperation():
            add_columns(query.this, values)
            add_columns(query.expression, values)
        case exp.Subquery():
            add_columns(query.this, values)
        case _:
            for index, value in enumerate(values):
                query.append("expressions", exp.alias_(value.copy(), f"_partition_{index}"))


D = exp.DType

TIMES = (D.DATE, D.TIME, D.TIMESTAMP, D.TIMESTAMPNTZ, D.TIMESTAMPLTZ)

KINDS: Mapping[exp.DType, str] = {
    **dict.fromkeys((D.CHAR, D.VARCHAR, D.TEXT), "text"),
    **dict.fromkeys((D.BINARY, D.VARBINARY), "bytes"),
    **dict.fromkeys((D.TINYINT, D.SMALLINT, D.INT, D.BIGINT), "number"),
    **dict.fromkeys((D.DECIMAL, D.FLOAT, D.DOUBLE), "number"),
    **dict.fromkeys(TIMES, "time"),
    D.BOOLEAN: "boolean",
    D.ARRAY: "array",
    D.MAP: "map",
    D.STRUCT: "row",
}
"""Of the distinguished types; nothing is said of others."""


def type_errors(
    query: exp.Expr,
    output: Output | None,
    columns: Sequence[str],
    target: Table,
    text: StatementText,
) -> Iterator[InputError]:
    """An error for each value of another kind than the column that it goes into; `columns` are in the query's order."""
    for number, name in enumerate(columns):
        wanted = target.schema.column(name).type
        if wanted is None:
            continue
        kind = KINDS.get(data_type(str(wanted)).this)
        for node, given in _given(query, output, number):
            if kind is None or KINDS.get(given.this, kind) == kind:
                continue
            yield DefinitionError(
                f"the column '{name}' of {target.identifier} is {wanted}, and gets {to_text(given)}",
                hint=f"write CAST(... AS {wanted}); or name the columns in the order of their values, "
                "INSERT INTO t (a, b) ...",
                span=text.locate(node),
            )


def _given(
    query: exp.Expr, output: Output | None, number: int
) -> Iterator[tuple[exp.Expr, exp.DataType]]:
    """What is given for a column, with its type where that is known: by the query, or by each row of VALUES."""
    if isinstance(query, exp.Values):
        items = [row.expressions[number] for row in query.expressions]
        yield from ((item, item.type) for item in items if isinstance(item.type, exp.DataType))
        return
    kind = None if output is None else output[number][1]
    if kind is None:
        return
    selects = query.selects if isinstance(query, exp.Select) else []
    plain = len(selects) == len(output or ()) and not any(item.is_star for item in selects)
    yield selects[number] if plain else query, kind


def convert_insert(tree: exp.Expr, text: StatementText, namespace: Namespace) -> InsertInto:
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
        options=tuple(translate_legacy_options(table_options(name)).options.items()),
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
