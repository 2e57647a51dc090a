"""JSON objects as Spark SQL, by the rules of Flink's RowDataToJsonConverters: texts, numbers, times as it writes them.

Pure text; `encoding` hands over columns. Spark's to_json is not used for whole rows: it writes timestamps and decimals
by other rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import spark_literal
from penstock.catalog.options.option import Resolved
from penstock.connector.formats.json.options import TimestampStandard, json_options, json_settings

__all__ = ["JsonWriting", "json_expression", "json_writing"]

Members: TypeAlias = Sequence[tuple[str, t.LogicalType, str]]
"""Name, type and Spark SQL of the members of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonWriting:
    """What the options say about writing. `map-null-key.*` has no say: a map of Spark's has no NULL key."""

    standard: TimestampStandard
    ignores_nulls: bool
    plain_decimals: bool


def json_writing(resolved: Resolved, prefix: str) -> JsonWriting:
    """Read the options of a table's key or value. Raises OptionError."""

    def value(key: str) -> Any:
        (option,) = (o for o in json_options(prefix) if o.key == f"{prefix}json.{key}")
        return resolved.get(option)

    return JsonWriting(
        standard=json_settings(resolved, prefix).standard,
        ignores_nulls=value("encode.ignore-null-fields"),
        plain_decimals=value("encode.decimal-as-plain-number"),
    )


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
            return _quoted(f"base64({sql})")
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
