"""Columns as the bytes of a record: Spark SQL expressions, so that the JVM serialises and no record meets Python.

The formats are those of `connector/formats`, which decode; what one writes the other reads. A format that only reads
is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.options.option import Resolved
from penstock.connector.formats import Format
from penstock.connector.spark.encoding.changelog import change_expression
from penstock.connector.spark.encoding.json import json_expression, json_writing

__all__ = ["WrittenField", "bytes_expression", "sql_text"]

_CHARSETS = ("US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")
"""Those of Spark's `encode`."""

_BYTES_OF = {t.TinyIntType: 1, t.SmallIntType: 2, t.IntType: 4, t.BigIntType: 8}
_BITS = {
    t.FloatType: "CAST(reflect('java.lang.Float', 'floatToRawIntBits', {}) AS BIGINT)",
    t.DoubleType: "CAST(reflect('java.lang.Double', 'doubleToRawLongBits', {}) AS BIGINT)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenField:
    """A field of a record: its name in the record, its type, and its Spark SQL."""

    name: str
    type: t.LogicalType
    expression: str


def bytes_expression(
    format_: Format,
    fields: Sequence[WrittenField],
    resolved: Resolved,
    *,
    prefix: str,
    owner: str,
    kind: str | None = None,
) -> str:
    """Return the Spark SQL of a record's bytes (BINARY). Raises UnsupportedError for formats that only read.

    `kind` is the Spark SQL of the row's kind, for formats of changes; None: every row is an insert.
    """
    members = [(field.name, field.type, field.expression) for field in fields]
    match format_.identifier:
        case "json":
            return f"CAST({json_expression(members, json_writing(resolved, prefix))} AS BINARY)"
        case "raw":
            (field,) = fields
            charset, endianness = (resolved.get(option) for option in format_.options(prefix))
            return _raw(field, charset, little=endianness == "little-endian", owner=owner)
    change = change_expression(format_, members, resolved, prefix=prefix, kind=kind)
    if change is not None:
        return f"CAST({change} AS BINARY)"
    raise UnsupportedError(
        f"{owner}: the format '{format_.identifier}' can be read, not written",
        hint="write 'json' or 'raw', or changes as 'debezium-json', 'canal-json', 'maxwell-json' or 'ogg-json'",
    )


def sql_text(text: str) -> str:
    """Quote a text for Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _raw(field: WrittenField, charset: str, *, little: bool, owner: str) -> str:
    """Return the whole value of the one column (Flink's RawFormatSerializationSchema); NULL gives no value."""
    match field.type:
        case t.CharType() | t.VarCharType():
            return _encoded(field.expression, charset, owner)
        case t.BinaryType() | t.VarBinaryType():
            return field.expression
        case t.BooleanType():
            return f"CASE {field.expression} WHEN true THEN X'01' WHEN false THEN X'00' END"
    number, size = field.expression, _BYTES_OF.get(type(field.type))
    if size is None:
        number = f"CASE WHEN {number} IS NOT NULL THEN {_BITS[type(field.type)].format(number)} END"
        size = 4 if isinstance(field.type, t.FloatType) else 8
    # two's complement in 16 digits, of which the last are the number's own
    digits = f"right(lpad(hex(CAST({number} AS BIGINT)), 16, '0'), {2 * size})"
    if little:
        pairs = [f"substring({digits}, {2 * place + 1}, 2)" for place in reversed(range(size))]
        digits = f"concat({', '.join(pairs)})"
    return f"unhex({digits})"


def _encoded(text: str, charset: str, owner: str) -> str:
    """Encode a text; a character that the charset lacks ends the query, where Java would write a '?'."""
    name = charset.upper()
    if name in ("UTF-8", "UTF8"):
        return f"CAST({text} AS BINARY)"
    if name not in _CHARSETS:
        raise UnsupportedError(
            f"{owner}: texts cannot be written in the charset '{charset}'",
            hint=f"charsets that can be written: {', '.join(_CHARSETS)}",
        )
    return f"encode({text}, '{name}')"
