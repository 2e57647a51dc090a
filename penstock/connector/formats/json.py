"""The format `json`: a batch of records at a time with pyarrow, one at a time only where that fails.

Options and meaning are Flink's. Fast way: the values of a batch joined by newlines and parsed once against the
table's types. That every record gives exactly one row is proved, not assumed: each begins with `{` and ends with
`}`, and there are as many rows as records; two objects in one record, or one object in two, cannot pass both.
"""

# ruff: noqa: TRY004  a value that does not fit is a ValueError, whatever is wrong with it

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import json as pa_json

from penstock.catalog import types as t
from penstock.catalog.errors import BadRecordError, OptionError
from penstock.catalog.options import BOOLEAN, STRING, Option, Resolved, enum_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.contract import Decoded, Decoder, Fields
from penstock.connector.formats.json_values import Convert, converter

__all__ = ["JsonDecoder", "JsonFormat"]

FAIL_ON_MISSING: Option[bool] = Option(
    key="json.fail-on-missing-field",
    type=BOOLEAN,
    default=False,
    doc="Whether a missing field is an error.",
)
IGNORE_ERRORS: Option[bool] = Option(
    key="json.ignore-parse-errors",
    type=BOOLEAN,
    default=False,
    doc="Skip and count records that cannot be parsed, and set fields that do not fit to NULL.",
)
TIMESTAMP_FORMAT: Option[str] = Option(
    key="json.timestamp-format.standard",
    type=enum_type("SQL", "ISO-8601", "ISO-8601-WITH-OFFSET"),
    default="SQL",
    doc="How timestamps are written. Both are read, whichever is set.",
)
_OPTIONS: tuple[Option[Any], ...] = (
    FAIL_ON_MISSING,
    IGNORE_ERRORS,
    TIMESTAMP_FORMAT,
    Option(
        key="json.map-null-key.mode",
        type=enum_type("FAIL", "DROP", "LITERAL"),
        default="FAIL",
        doc="For sinks.",
    ),
    Option(key="json.map-null-key.literal", type=STRING, default="null", doc="For sinks."),
    Option(
        key="json.encode.decimal-as-plain-number", type=BOOLEAN, default=False, doc="For sinks."
    ),
    Option(key="json.encode.ignore-null-fields", type=BOOLEAN, default=False, doc="For sinks."),
    Option(
        key="json.decode.json-parser.enabled", type=BOOLEAN, default=True, doc="Read and ignored."
    ),
)
T = TypeVar("T")
EXCERPT = 200  # characters of a bad record in its error


class JsonFormat:
    """The format `json`."""

    @property
    def identifier(self) -> str:
        """The name in the option `format`."""
        return "json"

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Give the options, with full keys."""
        return tuple(_prefixed(option, prefix) for option in _OPTIONS)

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and columns. Raises OptionError, UnsupportedError."""
        missing, ignore = (_prefixed(option, prefix) for option in (FAIL_ON_MISSING, IGNORE_ERRORS))
        if resolved.get(missing) and resolved.get(ignore):
            raise OptionError(
                f"'{missing.key}' and '{ignore.key}' cannot both be true", hint="set one of them"
            )
        arrow_schema(fields)

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Whether `json.ignore-parse-errors` is set."""
        return resolved.get(_prefixed(IGNORE_ERRORS, prefix))

    def decoder(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> Decoder:
        """Make a decoder of the columns `fields`, in that order."""
        return JsonDecoder(
            fields=tuple(fields),
            fail_on_missing=resolved.get(_prefixed(FAIL_ON_MISSING, prefix)),
            ignore_errors=resolved.get(_prefixed(IGNORE_ERRORS, prefix)),
        )


def _prefixed(option: Option[T], prefix: str) -> Option[T]:
    return replace(option, key=prefix + option.key)


class _RefusedError(Exception):
    """The fast way does not do for this batch."""


@dataclass(slots=True)
class JsonDecoder:
    """Decodes JSON objects into the columns `fields`; without any, counts records and decodes nothing."""

    fields: tuple[tuple[str, t.LogicalType], ...]
    fail_on_missing: bool
    ignore_errors: bool

    def decode(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> Decoded:
        """Decode values. A record without one gives no row, as in Flink, and counts as skipped."""
        present = None
        if None in values:
            present = np.flatnonzero([value is not None for value in values])
            values = [value for value in values if value is not None]
        decoded = self._decode(
            [v for v in values if v is not None] if present is None else values, where, present
        )
        if present is None:
            return decoded
        kept = present if decoded.kept is None else present[decoded.kept]
        return Decoded(batch=decoded.batch, kept=kept, skipped=decoded.skipped)

    def _decode(
        self,
        values: Sequence[bytes | None],
        where: Callable[[int], str],
        present: np.ndarray[Any, np.dtype[np.int64]] | None,
    ) -> Decoded:
        if not self.fields:
            return Decoded(batch=_rows_without_columns(len(values)), kept=None, skipped=0)
        try:
            return Decoded(batch=self._fast(values), kept=None, skipped=0)
        except (_RefusedError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return self._slow(
                values, where if present is None else lambda i: where(int(present[i]))
            )

    def _fast(self, values: Sequence[Any]) -> pa.RecordBatch:
        schema = arrow_schema(self.fields)
        if not values:
            return pa.RecordBatch.from_pylist([], schema=schema)
        if any(not _is_fast(logical) for _, logical in self.fields):
            raise _RefusedError
        joined = b"\n".join(values)
        _check_objects(joined, values)
        loose = pa.schema([field.with_nullable(True) for field in schema])
        table = pa_json.read_json(
            pa.BufferReader(joined),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=loose, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != len(values):
            raise _RefusedError
        (batch,) = table.combine_chunks().to_batches() or (None,)
        if batch is None:
            raise _RefusedError
        for field in schema:
            column = batch.column(field.name)
            if column.null_count and (not field.nullable or self.fail_on_missing):
                raise _RefusedError
        return pa.RecordBatch.from_arrays(
            [batch.column(name) for name, _ in self.fields], schema=schema
        )

    def _slow(self, values: Sequence[Any], where: Callable[[int], str]) -> Decoded:
        """Parse each record, then try the fast way again without those that are no JSON."""
        records: list[Any] = []
        indexes: list[int] = []
        skipped = 0
        for index, value in enumerate(values):
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError) as error:
                skipped += self._bad(index, value, f"it is no JSON: {error}", where)
                continue
            rows = parsed if isinstance(parsed, list) else [parsed]
            records += rows
            indexes += [index] * len(rows)
        return self._convert(records, indexes, values, skipped, where)

    def _convert(
        self,
        records: list[Any],
        indexes: list[int],
        values: Sequence[Any],
        skipped: int,
        where: Callable[[int], str],
    ) -> Decoded:
        converters = [
            (name, logical, converter(logical, nulls_for_errors=self.ignore_errors))
            for name, logical in self.fields
        ]
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        for index, record in zip(indexes, records, strict=True):
            try:
                rows.append(self._row(record, converters))
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                skipped += self._bad(index, values[index], str(error), where)
                continue
            kept.append(index)
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self.fields))
        return Decoded(batch=batch, kept=np.asarray(kept, dtype=np.int64), skipped=skipped)

    def _row(
        self, record: Any, converters: Sequence[tuple[str, t.LogicalType, Convert]]
    ) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise ValueError("it is no JSON object")
        row = {}
        for name, logical, convert in converters:
            value = record.get(name)
            if value is None and self.fail_on_missing and name not in record:
                raise ValueError(f"field '{name}' is missing")
            row[name] = self._field(name, logical, convert, value)
        return row

    def _field(self, name: str, logical: t.LogicalType, convert: Convert, value: Any) -> Any:
        converted = None
        if value is not None:
            try:
                converted = convert(value)
            except (ValueError, TypeError) as error:
                if not (self.ignore_errors and logical.nullable):
                    raise ValueError(f"field '{name}' is not {logical}: {error}") from error
        if converted is None and not logical.nullable:
            raise ValueError(f"field '{name}' is NULL, and the column is NOT NULL")
        return converted

    def _bad(self, index: int, value: bytes, what: str, where: Callable[[int], str]) -> int:
        if self.ignore_errors:
            return 1
        text = value[:EXCERPT].decode("utf-8", "replace") + ("..." if len(value) > EXCERPT else "")
        raise BadRecordError(
            f"a record cannot be decoded as JSON: {where(index)}: {what}; the record is {text}",
            hint="correct the column's type, or skip such records with 'json.ignore-parse-errors' = 'true'",
        )


def _is_fast(logical: t.LogicalType) -> bool:
    """Tell whether pyarrow parses a type as Flink does."""
    match logical:
        case (
            t.MapType()
            | t.MultisetType()
            | t.BinaryType()
            | t.VarBinaryType()
            | t.TimeType()
            | t.DecimalType()
        ):
            return False
        case t.ArrayType():
            return logical.element.nullable and _is_fast(logical.element)
        case t.RowType():
            return all(field.type.nullable and _is_fast(field.type) for field in logical.fields)
    return True


def _check_objects(joined: bytes, values: Sequence[bytes]) -> None:
    """Refuse a batch in which a record does not begin with `{` and end with `}`; whitespace around it counts."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    if not lengths.all():
        raise _RefusedError
    characters = np.frombuffer(joined, dtype=np.uint8)
    ends = np.cumsum(lengths + 1) - 1
    starts = ends - lengths
    if not ((characters[starts] == ord("{")).all() and (characters[ends - 1] == ord("}")).all()):
        raise _RefusedError


def _rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
