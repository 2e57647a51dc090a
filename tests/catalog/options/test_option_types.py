"""Texts are read as Flink reads them, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LIST,
    LONG,
    MEMORY,
    STRING,
    OptionType,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "5 min", 300_000),
        (DURATION, "1s", 1000),
        (DURATION, " 200 ms ", 200),
        (DURATION, "200", 200),
        (DURATION, "2 H", 7_200_000),
        (DURATION, "1day", 86_400_000),
        (DURATION, "1500 us", 1),
        (DURATION, "1009000 µs", 1009),
        (MEMORY, "8 mb", 8 << 20),
        (MEMORY, "1gb", 1 << 30),
        (MEMORY, "42", 42),
        (INT, " -7 ", -7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (BOOLEAN, "TRUE", True),
        (LIST, "a; b ;c;", ("a", "b", "c")),
        (LIST, "", ()),
        (STRING, " as it is ", " as it is "),
    ],
)
def test_values_are_read_as_flink_reads_them(
    kind: OptionType[object], text: str, value: object
) -> None:
    """Durations become milliseconds, sizes bytes."""
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DURATION, ""),
        (DURATION, "5 weeks"),
        (DURATION, "-1 s"),
        (DURATION, "1.5 s"),
        (DURATION, "99999999999999999999 d"),
        (DURATION, "٣ s"),
        (MEMORY, "8 min"),
        (INT, "2147483648"),
        (INT, "1_000"),
        (INT, "1.0"),
        (INT, ""),
        (BOOLEAN, "yes"),
    ],
)
def test_other_values_are_refused(kind: OptionType[object], text: str) -> None:
    """Python would take some of them."""
    with pytest.raises(ValueError):
        kind.parse(text)


@given(st.text())
def test_a_value_is_parsed_or_refused(text: str) -> None:
    """Parsers raise ValueError and nothing else."""
    for kind in (DURATION, MEMORY, INT, LONG, BOOLEAN, LIST, STRING):
        try:
            kind.parse(text)
        except ValueError:
            continue
