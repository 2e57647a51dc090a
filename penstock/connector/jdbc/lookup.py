"""Looks rows up in a database by their keys, in a task of Spark's: asks for those that are not remembered.

With `lookup.cache` = PARTIAL rows are remembered in the worker process, from batch to batch, for each lookup of a
query; else until the end of the task, so that a batch asks for a key once in each of its tasks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Event

import pyarrow as pa

from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.arrow.types import arrow_type
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.key_reader import KeyReader
from penstock.connector.jdbc.lookup_query import key_texts
from penstock.connector.jdbc.settings import JdbcTable, LookupSettings
from penstock.connector.lookup.cache import LookupCache
from penstock.connector.lookup.contract import CacheLimits, LookupKey, MissRetry
from penstock.connector.lookup.keyed_rows import (
    DistinctKeys,
    Numbers,
    RowRanges,
    distinct_keys,
    group_rows,
    rows_as_lists,
)
from penstock.connector.lookup.retry import Ask, Wait, rows_with_retry

__all__ = ["JdbcLookup"]

OF_A_TASK = CacheLimits(max_rows=100_000)
"""What a task remembers where there is no cache."""

MOST_CACHES = 16
"""Lookups of one worker process; queries that have ended leave theirs behind."""

Clock = Callable[[], int]
"""Milliseconds from some moment on."""


def _wait(seconds: float) -> None:
    Event().wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLookup:
    """Returns the rows of keys (`Lookup`). `name` is unique, so that its cache is found again."""

    name: str
    table: JdbcTable
    settings: LookupSettings
    keys: tuple[LookupKey, ...]
    columns: tuple[PhysicalColumn, ...]
    rows_at_once: int
    retry: MissRetry | None = None

    def rows(self, parts: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Return the rows of each key, batch by batch (`Lookup`)."""
        return self.rows_by(parts, _cache_of(self), lambda: time.monotonic_ns() // 1_000_000)

    def rows_by(
        self,
        parts: Iterator[tuple[pa.Array, ...]],
        cache: LookupCache,
        clock: Clock,
        wait: Wait = _wait,
    ) -> Iterator[pa.Array]:
        """Return the rows of each key; keys that `cache` does not hold are queried, and keys without rows again."""
        database = JdbcDatabase.of(self.table, retries=self.settings.retries)
        types = [arrow_type(key.type) for key in self.keys]
        with closing(database.reads()) as reads:
            reader = KeyReader(self.table, self.keys, self.columns, self.rows_at_once, reads)
            ask = partial(rows_with_retry, reader.rows_of, retry=self.retry, wait=wait)
            for part in parts:
                typed = [column.cast(kind) for column, kind in zip(part, types, strict=True)]
                yield _answer(distinct_keys(typed), cache, ask, clock())

    def new_cache(self) -> LookupCache:
        """Make the cache that the options ask for, empty."""
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        return LookupCache(self.settings.cache or OF_A_TASK, schema)


def _answer(asked: DistinctKeys, cache: LookupCache, ask: Ask, now_ms: int) -> pa.ListArray:
    names: Sequence[Hashable] = list(zip(*key_texts(asked.columns), strict=True))

    def fetch(unknown: Numbers) -> tuple[pa.Table, RowRanges]:
        rows, numbers = ask([part.take(pa.array(unknown)) for part in asked.columns])
        return group_rows(rows, numbers, len(unknown))

    rows, places = cache.rows_of(names, fetch, now_ms)
    return rows_as_lists(rows, places, asked.of_row)


_CACHES: OrderedDict[str, LookupCache] = OrderedDict()
"""Of this worker process, which runs one task at a time; those that were used last stand last."""


def _cache_of(lookup: JdbcLookup) -> LookupCache:
    if lookup.settings.cache is None:
        return lookup.new_cache()
    if lookup.name not in _CACHES:
        _CACHES[lookup.name] = lookup.new_cache()
    _CACHES.move_to_end(lookup.name)
    while len(_CACHES) > MOST_CACHES:
        _CACHES.popitem(last=False)
    return _CACHES[lookup.name]
