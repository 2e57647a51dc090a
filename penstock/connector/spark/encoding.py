"""Columns as the bytes of records, by Spark SQL expressions: the JVM serializes, and no record enters Python.

JSON follows Flink's RowDataToJsonConverters; changes become envelopes of Debezium, Canal, Maxwell and GoldenGate as
Flink's encoders write them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import spark_literal
from penstock.catalog.options.option import Resolved
from penstock.connector.changelog import RowKind
from penstock.connector.formats import Format
from penstock.connector.formats.json.options import (
    JsonWriting,
    TimestampStandard,
    envelope_settings,
    json_writing,
)

Members: TypeAlias = Sequence[tuple[str, t.LogicalType, str]]
"""Name, type and Spark SQL of the members of an object."""


def json_expression(members: Members, writing: JsonWriting) -> str:
    """Return the Spark SQL of the object's text, never NULL. Raises UnsupportedError."""
    return _object(members, writing, 0)


def _object(members: Members, writing: JsonWriting, depth: int) -> str:
    texts = [
        (
            spark_literal(f"{json.dumps(name, ensure_ascii=False)}:"),
            _value(logical, sql, writing, depth),
        )
        for name, logical, sql in members
    ]
    if writing.ignores_nulls:
        # concat is NULL where a part is, and concat_ws passes NULL over
        pairs = "".join(f", concat({name}, {value})" for name, value in texts)
        return f"concat('{{', concat_ws(','{pairs}), '}}')"
    parts = ["'{'"]
    for index, (name, value) in enumerate(texts):
        comma = ["','"] if index else []
        parts += [*comma, name, f"coalesce({value}, 'null')"]
    return f"concat({', '.join(parts)}, '}}')"


def _value(logical: t.LogicalType, sql: str, writing: JsonWriting, depth: int) -> str:
    """Return the text of a value; NULL for NULL."""
    match logical:
        case t.BooleanType() | t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return f"CAST({sql} AS STRING)"
        case t.FloatType() | t.DoubleType():
            # Jackson quotes what JSON has no number for (QUOTE_NON_NUMERIC_NUMBERS)
            text = f"CAST({sql} AS STRING)"
            odd = f"{text} IN ('NaN', 'Infinity', '-Infinity')"
            return f"CASE WHEN {odd} THEN {_quoted(text)} ELSE {text} END"
        case t.DecimalType():
            return _decimal(logical, sql, plain=writing.plain_decimals)
        case t.CharType() | t.VarCharType():
            return _string(sql)
        case t.BinaryType() | t.VarBinaryType():
            # Spark breaks lines, as MIME does
            return _quoted(f"replace(base64({sql}), '\\r\\n', '')")
        case t.DateType() | t.TimeType():
            return _quoted(f"CAST({sql} AS STRING)")
        case t.TimestampType() | t.TimestampLtzType():
            return _timestamp(logical, sql, writing.standard)
        case t.ArrayType(element=element):
            name = f"e{depth}"
            text = f"coalesce({_value(element, name, writing, depth + 1)}, 'null')"
            return f"concat('[', array_join(transform({sql}, {name} -> {text}), ','), ']')"
        case t.MapType(key=key, value=value):
            return _map(key, value, sql, writing, depth)
        case t.MultisetType(element=element):
            return _map(element, t.IntType(nullable=False), sql, writing, depth)
        case t.RowType(fields=fields):
            members = [(f.name, f.type, f"{sql}.{_name(f.name)}") for f in fields]
            return f"CASE WHEN {sql} IS NOT NULL THEN {_object(members, writing, depth)} END"
    raise UnsupportedError(f"the format 'json' cannot write a column of type {logical}")


def _map(
    key: t.LogicalType, value: t.LogicalType, sql: str, writing: JsonWriting, depth: int
) -> str:
    assert isinstance(key, t.CharType | t.VarCharType), "checked by the format"
    name = f"e{depth}"
    text = f"coalesce({_value(value, f'{name}.value', writing, depth + 1)}, 'null')"
    entry = f"concat({_string(f'{name}.key')}, ':', {text})"
    return f"concat('{{', array_join(transform(map_entries({sql}), {name} -> {entry}), ','), '}}')"


def _string(sql: str) -> str:
    """Escape as Jackson does: quotes, backslashes and control characters; most texts have none."""
    text = f"make_valid_utf8({sql})"
    # to_json takes no bare text; the array's brackets are cut off again
    escaped = f"to_json(array({text}))"
    cut = f"substring({escaped}, 2, length({escaped}) - 2)"
    return f"CASE WHEN {text} RLIKE r'[\\x00-\\x1f\"\\\\]' THEN {cut} ELSE {_quoted(text)} END"


def _decimal(logical: t.DecimalType, sql: str, *, plain: bool) -> str:
    """Write all digits, or as BigDecimal.stripTrailingZeros().toString() does, which may be with an exponent."""
    # in ANSI mode, which Penstock runs in, the cast never writes an exponent
    text = f"CAST({sql} AS STRING)"
    if plain:
        return text
    if logical.scale:
        text = f"regexp_replace(regexp_replace({text}, '0+$', ''), '[.]$', '')"
    digits = f"regexp_replace({text}, '^-?(0[.]0*)?|0+$', '')"
    sign = f"regexp_extract({text}, '^-?', 0)"
    mantissa = (
        f"concat({sign}, left({digits}, 1), "
        f"CASE WHEN length({digits}) > 1 THEN concat('.', substring({digits}, 2)) ELSE '' END)"
    )
    large = f"concat({mantissa}, 'E+', length(ltrim('-', {text})) - 1)"
    small = f"concat({mantissa}, 'E-', length(regexp_extract({text}, '[.](0*)', 1)) + 1)"
    return (
        f"CASE WHEN {text} RLIKE '^-?[0-9]*[1-9]0+$' THEN {large} "
        f"WHEN {text} RLIKE '^-?0[.]000000' THEN {small} ELSE {text} END"
    )


def _timestamp(
    logical: t.TimestampType | t.TimestampLtzType, sql: str, standard: TimestampStandard
) -> str:
    """Write date and time with as many digits as there are; instants in UTC, whatever the session's time zone."""
    instant = isinstance(logical, t.TimestampLtzType)
    if instant:
        sql = f"timestampadd(MICROSECOND, unix_micros({sql}), TIMESTAMP_NTZ '1970-01-01 00:00:00')"
    text = f"CAST({sql} AS STRING)"
    if standard.separator != " ":
        text = f"replace({text}, ' ', '{standard.separator}')"
    return _quoted(f"concat({text}, 'Z')" if instant or standard.offset else text)


def _quoted(text: str) -> str:
    return f"concat('\"', {text}, '\"')"


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """What stands before and behind the row: of one that comes, and of one that goes."""

    comes: tuple[str, str]
    goes: tuple[str, str]


_ENVELOPES = {
    "debezium-json": _Envelope(
        comes=('{"before":null,"after":', ',"op":"c"}'),
        goes=('{"before":', ',"after":null,"op":"d"}'),
    ),
    "canal-json": _Envelope(
        comes=('{"data":[', '],"type":"INSERT"}'), goes=('{"data":[', '],"type":"DELETE"}')
    ),
    "maxwell-json": _Envelope(
        comes=('{"data":', ',"type":"insert"}'), goes=('{"data":', ',"type":"delete"}')
    ),
    "ogg-json": _Envelope(
        comes=('{"before":null,"after":', ',"op_type":"I"}'),
        goes=('{"before":', ',"after":null,"op_type":"D"}'),
    ),
}
_SCHEMA = "schema-include"
_PLAIN = "encode.decimal-as-plain-number"


def change_expression(
    format_: Format, members: Members, resolved: Resolved, *, prefix: str, kind: str | None
) -> str | None:
    """Return the Spark SQL of an envelope's text; None for a format that has none.

    `kind` is the Spark SQL of the row's kind, None where every row is an insert. Raises UnsupportedError.
    """
    envelope = _ENVELOPES.get(format_.identifier)
    if envelope is None:
        return None
    row = json_expression(members, _writing(format_, resolved, prefix))
    if kind is None:
        begin, end = map(spark_literal, envelope.comes)
    else:
        gone = f"{kind} IN ({RowKind.UPDATE_BEFORE.value}, {RowKind.DELETE.value})"
        begin, end = (
            f"CASE WHEN {gone} THEN {spark_literal(goes)} ELSE {spark_literal(comes)} END"
            for comes, goes in zip(envelope.comes, envelope.goes, strict=True)
        )
    return f"concat({begin}, {row}, {end})"


def _writing(format_: Format, resolved: Resolved, prefix: str) -> JsonWriting:
    base = f"{prefix}{format_.identifier}."
    options = {option.key.removeprefix(base): option for option in format_.options(prefix)}
    if _SCHEMA in options and resolved.get(options[_SCHEMA]):
        raise UnsupportedError(
            f"Debezium JSON serialization doesn't support '{base}{_SCHEMA}' option been set to true",
            hint="leave it out: records are written without their schema",
        )
    return JsonWriting(
        standard=envelope_settings(resolved, base).standard,
        ignores_nulls=False,
        plain_decimals=resolved.get(options[_PLAIN]),
    )


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
        pairs = [f"substring({digits}, {2 * index + 1}, 2)" for index in reversed(range(size))]
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
