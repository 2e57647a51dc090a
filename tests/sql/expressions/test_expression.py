"""Expressions of tables: what they read, what type they have, how they are written out."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import TimestampLtzType, TimestampType
from penstock.sql.expressions.expression import (
    columns_of,
    infer_type,
    substitute,
    timestamp_kind,
    to_spark,
)

TYPES = {
    "n": "BIGINT",
    "i": "INT NOT NULL",
    "s": "STRING",
    "d": "DOUBLE",
    "c": "DECIMAL(10, 2)",
    "ts": "TIMESTAMP(3)",
    "l": "TIMESTAMP_LTZ(3)",
    "p": "ROW<ts BIGINT, x ROW<y STRING>>",
}
SCHEMA = Schema(
    columns=tuple(PhysicalColumn(name=name, type=parse_type(kind)) for name, kind in TYPES.items())
)


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("ts - INTERVAL '5' SECOND", {"ts"}),
        ("p.x.y || s", {"p", "s"}),
        ("TIMESTAMPADD(DAY, n, ts)", {"n", "ts"}),
        ("EXTRACT(HOUR FROM ts) + n", {"ts", "n"}),
        ("CAST('x' AS STRING)", set()),
        ("`p`.`ts`", {"p"}),
    ],
)
def test_the_columns_of_an_expression_are_those_of_the_table(
    expression: str, columns: set[str]
) -> None:
    """Of p.x.y it is p; words such as DAY are none."""
    assert columns_of(expression) == columns


@pytest.mark.parametrize(
    ("expression", "columns", "written"),
    [
        (
            "rt - INTERVAL '5' SECOND",
            {"rt": "TO_TIMESTAMP(s)"},
            "(TO_TIMESTAMP(s)) - INTERVAL '5' SECOND",
        ),
        ("a * 2", {"a": "b + c"}, "(b + c) * 2"),
        ("a", {"a": "b + c"}, "b + c"),
        ("a + b", {"a": "b", "b": "a"}, "b + a"),
        ("a.x.y", {"a": "ROW(1, 2)"}, "((ROW(1, 2)).x).y"),
        ("t.a", {"a": "b"}, "t.a"),
        ("`a b`", {"a b": "c"}, "c"),
    ],
)
def test_columns_are_written_out_at_once_and_keep_their_precedence(
    expression: str, columns: dict[str, str], written: str
) -> None:
    """What is put in is not looked through again."""
    assert substitute(expression, columns) == written


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("n", "BIGINT"),
        ("i", "INT"),
        ("p.ts", "BIGINT"),
        ("p.x.y", "STRING"),
        ("i + i", "INT"),
        ("i * n / 2", "BIGINT"),
        ("i + d", "DOUBLE"),
        ("c * 2", None),
        ("TO_TIMESTAMP(s)", "TIMESTAMP(3)"),
        ("TO_TIMESTAMP_LTZ(n, 3)", "TIMESTAMP_LTZ(3)"),
        ("ts - INTERVAL '5' SECOND", "TIMESTAMP(3)"),
        ("(l)", "TIMESTAMP_LTZ(3)"),
        ("CAST(s AS TIMESTAMP(3))", "TIMESTAMP(3)"),
        ("TRY_CAST(s AS DECIMAL(5, 1))", "DECIMAL(5, 1)"),
        ("COALESCE(ts, TO_TIMESTAMP(s))", "TIMESTAMP(3)"),
        ("COALESCE(ts, l)", None),
        ("IF(n > 0, s, NULL)", "STRING"),
        ("CASE WHEN n > 0 THEN 1 ELSE 2 END", "INT"),
        ("n > 0 AND s IS NULL", "BOOLEAN"),
        ("s || 'x'", "STRING"),
        ("UPPER(s)", "STRING"),
        ("ABS(i)", "INT"),
        ("TIMESTAMPADD(DAY, 1, l)", "TIMESTAMP_LTZ(3)"),
        ("my_function(n)", None),
        ("3000000000", "BIGINT"),
    ],
)
def test_a_type_is_told_only_for_sure(expression: str, kind: str | None) -> None:
    """Decimals, mixtures and unknown functions are left open."""
    found = infer_type(expression, SCHEMA)

    assert (None if found is None else str(found)) == (kind and str(parse_type(kind)))


def test_event_time_is_local_or_an_instant() -> None:
    """What a watermark's column has to be."""
    kinds = [
        timestamp_kind(text, SCHEMA) for text in ("TO_TIMESTAMP(s)", "TO_TIMESTAMP_LTZ(n, 3)", "n")
    ]

    assert kinds == [TimestampType, TimestampLtzType, None]


def test_a_division_is_of_whole_numbers_where_the_types_say_so() -> None:
    """Without types Spark decides: the value is the same."""
    assert to_spark("n / 1000", SCHEMA) == "CAST(`n` DIV 1000 AS BIGINT)"
    assert to_spark("d / 1000", SCHEMA) == "`d` / 1000"
    assert "typeof(`n`)" in to_spark("n / 1000")


def test_what_spark_cannot_say_is_refused_by_name() -> None:
    """With what to write instead."""
    with pytest.raises(UnsupportedError, match="TUMBLE_START is not supported") as caught:
        to_spark("TUMBLE_START(ts, INTERVAL '1' DAY)", SCHEMA)

    assert "windowing table function" in (caught.value.hint or "")


def test_a_date_and_an_hour_have_no_type_that_is_sure() -> None:
    """A DATE and a day are a DATE; what is not sure has no type."""
    kinds = [
        infer_type(f"TIMESTAMPADD({unit}, 1, DATE '2026-01-01')", SCHEMA)
        for unit in ("DAY", "HOUR")
    ]

    assert kinds == [parse_type("DATE"), None]


@pytest.mark.parametrize("call", ["REPLACE(s, 'a', 'b')", "TRUNCATE(d, 1)"])
def test_an_expression_may_begin_as_a_statement_does(call: str) -> None:
    """REPLACE TABLE and TRUNCATE TABLE are statements, REPLACE(...) and TRUNCATE(...) functions."""
    assert columns_of(call) in ({"s"}, {"d"})
