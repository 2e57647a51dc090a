"""The format `raw`: the whole value of a record as the one column of the table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog import types as t
from penstock.catalog.errors import BadRecordError, DefinitionError
from penstock.catalog.options import STRING, Option, Resolved, enum_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.contract import Decoded, Decoder, Fields

__all__ = ["RawFormat"]

CHARSET: Option[str] = Option(
    key="raw.charset", type=STRING, default="UTF-8", doc="Charset of a text."
)
ENDIANNESS: Option[str] = Option(
    key="raw.endianness",
    type=enum_type("big-endian", "little-endian"),
    default="big-endian",
    doc="Byte order of numbers.",
)
_CODES = {
    t.TinyIntType: "b",
    t.SmallIntType: "h",
    t.IntType: "i",
    t.BigIntType: "q",
    t.FloatType: "f",
    t.DoubleType: "d",
    t.BooleanType: "?",
}
_TEXT = (t.CharType, t.VarCharType)
_BYTES = (t.BinaryType, t.VarBinaryType)


class RawFormat:
    """The format `raw`."""

    @property
    def identifier(self) -> str:
        """The name in the option `format`."""
        return "raw"

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Give the options, with full keys."""
        return tuple(replace(option, key=prefix + option.key) for option in (CHARSET, ENDIANNESS))

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:  # noqa: ARG002  protocol
        """Check that there is one column of a plain type. Raises DefinitionError."""
        if len(fields) != 1:
            raise DefinitionError(
                f"the format 'raw' takes exactly one physical column, there are {len(fields)}",
                hint="use the format 'json' for several columns",
            )
        name, logical = fields[0]
        if not isinstance(logical, (*_CODES, *_TEXT, *_BYTES)):
            raise DefinitionError(f"the format 'raw' cannot hold column {name!r} of type {logical}")

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:  # noqa: ARG002  protocol
        """Never: the format has no such option."""
        return False

    def decoder(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> Decoder:
        """Make a decoder; without a column it counts records."""
        order = resolved.get(replace(ENDIANNESS, key=prefix + ENDIANNESS.key))
        return RawDecoder(
            fields=tuple(fields),
            charset=resolved.get(replace(CHARSET, key=prefix + CHARSET.key)),
            order=">" if order == "big-endian" else "<",
        )


@dataclass(slots=True)
class RawDecoder:
    """Decodes the whole value."""

    fields: tuple[tuple[str, t.LogicalType], ...]
    charset: str
    order: str

    def decode(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> Decoded:
        """Decode values; a record without one gives NULL."""
        if not self.fields:
            return Decoded(
                batch=pa.RecordBatch.from_struct_array(pa.array([{}] * len(values), pa.struct([]))),
                kept=None,
                skipped=0,
            )
        _, logical = self.fields[0]
        schema = arrow_schema(self.fields)
        if isinstance(logical, _BYTES):
            column = pa.array(values, pa.binary())
        elif isinstance(logical, _TEXT):
            column = self._texts(values, where)
        else:
            column = self._numbers(
                values,
                struct.Struct(self.order + _CODES[type(logical)]),
                schema.field(0).type,
                where,
            )
        return Decoded(
            batch=pa.RecordBatch.from_arrays([column], schema=schema), kept=None, skipped=0
        )

    def _texts(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> pa.Array:
        if self.charset.upper() in ("UTF-8", "UTF8", "US-ASCII"):
            try:
                return pa.array(values, pa.binary()).cast(pa.string())
            except pa.ArrowInvalid:
                pass  # a value is no UTF-8: found below, with its place
        texts = []
        for index, value in enumerate(values):
            try:
                texts.append(None if value is None else value.decode(self.charset))
            except UnicodeDecodeError as error:
                raise _bad(where(index), f"it is no {self.charset} text: {error.reason}") from error
        return pa.array(texts, pa.string())

    def _numbers(
        self,
        values: Sequence[bytes | None],
        code: struct.Struct,
        kind: pa.DataType,
        where: Callable[[int], str],
    ) -> pa.Array:
        for index, value in enumerate(values):
            if value is not None and len(value) != code.size:
                raise _bad(where(index), f"it has {len(value)} bytes, a {kind} has {code.size}")
        present = np.asarray([value is not None for value in values])
        joined = b"".join(value if value is not None else b"\0" * code.size for value in values)
        numbers = [item[0] for item in code.iter_unpack(joined)]
        return pa.array(numbers, kind, mask=~present) if len(values) else pa.array([], kind)


def _bad(where: str, what: str) -> BadRecordError:
    return BadRecordError(f"a record cannot be decoded as raw: {where}: {what}")
