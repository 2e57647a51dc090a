"""Convert INSERT, UPDATE, DELETE, TRUNCATE, ANALYZE and CALL: from the syntax tree to the statement.

Of an INSERT the target, its columns, PARTITION and the types of the query are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from penstock.sql.convert.names import check_output, check_query, find_object, identifier_of
from penstock.sql.dialect.flink.trees import table_options, to_text
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import CallProcedure
from penstock.sql.statements.dml import (
    Conflict,
    ConflictAction,
    DeleteRows,
    InsertInto,
    TruncateTable,
    UpdateRows,
)
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import attach


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
        for node, value in _written_values(query, output, number):
            if kind is None or KINDS.get(value.this, kind) == kind:
                continue
            yield DefinitionError(
                f"the column '{name}' of {target.identifier} is {wanted}, and gets {to_text(value)}",
                hint=f"write CAST(... AS {wanted}); or name the columns in the order of their values, "
                "INSERT INTO t (a, b) ...",
                span=text.locate(node),
            )


def _written_values(
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
    count = len(wrong.expressions) if wrong is not None else len(output or columns)
    if count == len(columns):
        return []
    what = "this row" if wrong is not None else f"the query ({', '.join(output or ())})"
    return [
        DefinitionError(
            f"{what} has {count} column{'s' if count != 1 else ''}, "
            f"{target} takes {len(columns)} ({', '.join(columns)})",
            hint="name the columns that are filled: INSERT INTO t (a, b) SELECT ...",
            span=text.locate(wrong if wrong is not None else query),
        )
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
