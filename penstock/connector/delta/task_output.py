"""What tasks need to write the files of a Delta table, decided by its metadata and protocol; or why Spark writes it.

A table that has anything that is not on the lists below is left to Spark's writer, which knows all of Delta.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import StateMismatchError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.delta.files.file_keys import OF_PARTITIONS
from penstock.connector.delta.files.key_digests import has_digest
from penstock.connector.delta.log import LogForm, read_form
from penstock.connector.delta.options import CHANGE_DATA_FEED, DELETION_VECTORS, DeltaTarget
from penstock.connector.expression import FieldValue
from penstock.connector.file_output import (
    PARTITIONED_BY,
    FileColumn,
    FileOutput,
    FilledColumn,
    WrittenByEngine,
    cast_reason,
    stored_type,
    strict_inside,
    strict_part,
)
from penstock.connector.spark_catalog.json_types import physical_columns
from penstock.connector.storage import open_folder
from penstock.connector.urls import is_remote, local_path

FEATURES = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Table features that ask nothing of the files of an append: what they ask of a table that uses them shows in its
properties or in the metadata of a column, or the commit does it.
"""

_PROPERTIES = frozenset(
    {
        "delta.appendonly",
        "delta.autooptimize.autocompact",
        "delta.checkpointinterval",
        "delta.checkpointpolicy",
        "delta.checkpoint.writestatsasjson",
        "delta.checkpoint.writestatsasstruct",
        "delta.dataskippingnumindexedcols",
        "delta.dataskippingstatscolumns",
        "delta.deletedfileretentionduration",
        "delta.enablechangedatafeed",
        "delta.enabledeletionvectors",
        "delta.enableexpiredlogcleanup",
        "delta.enableincommittimestamps",
        "delta.enabletypewidening",
        "delta.incommittimestampenablementtimestamp",
        "delta.incommittimestampenablementversion",
        "delta.isolationlevel",
        "delta.logretentionduration",
        "delta.minreaderversion",
        "delta.minwriterversion",
        "delta.tunefilesizesforrewrites",
    }
)
"""Properties that ask nothing of the files of an append, or are followed here."""

_HARMLESS = {"delta.columnmapping.mode": "none", "delta.autooptimize.optimizewrite": "false"}
"""Properties that ask nothing with this value."""

_FEATURE_VERSION = 7
_INDEXED_COLUMNS = 32
_CONSTRAINT = "delta.constraints."
_FEATURE = "delta.feature."
_NOT_WRITTEN = (t.TimeType, t.IntervalYearMonthType, t.IntervalDaySecondType)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the table. `kept` is what only Spark's writer keeps of it."""

    name: str
    type: t.LogicalType
    required: bool
    kept: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A table as its log says, or as it will be made; keys of properties in small letters."""

    columns: tuple[_Column, ...]
    properties: Mapping[str, str]
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    clustered: bool = False

    @property
    def in_files(self) -> tuple[_Column, ...]:
        """The columns that files have."""
        return tuple(column for column in self.columns if column.name not in self.partitions)


def task_output(
    target: DeltaTarget, stored: LogForm | None, filled: Sequence[FilledColumn]
) -> FileOutput | WrittenByEngine:
    """Decide for a table as it is `stored`; None: it is not there yet, and will be made as it is declared."""
    try:
        form = _declared(target) if stored is None else _logged(stored, target)
    except UnsupportedError as error:
        return WrittenByEngine(reason=error.message)
    reason = next(_reasons(form), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    by_name = {column.name.lower(): column for column in filled}
    missing = by_name.keys() - {column.name.lower() for column in form.columns}
    if missing:
        return WrittenByEngine(reason=f"the table has no column {quote(min(missing))}")
    indexed = _indexed(form)
    if isinstance(indexed, WrittenByEngine):
        return indexed
    columns = []
    for column in form.columns:
        given = by_name.get(column.name.lower())
        if given is not None and (cast := cast_reason(column.name, given.type, column.type)):
            return WrittenByEngine(reason=cast)
        columns.append(
            FileColumn(
                name=column.name,
                type=column.type,
                source=None if given is None else given.source,
                required=column.required,
                statistics=column.name in indexed,
            )
        )
    return FileOutput(
        folder=local_path(target.location),
        shown=f"the Delta table at {target.shown}",
        columns=tuple(columns),
        partitions=form.partitions,
    )


def upsert_output(target: DeltaTarget, stored: LogForm | None) -> FileOutput | WrittenByEngine:
    """Decide whether tasks write the rows of upserts, and rows before them are deleted by their positions.

    `stored` as of `task_output`. All declared columns are filled, from columns of their names.
    """
    key = target.table.schema.primary_key
    assert key is not None, "rows are replaced by a key"
    try:
        form = _declared(target) if stored is None else _logged(stored, target)
    except UnsupportedError as error:
        return WrittenByEngine(reason=error.message)
    reason = next(_merge_reasons(form, target, key.columns), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    filled = [
        FilledColumn(
            name=column.name, source=FieldValue(path=(column.name,), type=stored_type(column.type))
        )
        for column in target.table.schema.physical
    ]
    found = task_output(target, stored, filled)
    # last, as a table that is made with what keeps MERGE is made without vectors
    if isinstance(found, FileOutput) and not _has_vectors(form, is_stored=stored is not None):
        return WrittenByEngine(
            reason="the table has no deletion vectors ('delta.enableDeletionVectors')"
        )
    return found


def _has_vectors(form: _Form, *, is_stored: bool) -> bool:
    enabled = form.properties.get(DELETION_VECTORS, "" if is_stored else "true")
    return enabled.lower() == "true" and (not is_stored or "deletionVectors" in form.features)


def decide_new(target: DeltaTarget) -> bool:
    """Tell whether a table that is made now is to have deletion vectors, by which rows are replaced."""
    if target.table.schema.primary_key is None or is_remote(target.location):
        return False
    return isinstance(upsert_output(target, None), FileOutput)


def upserts_by(target: DeltaTarget) -> FileOutput | WrittenByEngine:
    """Decide as `upsert_output` by the log of a table, or by its definition where there is none. No engine."""
    stored = read_stored(target)
    return stored if isinstance(stored, WrittenByEngine) else upsert_output(target, stored)


def read_stored(target: DeltaTarget) -> LogForm | WrittenByEngine | None:
    """Read what a table's log says of it; None where there is no table. No engine.

    Where its log cannot be read here the engine writes the table.
    """
    if is_remote(target.location):
        return WrittenByEngine(reason="tasks write into folders of this machine alone")
    try:
        return read_form(open_folder(target.location, shown=target.shown))
    except StateMismatchError as error:
        return WrittenByEngine(reason=error.message)  # what is wrong with it is Spark's to say


def _merge_reasons(form: _Form, target: DeltaTarget, keys: Sequence[str]) -> Iterator[str]:
    """Tell why rows have to be merged."""
    if form.properties.get(CHANGE_DATA_FEED, "").lower() == "true":
        yield "the table has a change data feed ('delta.enableChangeDataFeed')"
    declared = {column.name.lower() for column in target.table.schema.physical}
    for column in form.columns:
        if column.name.lower() not in declared:
            yield f"column {quote(column.name)} of the table is not declared"
    wanted = {name.lower() for name in keys}
    for column in form.columns:
        if column.name.lower() not in wanted:
            continue
        by = column.name in form.partitions
        if not has_digest(column.type) or (by and not isinstance(column.type, OF_PARTITIONS)):
            yield f"column {quote(column.name)} of the key is of type {column.type}"


# --- forms ---


def _logged(stored: LogForm, target: DeltaTarget) -> _Form:
    meta, protocol = stored.metadata, stored.protocol
    schema = json.loads(meta["schemaString"])
    known = physical_columns(schema, owner=f"the Delta table {target.shown}")
    features: tuple[str, ...] = ()
    if int(protocol["minWriterVersion"]) >= _FEATURE_VERSION:
        features = tuple(protocol.get("writerFeatures") or ())
    return _Form(
        columns=tuple(
            _column(column, kept=_odd_metadata(field) or strict_inside(column.type))
            for column, field in zip(known, schema["fields"], strict=True)
        ),
        properties={k.lower(): v for k, v in (meta.get("configuration") or {}).items()},
        features=features,
        partitions=_named(known, meta.get("partitionColumns") or ()),
    )


def _declared(target: DeltaTarget) -> _Form:
    known = target.table.schema.physical
    return _Form(
        columns=tuple(_column(column, kept=_strict_row(column.type)) for column in known),
        properties={key.lower(): value for key, value in target.properties.items()},
        partitions=_named(known, target.table.partition_keys),
        clustered=bool(target.clustering),
    )


def _named(columns: Iterable[PhysicalColumn], names: Iterable[str]) -> tuple[str, ...]:
    """Return names as the columns have them."""
    known = {column.name.lower(): column.name for column in columns}
    return tuple(known[name.lower()] for name in names)


def _column(column: PhysicalColumn, *, kept: str | None) -> _Column:
    return _Column(
        name=column.name,
        type=stored_type(column.type),
        required=not column.type.nullable,
        kept=kept,
    )


def _odd_metadata(field: Mapping[str, Any]) -> str | None:
    """Name what Delta keeps in the metadata of a column, or of a field in it: defaults, generated values, lengths."""
    pending: list[Any] = [field]
    while pending:
        match pending.pop():
            case {"name": name, "type": kind, "metadata": metadata}:
                odd = sorted(metadata.keys() - {"comment"})
                if odd:
                    return f"{quote(name)} has the property {odd[0]}"
                pending.append(kind)
            case {"type": "struct", "fields": fields}:
                pending += fields
            case {"type": "array", "elementType": element}:
                pending.append(element)
            case {"type": "map", "keyType": key, "valueType": value}:
                pending += [key, value]
            case _:
                pass
    return None


def _strict_row(kind: t.LogicalType) -> str | None:
    """Tell that a field of a row is NOT NULL; what is inside of collections is not when the table is made."""
    if not isinstance(kind, t.RowType):
        return None
    parts = tuple(field.type for field in kind.fields)
    return strict_part(parts) or next(filter(None, map(_strict_row, parts)), None)


# --- reasons ---


def _reasons(form: _Form) -> Iterator[str]:
    """Tell what only Spark's writer keeps."""
    if not form.in_files:
        yield "the table has no column but those it is partitioned by"
    if form.clustered or "clustering" in form.features:
        yield "the table is clustered"
    for key, value in form.properties.items():
        if key.startswith(_CONSTRAINT):
            yield f"the table has the CHECK constraint {key.removeprefix(_CONSTRAINT)}"
        if _asks(key, value):
            yield f"the table has the property {key} = {value}"
    for feature in form.features:
        if feature.removesuffix("-preview") not in FEATURES:
            yield f"the table has the feature {feature}"
    for column in form.columns:
        if column.kept is not None:
            yield f"column {quote(column.name)}: {column.kept}"
        for part in t.parts_of(column.type):
            if isinstance(part, _NOT_WRITTEN):
                yield f"column {quote(column.name)} is of type {part}"
        if column.name in form.partitions and not isinstance(column.type, PARTITIONED_BY):
            yield f"the table is partitioned by column {quote(column.name)} of type {column.type}"


def _asks(key: str, value: str) -> bool:
    if not key.startswith("delta.") or key in _PROPERTIES:
        return False
    if key.startswith(_FEATURE):
        known = {feature.lower() for feature in FEATURES}
        return key.removeprefix(_FEATURE).removesuffix("-preview") not in known
    return _HARMLESS.get(key) != value.lower()


def _indexed(form: _Form) -> frozenset[str] | WrittenByEngine:
    """Name the columns that have statistics; of a row all fields or none."""
    listed = form.properties.get("delta.dataskippingstatscolumns")
    if listed is not None:
        names = {name.strip().lower() for name in listed.split(",") if name.strip()}
        found = frozenset(c.name for c in form.in_files if c.name.lower() in names)
        if len(found) != len(names):
            return WrittenByEngine(
                reason="'delta.dataSkippingStatsColumns' names more than whole columns"
            )
        return found
    count = int(form.properties.get("delta.dataskippingnumindexedcols", _INDEXED_COLUMNS))
    names_in_order = [column.name for column in form.in_files]
    if count < 0:
        return frozenset(names_in_order)
    counted, indexed = 0, []
    for column in form.in_files:
        if counted >= count:
            break
        indexed.append(column.name)
        counted += _leaf_count(column.type)
    return frozenset(indexed)


def _leaf_count(kind: t.LogicalType) -> int:
    """Count the columns that Delta counts: fields of rows one by one, collections as one."""
    if isinstance(kind, t.RowType):
        return sum(_leaf_count(field.type) for field in kind.fields)
    return 1
