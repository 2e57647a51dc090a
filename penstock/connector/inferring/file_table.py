"""The draft of a filesystem table: of lines by a sample, of Parquet and ORC by a footer, of CSV by a look at a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.catalog import types as t
from penstock.catalog.errors import DefinitionError
from penstock.catalog.schema import PhysicalColumn
from penstock.connector.filesystem.sampling import (
    FoundFiles,
    csv_schema,
    file_schema,
    find_files,
    sample_lines,
)
from penstock.connector.inferring.arrow_types import logical_type
from penstock.connector.inferring.draft import PROPOSAL, Draft, DraftColumn
from penstock.connector.inferring.event_time import EventTime, propose_event_time
from penstock.connector.inferring.records import infer_records
from penstock.connector.inferring.sample import Sample
from penstock.connector.inferring.value_types import STRING

__all__ = ["draft_files"]

_READ = ("json", "raw")
_WRITTEN_ONLY = ("csv", "orc", "parquet")


def draft_files(path: str, project: Path, *, name: str, asked: str | None, wanted: int) -> Draft:
    """Draft a table of files. Raises UnknownObjectError where there are none, DefinitionError for unlike ones."""
    found = find_files(path, project)
    kind = asked or found.kind
    if kind is None:
        raise DefinitionError(
            f"the names of the files at {path} do not say one format",
            hint="choose with --format, or name some of them, as in 'data/*.json'",
        )
    if kind in _WRITTEN_ONLY:
        return _of_schema(found, kind, name=name, wanted=wanted)
    return _of_lines(found, name=name, asked=asked, wanted=wanted)


def _of_lines(found: FoundFiles, *, name: str, asked: str | None, wanted: int) -> Draft:
    splits = sample_lines(found, wanted)
    sample = Sample(origin=f"the files at {found.path}", splits=splits)
    value = infer_records(sample, asked)
    if value.format not in _READ:
        raise DefinitionError(
            f"{sample.origin} hold changes in the format '{value.format}', which 'filesystem' does not read",
            hint="take the envelopes as rows with --format json",
        )
    timed = (
        propose_event_time(value.columns, value.candidates, sample)
        if value.format == "json"
        else EventTime(columns=value.columns)
    )
    columns, keys = _with_partitions(timed.columns, found)
    return Draft(
        name=name,
        columns=columns,
        options=(*_options(found), *value.options, *value.bad_record_options),
        watermark=timed.watermark,
        watermark_remark=timed.watermark_remark,
        partition_keys=keys,
        remarks=(
            f"Inferred from {sample.origin}: {sample.size:,} lines of {len(splits):,} of {len(found.files):,} files.",
            PROPOSAL,
            *value.remarks,
            *timed.remarks,
        ),
    )


def _of_schema(found: FoundFiles, kind: str, *, name: str, wanted: int) -> Draft:
    more: Sequence[tuple[str, str]] = ()
    if kind == "csv":
        schema, (delimiter, remark) = csv_schema(found, wanted)
        more = () if delimiter == "," else (("csv.field-delimiter", delimiter),)
        origin = f"the columns that a file at {found.path} seems to have ({remark})"
    else:
        schema, origin = file_schema(found, kind), f"the footer of the last file at {found.path}"
    columns, keys = _with_partitions(tuple(map(_schema_column, schema)), found)
    return Draft(
        name=name,
        columns=columns,
        options=(*_options(found), ("format", kind), *more),
        partition_keys=keys,
        remarks=(
            f"Inferred from {origin}; {len(found.files):,} files.",
            PROPOSAL,
            f"Files of the format '{kind}' are written by 'filesystem', and not read yet.",
            "INSERT INTO adds files of these columns; rows to query are better kept with 'connector' = 'delta'.",
        ),
    )


def _schema_column(field: pa.Field) -> DraftColumn:
    kind = logical_type(field.type, nullable=field.nullable)
    remark = f"{field.type} in the file" + ("" if field.nullable else ", never null there")
    comment = (field.metadata or {}).get(b"comment")
    text = comment.decode("utf-8", "replace") if comment else None
    return DraftColumn(
        column=PhysicalColumn(name=field.name, type=kind, comment=text), remark=remark
    )


def _options(found: FoundFiles) -> tuple[tuple[str, str], ...]:
    options = [("connector", "filesystem"), ("path", found.path)]
    if found.pattern is not None:
        options.append(("source.path.regex-pattern", found.pattern))
    return tuple(options)


def _with_partitions(
    columns: tuple[DraftColumn, ...], found: FoundFiles
) -> tuple[tuple[DraftColumn, ...], tuple[str, ...]]:
    """Add the columns that the names of folders hold."""
    names = found.partition_columns
    inside = tuple(each for each in columns if each.column.name not in names)
    made = []
    for name in names:
        texts = found.partition_texts(name)
        kind: t.LogicalType = STRING
        if all(
            text.isdecimal() and len(text) < 10 and (text == "0" or text[0] != "0")
            for text in texts
        ):
            kind = t.IntType()
        column = PhysicalColumn(name=name, type=kind)
        made.append(
            DraftColumn(column=column, remark=f"of the folders' names, as {name}={texts[-1]}")
        )
    return (*inside, *made), names
