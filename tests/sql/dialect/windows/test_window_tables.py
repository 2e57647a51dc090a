"""Windowing functions in their typed form, however they are written."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from penstock.catalog.errors import InputError
from penstock.sql.dialect import Flink, WindowKind, WindowTable, window_tables

MINUTE = 60_000


def window(sql: str) -> WindowTable:
    """The one windowing function of a query."""
    (found,) = window_tables(sqlglot.parse_one(f"SELECT * FROM {sql}", read=Flink))
    return found


@pytest.mark.parametrize(
    "sql",
    [
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
        "TABLE(tumble(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES))",
        "TABLE(TUMBLE(SIZE => INTERVAL '600' SECOND(3), TIMECOL => DESCRIPTOR(ts), DATA => TABLE t))",
    ],
)
def test_spellings_of_one_window_are_the_same(sql: str) -> None:
    """By position or by name, with TABLE(...) around it or not."""
    found = window(sql)

    assert found.kind is WindowKind.TUMBLE
    assert found.kind == "TUMBLE"
    assert (found.time_column, found.size_ms, found.offset_ms) == ("ts", 10 * MINUTE, 0)
    assert isinstance(found.input, exp.Table)
    assert found.input.name == "t"


def test_hop_has_a_slide_before_its_size() -> None:
    """As in Flink."""
    found = window(
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE, INTERVAL '-1' MINUTE)) AS w"
    )

    assert (found.slide_ms, found.size_ms, found.offset_ms) == (5 * MINUTE, 10 * MINUTE, -MINUTE)
    assert found.alias == "w"


def test_cumulate_has_a_step_before_its_size() -> None:
    """As in Flink."""
    found = window("CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)")

    assert (found.kind, found.step_ms, found.size_ms) == (
        WindowKind.CUMULATE,
        60 * MINUTE,
        1440 * MINUTE,
    )


@pytest.mark.parametrize("keys", ["k", "(k)", "(k, j)"])
def test_session_has_a_gap_and_may_have_keys(keys: str) -> None:
    """PARTITION BY stands behind the table."""
    found = window(
        f"TABLE(SESSION(TABLE t PARTITION BY {keys}, DESCRIPTOR(ts), INTERVAL '30' SECOND))"
    )

    assert (found.gap_ms, found.size_ms) == (30_000, 0)
    assert found.partition_by == tuple(keys.strip("()").split(", "))


def test_a_window_may_read_a_query_and_a_window() -> None:
    """Outer ones come first, so that who replaces them backwards finds the inner ones done."""
    inner = "(SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)))"
    tree = sqlglot.parse_one(
        f"SELECT * FROM TABLE(TUMBLE({inner}, DESCRIPTOR(window_time), INTERVAL '1' MINUTE))",
        read=Flink,
    )

    outer, found = window_tables(tree)

    assert (outer.size_ms, found.size_ms) == (MINUTE, 1000)
    assert isinstance(outer.input, exp.Subquery)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("TUMBLE(TABLE t, DESCRIPTOR(ts))", "TUMBLE lacks the argument SIZE"),
        ("TUMBLE(TABLE t, ts, INTERVAL '1' DAY)", "TUMBLE takes one time column"),
        ("TUMBLE(TABLE t, DESCRIPTOR(a, b), INTERVAL '1' DAY)", "TUMBLE takes one time column"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), 10)", "the size of TUMBLE is not an interval"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "a window's length is fixed"),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0' DAY)",
            "the size of TUMBLE must be positive",
        ),
        (
            "TUMBLE(t, DESCRIPTOR(ts), INTERVAL '1' DAY)",
            "the first argument of TUMBLE is not a table",
        ),
        (
            "TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZ => INTERVAL '1' DAY)",
            "TUMBLE has no such argument",
        ),
        (
            "TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' DAY)",
            "TUMBLE takes no PARTITION BY",
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '3' MINUTE, INTERVAL '10' MINUTE)",
            "the size of HOP must be a multiple of its slide: 600000 ms and 180000 ms",
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' HOUR, INTERVAL '1' DAY)",
            "the size of CUMULATE must be a multiple of its step",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(sql: str, message: str) -> None:
    """With Flink's rules."""
    with pytest.raises(InputError) as caught:
        window(sql)

    assert caught.value.message.startswith(message)
