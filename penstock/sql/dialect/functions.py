"""Flink's built-in functions as data: what each returns and how Spark says the same.

One row per function; the parser takes names from here, the type inference results, the writer
forms. A form is Spark SQL text with {0}, {1}, ... for the arguments and {*} for all of them; where
the number of arguments matters there is one form for each. Where the engines differ (on no match,
on bad input, on NULL) the form gives Flink's answer. Functions with a syntax of their own (CAST,
EXTRACT, TRIM, ...) and those whose form depends on types are methods of the writer (write.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

__all__ = ["FIRST", "FUNCTIONS", "LAST", "Function", "result_argument"]

T = TypeVar("T")

FIRST, LAST = "<first>", "<last>"
"""`returns` of a function whose result has the type of its first, or last, argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function. `refusal` (what to write instead, or why not) excludes `forms`."""

    name: str
    returns: str | None = None
    forms: Mapping[int, str] = field(default_factory=dict)
    any_form: str | None = None
    aggregate: bool = False
    refusal: str | None = None

    def form(self, arguments: int) -> str | None:
        """The Spark text for this number of arguments; None if Flink has no such call."""
        return self.forms.get(arguments, self.any_form)

    @property
    def arities(self) -> str:
        """The numbers of arguments allowed, in words."""
        return " or ".join(str(n) for n in sorted(self.forms)) or "any number of"


def result_argument(function: Function | None, arguments: Sequence[T]) -> T | None:
    """The argument whose type the result has; None where the result has a type of its own."""
    if function is None or not arguments or function.returns not in (FIRST, LAST):
        return None
    return arguments[0] if function.returns == FIRST else arguments[-1]


def _same(returns: str | None, names: str) -> list[Function]:
    return [Function(name=n, returns=returns, any_form=f"{n}({{*}})") for n in names.split()]


def _to(name: str, returns: str | None, *forms: str, least: int = 1) -> list[Function]:
    """`forms` are for `least`, `least` + 1, ... arguments."""
    return [Function(name=name, returns=returns, forms=dict(enumerate(forms, start=least)))]


def _refused(hint: str, names: str) -> list[Function]:
    return [Function(name=n, refusal=hint) for n in names.split()]


def _aggregate(name: str, returns: str | None, *forms: str) -> list[Function]:
    function = _to(name, returns, *forms)[0]
    return [
        Function(name=name, returns=returns, forms=function.forms, any_form=None, aggregate=True)
    ]


# Epoch range in which Flink's TO_TIMESTAMP_LTZ has a result: years 0000 to 9999
# (DateTimeUtils.toTimestampData); outside it is NULL, where Spark fails the query.
MIN_SECONDS, MAX_SECONDS = -62_167_219_200, 253_402_300_799
MIN_MILLIS, MAX_MILLIS = -62_167_219_200_000, 253_402_300_799_999

# What Flink's one-argument TO_TIMESTAMP takes (DateTimeUtils.DEFAULT_TIMESTAMP_FORMATTER).
TIMESTAMP_PATTERN = (
    "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    "( ([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](\\\\.[0-9]{1,9})?)?$"
)
# Braces are doubled because a form is filled with str.format.
PATTERN_IN_FORM = TIMESTAMP_PATTERN.replace("{", "{{").replace("}", "}}")

# A timestamp without zone, read with a pattern; NULL if the text does not fit. Spark has no
# try_to_timestamp_ntz: the text is read as if in UTC, so that no session zone shifts it.
READ_NTZ = (
    "timestampadd(MICROSECOND, unix_micros(try_to_timestamp(concat({0}, ' +0000'), "
    "concat({1}, ' xx'))), TIMESTAMP_NTZ '1970-01-01 00:00:00')"
)
LEGACY_WINDOW = (
    "write a windowing table function: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size)) "
    "GROUP BY window_start, window_end"
)
LATER = "a later release will run it"

ROWS: tuple[list[Function], ...] = (
    # --- strings ---
    _same(
        "STRING", "UPPER LOWER CONCAT CONCAT_WS REPEAT REPLACE REVERSE LPAD RPAD LEFT RIGHT LTRIM"
    ),
    _same("STRING", "RTRIM BTRIM MD5 SHA1 INITCAP CHR TRANSLATE SUBSTR REGEXP_REPLACE UUID ELT"),
    _same("STRING", "REGEXP_SUBSTR HEX BIN PRINTF SPLIT_PART"),
    _same("INT", "CHAR_LENGTH CHARACTER_LENGTH ASCII INSTR LOCATE LEVENSHTEIN REGEXP_COUNT"),
    _same("BOOLEAN", "STARTSWITH ENDSWITH REGEXP_LIKE"),
    _to("TO_BASE64", "STRING", "base64({0})"),
    _to("FROM_BASE64", "STRING", "CAST(unbase64({0}) AS STRING)"),
    _to("REGEXP", "BOOLEAN", "({0} RLIKE {1})", least=2),
    # Flink: the whole match unless told otherwise, and NULL (Spark: '') where nothing matches.
    _to(
        "REGEXP_EXTRACT",
        "STRING",
        "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, 0) END",
        "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, {2}) END",
        least=2,
    ),
    # The delimiter is no regular expression; NULL behind the last part (get never fails).
    _to("SPLIT_INDEX", "STRING", r"get(split({0}, concat('\\Q', {1}, '\\E')), {2})", least=3),
    _to(
        "STR_TO_MAP",
        "MAP<STRING, STRING>",
        "str_to_map({0}, ',', '=')",
        "str_to_map({0}, {1}, '=')",
        "str_to_map({0}, {1}, {2})",
    ),
    *(_to(f"SHA{n}", "STRING", f"sha2({{0}}, {n})") for n in (224, 256, 384, 512)),
    _to("SHA2", "STRING", "sha2({0}, {1})", least=2),
    _to("PARSE_URL", "STRING", "try_parse_url({0}, {1})", "try_parse_url({0}, {1}, {2})", least=2),
    _to("ENCODE", "BYTES", "encode({0}, {1})", least=2),
    _to("DECODE", "STRING", "decode({0}, {1})", least=2),
    _to("IS_ALPHA", "BOOLEAN", r"coalesce({0} RLIKE '^\\p{{L}}+$', false)"),
    _to("IS_DIGIT", "BOOLEAN", r"coalesce({0} RLIKE '^\\p{{Nd}}+$', false)"),
    # --- numbers ---
    _same(FIRST, "ABS MOD ROUND SIGN"),
    _same("DOUBLE", "POWER SQRT LN LOG10 LOG2 EXP SIN COS TAN COT ASIN ACOS ATAN ATAN2 SINH COSH"),
    _same("DOUBLE", "TANH DEGREES RADIANS PI E RAND LOG"),
    _to("RAND_INTEGER", "INT", "CAST(floor(rand() * {0}) AS INT)"),
    _to("CEILING", FIRST, "ceil({0})"),
    # --- time ---
    _to("NOW", "TIMESTAMP_LTZ(3)", "current_timestamp()", least=0),
    _to("CURRENT_ROW_TIMESTAMP", "TIMESTAMP_LTZ(3)", "current_timestamp()", least=0),
    _to("TO_DATE", "DATE", "try_cast({0} AS DATE)", "try_to_date({0}, {1})"),
    _to(
        "TO_TIMESTAMP",
        "TIMESTAMP(3)",
        f"CASE WHEN {{0}} RLIKE '{PATTERN_IN_FORM}' THEN try_cast({{0}} AS TIMESTAMP_NTZ) END",
        READ_NTZ,
    ),
    # their forms are methods of the writer
    [Function(name="TO_TIMESTAMP_LTZ", returns="TIMESTAMP_LTZ(3)")],
    [Function(name="TIMESTAMPADD", returns=LAST)],
    [Function(name="TIMESTAMPDIFF", returns="INT")],
    _to("FROM_UNIXTIME", "STRING", "from_unixtime({0})", "from_unixtime({0}, {1})"),
    _to(
        "UNIX_TIMESTAMP",
        "BIGINT",
        "unix_timestamp()",
        "unix_timestamp({0}, 'yyyy-MM-dd HH:mm:ss')",
        "unix_timestamp({0}, {1})",
        least=0,
    ),
    _to("DATE_FORMAT", "STRING", "date_format({0}, {1})", least=2),
    _to(
        "CONVERT_TZ",
        "STRING",
        "date_format(convert_timezone({1}, {2}, try_cast({0} AS TIMESTAMP_NTZ)), "
        "'yyyy-MM-dd HH:mm:ss')",
        least=3,
    ),
    *(
        _to(unit, "BIGINT", f"CAST(extract({unit} FROM {{0}}) AS BIGINT)")
        for unit in ["YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND"]
    ),
    _to("DAYOFYEAR", "BIGINT", "CAST(dayofyear({0}) AS BIGINT)"),
    _to("DAYOFMONTH", "BIGINT", "CAST(dayofmonth({0}) AS BIGINT)"),
    _to("DAYOFWEEK", "BIGINT", "CAST(dayofweek({0}) AS BIGINT)"),
    # --- collections ---
    _same("INT", "CARDINALITY"),
    _same("BOOLEAN", "ARRAY_CONTAINS"),
    _same("STRING", "ARRAY_JOIN"),
    _same(FIRST, "ARRAY_DISTINCT ARRAY_REMOVE ARRAY_UNION ARRAY_EXCEPT"),
    _same(FIRST, "ARRAY_INTERSECT"),
    _to("ARRAY_REVERSE", FIRST, "reverse({0})"),
    _same(None, "ARRAY_MAX ARRAY_MIN MAP_KEYS MAP_VALUES MAP_ENTRIES MAP_FROM_ARRAYS"),
    _to("ARRAY_POSITION", "INT", "CAST(array_position({0}, {1}) AS INT)", least=2),
    [Function(name="ROW", any_form="struct({*})")],
    [Function(name="MAP", any_form="map({*})")],
    # --- aggregates (COUNT, SUM, AVG, MIN, MAX, ... are nodes of sqlglot) ---
    _aggregate("APPROX_COUNT_DISTINCT", "BIGINT", "approx_count_distinct({0})"),
    _aggregate("ARRAY_AGG", None, "collect_list({0}) RESPECT NULLS"),
    # --- what Spark cannot say, or cannot yet ---
    _refused(LEGACY_WINDOW, "TUMBLE HOP SESSION CUMULATE TUMBLE_START TUMBLE_END TUMBLE_ROWTIME"),
    _refused(LEGACY_WINDOW, "HOP_START HOP_END HOP_ROWTIME SESSION_START SESSION_END"),
    _refused(LEGACY_WINDOW, "SESSION_ROWTIME TUMBLE_PROCTIME HOP_PROCTIME SESSION_PROCTIME"),
    _refused(f"use a column with event time; {LATER}", "PROCTIME"),
    _refused("the watermark is Spark's, not a value of a row", "CURRENT_WATERMARK"),
    _refused("declare the watermark by an expression of columns", "SOURCE_WATERMARK"),
    _refused("use TO_TIMESTAMP or TO_TIMESTAMP_LTZ", "TO_INSTANT"),
    _refused(LATER, "COLLECT JSON_OBJECT JSON_ARRAY JSON_OBJECTAGG JSON_ARRAYAGG JSON_EXISTS"),
    _refused(LATER, "JSON_STRING JSON TYPEOF ELEMENT TRUNCATE IS_DECIMAL GROUP_ID GROUPING_ID"),
    _refused("Penstock runs no models", "ML_PREDICT ML_EVALUATE VECTOR_SEARCH"),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({f.name: f for row in ROWS for f in row})
"""Every function with a row, by its name in upper case."""
