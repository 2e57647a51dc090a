"""Rows as Flink's `Row.toString` spells them, as Spark expressions: `+I[1, a, null]`.

NULL is `null`, ARRAY `[a, b]`, MAP and MULTISET `{k=v}`, ROW `+I[..]`, times as java.time writes them
(`2026-01-31T10:00`, instants with `Z`). Bytes are `x'..'` in hex.
"""

from __future__ import annotations

from penstock.catalog import types as t
from penstock.catalog.identifier import quoted
from penstock.catalog.schema import Schema
from penstock.connector.changelog import ROW_KIND, RowKind

__all__ = ["row_text"]


def row_text(schema: Schema, kind: RowKind | None) -> str:
    """Give the Spark expression of a row's line. `kind` is that of all rows; None: ROW_KIND says it."""
    fields = [_text(column.type, quoted(column.name), 0) for column in schema.physical]
    if kind is not None:
        first = _literal(f"{kind.short}[")
    else:
        cases = " ".join(f"WHEN {each.value} THEN '{each.short}['" for each in RowKind)
        first = f"CASE {quoted(ROW_KIND)} {cases} END"
    return f"concat({first}, concat_ws(', ', {', '.join(fields)}), ']')"


def _text(logical: t.LogicalType, value: str, depth: int) -> str:
    """Give the expression of a value's text, which is never NULL."""
    return f"coalesce({_spelled(logical, value, depth)}, 'null')"


def _spelled(logical: t.LogicalType, value: str, depth: int) -> str:
    element = f"e{depth}"
    match logical:
        case t.BinaryType() | t.VarBinaryType():
            return f"concat('x\\'', lower(hex({value})), '\\'')"
        case t.TimestampType():
            return _without_zero_seconds(_java_time(f"CAST({value} AS STRING)"))
        case t.TimestampLtzType():
            in_utc = f"convert_timezone('UTC', CAST({value} AS TIMESTAMP_NTZ))"
            return f"concat({_java_time(f'CAST({in_utc} AS STRING)')}, 'Z')"
        case t.ArrayType():
            texts = f"transform({value}, {element} -> {_text(logical.element, element, depth + 1)})"
            return f"concat('[', array_join({texts}, ', '), ']')"
        case t.MapType():
            return _map(value, logical.key, logical.value, depth)
        case t.MultisetType():
            return _map(value, logical.element, t.IntType(), depth)
        case t.RowType():
            fields = [_text(f.type, f"{value}.{quoted(f.name)}", depth) for f in logical.fields]
            whole = f"concat('+I[', concat_ws(', ', {', '.join(fields)}), ']')"
            return f"CASE WHEN {value} IS NOT NULL THEN {whole} END"
    return f"CAST({value} AS STRING)"


def _map(value: str, key: t.LogicalType, item: t.LogicalType, depth: int) -> str:
    entry = f"e{depth}"
    pair = f"concat({_text(key, f'{entry}.key', depth + 1)}, '=', {_text(item, f'{entry}.value', depth + 1)})"
    return (
        f"concat('{{', array_join(transform(map_entries({value}), {entry} -> {pair}), ', '), '}}')"
    )


def _java_time(text: str) -> str:
    """Respell Spark's time: T between date and time, fractions of three, six or nine digits."""
    with_t = f"replace({text}, ' ', 'T')"
    one_short = f"regexp_replace({with_t}, '([.]([0-9]{{3}})?[0-9])$', '$100')"
    return f"regexp_replace({one_short}, '([.]([0-9]{{3}})?[0-9][0-9])$', '$10')"


def _without_zero_seconds(text: str) -> str:
    return f"regexp_replace({text}, '(T[0-9]{{2}}:[0-9]{{2}}):00$', '$1')"


def _literal(text: str) -> str:
    return f"'{text}'"
