"""Convert CREATE, ALTER and DROP of tables and views, and CREATE TABLE ... AS with the INSERT that fills the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Column, MetadataColumn, PhysicalColumn, Table, View
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType
from penstock.sql.binding.binder import bind_query
from penstock.sql.convert.alter_table import convert_alter_table, renamed
from penstock.sql.convert.names import (
    check_views,
    find_object,
    identifier_of,
    resolve_table_location,
    stands_on,
)
from penstock.sql.convert.namespaces import (
    convert_alter_namespace,
    convert_create_namespace,
    convert_drop_namespace,
)
from penstock.sql.convert.table_builder import TableBuilder
from penstock.sql.convert.table_definition import (
    build_table,
    column_spans,
    define_table,
    define_view,
    has_property,
    option_spans,
    view_query,
)
from penstock.sql.ddl.apply_ddl import validated_on_overlay
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import AlterView
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    CreateView,
    DropTable,
    DropView,
    ReplaceTableAs,
    Statement,
)
from penstock.sql.syntax.nodes import ReplaceTable
from penstock.sql.syntax.positions import attach, span_of


def query_columns(
    query: exp.Expr, namespace: Namespace
) -> tuple[tuple[str, LogicalType | None], ...]:
    """Name and type of each column; None for an unknown type.

    Raises InputErrors with all errors of the query, DefinitionError where its columns are unknown or two have one
    name.
    """
    bound = bind_query(query, namespace)
    if bound.errors:
        raise InputErrors(bound.errors)
    if bound.output is None:
        raise DefinitionError(
            "the columns of the query cannot be determined",
            hint="name them: SELECT a AS x, b AS y FROM ...",
            span=span_of(query),
        )
    names = [name for name, _ in bound.output]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise DefinitionError(
                f"the query has two columns named '{name}'",
                hint="rename them: SELECT ... AS name",
                span=span_of(item_of(query, name)),
            )
    written = list(_written_out(query, len(names)))
    return tuple(
        (name, _sure(kind, written=written[index]))
        for index, (name, kind) in enumerate(bound.output)
    )


def item_of(query: exp.Expr, name: str) -> exp.Expr:
    """The value that a query selects under a name, the last of several; the query itself where that is unknown."""
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
    """Return whether each column is, in every SELECT, a column or a CAST as it stands."""
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


def convert_create_as(tree: exp.Create, text: StatementText, namespace: Namespace) -> Statement:
    """The value of CREATE TABLE ... AS and [CREATE OR] REPLACE TABLE ... AS. Raises InputErrors."""
    name = tree.this.this
    identifier = identifier_of(name, text, namespace)
    if has_property(tree, exp.TemporaryProperty):
        raise UnsupportedError(
            "CREATE TEMPORARY TABLE ... AS is not supported, nor is it in Flink",
            hint="create the table, then INSERT INTO it",
            span=text.span,
        )
    query = attach(tree.expression, text.source)
    tree.set("expression", None)
    columns = query_columns(query, namespace)
    create = CreateTable(
        table=resolve_table_location(
            _table(tree, query, columns, identifier), name, text, namespace
        ),
        if_not_exists=bool(tree.args.get("exists")),
        option_spans=option_spans(tree, text),
        column_spans=column_spans(tree, text),
        span=text.span,
    )
    before = _found(identifier, name, text, namespace)
    insert = _insert(identifier, query, columns, text)
    if not tree.args.get("replace"):
        _check_filled(before, create, insert, name, text)
        made = CreateTableAs(create=create, insert=insert, span=text.span)
        return validated_on_overlay(made, name, text, namespace)
    if before is None and isinstance(tree, ReplaceTable):
        raise UnknownObjectError(
            f"there is no table {identifier} to replace",
            hint="CREATE OR REPLACE TABLE makes it where it is missing",
            span=text.locate(name),
        )
    if stands_on(to_text(query), identifier, namespace):
        raise UnsupportedError(
            f"the query reads {identifier}, which is replaced before it runs",
            hint="CREATE TABLE another ... AS, or INSERT OVERWRITE this one",
            span=text.locate(query),
        )
    whole = replace(insert, overwrite=True, replaces=True)
    replaced = ReplaceTableAs(before=before, create=create, insert=whole, span=text.span)
    return validated_on_overlay(replaced, name, text, namespace)


def _found(
    identifier: Identifier, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table | None:
    """The table that has the name already. Raises DefinitionError for a view."""
    try:
        found = namespace.lookup(identifier)
    except UnknownObjectError:
        return None
    if isinstance(found, View):
        raise DefinitionError(
            f"{identifier} is a view", hint="choose another name", span=text.locate(node)
        )
    if found.temporary:
        raise DefinitionError(
            f"there is a temporary table {identifier}, which would hide this one",
            hint=f"DROP TEMPORARY TABLE {identifier} first",
            span=text.locate(node),
        )
    if found.materialization is not None:
        raise DefinitionError(
            f"{identifier} is a materialized table",
            hint="choose another name, or CREATE OR ALTER MATERIALIZED TABLE",
            span=text.locate(node),
        )
    return found


def _insert(
    identifier: Identifier,
    query: exp.Expr,
    columns: tuple[tuple[str, LogicalType | None], ...],
    text: StatementText,
) -> InsertInto:
    assert isinstance(query, exp.Query | exp.Values), "the parser asks for a query"
    names = tuple(name for name, _ in columns)
    return InsertInto(
        target=identifier,
        columns=names,
        query=query,
        output=names,
        source=text,
        span=text.span,
    )


def _check_filled(
    before: Table | None,
    create: CreateTable,
    insert: InsertInto,
    node: exp.Expr,
    text: StatementText,
) -> None:
    """Check that an existing table (IF NOT EXISTS) has the query's columns. Raises DefinitionError."""
    if before is None or not create.if_not_exists:
        return
    writable = [c.name for c in before.schema.columns if _is_written(c)]
    missing = [name for name in insert.columns if name not in writable]
    if missing:
        raise DefinitionError(
            f"there is a table {before.identifier} already, which has no column '{missing[0]}' to fill",
            hint=f"it has {', '.join(writable)}; choose another name, or drop it",
            span=text.locate(node),
        )


def _is_written(column: Column) -> bool:
    return isinstance(column, PhysicalColumn) or (
        isinstance(column, MetadataColumn) and not column.virtual
    )


# --- the table ---


def _table(
    tree: exp.Create,
    query: exp.Expr,
    columns: tuple[tuple[str, LogicalType | None], ...],
    identifier: Identifier,
) -> Table:
    elements: list[exp.Expr] = tree.this.expressions
    builder = TableBuilder(where=tree.this.this)
    if elements and isinstance(elements[0], exp.Identifier):
        columns = _in_order(elements, columns, builder)
        elements = []
    types = dict(columns)
    for element in elements:
        if not isinstance(element, exp.ColumnDef):
            builder.read_rule(element)
        elif element.this.name in builder.nodes:
            message = f"the column '{element.this.name}' is declared twice"
            builder.add(DefinitionError(message), element.this)
        elif column := builder.read_column(element):
            _check_declared(element, column, types, builder)
            builder.put(column, element.this)
    declared = {column.name: column for column in builder.columns}
    for name, kind in columns:
        node = builder.nodes.get(name, query)
        if name in declared:
            builder.put(declared[name], node, len(builder.columns) - 1)
        elif kind is None:
            builder.add(_unsure(name), item_of(query, name))
        else:
            builder.put(PhysicalColumn(name=name, type=kind), node)
    return build_table(tree, identifier, builder)


def _check_declared(
    node: exp.ColumnDef,
    column: Column,
    types: dict[str, LogicalType | None],
    builder: TableBuilder,
) -> None:
    """Check that a declared column can stand beside those of the query."""
    if column.name in types:
        if not isinstance(column, PhysicalColumn):
            builder.add(
                DefinitionError(
                    f"the query has a column '{column.name}' too",
                    hint="computed and metadata columns are not filled: rename one of the two",
                ),
                node.this,
            )
    elif isinstance(column, PhysicalColumn) and not column.type.nullable:
        builder.add(
            DefinitionError(
                f"the query does not fill '{column.name}', which is NOT NULL",
                hint="leave NOT NULL out, or select a column of that name",
            ),
            node.this,
        )


def _in_order(
    names: list[exp.Expr],
    columns: tuple[tuple[str, LogicalType | None], ...],
    builder: TableBuilder,
) -> tuple[tuple[str, LogicalType | None], ...]:
    """The query's columns in the order of a list of names, which has to name each of them once."""
    types, listed = dict(columns), [name.name for name in names]
    for index, name in enumerate(names):
        if name.name not in types:
            hint = did_you_mean(name.name, types) or f"it has {', '.join(types)}"
            message = f"the query has no column '{name.name}'"
            builder.add(UnknownObjectError(message, hint=hint), name)
        elif name.name in listed[:index]:
            builder.add(DefinitionError(f"the column '{name.name}' is named twice"), name)
    left = [name for name in types if name not in listed]
    if left and not builder.errors:
        message = f"the list leaves out the query's column '{left[0]}'"
        builder.add(
            DefinitionError(message, hint="it names all of them, in another order"), names[-1]
        )
    if builder.errors:
        raise InputErrors(builder.errors)
    return tuple((name, types[name]) for name in listed)


def _unsure(name: str) -> DefinitionError:
    return DefinitionError(
        f"the type of the column '{name}' cannot be determined",
        hint=f"write CAST(... AS type) AS {name}, or declare it: CREATE TABLE t ({name} type) ... AS",
    )


def convert_alter_view(tree: exp.Alter, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER VIEW. Raises InputErrors with all that is wrong in it."""
    identifier = identifier_of(tree.this, text, namespace)
    before = find_object(identifier, tree.this, text, namespace)
    (action,) = tree.args["actions"]
    if isinstance(before, Table):
        raise UnknownObjectError(
            f"{identifier} is a table, not a view",
            hint=f"ALTER TABLE {identifier}",
            span=text.locate(tree.this),
        )
    with text.placing(action):
        if isinstance(action, exp.AlterRename):
            after = replace(before, identifier=renamed(identifier, action.this))
        else:
            query = attach(action, text.source)
            # the names of columns that it was created with go, its comment stays, as in Flink
            after = replace(
                before,
                query=view_query(query, [], tree.this, namespace),
                columns=(),
                column_comments=(),
            )
            if stands_on(after.query, identifier, namespace):
                raise DefinitionError(f"the view {identifier} would be defined by itself")
        check_views(before, after, namespace)
    altered = AlterView(before=before, after=after, span=text.span)
    return validated_on_overlay(altered, action, text, namespace)


NAMESPACE_KINDS = ("DATABASE", "CATALOG")


def convert_create(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of CREATE TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Create), "found by its class"
    kind = tree.args["kind"]
    if kind in NAMESPACE_KINDS:
        return convert_create_namespace(tree, text, namespace)
    if kind == "TABLE" and tree.expression:
        return convert_create_as(tree, text, namespace)
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    identifier = identifier_of(name, text, namespace)
    if_not_exists = bool(tree.args.get("exists"))
    statement: CreateTable | CreateView
    if kind == "TABLE":
        statement = CreateTable(
            table=resolve_table_location(
                define_table(tree, identifier, namespace), name, text, namespace
            ),
            if_not_exists=if_not_exists,
            option_spans=option_spans(tree, text),
            column_spans=column_spans(tree, text),
            span=text.span,
        )
    else:
        attach(tree.expression, text.source)
        view = define_view(tree, identifier, namespace)
        statement = CreateView(view=view, if_not_exists=if_not_exists, span=text.span)
    return validated_on_overlay(statement, name, text, namespace)


def convert_alter(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Alter), "found by its class"
    match tree.args["kind"]:
        case "TABLE":
            return convert_alter_table(tree, text, namespace)
        case "VIEW":
            return convert_alter_view(tree, text, namespace)
    return convert_alter_namespace(tree, text, namespace)


def convert_drop(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of DROP TABLE, VIEW, DATABASE or CATALOG. Raises InputError."""
    assert isinstance(tree, exp.Drop), "found by its class"
    if tree.args["kind"] in NAMESPACE_KINDS:
        return convert_drop_namespace(tree, text, namespace)
    name = tree.args["tables"][0]
    kind = DropTable if tree.args["kind"] == "TABLE" else DropView
    dropped = kind(
        identifier=identifier_of(name, text, namespace),
        if_exists=bool(tree.args.get("exists")),
        temporary=bool(tree.args.get("temporary")),
        span=text.span,
    )
    return validated_on_overlay(dropped, name, text, namespace)
