"""The table of built-in functions: whole, every row with an answer of Flink's, and strict about calls."""

from __future__ import annotations

import re

import pytest

from penstock.catalog.errors import InputErrors, UnsupportedError
from penstock.sql.compatibility import Status
from penstock.sql.compatibility.expressions import ELSEWHERE, FUNCTION_ROWS
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.spark.writer import FUNCTION_WRITERS, write_spark
from penstock.sql.expressions.expression import parse_expression
from penstock.sql.syntax.parse_errors import NodeError
from tests.sql.dialect.answers import (
    aggregates,
    casts,
    collections,
    json,
    numbers,
    texts,
    times,
)
from tests.sql.sql_objects import TABLES, new_namespace, parse_script

# The functions of Flink 2.2's page that are called by a name (docs/data/sql_functions.yml).
PAGE = """
POWER ABS SQRT LN LOG10 LOG2 LOG EXP CEIL CEILING FLOOR SIN SINH COS TAN TANH COT ASIN ACOS ATAN ATAN2 COSH
DEGREES RADIANS SIGN ROUND PI E RAND RAND_INTEGER UUID BIN HEX UNHEX TRUNCATE PERCENTILE CHAR_LENGTH
CHARACTER_LENGTH UPPER LOWER POSITION PRINTF TRIM LTRIM RTRIM BTRIM REPEAT REGEXP_REPLACE OVERLAY STARTSWITH
ENDSWITH SUBSTRING REPLACE REGEXP_COUNT REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_INSTR REGEXP_SUBSTR TRANSLATE
INITCAP CONCAT CONCAT_WS LPAD RPAD FROM_BASE64 TO_BASE64 ASCII CHR DECODE ENCODE INSTR LEFT RIGHT LOCATE
URL_DECODE URL_ENCODE PARSE_URL REGEXP REVERSE SPLIT_INDEX STR_TO_MAP SUBSTR JSON_QUOTE JSON_UNQUOTE ELT
LOCALTIMESTAMP CURRENT_DATE CURRENT_TIMESTAMP NOW CURRENT_ROW_TIMESTAMP EXTRACT YEAR QUARTER MONTH WEEK
DAYOFYEAR DAYOFMONTH DAYOFWEEK HOUR MINUTE SECOND DATE_FORMAT TIMESTAMPADD TIMESTAMPDIFF CONVERT_TZ
FROM_UNIXTIME UNIX_TIMESTAMP TO_DATE TO_TIMESTAMP_LTZ TO_TIMESTAMP CURRENT_WATERMARK NULLIF COALESCE IF IFNULL
IS_ALPHA IS_DECIMAL IS_DIGIT GREATEST LEAST CAST TRY_CAST TYPEOF CARDINALITY ELEMENT ARRAY_APPEND
ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_REVERSE ARRAY_SLICE ARRAY_SORT
ARRAY_UNION ARRAY_CONCAT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_MAX ARRAY_JOIN ARRAY_MIN MAP_KEYS MAP_UNION
MAP_VALUES MAP_ENTRIES MAP_FROM_ARRAYS SPLIT JSON_EXISTS JSON_STRING JSON_VALUE JSON_QUERY JSON_OBJECT JSON
JSON_ARRAY PARSE_JSON TRY_PARSE_JSON ROW MAP OBJECT_OF OBJECT_UPDATE GROUP_ID GROUPING_ID MD5 SHA1 SHA224
SHA256 SHA384 SHA512 SHA2 COUNT AVG SUM MAX MIN STDDEV_POP STDDEV_SAMP VAR_POP VAR_SAMP COLLECT VARIANCE
FIRST_VALUE LAST_VALUE LISTAGG ARRAY_AGG JSON_OBJECTAGG JSON_ARRAYAGG CURRENT_DATABASE
"""
ANSWERED = "\n".join(
    sql
    for family in (texts, numbers, times, collections, json, casts, aggregates)
    for sql, _ in family.ANSWERS
)


def test_every_function_of_flinks_page_has_a_row() -> None:
    """In the table, or among those with a syntax of their own; of groups and windows in queries."""
    rows = {row.name for row in FUNCTION_ROWS} | set(ELSEWHERE)

    assert [name for name in PAGE.split() if name not in rows] == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_that_runs_has_an_answer_of_flinks(name: str) -> None:
    """Its example among them, unless that is of columns."""
    row = FUNCTIONS[name]
    if row.refusal is not None or name in ELSEWHERE:
        return

    assert f"{name}(" in ANSWERED or f"{name}[" in ANSWERED
    assert row.aggregate or row.example in ANSWERED or "RAND" in name or name in ("NOW", "UUID")


@pytest.mark.parametrize("name", sorted(n for n, row in FUNCTIONS.items() if row.method))
def test_a_form_that_depends_on_types_is_there(name: str) -> None:
    """Rows name functions of the writer; a missing one would show only in a query."""
    assert FUNCTIONS[name].aggregate or name in FUNCTION_WRITERS


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("LPAD('a')", "LPAD takes 3 arguments, not 1"),
        ("UPPER()", "UPPER takes 1 argument, not none"),
        ("LOG(1, 2, 3)", "LOG takes 1 or 2 arguments, not 3"),
        ("PI(1)", "PI takes no arguments, not 1"),
        ("ELT(1)", "ELT takes 2 or more arguments, not 1"),
        ("TIMESTAMPDIFF(DAY, a)", "TIMESTAMPDIFF takes 3 arguments, not 2"),
        ("COLLECT(a, b)", "COLLECT takes 1 argument, not 2"),
    ],
)
def test_a_call_with_other_arguments_is_refused_with_an_example(sql: str, message: str) -> None:
    """The hint is a call that is right."""
    with pytest.raises(NodeError) as caught:
        write_spark(parse_expression(sql))

    assert caught.value.message == message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("write for instance ")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("ROUND(a, b)", "not a constant"),
        ("TRUNCATE(a, 1)", "type could not be determined"),
        ("TRUNCATE(1.5, b)", "not a constant"),
        ("DATE_FORMAT(a, 'YYYY-MM-dd')", "the letter 'Y'"),
        ("FROM_UNIXTIME(a, 'ww')", "the letter 'w'"),
        ("EXTRACT(DECADE FROM INTERVAL '1' DAY)", "of an interval"),
        ("FLOOR(a TO HOUR)", "type could not be determined"),
        ("TO_TIMESTAMP_LTZ(a)", "type could not be determined"),
        ("CAST(ROW(a, 1) AS STRING)", "depends on the types of its parts"),
        ("CAST((a, 1) AS CHAR(3))", "depends on the types of its parts"),
        ("TRY_CAST(ARRAY[f(a)] AS STRING)", "depends on the types of its parts"),
        ("CAST(MAP['a', f(a)] AS STRING)", "depends on the types of its parts"),
        ("CAST(CAST(a AS TIMESTAMP_LTZ(3)) AS BIGINT)", "no CAST of a TIMESTAMP_LTZ to a number"),
        ("CAST(CAST(a AS INT) AS TIMESTAMP_LTZ(3))", "no CAST of a number to a TIMESTAMP_LTZ"),
        ("TRY_CAST(CAST(a AS TIME) AS DECIMAL(9, 3))", "no CAST of a TIME to a number"),
        ("CAST(INTERVAL '1' DAY AS BIGINT)", "an interval to a number"),
        (
            "CONCAT(CAST(a AS ARRAY<INT>), b)",
            "CONCAT takes texts, and this is of the type ARRAY<INT>",
        ),
        ("a || CAST(b AS ROW<c INT>)", "|| takes texts, and this is of the type ROW<c INT>"),
        (
            "CONCAT_WS(',', CAST(a AS BOOLEAN))",
            "CONCAT_WS takes texts, and this is of the type BOOLEAN",
        ),
        ("JSON_VALUE(a, b)", "not written out"),
        ("JSON_VALUE(a, 'a')", "begins with $"),
        ("JSON_VALUE(a, '$..b')", "'..b' in a JSON path"),
        ("JSON_VALUE(a, '$.b' RETURNING DATE)", "returns STRING, BOOLEAN, INT or DOUBLE"),
        ("JSON_QUERY(a, '$' RETURNING ARRAY<INT>)", "returns STRING or ARRAY<STRING>"),
        ("JSON(a)", "where no JSON is built"),
        ("JSON_OBJECT(KEY a VALUE 1)", "is written out"),
        ("PARSE_JSON(a, TRUE)", "duplicate keys"),
        ("a SIMILAR TO b", "not written out"),
        ("PERCENTILE(a, b)", "is a constant"),
    ],
)
def test_what_spark_cannot_say_is_refused_in_words(sql: str, words: str) -> None:
    """Rather than guessed at."""
    with pytest.raises(NodeError) as caught:
        write_spark(parse_expression(sql))

    assert words in caught.value.message


def test_a_refusal_stands_at_the_call() -> None:
    """Line, column and length of what is wrong in the query."""
    with pytest.raises(InputErrors) as caught:
        parse_script("SELECT price,\n  LPAD(extra) FROM bids", "q.sql", new_namespace(TABLES))
    (error,) = caught.value.errors
    span = error.span

    assert isinstance(error, UnsupportedError)
    assert span is not None
    assert (span.line, span.column) == (2, 3)


@pytest.mark.parametrize(
    ("sql", "form"),
    [
        # a long argument that a form repeats stands there once
        ("LN(" * 4 + "price" + ")" * 4, 10_000),
        ("INITCAP(" * 4 + "extra" + ")" * 4, 10_000),
        ("d / d / d / d / d / d", 10_000),
    ],
)
def test_nested_calls_do_not_grow_by_powers(sql: str, form: int) -> None:
    """Forms repeat their arguments."""
    assert len(write_spark(parse_expression(sql))) < form


@pytest.mark.parametrize("name", sorted(n for n, row in FUNCTIONS.items() if row.forms))
def test_no_column_can_be_taken_for_a_variable_of_a_lambda(name: str) -> None:
    """An argument may stand in a lambda, and columns are seldom named __x."""
    for form in FUNCTIONS[name].forms.values():
        lambdas = re.findall(r"((?:\w+, )*\w+)\)? ->", form)

        assert all(v.startswith("__") for names in lambdas for v in names.split(", "))


def test_rows_say_what_is_refused() -> None:
    """A refused function has its reason in the table that people read."""
    refused = {row.name for row in FUNCTION_ROWS if row.status == Status.REFUSE}

    assert refused == {n for n, f in FUNCTIONS.items() if f.refusal is not None} - set(ELSEWHERE)
