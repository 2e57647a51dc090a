"""Write expressions for DuckDB, which evaluates event time while a micro-batch is planned.

A closed set: each form has, value for value, Spark's result (tests compare the two), or NULL where Spark fails or
would need another time zone. A time that is too late would lose rows, so DuckDB's defaults are not used: casts do not
round, texts are read only in shapes that both engines read alike, errors are NULL. TRY stands around each operation
that can fail: DuckDB moves what occurs twice out of a TRY around the whole. Java's date patterns become strptime
formats, from a closed set of letters of fixed width.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from penstock.sql.dialect.functions.time import MAX_MILLIS, MAX_SECONDS, MIN_MILLIS, MIN_SECONDS
from penstock.sql.dialect.spark.types import precision_of
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.parse_errors import NodeError

# Letters of Java's date patterns: what strptime and strftime call them, and the digits they take.
PATTERN_LETTERS = {
    "yyyy": ("%Y", "[0-9]{4}"),
    "MM": ("%m", "[0-9]{2}"),
    "dd": ("%d", "[0-9]{2}"),
    "HH": ("%H", "[0-9]{2}"),
    "mm": ("%M", "[0-9]{2}"),
    "ss": ("%S", "[0-9]{2}"),
    "SSS": ("%g", "[0-9]{3}"),
    "SSSSSS": ("%f", "[0-9]{6}"),
}

PATTERN_PARTS = re.compile(r"'((?:[^']|'')*)'|((?:([A-Za-z])\3*)|[^A-Za-z'])")


def strptime_form(node: exp.Expr) -> tuple[str, str]:
    """The strptime form of a Java pattern, and the shape of the texts that it reads in Java."""
    literal = node.expressions[1]
    if not literal.is_string:
        raise NodeError(f"the pattern of {node.name} in a time column must be a text", literal)
    form, shape = "", ""
    for quoted, letters, letter in PATTERN_PARTS.findall(literal.name):
        if letters in PATTERN_LETTERS:
            one, digits = PATTERN_LETTERS[letters]
            form, shape = form + one, shape + digits
        elif letter:
            raise NodeError(
                f"the letters '{letters}' of a pattern are not supported in a time column",
                literal,
                f"supported are {', '.join(PATTERN_LETTERS)} and quoted text",
            )
        else:
            text = quoted.replace("''", "'") or letters or "'"
            form, shape = form + text.replace("%", "%%"), shape + re.escape(text)
    return form, f"^{shape}$"


DATE_SHAPE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"

TIME_SHAPE = "([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](\\.[0-9]{1,9})?"

FLINK_SHAPE = f"^{DATE_SHAPE}( {TIME_SHAPE})?$"

LOCAL_SHAPE = f"^{DATE_SHAPE}([ T]{TIME_SHAPE})?$"

ZONED_SHAPE = f"^{DATE_SHAPE}([ T]{TIME_SHAPE}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?$"

WHOLE = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)

TEXT = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR)

FRACTIONS = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)

OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.DPipe: "||",
}

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)

CUT_UNITS = {0: "second", 3: "milliseconds"}

MICROS = 6


def write_duckdb(tree: exp.Expr) -> str:
    """DuckDB SQL of an expression. Raises NodeError outside the supported set."""
    return f"TRY({_write(tree)})"


def _kind(node: exp.Expr | None) -> exp.DType:
    found = node.type if node is not None else None
    return found.this if found and isinstance(found.this, exp.DType) else exp.DType.UNKNOWN


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _write(node: exp.Expr) -> str:
    if type(node) in OPERATORS:
        binary = f"({_write(node.this)} {OPERATORS[type(node)]} {_write(node.expression)})"
        return f"TRY{binary}" if isinstance(node, ARITHMETIC) else binary
    form = FORMS.get(type(node))
    text = form(node) if form else None
    if text is not None:
        return text
    raise NodeError(
        f"{_title(node)} cannot be evaluated while a batch is planned, "
        "so no watermark can be made of it",
        node,
        "an expression with a watermark may use TO_TIMESTAMP, TO_TIMESTAMP_LTZ, FROM_UNIXTIME, "
        "CAST, COALESCE, NULLIF, CASE, IF, LEAST, GREATEST, REPLACE, SUBSTRING, CONCAT, "
        "CURRENT_TIMESTAMP, LOCALTIMESTAMP, arithmetic and intervals",
    )


def _column(node: exp.Expr) -> str:
    assert isinstance(node, exp.Column)
    return _fields(_name(node.parts[0].name), [part.name for part in node.parts[1:]])


def _dot(node: exp.Expr) -> str | None:
    field = node.expression
    return _fields(_write(node.this), [field.name]) if isinstance(field, exp.Identifier) else None


def _is(node: exp.Expr) -> str | None:
    if not isinstance(node.expression, exp.Null | exp.Boolean):
        return None
    negated = "NOT " if node.args.get("negate") else ""
    return f"({_write(node.this)} IS {negated}{_write(node.expression)})"


def _between(node: exp.Expr) -> str:
    low, high = _write(node.args["low"]), _write(node.args["high"])
    return f"({_write(node.this)} BETWEEN {low} AND {high})"


def _if(node: exp.Expr) -> str:
    no = node.args.get("false")
    other = _write(no) if no else "NULL"
    return f"CASE WHEN {_write(node.this)} THEN {_write(node.args['true'])} ELSE {other} END"


def _function(node: exp.Expr) -> str | None:
    function = FUNCTIONS.get(node.name.upper())
    return function(node) if function else None


def _title(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.upper()
    if isinstance(node, exp.Func):
        return node.sql_name()
    return node.sql("flink")


def _call(name: str, arguments: list[exp.Expr]) -> str:
    return f"{name}({', '.join(_write(argument) for argument in arguments)})"


def _fields(text: str, names: list[str]) -> str:
    for name in names:
        text = f"struct_extract({text}, {_string(name)})"
    return text


def _null_if_any(name: str, arguments: list[exp.Expr]) -> str:
    texts = [_write(argument) for argument in arguments]
    nulls = " OR ".join(f"{text} IS NULL" for text in texts)
    return f"CASE WHEN {nulls} THEN NULL ELSE {name}({', '.join(texts)}) END"


def _case(node: exp.Expr) -> str:
    subject = f" {_write(node.this)}" if node.this else ""
    branches = "".join(
        f" WHEN {_write(branch.this)} THEN {_write(branch.args['true'])}"
        for branch in node.args["ifs"]
    )
    default = node.args.get("default")
    return f"CASE{subject}{branches} ELSE {_write(default) if default else 'NULL'} END"


def _access(node: exp.Expr) -> str:
    this, index = _write(node.this), node.expressions[0]
    if index.is_string or _kind(node.this) == exp.DType.MAP:
        return f"{this}[{_write(index)}]"
    at = _write(index)  # an index below 1 has no element; DuckDB would count from the end
    return f"CASE WHEN {at} >= 1 THEN {this}[{at}] END"


def _substring(node: exp.Expr) -> str:
    bounds = [node.args.get("start"), node.args.get("length")]
    if any(bound is not None and not bound.is_int for bound in bounds) or bounds[0] is None:
        raise NodeError("SUBSTRING in a time column takes fixed positions", node)
    if int(bounds[0].name) < 1:
        raise NodeError("SUBSTRING in a time column starts at 1 or later", node)
    return _call("substring", [node.this, *[bound for bound in bounds if bound is not None]])


def _division(node: exp.Expr) -> str:
    left, right = _write(node.this), _write(node.expression)
    kinds = (_kind(node.this), _kind(node.expression))
    if all(kind in WHOLE for kind in kinds):
        return f"TRY({left} // {right})"
    if exp.DType.UNKNOWN not in kinds or any(kind in FRACTIONS for kind in kinds):
        return f"TRY({left} / {right})"
    names = "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT'"
    whole = f"typeof({left}) IN ({names}) AND typeof({right}) IN ({names})"
    return f"CASE WHEN {whole} THEN TRY({left} // {right}) ELSE TRY({left} / {right}) END"


def _interval(node: exp.Expr) -> str:
    assert isinstance(node, exp.Interval)
    value = interval_value(node)
    return f"to_months({value.months})" if value.year_month else f"to_microseconds({value.micros})"


# --- casts ---


def _cast(node: exp.Expr) -> str:
    value, to = _write(node.this), node.args["to"].this
    kind = _kind(node.this)
    if to in WHOLE:
        # rounding would make a time too late: cut, as Spark and Flink do
        cut = value if kind in WHOLE else f"trunc(TRY_CAST({value} AS DECIMAL(38, 9)))"
        return f"TRY_CAST({cut} AS {'INTEGER' if to == exp.DType.INT else to.value})"
    if to == exp.DType.DOUBLE:
        return f"TRY_CAST({value} AS DOUBLE)"
    if to == exp.DType.TEXT and kind in (*WHOLE, *TEXT, exp.DType.UNKNOWN):
        return f"TRY_CAST({value} AS VARCHAR)"
    if to not in (exp.DType.DATE, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ) or kind in (
        *WHOLE,
        *FRACTIONS,
    ):
        raise NodeError(
            f"{node.sql('flink')} cannot be evaluated while a batch is planned",
            node,
            "of a number of seconds or milliseconds make TO_TIMESTAMP_LTZ(n, 0) or (n, 3)",
        )
    if to == exp.DType.DATE:
        return _timed(value, kind, f"^{DATE_SHAPE}$", "DATE")
    local = to == exp.DType.TIMESTAMPNTZ
    cast = _timed(value, kind, LOCAL_SHAPE, "TIMESTAMP") if local else _instant(value, kind)
    return _cut(cast, node)


def _cut(cast: str, node: exp.Expr) -> str:
    """A TIMESTAMP(p) without what is finer than p digits, as `dialect/spark/casts.py` has it."""
    digits, known = precision_of(node.args["to"], MICROS), node.this.type
    timed = known is not None and known.is_type(exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ)
    had = precision_of(known, MICROS) if known is not None and timed else MICROS
    if digits >= had or _kind(node.this) == exp.DType.DATE:
        return cast
    unit = CUT_UNITS.get(digits)
    if unit is None:
        raise NodeError(
            f"{node.sql('flink')} cannot be evaluated while a batch is planned",
            node,
            "write TIMESTAMP(0), TIMESTAMP(3) or TIMESTAMP(6)",
        )
    return f"date_trunc('{unit}', {cast})"


def _timed(value: str, kind: exp.DType, shape: str, target: str) -> str:
    """A cast to a time; a text only in the given shape."""
    cast = f"TRY_CAST({value} AS {target})"
    if kind not in (*TEXT, exp.DType.UNKNOWN):
        return cast
    fits = f"regexp_matches(CAST({value} AS VARCHAR), {_string(shape)})"
    if kind == exp.DType.UNKNOWN:
        fits = f"(typeof({value}) <> 'VARCHAR' OR {fits})"
    return f"CASE WHEN {fits} THEN {cast} END"


def _instant(value: str, kind: exp.DType) -> str:
    """A cast to TIMESTAMP_LTZ. An hour that the clocks go through twice is the first, as in Java;
    DuckDB takes the second, which would be too late.
    """
    if kind == exp.DType.TIMESTAMPLTZ:
        return value
    zoned = f"TRY_CAST({value} AS TIMESTAMPTZ)"
    local = f"TRY_CAST({value} AS TIMESTAMP)"
    stamp = f"CAST({local} AS TIMESTAMPTZ)"
    for repeated in ("30 MINUTE", "1 HOUR"):
        earlier = f"{zoned} - INTERVAL {repeated}"
        stamp = f"CASE WHEN CAST({earlier} AS TIMESTAMP) = {local} THEN {earlier} ELSE {stamp} END"
    if kind in (exp.DType.TIMESTAMPNTZ, exp.DType.DATE):
        return stamp
    text = f"CAST({value} AS VARCHAR)"
    from_text = (
        f"CASE WHEN regexp_matches({text}, {_string(LOCAL_SHAPE)}) THEN {stamp} "
        f"WHEN regexp_matches({text}, {_string(ZONED_SHAPE)}) THEN {zoned} END"
    )
    if kind in TEXT:
        return from_text
    return (
        f"CASE WHEN typeof({value}) = 'VARCHAR' THEN {from_text} "
        f"WHEN typeof({value}) IN ('TIMESTAMP', 'DATE') THEN {stamp} ELSE {zoned} END"
    )


# --- functions ---


def _to_timestamp(node: exp.Expr) -> str:
    arguments = node.expressions
    value = _write(arguments[0])
    if len(arguments) == 1:
        return _milliseconds(_timed(value, exp.DType.TEXT, FLINK_SHAPE, "TIMESTAMP"))
    pattern, shape = strptime_form(node)
    read = f"try_strptime({value}, {_string(pattern)})"
    plain = _timed(f"trim({value})", exp.DType.TEXT, FLINK_SHAPE, "TIMESTAMP")
    fits = f"CASE WHEN regexp_matches({value}, {_string(shape)}) THEN {read} END"
    return _milliseconds(f"coalesce({fits}, {plain})")


def _milliseconds(value: str) -> str:
    """What is finer than a millisecond is dropped; left in, it would make a time too late."""
    return f"date_trunc('milliseconds', {value})"


def _to_timestamp_ltz(node: exp.Expr) -> str:
    arguments = node.expressions
    precision = arguments[1].name if len(arguments) == 2 and arguments[1].is_int else None
    if len(arguments) == 1 and _kind(arguments[0]) in (*WHOLE, *FRACTIONS):
        precision = "3"
    if precision not in ("0", "3"):
        raise NodeError(
            "TO_TIMESTAMP_LTZ of anything but an epoch number is not supported",
            node,
            "write TO_TIMESTAMP_LTZ(epoch, 0) for seconds, (epoch, 3) for milliseconds",
        )
    value = _write(arguments[0])
    low, high, millis = MIN_MILLIS, MAX_MILLIS, f"trunc({value})"
    if precision == "0":
        low, high, millis = MIN_SECONDS, MAX_SECONDS, f"trunc({value} * CAST(1000 AS BIGINT))"
    stamp = f"TRY(make_timestamptz(CAST({millis} AS BIGINT) * 1000))"
    return f"CASE WHEN {value} BETWEEN {low} AND {high} THEN {stamp} END"


def _from_unixtime(node: exp.Expr) -> str:
    pattern = "%Y-%m-%d %H:%M:%S"
    if len(node.expressions) == 2:
        pattern, _ = strptime_form(node)
    value = f"CAST(trunc({_write(node.expressions[0])}) AS BIGINT)"
    return f"TRY(strftime(make_timestamptz({value} * 1000000), {_string(pattern)}))"


def _replace(node: exp.Expr) -> str:
    return _call("replace", node.expressions)


def _concat(node: exp.Expr) -> str:
    return "(" + " || ".join(_write(argument) for argument in node.expressions) + ")"


# --- the clock ---
# Rows have the time of their micro-batch, which Spark notes as it begins, in milliseconds, and keeps for a replay. The
# clock is asked here while the batch is planned, on the same machine, and cut as finely: the next batch begins later
# than that, so its rows are never behind a watermark that comes of it. Tasks, which may run elsewhere, do not ask it.

_NOW = "date_trunc('milliseconds', now())"


def _no_arguments(text: str) -> Callable[[exp.Expr], str | None]:
    return lambda node: None if node.expressions else text


FORMS: dict[type[exp.Expr], Callable[[exp.Expr], str | None]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: lambda e: f"({_write(e.this)})",
    exp.Literal: lambda e: _string(e.name) if e.is_string else e.name,
    exp.Null: lambda _: "NULL",
    exp.Boolean: lambda e: "TRUE" if e.this else "FALSE",
    exp.Neg: lambda e: f"(-{_write(e.this)})",
    exp.Not: lambda e: f"(NOT {_write(e.this)})",
    exp.Is: _is,
    exp.Between: _between,
    exp.Div: _division,
    exp.Interval: _interval,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Coalesce: lambda e: _call("coalesce", [e.this, *e.expressions]),
    exp.Nullif: lambda e: _call("nullif", [e.this, e.expression]),
    exp.Greatest: lambda e: _null_if_any("greatest", [e.this, *e.expressions]),
    exp.Least: lambda e: _null_if_any("least", [e.this, *e.expressions]),
    exp.If: _if,
    exp.Case: _case,
    exp.Bracket: _access,
    exp.Substring: _substring,
    exp.Anonymous: _function,
    exp.CurrentTimestamp: lambda _: _NOW,
    exp.Localtimestamp: lambda _: f"CAST({_NOW} AS TIMESTAMP)",
}


FUNCTIONS: dict[str, Callable[[exp.Expr], str | None]] = {
    "NOW": _no_arguments(_NOW),
    "CURRENT_ROW_TIMESTAMP": _no_arguments(_NOW),
    "UNIX_TIMESTAMP": _no_arguments("(epoch_ms(now()) // 1000)"),
    "TO_TIMESTAMP": _to_timestamp,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "FROM_UNIXTIME": _from_unixtime,
    "REPLACE": _replace,
    "CONCAT": _concat,
}
