"""ALTER TABLE: what the table becomes, checked as a whole (Flink: AlterSchemaConverter and its neighbours)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table, View
from penstock.connector.older_options import translated
from penstock.sql.catalog_changes import tried
from penstock.sql.definitions import option_keys_of
from penstock.sql.dialect.ddl_nodes import AlterElements
from penstock.sql.lookup import identifier_of
from penstock.sql.lowering.altered_columns import (
    add_elements,
    drop_columns,
    modify_elements,
    rename_column,
)
from penstock.sql.lowering.dependents import check_views
from penstock.sql.lowering.option_places import column_spans, spans_of_keys
from penstock.sql.lowering.places import changed_options
from penstock.sql.script import StatementText
from penstock.sql.statements import AlterTable, Statement

__all__ = ["lower_alter_table", "renamed"]

CONNECTOR = "connector"

log = logging.getLogger(__name__)


def lower_alter_table(tree: exp.Alter, text: StatementText, namespace: Namespace) -> Statement:
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
    return tried(altered, action, text, namespace)


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
    """The table that is altered; None if there is none, and the statement says IF EXISTS."""
    place = text.locate(tree.this)
    try:
        found = namespace.lookup(identifier)
    except UnknownObjectError as error:
        if tree.args.get("exists"):
            return None
        error.span = place
        raise
    if isinstance(found, View):
        message = f"{identifier} is a view, not a table"
        raise UnknownObjectError(message, hint=f"ALTER VIEW {identifier}", span=place)
    if found.materialization is not None:
        message = f"{identifier} is a materialized table"
        raise UnsupportedError(message, hint=f"ALTER MATERIALIZED TABLE {identifier}", span=place)
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
        older = translated({key.name: "0" for key in action.expressions})
        return {key: value for key, value in left.items() if key not in older.sources}
    given = translated(changed_options(action, {}, text))
    if (note := given.note) is not None:
        log.warning("table %s: %s", before.identifier.name, note)
    return {**before.option_map, **given.options}


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
