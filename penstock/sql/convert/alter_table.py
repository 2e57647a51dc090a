"""Convert ALTER TABLE: ADD, MODIFY, DROP and RENAME of columns, watermark, key and options, checked on the whole
table.

Flink: AlterSchemaConverter and its neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PrimaryKey,
    Table,
    TableDistribution,
    View,
)
from penstock.connector.options.legacy import translate_legacy_options
from penstock.sql.convert.names import check_views, identifier_of
from penstock.sql.convert.namespaces import changed_options
from penstock.sql.convert.table_builder import TableBuilder
from penstock.sql.convert.table_definition import (
    column_spans,
    option_keys_of,
    read_distribution,
    spans_of_keys,
)
from penstock.sql.ddl.apply_ddl import validated_on_overlay
from penstock.sql.expressions.expression import columns_of
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import AlterTable
from penstock.sql.statements.statement import Statement
from penstock.sql.syntax.nodes import AlterElements
from penstock.sql.syntax.nodes import Distribution as DistributionNode


def add_elements(before: Table, action: AlterElements) -> Table:
    """The table with new parts; none of them may be there yet. Raises InputErrors."""
    builder = _builder_of(before, action)
    distribution = before.distribution
    for element in action.expressions:
        match element:
            case exp.ColumnDef():
                _add_column(element, builder)
            case DistributionNode() if distribution is not None:
                builder.add(_there_already("a distribution", "DISTRIBUTION"), element)
            case DistributionNode():
                distribution = read_distribution(element, builder)
            case exp.WatermarkColumnConstraint() if builder.watermark is not None:
                builder.add(_there_already("a watermark", "WATERMARK"), element)
            case exp.PrimaryKey() | exp.Constraint() if builder.keys:
                builder.add(_there_already("a primary key", "PRIMARY KEY"), element)
            case _:
                builder.read_rule(element)
    return _built(before, builder, distribution)


def modify_elements(before: Table, action: AlterElements) -> Table:
    """The table with other parts in place of those that it has. Raises InputErrors."""
    builder = _builder_of(before, action)
    distribution = before.distribution
    old_keys, seen = list(builder.keys), set[str]()
    for element in action.expressions:
        match element:
            case exp.ColumnDef():
                _modify_column(element, builder, seen)
            case DistributionNode() if distribution is None:
                builder.add(_not_there("distribution", "DISTRIBUTION"), element)
            case DistributionNode():
                distribution = read_distribution(element, builder)
            case exp.WatermarkColumnConstraint() if builder.watermark is None:
                builder.add(_not_there("watermark", "WATERMARK"), element)
            case exp.WatermarkColumnConstraint():
                builder.watermark = element
            case _:
                builder.read_rule(element)
    new_keys = builder.keys[len(old_keys) :]
    if new_keys and not old_keys:
        builder.add(_not_there("primary key", "PRIMARY KEY"), new_keys[0][0])
    builder.keys = new_keys or old_keys
    return _built(before, builder, distribution)


def drop_columns(before: Table, action: exp.Drop) -> Table:
    """The table without some columns, which nothing else may use. Raises InputErrors."""
    builder = TableBuilder(where=action)
    names = [node.name for node in action.expressions]
    left = tuple(column for column in before.schema.columns if column.name not in names)
    for index, node in enumerate(action.expressions):
        if node.name in names[:index]:
            builder.add(DefinitionError(f"the column '{node.name}' is named twice"), node)
        elif _is_known(node, before, builder):
            _check_unused(node, before, left, builder)
    key = before.schema.primary_key
    for node in action.expressions:
        if key is not None and node.name in key.columns:
            builder.add(_in_use(node.name, "the primary key", "DROP PRIMARY KEY first"), node)
    if not left:
        builder.add(DefinitionError("a table has columns: one has to stay"), action)
    builder.raise_errors()
    return replace(before, schema=replace(before.schema, columns=left))


def rename_column(before: Table, action: exp.RenameColumn) -> Table:
    """The table with one column by another name, in its key too. Raises InputErrors."""
    builder = TableBuilder(where=action)
    old, new = action.this.name, action.args["to"]
    if _is_known(action.this, before, builder):
        others = tuple(column for column in before.schema.columns if column.name != old)
        _check_unused(action.this, before, others, builder)
    if new.name in before.schema.names:
        builder.add(DefinitionError(f"there is a column '{new.name}' already"), new)
    builder.raise_errors()
    columns = tuple(_renamed(c, new.name) if c.name == old else c for c in before.schema.columns)
    key = before.schema.primary_key
    if key is not None:
        names = tuple(new.name if name == old else name for name in key.columns)
        key = PrimaryKey(columns=names, name=key.name)
    return replace(before, schema=replace(before.schema, columns=columns, primary_key=key))


# --- parts ---


def _builder_of(before: Table, action: AlterElements) -> TableBuilder:
    builder = TableBuilder(where=action)
    builder.load(before.schema.columns)
    if before.schema.watermark is not None:
        builder.load_watermark(before.schema.watermark)
    if before.schema.primary_key is not None:
        builder.load_key(before.schema.primary_key)
    return builder


def _built(before: Table, builder: TableBuilder, distribution: TableDistribution | None) -> Table:
    return builder.build(
        before.identifier,
        options=before.options,
        partition_keys=before.partition_keys,
        comment=before.comment,
        temporary=before.temporary,
        distribution=distribution,
    )


def _add_column(node: exp.ColumnDef, builder: TableBuilder) -> None:
    if node.this.name in builder.nodes:
        error = DefinitionError(
            f"there is a column '{node.this.name}' already",
            hint="MODIFY changes a column that is there",
        )
        builder.add(error, node.this)
        return
    index = _index(node, builder)
    if column := builder.read_column(node):
        builder.put(column, node.this, index)


def _modify_column(node: exp.ColumnDef, builder: TableBuilder, seen: set[str]) -> None:
    name = node.this.name
    at = builder.index(name)
    if at is None:
        builder.unknown(node.this, "MODIFY")
        return
    if name in seen:
        builder.add(DefinitionError(f"the column '{name}' is named twice"), node.this)
    seen.add(name)
    old = builder.columns[at]
    column = builder.read_column(node)
    if column is None:
        return
    if column.comment is None:
        column = replace(column, comment=old.comment)  # as in Flink: what is not said stays
    index = _index(node, builder)
    # once it is taken out, what stands behind it moves up
    builder.put(column, node.this, index - 1 if index is not None and at < index else index)


def _index(node: exp.ColumnDef, builder: TableBuilder) -> int | None:
    """Where FIRST or AFTER puts a column; None without either."""
    position = node.args.get("position")
    if position is None:
        return None
    if position.this is None:
        return 0
    after = builder.index(position.this.name)
    if after is None:
        builder.unknown(position.this, "AFTER")
        return None
    return after + 1


def _is_known(node: exp.Expr, table: Table, builder: TableBuilder) -> bool:
    names = table.schema.names
    if node.name in names:
        return True
    hint = did_you_mean(node.name, names) or f"columns are: {', '.join(names)}"
    builder.add(UnknownObjectError(f"there is no column '{node.name}'", hint=hint), node)
    return False


def _check_unused(
    node: exp.Expr, table: Table, others: tuple[Column, ...], builder: TableBuilder
) -> None:
    """Record the remaining users of a column (Flink: ReferencesManager)."""
    name, watermark = node.name, table.schema.watermark
    for column in others:
        if isinstance(column, ComputedColumn) and name in columns_of(column.expression):
            user = f"the computed column '{column.name}'"
            builder.add(_in_use(name, user, f"drop '{column.name}' too, or MODIFY it first"), node)
    if name in table.partition_keys:
        builder.add(_in_use(name, "PARTITIONED BY", "a table keeps its partition keys"), node)
    if table.distribution is not None and name in table.distribution.columns:
        builder.add(_in_use(name, "the distribution", "DROP DISTRIBUTION first"), node)
    if watermark is not None and name in {watermark.column} | columns_of(watermark.expression):
        builder.add(_in_use(name, "the watermark", "DROP WATERMARK first"), node)


def _renamed(column: Column, name: str) -> Column:
    if isinstance(column, MetadataColumn):
        # without a key of its own it is its name that says which metadata it is
        return replace(column, name=name, key=column.metadata_key)
    return replace(column, name=name)


def _in_use(name: str, user: str, hint: str) -> DefinitionError:
    return DefinitionError(f"the column '{name}' is used by {user}", hint=hint)


def _there_already(what: str, word: str) -> DefinitionError:
    return DefinitionError(
        f"the table has {what} already", hint=f"MODIFY {word} changes it, DROP {word} takes it away"
    )


def _not_there(what: str, word: str) -> DefinitionError:
    return DefinitionError(f"the table has no {what}", hint=f"ADD {word} gives it one")


CONNECTOR = "connector"

log = logging.getLogger(__name__)


def convert_alter_table(tree: exp.Alter, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER TABLE. Raises InputErrors with all that is wrong in it."""
    identifier = identifier_of(tree.this, text, namespace)
    before = _table(identifier, tree, text, namespace)
    if before is None:
        return AlterTable(identifier=identifier, before=None, after=None, span=text.span)
    action = tree.args["actions"][0]
    with text.placing(action):
        after = _changed(before, action, text)
        check_views(before, after, namespace)
    spans = spans_of_keys(option_keys_of(action.expressions), text)
    columns = column_spans(action, text)
    altered = AlterTable(
        identifier=identifier,
        before=before,
        after=after,
        option_spans=spans,
        column_spans=columns,
        span=text.span,
    )
    return validated_on_overlay(altered, action, text, namespace)


def renamed(identifier: Identifier, node: exp.Expr) -> Identifier:
    """The name behind RENAME TO: what it leaves open stays as it is. Raises UnsupportedError, DefinitionError."""
    assert isinstance(node, exp.Table), "the parser puts a table where a name stands"
    parts = [part.name for part in node.parts]
    if len(parts) > 3:
        raise DefinitionError(
            "this is not the name of a table", hint="a name is [catalog.][database.]name"
        )
    catalog, database, name = (identifier.catalog, identifier.database)[: 3 - len(parts)] + tuple(
        parts
    )
    if catalog != identifier.catalog:
        raise UnsupportedError(
            "RENAME TO another catalog is not supported", hint="create it there, and drop it here"
        )
    return Identifier(catalog=catalog, database=database, name=name)


def _table(
    identifier: Identifier, tree: exp.Alter, text: StatementText, namespace: Namespace
) -> Table | None:
    """The table that is altered; None for a missing one under IF EXISTS."""
    span = text.locate(tree.this)
    try:
        found = namespace.lookup(identifier)
    except UnknownObjectError as error:
        if tree.args.get("exists"):
            return None
        error.span = span
        raise
    if isinstance(found, View):
        message = f"{identifier} is a view, not a table"
        raise UnknownObjectError(message, hint=f"ALTER VIEW {identifier}", span=span)
    if found.materialization is not None:
        message = f"{identifier} is a materialized table"
        raise UnsupportedError(message, hint=f"ALTER MATERIALIZED TABLE {identifier}", span=span)
    return found


def _changed(before: Table, action: exp.Expr, text: StatementText) -> Table:
    match action:
        case exp.AlterRename():
            return replace(before, identifier=renamed(before.identifier, action.this))
        case exp.AlterSet():
            _check_reset(action, text)
            options = _altered_options(action, before, text)
            return replace(before, options=tuple(options.items()))
        case AlterElements() if action.name == "ADD":
            return add_elements(before, action)
        case AlterElements():
            return modify_elements(before, action)
        case exp.RenameColumn():
            return rename_column(before, action)
        case exp.AddPartition() | exp.DropPartition():
            raise _no_partitions(action)
    assert isinstance(action, exp.Drop), "the parser makes no other action"
    if action.args["kind"] == "COLUMN":
        return drop_columns(before, action)
    return DROPPED[action.args["kind"]](before, action)


def _altered_options(action: exp.AlterSet, before: Table, text: StatementText) -> dict[str, str]:
    """The options after SET or RESET; keys of older releases of Flink are read as today's."""
    if action.args.get("option") is not None:
        left = changed_options(action, before.option_map, text)
        older = translate_legacy_options({key.name: "0" for key in action.expressions})
        return {key: value for key, value in left.items() if key not in older.sources}
    translated = translate_legacy_options(changed_options(action, {}, text))
    if (note := translated.note) is not None:
        log.warning("table %s: %s", before.identifier.name, note)
    return {**before.option_map, **translated.options}


def _check_reset(action: exp.AlterSet, text: StatementText) -> None:
    """A table keeps its connector (Flink: AlterTableResetConverter)."""
    if action.args.get("option") is None:
        return
    for key in action.expressions:
        if key.name == CONNECTOR:
            raise OptionError(
                "RESET cannot take away 'connector'",
                hint="SET ('connector' = '...') gives the table another one",
                span=text.locate(key),
            )


def _no_partitions(action: exp.Expr) -> UnsupportedError:
    if isinstance(action, exp.AddPartition):
        hint = "a partition is there once rows are written to it: INSERT INTO"
        return UnsupportedError("ALTER TABLE ... ADD PARTITION is not supported", hint=hint)
    hint = "delete its rows: DELETE FROM t WHERE ..., or INSERT OVERWRITE t PARTITION (...)"
    return UnsupportedError("ALTER TABLE ... DROP PARTITION is not supported", hint=hint)


def _drop_key(before: Table, action: exp.Drop) -> Table:
    key = before.schema.primary_key
    if key is None:
        raise DefinitionError(f"{before.identifier} has no primary key")
    if action.args["kind"] == "CONSTRAINT" and (wanted := action.expressions[0].name) != key.name:
        known = [key.name] if key.name is not None else []
        near = did_you_mean(wanted, known) or (f"it is called '{key.name}'" if known else None)
        raise UnknownObjectError(
            f"{before.identifier} has no constraint '{wanted}'",
            hint=near or "its primary key has no name: DROP PRIMARY KEY",
        )
    return replace(before, schema=replace(before.schema, primary_key=None))


def _drop_watermark(before: Table, _: exp.Drop) -> Table:
    if before.schema.watermark is None:
        raise DefinitionError(f"{before.identifier} has no watermark")
    return replace(before, schema=replace(before.schema, watermark=None))


def _drop_distribution(before: Table, _: exp.Drop) -> Table:
    if before.distribution is None:
        raise DefinitionError(f"{before.identifier} has no distribution")
    return replace(before, distribution=None)


DROPPED: dict[str, Callable[[Table, exp.Drop], Table]] = {
    "PRIMARY KEY": _drop_key,
    "CONSTRAINT": _drop_key,
    "WATERMARK": _drop_watermark,
    "DISTRIBUTION": _drop_distribution,
}
