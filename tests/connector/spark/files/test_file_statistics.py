"""Statistics of files never say more than is true: no row lies outside of its bounds."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.file_output import FileColumn, stored_type
from penstock.connector.spark.files.parquet_file import ParquetFile

LAST = "\U0010ffff"


def statistics_of(
    folder: Path, kind: str, values: list[Any], *, groups: int = 1, statistics: bool = True
) -> dict[str, Any]:
    """Those of a column v, whose values come in so many row groups."""
    column = FileColumn(
        name="v", type=stored_type(parse_type(kind)), source=None, statistics=statistics
    )
    name = f"{uuid4()}.parquet"
    file = ParquetFile(folder, name, (column,), compression="snappy", mode=0o600)
    array = pa.array(values, arrow_type(column.type))
    each = max(1, len(values) // groups)
    for first in range(0, len(values), each):
        part = array.slice(first, each)
        file.write(pa.table({"v": part}))
    written = file.finish()
    found: dict[str, Any] = json.loads(written.statistics, parse_float=Decimal)
    return found


TEXTS = st.text(
    alphabet=st.sampled_from(["a", "b", "\x7f", "é", "\uffff", "🙂", LAST]), max_size=70
)
MICROS = st.integers(-(1 << 62), 1 << 62)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all examples, each by a name of its own."""
    return tmp_path_factory.mktemp("files")


@given(values=st.lists(st.none() | TEXTS, min_size=1, max_size=6), groups=st.integers(1, 3))
def test_texts_lie_between_their_bounds(
    folder: Path, values: list[str | None], groups: int
) -> None:
    """Compared by code points, as UTF-8 compares; bounds have 32 characters, and one behind."""
    found = statistics_of(folder, "STRING", values, groups=groups)
    low, high = found["minValues"].get("v"), found["maxValues"].get("v")
    there = [value for value in values if value is not None]

    assert found["numRecords"] == len(values)
    assert found["nullCount"]["v"] == len(values) - len(there)
    assert (low is None) == (not there)
    assert all(low <= value for value in there)
    if high is not None:
        assert all(value <= high for value in there)
        assert len(high) <= 65
    longest = max(map(len, there), default=0)
    if there and longest <= 32:
        assert (low, high) == (min(there), max(there))


def test_a_long_text_is_cut_as_delta_cuts_it(folder: Path) -> None:
    """The smallest is a beginning, the largest one with the last character behind it."""
    found = statistics_of(folder, "STRING", ["a" * 40, "b" * 40])
    cut = statistics_of(folder, "STRING", ["b" * 32 + LAST * 2 + "c"])
    none = statistics_of(folder, "STRING", [LAST * 70])
    huge = statistics_of(folder, "STRING", ["x" * 10_000])

    assert found["minValues"]["v"] == "a" * 32
    assert found["maxValues"]["v"] == "b" * 32 + LAST
    assert cut["maxValues"]["v"] == "b" * 32 + LAST * 3
    assert (none["minValues"]["v"], none["maxValues"]) == (LAST * 32, {})
    # Parquet has no bounds of such a text
    assert (huge["minValues"], huge["maxValues"]) == ({}, {})


@given(
    values=st.lists(st.none() | st.floats(width=32), min_size=1, max_size=6),
    kind=st.sampled_from(["FLOAT", "DOUBLE"]),
    groups=st.integers(1, 3),
)
def test_numbers_lie_between_their_bounds_and_nan_has_none(
    folder: Path, values: list[float | None], kind: str, groups: int
) -> None:
    """Spark has NaN above all numbers; infinity is left out as well."""
    found = statistics_of(folder, kind, values, groups=groups)
    there = [value for value in values if value is not None]
    low, high = found["minValues"].get("v"), found["maxValues"].get("v")

    if any(map(math.isnan, there)) or not there:
        assert (low, high) == (None, None)
        return
    assert low is None or all(float(low) <= value for value in there)
    assert high is None or all(value <= float(high) for value in there)
    if all(map(math.isfinite, there)):
        assert (float(low), float(high)) == (min(there), max(there))


@given(values=st.lists(MICROS, min_size=1, max_size=4), groups=st.integers(1, 2))
def test_times_lie_between_their_bounds(folder: Path, values: list[int], groups: int) -> None:
    """Down to the millisecond, so that readers add one to the largest; far times have no bound."""
    found = statistics_of(folder, "TIMESTAMP_LTZ(6)", values, groups=groups)
    local = statistics_of(folder, "TIMESTAMP(6)", values, groups=groups)
    bounds = [("minValues", min(values)), ("maxValues", max(values))]

    for name, micros in bounds:
        text = found[name].get("v")
        assert text == (None if "v" not in local[name] else f"{local[name]['v']}Z")
        first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        inside = (first - epoch) <= timedelta(microseconds=micros) <= (last - epoch)
        assert not inside or text is not None
        if text is not None:
            at_us = (datetime.fromisoformat(text) - epoch) // timedelta(microseconds=1)
            assert at_us <= micros < at_us + 1_000


@given(values=st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=4))
def test_decimals_are_told_exactly(folder: Path, values: list[int]) -> None:
    """Of every width, as digits."""
    for precision in (38, 18, 9):
        scaled = [abs(value) % 10**precision * (-1 if value < 0 else 1) for value in values]
        given_values = [Decimal(value).scaleb(-5, Context(prec=38)) for value in scaled]
        found = statistics_of(folder, f"DECIMAL({precision}, 5)", given_values)

        assert Decimal(found["minValues"]["v"]) == min(given_values)
        assert Decimal(found["maxValues"]["v"]) == max(given_values)


def test_fields_of_rows_have_their_own_and_collections_are_counted(folder: Path) -> None:
    """NULL in a row counts for each field; a collection inside a row has none."""
    kind = "ROW<x INT, y ROW<z DOUBLE, w DOUBLE>, a ARRAY<INT>, s STRING>"
    row = {"x": 1, "y": {"z": math.nan, "w": -0.0}, "a": [9], "s": "t"}
    found = statistics_of(folder, kind, [row, None, {**row, "y": None}])
    array = statistics_of(folder, "ARRAY<INT>", [[1, None], None, []])
    mapped = statistics_of(folder, "MAP<STRING, INT>", [[("a", 1)], None])

    assert found["minValues"] == {"v": {"x": 1, "y": {"w": Decimal("-0.0")}, "s": "t"}}
    assert found["maxValues"] == {"v": {"x": 1, "y": {"w": Decimal("0.0")}, "s": "t"}}
    assert found["nullCount"] == {"v": {"x": 1, "y": {"z": 2, "w": 2}, "s": 1}}
    assert array == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"v": 1}}
    assert mapped["nullCount"] == {"v": 1}


def test_a_column_without_statistics_has_none(folder: Path) -> None:
    """Rows are counted."""
    found = statistics_of(folder, "INT", [1], statistics=False)

    assert found == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}


@pytest.mark.parametrize(
    ("kind", "values", "bounds"),
    [
        ("DATE", [date(1, 1, 1), date(9999, 12, 31)], ["0001-01-01", "9999-12-31"]),
        ("TINYINT", [-128, 127], [-128, 127]),
        ("BIGINT", [-(1 << 63), (1 << 63) - 1], [-(1 << 63), (1 << 63) - 1]),
        ("BOOLEAN", [False, True], [None, None]),
        ("BYTES", [b"\x00", b"\xff"], [None, None]),
    ],
)
def test_bounds_of_other_types(
    folder: Path, kind: str, values: list[Any], bounds: list[Any]
) -> None:
    """Truth values and bytes have none, as in Delta."""
    found = statistics_of(folder, kind, values)

    assert [found["minValues"].get("v"), found["maxValues"].get("v")] == bounds
