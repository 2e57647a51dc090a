"""How the watermark of a raw record is found: plain ones are recognised, so that tasks need no query for them."""

from __future__ import annotations

import pytest

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import ComputedColumn, PhysicalColumn, Schema, Table, Watermark
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.scan import Delayed, DelayedValue
from penstock.sql.expressions.rowtime import rowtime_of

COLUMNS = {
    "ts": "TIMESTAMP(3)",
    "l": "TIMESTAMP_LTZ(3)",
    "s": "STRING",
    "n": "BIGINT",
    "d": "DOUBLE",
    "p": "ROW<ts TIMESTAMP(3)>",
}


def delayed(
    expression: str, column: str = "ts", computed: dict[str, str] | None = None
) -> Delayed | DelayedValue | None:
    """What is recognised of a watermark."""
    physical = [PhysicalColumn(name=n, type=parse_type(text)) for n, text in COLUMNS.items()]
    made = [ComputedColumn(name=n, expression=text) for n, text in (computed or {}).items()]
    table = Table(
        identifier=Identifier(catalog="c", database="d", name="t"),
        schema=Schema(
            columns=(*physical, *made),
            watermark=Watermark(column=column, expression=expression),
        ),
        options=(("connector", "kafka"),),
    )
    rowtime = rowtime_of(table)
    assert rowtime is not None
    return rowtime.delayed


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ts", 0),
        ("ts - INTERVAL '5' SECOND", 5_000_000),
        ("(`ts`) - INTERVAL '1 02:03:04.5' DAY TO SECOND", 93_784_500_000),
        ("ts - INTERVAL '-0.001' SECOND", -1000),
    ],
)
def test_a_delivered_time_less_an_interval_is_plain(expression: str, expected: int) -> None:
    """What nearly all watermarks are."""
    assert delayed(expression) == Delayed(column="ts", delay_us=expected)


def test_an_instant_is_plain_too() -> None:
    """As epoch microseconds it needs no time zone."""
    assert delayed("l - INTERVAL '1' MINUTE", "l") == Delayed(column="l", delay_us=60_000_000)


def test_a_computed_rowtime_may_be_plain() -> None:
    """It is another name for a delivered column."""
    assert delayed("at - INTERVAL '1' SECOND", "at", {"at": "ts"}) == Delayed(
        column="ts", delay_us=1_000_000
    )


@pytest.mark.parametrize(("precision", "unit_us"), [(0, 1_000_000), (3, 1000)])
def test_an_epoch_number_is_plain(precision: int, unit_us: int) -> None:
    """Seconds and milliseconds, through the computed column that it takes in SQL."""
    made = {"at": f"TO_TIMESTAMP_LTZ(n, {precision})"}

    assert delayed("at - INTERVAL '1' SECOND", "at", made) == Delayed(
        column="n", delay_us=1_000_000, unit_us=unit_us
    )


def test_a_fraction_is_not_plain() -> None:
    """It is cut at milliseconds by the query."""
    assert delayed("at", "at", {"at": "TO_TIMESTAMP_LTZ(d, 3)"}) is None


@pytest.mark.parametrize(
    "expression",
    [
        "ts - INTERVAL '1' MONTH",
        "ts + INTERVAL '1' SECOND",
        "TO_TIMESTAMP(s) - INTERVAL '1' SECOND",
        "CAST(l AS TIMESTAMP(3)) - INTERVAL '1' SECOND",
    ],
)
def test_anything_else_is_left_to_the_query(expression: str) -> None:
    """Months have no length, conversions a time zone."""
    assert delayed(expression) is None


@pytest.mark.parametrize(
    "expression",
    ["p.ts - INTERVAL '1' SECOND", "CASE WHEN n = 0 THEN ts ELSE p.ts END - INTERVAL '1' SECOND"],
)
def test_what_tasks_compute_needs_no_query(expression: str) -> None:
    """Records of several kinds have their times in fields of their own."""
    found = delayed(expression)

    assert isinstance(found, DelayedValue)
    assert found.delay_us == 1_000_000
