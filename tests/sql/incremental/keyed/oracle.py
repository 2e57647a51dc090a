"""What tests of keyed operators share: DuckDB as the oracle, random batches, and which cases `make test-fast` runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

Row = tuple[Any, ...]

WRITERS = ThreadPoolExecutor(1, "state of a test")
"""Writes the files of states one after the other, as the writers of a task do."""

_FEW_EXAMPLES = 20
"""What the profile of `make test-fast` asks of a property."""


def rounds(most: int, *, few: int) -> int:
    """Return the number of random batches: `few` where a property has few examples, too."""
    return few if settings().max_examples <= _FEW_EXAMPLES else most


def some_fast(names: Iterable[object], fast: Iterable[object]) -> list[ParameterSet]:
    """Return parameters of which `make test-fast` runs those in `fast`; `make test` runs all."""
    known = set(fast)
    return [
        pytest.param(name, marks=() if name in known else pytest.mark.slow, id=str(name))
        for name in names
    ]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB beside that of the operators; a new one costs as much as a batch."""
    return duckdb.connect()


def rows_in(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, of.type) for c, of in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def answer(sql: str, tables: Mapping[str, pa.Table]) -> Counter[Row]:
    """Return what a query gives over all rows of tables at once."""
    for name, rows in tables.items():
        _duckdb().register(name, rows)
    return Counter(_duckdb().execute(sql).fetchall())
