"""The format `raw`: the whole value of a record as the one column of the table (Flink's RawFormatFactory)."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.options.option import STRING, Option, Resolved, enum_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats.contract import Decoded, Decoder, Encode, Fields, Where
from penstock.connector.formats.decoders import rows_without_columns

_NUMBERS = {
    t.BooleanType: "i1",
    t.TinyIntType: "i1",
    t.SmallIntType: "i2",
    t.IntType: "i4",
    t.BigIntType: "i8",
    t.FloatType: "f4",
    t.DoubleType: "f8",
}
"""Layouts of numpy, without the byte order."""

_TEXTS = (t.CharType, t.VarCharType)
_BYTES = (t.BinaryType, t.VarBinaryType)
_BIG_ENDIAN_IF_UNMARKED = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


class RawFormat:
    """The format `raw`."""

    identifier = "raw"
    changes = ChangelogMode.INSERT_ONLY
    metadata: Mapping[str, t.LogicalType] = {}

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Return the descriptors of the options, with full keys."""
        return (_charset(prefix), _endianness(prefix))

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check the charset, and that there is one column of a plain type. Raises OptionError, DefinitionError."""
        option = _charset(prefix)
        charset = resolved.get(option)
        try:
            "?".encode(charset)  # refuses codecs that are no charsets, too
        except LookupError:
            raise OptionError(
                f"unsupported '{option.key}' name: {charset}",
                hint="charsets are named as in UTF-8, ISO-8859-1 or UTF-16BE",
            ) from None
        if len(fields) != 1:
            names = ", ".join(f"{name} {logical}" for name, logical in fields) or "none"
            raise DefinitionError(
                "the 'raw' format only supports single physical column; the physical columns that it would "
                f"fill are: {names}",
                hint="use a format with fields, such as 'json', for several columns",
            )
        name, logical = fields[0]
        if not isinstance(logical, (*_NUMBERS, *_TEXTS, *_BYTES)):
            raise DefinitionError(
                f"the 'raw' format doesn't support '{logical}' as column type (column {name!r})",
                hint="it takes texts, bytes, BOOLEAN, and numbers but DECIMAL",
            )

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:  # noqa: ARG002  of the contract
        """Never: the format has no such option."""
        return False

    def decoder(
        self,
        fields: Fields,
        resolved: Resolved,
        *,
        prefix: str = "",
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """Make a decoder of the one column, or of none."""
        assert not metadata, "it has none"
        if fields:
            self.check(fields, resolved, prefix=prefix)
        return RawDecoder(
            fields,
            charset=resolved.get(_charset(prefix)),
            big_endian=resolved.get(_endianness(prefix)) == "big-endian",
        )

    def why_not_encoded(self, fields: Fields, resolved: Resolved, *, prefix: str) -> str | None:
        """Texts are encoded in UTF-8 alone (`ColumnEncoding`)."""
        ((name, logical),), charset = fields, resolved.get(_charset(prefix))
        if not isinstance(logical, _TEXTS) or codecs.lookup(charset).name == "utf-8":
            return None
        return f"column {quote(name)}: a text in the charset {charset}"

    def encoder(self, fields: Fields, resolved: Resolved, *, prefix: str) -> Encode:
        """Return the encoder of the one column."""
        ((_, logical),), endianness = fields, resolved.get(_endianness(prefix))
        big_endian = endianness == "big-endian"
        return lambda columns, _: _encoded(logical, columns[0], big_endian=big_endian)


def _charset(prefix: str) -> Option[str]:
    return Option(
        key=f"{prefix}raw.charset", type=STRING, default="UTF-8", doc="The charset of a text."
    )


def _endianness(prefix: str) -> Option[str]:
    return Option(
        key=f"{prefix}raw.endianness",
        type=enum_type("big-endian", "little-endian"),
        default="big-endian",
        doc="The byte order of a number.",
    )


class RawDecoder:
    """Decodes whole values. A record without a value is NULL; every record yields a row."""

    takes_values = True

    def __init__(self, fields: Fields, *, charset: str, big_endian: bool) -> None:
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._charset = codecs.lookup(charset).name
        self._order = ">" if big_endian else "<"

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        if not self._fields:
            return Decoded(batch=rows_without_columns(len(values)))
        _, logical = self._fields[0]
        data = pa.array(values, pa.binary())
        if data.null_count and not logical.nullable:
            index = next(i for i, value in enumerate(values) if value is None)
            raise BadRecordError(
                f"{where(index)}: no value, but the column is {logical}",
                hint="declare the column without NOT NULL",
            )
        if isinstance(logical, _BYTES):
            column = data
        elif isinstance(logical, _TEXTS):
            column = self._texts(data, values)
        else:
            column = self._numbers(data, logical, values, where)
        return Decoded(batch=pa.RecordBatch.from_arrays([column], schema=self._schema))

    def _texts(self, data: pa.BinaryArray, values: Sequence[bytes | None]) -> pa.Array:
        """Decode texts; bytes that are none of the charset become U+FFFD, as in Java's String."""
        if self._charset in ("utf-8", "ascii"):
            try:
                texts = data.cast(pa.string())
            except pa.ArrowInvalid:
                pass
            else:
                if (
                    self._charset == "utf-8"
                    or pc.all(pc.string_is_ascii(texts)).as_py() is not False
                ):
                    return texts
        return pa.array([None if v is None else self._text(v) for v in values], pa.string())

    def _text(self, value: bytes) -> str:
        charset = self._charset
        if not value.startswith(_MARKS):
            charset = _BIG_ENDIAN_IF_UNMARKED.get(charset, charset)
        return value.decode(charset, "replace")

    def _numbers(
        self,
        data: pa.BinaryArray,
        logical: t.LogicalType,
        values: Sequence[bytes | None],
        where: Where,
    ) -> pa.Array:
        layout = np.dtype(self._order + _NUMBERS[type(logical)])
        lengths = pc.binary_length(data)
        fits = pc.equal(lengths, layout.itemsize).fill_null(True)
        if not pc.all(fits, min_count=0).as_py():
            index = fits.index(False).as_py()
            value = values[index] or b""
            raise BadRecordError(
                f"{where(index)}: {len(value)} bytes, but {logical} is {layout.itemsize}; the record is "
                f"0x{value[:32].hex()}{'...' if len(value) > 32 else ''}",
                hint="declare the column as BYTES or STRING, or fix the record's producer",
            )
        present = np.asarray(data.is_valid())
        numbers = np.zeros(len(data), layout)
        numbers[present] = np.frombuffer(data.buffers()[2] or b"", layout)[: present.sum()]
        native = numbers.astype(layout.newbyteorder("="))
        if isinstance(logical, t.BooleanType):
            native = native != 0
        return pa.array(native, self._schema.field(0).type, mask=~present)


def _encoded(logical: t.LogicalType, column: pa.Array, *, big_endian: bool) -> pa.Array:
    """Return values as bytes, NULL for NULL; bytes and texts are those that were read, and are not looked at."""
    if isinstance(logical, _BYTES):
        return column
    if isinstance(logical, _TEXTS):
        return column.view(pa.binary())
    layout = np.dtype((">" if big_endian else "<") + _NUMBERS[type(logical)])
    valid = np.asarray(column.is_valid())
    whole = column.cast(pa.int8()) if isinstance(logical, t.BooleanType) else column
    numbers = np.zeros(len(column), layout)
    numbers[valid] = np.asarray(whole.drop_null())
    values = pa.py_buffer(numbers.tobytes())
    sized = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(layout.itemsize), len(column), [None, values]
    )
    encoded = sized.cast(pa.binary())
    return (
        encoded
        if valid.all()
        else pc.if_else(pa.array(valid), encoded, pa.scalar(None, pa.binary()))
    )
