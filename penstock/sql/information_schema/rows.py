"""The rows of each table of `information_schema`, as one Arrow table in the types of its definition.

They tell of all tables and views that a session sees, catalog by catalog; what cannot be read is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.definitions.contract import kind_of
from penstock.catalog.definitions.leases import JobReport
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    Table,
    View,
)
from penstock.catalog.options.redaction import redact
from penstock.connector.arrow import arrow_schema
from penstock.sql.binding.binder import columns_of_object
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.information_schema.checkpoints import CheckpointFolder, checkpoint_folders
from penstock.sql.information_schema.pipelines import stored_pipelines

log = logging.getLogger(__name__)

KINDS = {"table": "BASE TABLE", "view": "VIEW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedObject:
    """A name and what it resolves to; None where that cannot be described. `kind` is SQL's word."""

    identifier: Identifier
    kind: str
    found: Table | View | None


def databases(namespace: Namespace) -> Iterator[tuple[str, str]]:
    """Return every database as (catalog, database), sorted."""
    for catalog in namespace.catalog.catalogs():
        try:
            names = namespace.catalog.databases(catalog.name)
        except InputError as error:
            _left_out(f"the catalog {catalog.name!r}", error)
            continue
        for name in names:
            yield catalog.name, name


def named_objects(namespace: Namespace) -> Iterator[NamedObject]:
    """Return every table and view; a temporary one instead of what it hides."""
    temporary = {each.identifier: each for each in namespace.temporary()}
    for catalog, database in databases(namespace):
        yield from _permanent(namespace, catalog, database, temporary)
    for identifier, found in temporary.items():
        yield NamedObject(identifier=identifier, kind=KINDS[kind_of(found)], found=found)


def _permanent(
    namespace: Namespace, catalog: str, database: str, hidden: dict[Identifier, Table | View]
) -> Iterator[NamedObject]:
    try:
        names = {
            "table": namespace.catalog.tables(database, catalog),
            "view": namespace.catalog.views(database, catalog),
        }
    except InputError as error:
        _left_out(f"the database {catalog}.{database}", error)
        return
    for kind, identifiers in names.items():
        for identifier in identifiers:
            if identifier not in hidden:
                found = _looked_up(namespace, identifier)
                yield NamedObject(identifier=identifier, kind=KINDS[kind], found=found)


def _looked_up(namespace: Namespace, identifier: Identifier) -> Table | View | None:
    try:
        return namespace.catalog.get(identifier)
    except InputError as error:
        _left_out(f"the definition of {identifier}", error)
        return None


def _left_out(what: str, error: InputError) -> None:
    log.warning("information_schema leaves out %s: %s", what, error.message)


_YES, _NO = "YES", "NO"
_NOT_NULL = " NOT NULL"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    namespace: Namespace
    project: Path


def information_rows(table: Table, namespace: Namespace, project: Path) -> pa.Table:
    """Make the rows of one of the tables, `table`. Looks into the catalogs and the project's checkpoints."""
    scope = _Scope(namespace=namespace, project=project)
    rows = list(_MAKERS[table.identifier.name](scope))
    schema = arrow_schema((column.name, column.type) for column in table.schema.physical)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# --- places ---


def _catalogs(scope: _Scope) -> Iterator[Row]:
    for one in scope.namespace.catalog.catalogs():
        yield (one.name, one.type, one.default_database, one.comment)


def _schemata(scope: _Scope) -> Iterator[Row]:
    for catalog, database in databases(scope.namespace):
        described = scope.namespace.catalog.database(catalog, database)
        yield (catalog, database, described.comment)


# --- tables and views ---


def _tables(scope: _Scope) -> Iterator[Row]:
    for one in named_objects(scope.namespace):
        found, kind = one.found, one.kind
        if found is None:
            yield (*_qualified_name(one), kind, _NO, None, None, None)
            continue
        connector = found.connector if isinstance(found, Table) else None
        if isinstance(found, Table) and found.materialization is not None:
            kind = "MATERIALIZED TABLE"
        more = (_yes(found.temporary), connector, found.comment, found.version)
        yield (*_qualified_name(one), kind, *more)


def _columns(scope: _Scope) -> Iterator[Row]:
    for one in named_objects(scope.namespace):
        match one.found:
            case Table() as table:
                for position, column in enumerate(table.schema.columns, start=1):
                    yield (*_qualified_name(one), *_column(position, column, table))
            case View() as view:
                for row in _view_columns(view, scope):
                    yield (*_qualified_name(one), *row)


def _view_columns(view: View, scope: _Scope) -> Iterator[Row]:
    comments = dict(zip(view.columns, view.column_comments, strict=False))
    found = columns_of_object(view, scope.namespace) or {}
    for position, (name, kind) in enumerate(found.items(), start=1):
        text = "" if kind is None else to_text(kind)
        bare = text.removesuffix(_NOT_NULL)
        unknown = (None,) * 4
        yield (name, position, bare or None, _yes(bare == text), *unknown, comments.get(name))


def _column(position: int, column: Column, table: Table) -> Row:
    kind, expression = _kind(column)
    watermark, key = table.schema.watermark, table.schema.primary_key
    is_rowtime = watermark is not None and watermark.column == column.name
    keys = () if key is None else key.columns
    return (
        column.name,
        position,
        None if column.type is None else str(column.type).removesuffix(_NOT_NULL),
        _yes(column.type is None or column.type.nullable),
        kind,
        expression,
        watermark.expression if is_rowtime and watermark is not None else None,
        keys.index(column.name) + 1 if column.name in keys else None,
        column.comment,
    )


def _kind(column: Column) -> tuple[str, str | None]:
    match column:
        case PhysicalColumn():
            return "PHYSICAL", None
        case MetadataColumn():
            return "METADATA", column.metadata_key
        case ComputedColumn():
            return "COMPUTED", column.expression


def _options(scope: _Scope) -> Iterator[Row]:
    for one in named_objects(scope.namespace):
        if isinstance(one.found, Table):
            for key, value in redact(one.found.option_map).items():
                yield (*_qualified_name(one), key, value)


def _views(scope: _Scope) -> Iterator[Row]:
    for one in named_objects(scope.namespace):
        match one.found:
            case View() as view:
                yield (*_qualified_name(one), view.query, _NO)
            case Table(materialization=materialization) if materialization is not None:
                yield (*_qualified_name(one), materialization.query, _YES)


def _functions(scope: _Scope) -> Iterator[Row]:
    for one in scope.namespace.functions.listed():
        identifier = one.identifier
        where = (None, None) if one.system else (identifier.catalog, identifier.database)
        temporary = _yes(one.temporary or one.system)
        yield (*where, one.name, one.language.value, one.code, temporary)


# --- pipelines ---


def _pipelines(scope: _Scope) -> Iterator[Row]:
    for each in stored_pipelines(scope.namespace.catalog.leases, scope.project):
        yield (
            each.pipeline,
            each.sink,
            each.status.upper(),
            None if each.owner is None else each.owner.host,
            None if each.owner is None else each.owner.pid,
            _time(each.since_ms),
            each.path,
            *_state(each.report),
            each.sentence,
        )


def _state(report: JobReport | None) -> Row:
    """Return what the runner said of its job, which one of an earlier Penstock never does."""
    if report is None:
        return (None,) * 6
    waiting_since = _time(report.waiting_since_ms)
    what = (report.restarts, report.last_error, report.waiting_for, waiting_since)
    return (*what, report.late_rows, report.bad_records)


def _checkpoints(scope: _Scope) -> Iterator[Row]:
    for folder in checkpoint_folders(scope.project):
        yield _checkpoint(folder)


def _checkpoint(folder: CheckpointFolder) -> Row:
    found = folder.look()
    return (
        folder.pipeline,
        folder.sink,
        folder.path,
        found.status,
        found.planned,
        found.committed,
        _time(found.planned_ms),
        _time(found.watermark_ms),
        found.stages_run_by,
        found.problem,
    )


def _operator_states(scope: _Scope) -> Iterator[Row]:
    for folder in checkpoint_folders(scope.project):
        states = folder.operator_states()
        bounds = folder.bounds() if states else {}
        for state in states:
            yield (
                folder.pipeline,
                folder.sink,
                state.stage,
                state.input,
                state.batch_id,
                state.buckets,
                state.rows,
                state.largest_bucket,
                state.bytes,
                state.files,
                state.most_files,
                bounds.get(state.stage),
                folder.path,
            )


# --- values ---


def _qualified_name(one: NamedObject) -> tuple[str, str, str]:
    return (one.identifier.catalog, one.identifier.database, one.identifier.name)


def _yes(value: bool) -> str:
    return _YES if value else _NO


def _time(epoch_ms: int | None) -> datetime | None:
    return None if epoch_ms is None else _EPOCH + timedelta(milliseconds=epoch_ms)


_MAKERS: dict[str, Callable[[_Scope], Iterator[Row]]] = {
    "catalogs": _catalogs,
    "schemata": _schemata,
    "tables": _tables,
    "columns": _columns,
    "options": _options,
    "views": _views,
    "functions": _functions,
    "pipelines": _pipelines,
    "checkpoints": _checkpoints,
    "operator_states": _operator_states,
}
