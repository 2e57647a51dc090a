"""The formats that files are written in, by Spark's writers, under Flink's names of options.

`json` and `raw` are read here too; `csv`, `parquet` and `orc` are written only. Times are written with six digits of
a second, instants in UTC with `Z`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.options.option import BOOLEAN, STRING, Option, Resolved, enum_type, optional
from penstock.connector.formats import Fields

__all__ = ["WRITTEN_ONLY", "FileFormat", "file_format", "written_options"]

WRITTEN_ONLY = ("csv", "orc", "parquet")
"""Formats that are not read here."""

# a TIMESTAMP in json; an instant ends with Z in all of them
_TIMES = {
    "SQL": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "ISO-8601": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ISO-8601-WITH-OFFSET": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
}
_ZONE = "'Z'"
_DELIMITER = Option(key="csv.field-delimiter", type=STRING, default=",", doc="one character")
_QUOTE = Option(key="csv.quote-character", type=STRING, default='"', doc="one character")
_NO_QUOTE = Option(
    key="csv.disable-quote-character", type=BOOLEAN, default=False, doc="values are never quoted"
)
_ESCAPE: Option[str | None] = optional(
    STRING, "csv.escape-character", "stands before a quote inside a value; default: it is doubled"
)
_NULL = Option(key="csv.null-literal", type=STRING, default="", doc="the text for NULL")
_READING = (
    optional(BOOLEAN, "csv.allow-comments", "of reading"),
    optional(BOOLEAN, "csv.ignore-parse-errors", "of reading"),
)
_PARQUET_CODEC: Option[str | None] = optional(
    enum_type("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW"),
    "parquet.compression",
    "default SNAPPY",
)
_ORC_CODEC: Option[str | None] = optional(
    enum_type("NONE", "SNAPPY", "ZLIB", "LZ4", "ZSTD"), "orc.compress", "default ZSTD"
)
_OPTIONS: Mapping[str, tuple[Option[Any], ...]] = {
    "csv": (_DELIMITER, _QUOTE, _NO_QUOTE, _ESCAPE, _NULL, *_READING),
    "parquet": (_PARQUET_CODEC,),
    "orc": (_ORC_CODEC,),
}
_NEVER = (t.TimeType, t.IntervalYearMonthType, t.IntervalDaySecondType)
_NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)
_BYTES = (t.BinaryType, t.VarBinaryType)
_TEXTS = (t.CharType, t.VarCharType)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A data source of Spark that writes files, with its options."""

    source: str
    options: Mapping[str, str]


def written_options(name: str) -> tuple[Option[Any], ...]:
    """Return the options of a format that is written only."""
    return _OPTIONS[name]


def file_format(name: str, fields: Fields, resolved: Resolved, *, owner: str) -> FileFormat:
    """Choose the writer of `fields`, the columns inside the files.

    Raises OptionError, DefinitionError, UnsupportedError.
    """
    for column, logical in fields:
        _refuse_type(column, logical, _NEVER, f"{owner}: the format '{name}'")
    writers: Mapping[str, Callable[[Fields, Resolved, str], FileFormat]] = {
        "csv": _csv,
        "json": _json,
        "orc": _orc,
        "parquet": _parquet,
        "raw": _raw,
    }
    writer = writers.get(name)
    if writer is None:
        raise UnsupportedError(
            f"{owner}: files of the format '{name}' cannot be written",
            hint=f"formats that can are: {', '.join(writers)}",
        )
    return writer(fields, resolved, owner)


def _json(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    values = resolved.values
    time = _TIMES[values.get("json.timestamp-format.standard", "SQL")]
    return FileFormat(
        source="json",
        options={
            "timestampNTZFormat": time,
            "timestampFormat": time.removesuffix(_ZONE) + _ZONE,
            "timeZone": "UTC",
            "ignoreNullFields": str(values.get("json.encode.ignore-null-fields", False)).lower(),
        },
    )


def _csv(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:
    for column, logical in fields:
        _refuse_type(column, logical, (*_NESTED, *_BYTES), f"{owner}: the format 'csv'")
    if resolved.get(_NO_QUOTE):
        raise UnsupportedError(
            f"{owner}: '{_NO_QUOTE.key}' is not supported when writing",
            hint="a value with a delimiter would become two; only values that need it are quoted",
        )
    delimiter, mark = resolved.get(_DELIMITER), resolved.get(_QUOTE)
    # Flink unescapes Java's \t, which people write for tabs
    delimiter = "\t" if delimiter == "\\t" else delimiter
    escape = resolved.get(_ESCAPE) or mark
    for option, text in ((_DELIMITER, delimiter), (_QUOTE, mark), (_ESCAPE, escape)):
        if len(text) != 1:
            raise OptionError(f"{owner}: option '{option.key}' is not one character: '{text}'")
    time = _TIMES["SQL"]
    return FileFormat(
        source="csv",
        options={
            "sep": delimiter,
            "quote": mark,
            "escape": escape,
            "nullValue": resolved.get(_NULL),
            "timestampNTZFormat": time,
            "timestampFormat": time + _ZONE,
            "timeZone": "UTC",
            # values are written as they are
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        },
    )


def _parquet(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    return FileFormat(source="parquet", options=_compression(resolved.get(_PARQUET_CODEC)))


def _orc(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    return FileFormat(source="orc", options=_compression(resolved.get(_ORC_CODEC)))


def _raw(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:
    charset = str(resolved.values.get("raw.charset", "UTF-8"))
    if not all(isinstance(logical, _TEXTS) for _, logical in fields) or charset.upper() != "UTF-8":
        raise UnsupportedError(
            f"{owner}: the format 'raw' writes lines of text in UTF-8 only",
            hint="convert the column to STRING, or use another format",
        )
    return FileFormat(source="text", options={})


def _compression(codec: str | None) -> Mapping[str, str]:
    return {} if codec is None else {"compression": codec.lower()}


def _refuse_type(
    column: str, logical: t.LogicalType, kinds: tuple[type[t.LogicalType], ...], owner: str
) -> None:
    for part in t.parts_of(logical):
        if isinstance(part, kinds):
            raise DefinitionError(
                f"{owner} cannot write column {quote(column)}: it has no type {part}",
                hint="convert it to a STRING or a BIGINT",
            )
