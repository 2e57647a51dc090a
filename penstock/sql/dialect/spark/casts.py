"""Write CAST and TRY_CAST for Spark with Flink's meaning, and values as Flink's text: TRUE, [1, NULL], {a=1}.

Flink's casting rules (org.apache.flink.table.planner.functions.casting), held by CastFunctionITCase: whole
numbers are cut to their bits, fractions stop at the limits (Java's casts), a DECIMAL that does not fit is NULL,
a text may have a fraction that a whole number drops. Texts follow the rules to STRING (ArrayToStringCastRule,
RowToStringCastRule, ...), held by CastRulesTest: nested texts have no quotes, nested NULLs are NULL in
capitals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quoted, spark_literal
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.dialect.functions.result_types import field_name, interval_type, row_type
from penstock.sql.dialect.spark.types import (
    FRACTIONS,
    INTEGERS,
    TEXTS,
    TYPES,
    kind_of,
    let,
    number_kind,
    operand,
    precision_of,
    type_of,
)
from penstock.sql.syntax.parse_errors import NodeError

CONSTRUCTED = (exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT)

OTHER_TEXTS = (
    *CONSTRUCTED,
    exp.DType.BOOLEAN,
    exp.DType.INTERVAL,
    exp.DType.TIME,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPLTZ,
)
"""Types whose values Spark writes otherwise than Flink."""

CONSTRUCTORS = ("ROW", "MAP")

MICROS = 6
"""Digits of a second that Spark keeps."""

SECONDS, DAY_SECONDS = 8, 19
"""Characters of 12:34:56, and of those with a date before them."""

MONTHS = (
    "concat(if({0} < INTERVAL '0' MONTH, '-', '+'), abs(extract(YEAR FROM {0})), '-', "
    "lpad(abs(extract(MONTH FROM {0})), 2, '0'))"
)

# Flink's intervals have milliseconds
DAYS = (
    "concat(if({0} < INTERVAL '0' SECOND, '-', '+'), abs(extract(DAY FROM {0})), ' ', "
    "lpad(abs(extract(HOUR FROM {0})), 2, '0'), ':', lpad(abs(extract(MINUTE FROM {0})), 2, '0'), ':', "
    "left(lpad(CAST(abs(extract(SECOND FROM {0})) AS STRING), 9, '0'), 6))"
)


def _text(writer: SparkGenerator, value: exp.Expr, cast: str) -> str:
    """Flink's text of a node. Raises NodeError where it depends on a type that is not known."""
    kind, items = type_of(value), _row_items(value)
    if isinstance(value, exp.Tuple):
        kind = row_type(value.expressions)
    if isinstance(value, exp.Interval):
        kind = interval_type(value)
    if items and kind is not None and kind.this == exp.DType.STRUCT:
        parts = zip(items, kind.expressions, strict=True)
        return _in_row(
            [_item_text(writer, writer.sql(item), field.args["kind"]) for item, field in parts]
        )
    if _hangs(value, kind):
        raise NodeError(
            "the text of this value depends on the types of its parts, which are not known",
            value,
            "give them to it: CAST(CAST(... AS ARRAY<INT>) AS STRING)",
        )
    return _text_of(writer, writer.sql(value), kind) or f"{cast}({writer.sql(value)} AS STRING)"


def dpipe_sql(writer: SparkGenerator, expression: exp.DPipe) -> str:
    """Texts put together; what is none is taken by its text."""
    return (
        f"{_taken(writer, expression.this, '||')} || {_taken(writer, expression.expression, '||')}"
    )


def _concat_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return f"concat({', '.join(_taken(writer, item, 'CONCAT') for item in call.expressions)})"


def _concat_ws_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return f"concat_ws({', '.join(_taken(writer, item, 'CONCAT_WS') for item in call.expressions)})"


def _taken(writer: SparkGenerator, node: exp.Expr, function: str) -> str:
    """What is put into a text. Flink takes texts alone; numbers and dates have the same text in Spark."""
    kind = type_of(node)
    if kind is not None and kind.this in OTHER_TEXTS:
        raise NodeError(
            f"{function} takes texts, and this is of the type {kind.sql(FLINK)}",
            node,
            "write CAST(... AS STRING)",
        )
    return writer.sql(node)


def _text_of(writer: SparkGenerator, sql: str, kind: exp.DataType | None) -> str | None:
    """Flink's text of a value where Spark's differs; None where they agree or nothing is known."""
    match kind and kind.this:
        case exp.DType.BOOLEAN:
            return f"upper(CAST({sql} AS STRING))"
        case exp.DType.TIMESTAMPNTZ | exp.DType.TIMESTAMPLTZ if kind:
            digits = precision_of(kind, MICROS)
            return let([f"CAST({sql} AS STRING)"], lambda v: _timestamp(v[0], digits))
        case exp.DType.TIME if kind:
            digits = precision_of(kind, 0)
            return let([f"CAST({sql} AS STRING)"], lambda v: _time(v[0], digits))
        case exp.DType.INTERVAL if kind and kind.expressions:
            form = MONTHS if kind.expressions[0].name.startswith("YEAR") else DAYS
            whole = (
                f"CAST({sql} AS {writer.sql(kind)})"  # of INTERVAL '1' MONTH Spark extracts no YEAR
            )
            return let([whole], lambda v: form.format(*v))
        case exp.DType.ARRAY if kind:
            item = _item_text(writer, "__x", kind.expressions[0])
            return _listed("[", f"transform({sql}, __x -> {item})", "]")
        case exp.DType.MAP if kind:
            key, item = (
                _item_text(writer, f"__e.{name}", inner)
                for name, inner in zip(("key", "value"), kind.expressions, strict=True)
            )
            entries = f"transform(map_entries({sql}), __e -> concat({key}, '=', {item}))"
            return _listed("{", entries, "}")
        case exp.DType.STRUCT if kind:
            return let([sql], lambda v: _row_text(writer, v[0], kind))
    return None


def _item_text(writer: SparkGenerator, sql: str, kind: exp.DataType) -> str:
    text = _text_of(writer, sql, kind) or f"CAST({sql} AS STRING)"
    return f"coalesce({text}, 'NULL')"


def _row_text(writer: SparkGenerator, sql: str, kind: exp.DataType) -> str:
    items = [
        _item_text(writer, f"{sql}.{writer.sql(field, 'this')}", field.args["kind"])
        for field in kind.expressions
    ]
    return f"if({sql} IS NULL, NULL, {_in_row(items)})"


def _row_items(value: exp.Expr) -> list[exp.Expr] | None:
    """What stands in ROW(a, b) or (a, b); None for any other node."""
    made = isinstance(value, exp.Anonymous) and value.name.upper() == "ROW"
    return value.expressions if made or isinstance(value, exp.Tuple) else None


def _hangs(value: exp.Expr, kind: exp.DataType | None) -> bool:
    """Whether a value is an array, a map, a row or an interval of which not everything is known."""
    if kind is None or kind.this == exp.DType.UNKNOWN:
        made = isinstance(value, exp.Anonymous) and value.name.upper() in CONSTRUCTORS
        return made or isinstance(value, exp.Array | exp.Tuple)
    parts = list(kind.find_all(exp.DataType))
    open_ended = (*CONSTRUCTED, exp.DType.INTERVAL)
    return any(
        part.this == exp.DType.UNKNOWN or (part.this in open_ended and not part.expressions)
        for part in parts
    )


def _listed(first: str, items: str, last: str) -> str:
    return f"concat('{first}', array_join({items}, ', '), '{last}')"


def _in_row(items: Sequence[str]) -> str:
    between = ", ', ', "
    return f"concat('(', {between.join(items)}, ')')"


def _timestamp(text: str, digits: int) -> str:
    """All digits of the fraction. Not by date_format, which goes through the session's time zone."""
    if not digits:
        return f"left({text}, {DAY_SECONDS})"
    whole = f"if(contains({text}, '.'), {text}, concat({text}, '.'))"
    size = DAY_SECONDS + 1 + digits
    return f"left(rpad({whole}, {max(size, DAY_SECONDS + 1 + MICROS)}, '0'), {size})"


def _time(text: str, digits: int) -> str:
    """One digit of the fraction at least, and no zeros behind it (DateTimeUtils.unixTimeToString)."""
    if not digits:
        return f"left({text}, {SECONDS})"
    return f"if(contains({text}, '.'), left({text}, {SECONDS + 1 + digits}), concat({text}, '.0'))"


BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}

NUMBERS = (*INTEGERS, *FRACTIONS, exp.DType.DECIMAL)

TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ)

NAMES = {
    exp.DType.TIMESTAMPNTZ: "a TIMESTAMP",
    exp.DType.TIMESTAMPLTZ: "a TIMESTAMP_LTZ",
    exp.DType.TIME: "a TIME",
}

DIGITS = {**dict.fromkeys(TIMES, MICROS), exp.DType.TIME: 0}
"""Of a second, where a type names none."""

# What is finer is the same in all time zones: none is off by a part of a second.
CUT_INSTANT = "timestamp_micros(unix_micros({0}) - pmod(unix_micros({0}), {1}))"
CUT_LOCAL = "timestampadd(MICROSECOND, -pmod(unix_micros(CAST({0} AS TIMESTAMP)), {1}), {0})"

TIME_OF = "make_time(extract(HOUR FROM {0}), extract(MINUTE FROM {0}), extract(SECOND FROM {0}))"


def _check(value: exp.Expr, to: exp.DataType) -> None:
    """Refuse what Flink has no cast for, and Spark has (LogicalTypeCasts). Raises NodeError."""
    kind = kind_of(value)
    if kind == exp.DType.INTERVAL and to.this in NUMBERS and not _is_months(value):
        raise NodeError(
            "CAST of an interval to a number is supported for INTERVAL '...' MONTH only",
            value,
            "take its parts: EXTRACT(DAY FROM i), EXTRACT(HOUR FROM i), ...",
        )
    for one, other, hint in (
        (kind, to.this, "write UNIX_TIMESTAMP(...), EXTRACT(...) or TIMESTAMPDIFF(...)"),
        (to.this, kind, "write TO_TIMESTAMP_LTZ(number, 0) for seconds, 3 for milliseconds"),
    ):
        if one in (*TIMES, exp.DType.TIME) and other in NUMBERS:
            raise NodeError(
                f"Flink has no CAST of {NAMES.get(kind, 'a number')} to {NAMES.get(to.this, 'a number')}",
                value,
                hint,
            )


def _is_months(value: exp.Expr) -> bool:
    return isinstance(value, exp.Interval) and value.args["unit"].name.upper() == "MONTH"


def cast_sql(writer: SparkGenerator, expression: exp.Cast, safe_prefix: str | None = None) -> str:
    """CAST and TRY_CAST (`safe_prefix`)."""
    to: exp.DataType = expression.args["to"]
    value, cast = expression.this, f"{safe_prefix or ''}CAST"
    _check(value, to)
    if to.this in CONSTRUCTED and (text := _to_constructed(writer, value, to, expression)):
        return text
    if to.this in TEXTS:
        return _to_text(writer, value, to, cast)
    if to.this in (exp.DType.BINARY, exp.DType.VARBINARY) and to.expressions:
        return _to_bytes(writer, value, to, cast)
    if to.this in INTEGERS:
        return _to_whole(writer, value, to.this, cast)
    if to.this in TIMES:
        return _to_time(writer, value, to, cast)
    if to.this == exp.DType.TIME:
        return _to_time_of_day(writer, value, to, cast)
    if to.this == exp.DType.DECIMAL and number_kind(value) in NUMBERS:
        cast = "TRY_CAST"
    return f"{cast}({writer.sql(value)} AS {writer.sql(to)})"


# --- numbers ---


def _to_whole(writer: SparkGenerator, value: exp.Expr, to: exp.DType, cast: str) -> str:
    kind = kind_of(value)
    if kind in TEXTS:
        return f"{cast}({_without_fraction(writer, value)} AS {TYPES[to]})"
    kind = number_kind(value)
    plain = f"{cast}({writer.sql(value)} AS {TYPES[to]})"
    if isinstance(value, exp.Literal) and value.is_int and int(value.name) < 2 ** (BITS[to] - 1):
        return plain
    if kind in INTEGERS:
        return plain if BITS[kind] <= BITS[to] else _wrapped(operand(writer, value), to)
    if kind in FRACTIONS:
        wide = exp.DType.BIGINT if to == exp.DType.BIGINT else exp.DType.INT
        stopped = let([operand(writer, value)], lambda v: _stopped(v[0], wide))
        return stopped if to == wide else _wrapped(f"({stopped})", to)
    if kind == exp.DType.DECIMAL and to != exp.DType.BIGINT:
        return _wrapped(f"{cast}({writer.sql(value)} AS BIGINT)", to)
    return plain


def _wrapped(text: str, to: exp.DType) -> str:
    """The low bits of a whole number, the highest one taken for the sign."""
    top = 1 << (BITS[to] - 1)
    return f"CAST((({text} & {2 * top - 1}L) ^ {top}L) - {top}L AS {TYPES[to]})"


def _stopped(text: str, to: exp.DType) -> str:
    top = 1 << (BITS[to] - 1)
    last = "L" if to == exp.DType.BIGINT else ""
    low = f"-{top - 1}{last} - 1{last}"
    return (
        f"CASE WHEN isnan({text}) THEN 0{last} WHEN {text} >= {float(top)!r}D THEN {top - 1}{last} "
        f"WHEN {text} <= {float(-top)!r}D THEN {low} ELSE CAST({text} AS {TYPES[to]}) END"
    )


def _without_fraction(writer: SparkGenerator, value: exp.Expr) -> str:
    if isinstance(value, exp.Literal) and "." not in value.name:
        return writer.sql(value)
    cut = r"regexp_replace({0}, '^(\\s*[+-]?[0-9]+)[.][0-9]*(\\s*)$', '$1')"
    form = f"if(contains({{0}}, '.'), {cut}, {{0}})"
    return let([operand(writer, value)], lambda v: form.replace("{0}", v[0]))


# --- times ---


def _to_time(writer: SparkGenerator, value: exp.Expr, to: exp.DataType, cast: str) -> str:
    """To TIMESTAMP(p) or TIMESTAMP_LTZ(p): what is finer than p digits is dropped."""
    digits = precision_of(to, MICROS)
    kind, known, text = kind_of(value), type_of(value), writer.sql(value)
    if (
        kind == exp.DType.TIME
    ):  # of the first day (TimeToTimestampCastRule), which Spark does not cast
        text = f"concat('1970-01-01 ', CAST({text} AS STRING))"
    plain = f"{cast}({text} AS {writer.sql(to)})"
    had = precision_of(known, DIGITS[kind]) if kind in DIGITS and known else MICROS
    if digits >= min(had, MICROS) or kind == exp.DType.DATE:
        return plain
    return _cut(plain, digits, of_instant=to.this == exp.DType.TIMESTAMPLTZ)


def _cut(time: str, digits: int, *, of_instant: bool) -> str:
    """A time without what is finer than so many digits of a second."""
    step, form = 10 ** (MICROS - digits), CUT_INSTANT if of_instant else CUT_LOCAL
    return let([time], lambda v: form.format(v[0], step))


def digits_of_times(kind: t.LogicalType) -> Sequence[int]:
    """The digits of a second that each time in a type has, as far as Spark keeps them."""
    times = (p for p in t.parts_of(kind) if isinstance(p, t.TimestampType | t.TimestampLtzType))
    return [min(time.precision, MICROS) for time in times]


def _is_cut(kind: t.LogicalType) -> bool:
    return min(digits_of_times(kind), default=MICROS) < MICROS


def at_precision(sql: str, kind: t.LogicalType) -> str:
    """A value whose times, inside of it too, have no more digits of a second than its type says.

    What INSERT gives to a column of TIMESTAMP(3) is cut as by CAST (LogicalTypeCasts.supportsAvoidingCast).
    """
    if not _is_cut(kind):
        return sql
    match kind:
        case t.TimestampType(precision=digits) | t.TimestampLtzType(precision=digits):
            return _cut(sql, digits, of_instant=isinstance(kind, t.TimestampLtzType))
        case t.ArrayType(element=element):
            return f"transform({sql}, __x -> {at_precision('__x', element)})"
        case t.MapType(key=key, value=value):
            if _is_cut(value):
                sql = f"transform_values({sql}, (__k, __v) -> {at_precision('__v', value)})"
            if _is_cut(key):
                sql = f"transform_keys({sql}, (__k, __v) -> {at_precision('__k', key)})"
            return sql
        case t.RowType(fields=fields):
            return let([sql], lambda v: _row_at_precision(v[0], fields))
        case _:  # the elements of a MULTISET, which are counted by their values
            return sql


def _row_at_precision(sql: str, fields: Sequence[t.RowField]) -> str:
    items = (
        f"{spark_literal(field.name)}, {at_precision(f'{sql}.{quoted(field.name)}', field.type)}"
        for field in fields
    )
    return f"if({sql} IS NULL, NULL, named_struct({', '.join(items)}))"


def _to_time_of_day(writer: SparkGenerator, value: exp.Expr, to: exp.DataType, cast: str) -> str:
    """To TIME(p): what is finer than p digits is dropped, which Spark does from a TIME only."""
    kind, text, wanted = kind_of(value), writer.sql(value), writer.sql(to)
    if kind in TIMES:
        return let([text], lambda v: f"CAST({TIME_OF.format(*v)} AS {wanted})")
    whole = isinstance(value, exp.Literal) and "." not in value.name
    if kind in TEXTS and not whole and precision_of(to, 0) < MICROS:
        return f"CAST({cast}({text} AS TIME({MICROS})) AS {wanted})"
    return f"{cast}({text} AS {wanted})"


# --- bytes and texts ---


def _to_bytes(writer: SparkGenerator, value: exp.Expr, to: exp.DataType, cast: str) -> str:
    size, text = precision_of(to, 1), f"{cast}({writer.sql(value)} AS BINARY)"
    if to.this == exp.DType.BINARY:
        return f"rpad({text}, {size}, X'00')"
    return f"substring({text}, 1, {size})"


def _to_text(writer: SparkGenerator, value: exp.Expr, to: exp.DataType, cast: str) -> str:
    text = _text(writer, value, cast)
    if to.this == exp.DType.CHAR:
        return f"rpad({text}, {precision_of(to, 1)}, ' ')"
    return f"left({text}, {precision_of(to, 1)})" if to.expressions else text


# --- arrays, maps and rows ---


def _to_constructed(
    writer: SparkGenerator, value: exp.Expr, to: exp.DataType, node: exp.Cast
) -> str | None:
    """Part by part, where Spark casts a part otherwise than Flink; None where it does not, or nothing is known.

    (ArrayToArrayCastRule, MapToMapAndMultisetToMultisetCastRule, RowToRowCastRule.)
    """
    known = type_of(value)
    if known is None or known.this != to.this or len(known.expressions) < len(to.expressions):
        return None
    if to.this == exp.DType.STRUCT:
        if _fields(writer, "r", known, to, node) is None:
            return None
        return let([writer.sql(value)], lambda v: str(_fields(writer, v[0], known, to, node)))
    names = ("__x",) if to.this == exp.DType.ARRAY else ("__k", "__v")
    parts = [
        _cast_part(writer, exp.column(name), kind, wanted, node)
        for name, kind, wanted in zip(names, known.expressions, to.expressions, strict=True)
    ]
    if not any(own for _, own in parts):
        return None
    texts, sql = [text for text, _ in parts], writer.sql(value)
    if to.this == exp.DType.ARRAY:
        return f"transform({sql}, __x -> {texts[0]})"
    values = f"transform_values({sql}, (__k, __v) -> {texts[1]})"
    return (
        f"transform_keys({values}, (__k, __v) -> {texts[0]})"
        if known.expressions[0] != to.expressions[0]
        else values
    )


def _fields(
    writer: SparkGenerator, sql: str, known: exp.DataType, to: exp.DataType, node: exp.Cast
) -> str | None:
    own = len(known.expressions) > len(to.expressions)  # those behind are left out
    items = []
    for field, wanted in zip(known.expressions, to.expressions, strict=False):
        item = exp.Dot(this=exp.var(sql), expression=field.this.copy())
        text, differs = _cast_part(writer, item, field.args["kind"], wanted.args["kind"], node)
        items += [writer.sql(exp.Literal.string(wanted.name)), text]
        own |= differs
    return f"if({sql} IS NULL, NULL, named_struct({', '.join(items)}))" if own else None


def _cast_part(
    writer: SparkGenerator, item: exp.Expr, kind: exp.DataType, wanted: exp.DataType, node: exp.Cast
) -> tuple[str, bool]:
    """The cast of a part, and whether it is another than Spark's own."""
    item.type = kind
    text = writer.sql(type(node)(this=item, to=wanted.copy()))
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return text, text != f"{word}({writer.sql(item)} AS {writer.sql(wanted)})"


def _row_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    """ROW(a, b), whose fields have Flink's names: Spark would name them by columns, or not."""
    items = [
        f"{writer.sql(exp.Literal.string(field_name(index)))}, {writer.sql(item)}"
        for index, item in enumerate(call.expressions)
    ]
    return f"named_struct({', '.join(items)})"


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "CONCAT": _concat_sql,
    "CONCAT_WS": _concat_ws_sql,
    "ROW": _row_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
