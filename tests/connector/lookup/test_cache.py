"""The cache of lookups: what it remembers, for how long, and how much of it. The clock is the test's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.lookup import cache as lookup_cache
from penstock.connector.lookup.cache import LookupCache
from penstock.connector.lookup.contract import CacheLimits
from penstock.connector.lookup.keyed_rows import Numbers, RowRanges, take_rows

SCHEMA = pa.schema([("key", pa.string()), ("version", pa.int64())])


class World:
    """A table in which key k has as many rows as its number says, and a cache before it."""

    def __init__(self, **limits: int | bool) -> None:
        self.cache = LookupCache(CacheLimits(**limits), SCHEMA)  # type: ignore[arg-type]
        self.version = 0
        self.asked: list[list[str]] = []

    def look(self, keys: Sequence[str], now_ms: int = 0) -> list[list[int]]:
        """The versions of the rows of each key; what is asked of the table is kept."""

        def fetch(unknown: Numbers) -> tuple[pa.Table, RowRanges]:
            names = [keys[number] for number in unknown]
            self.asked.append(names)
            counts = np.array([int(name[1:]) for name in names], np.int64)
            rows = [{"key": n, "version": self.version} for n in names for _ in range(int(n[1:]))]
            places = RowRanges(starts=np.cumsum(counts) - counts, counts=counts)
            return pa.Table.from_pylist(rows, SCHEMA), places

        table, places = self.cache.rows_of(keys, fetch, now_ms)
        for number, key in enumerate(keys):
            one = RowRanges(starts=places.starts[[number]], counts=places.counts[[number]])
            assert set(take_rows(table, one)["key"].to_pylist()) <= {key}
        found = take_rows(table, places)["version"].to_pylist()
        ends = np.cumsum(places.counts)
        return [found[end - count : end] for end, count in zip(ends, places.counts, strict=True)]


def test_a_key_is_asked_for_once_and_one_without_rows_as_well() -> None:
    """Beside keys that are new."""
    world = World()
    world.look(["a1", "b0"])

    assert world.look(["b0", "c2", "a1"]) == [[], [0, 0], [0]]
    assert world.asked == [["a1", "b0"], ["c2"]]


def test_keys_without_rows_are_asked_for_again_where_they_are_not_remembered() -> None:
    """Flink: lookup.partial-cache.cache-missing-key."""
    world = World(missing=False)
    world.look(["a1", "b0"])
    world.look(["a1", "b0"])

    assert world.asked == [["a1", "b0"], ["b0"]]


def test_rows_expire_after_they_were_read_however_much_they_are_used() -> None:
    """A row that was updated is seen then."""
    world = World(after_write_ms=100)
    world.look(["a1"], 0)
    world.version = 1

    assert world.look(["a1"], 60) == [[0]]
    assert world.look(["a1"], 99) == [[0]]
    assert world.look(["a1"], 100) == [[1]]


def test_rows_expire_after_they_were_used_last() -> None:
    """Those that are looked up all the time stay."""
    world = World(after_access_ms=100)
    world.look(["a1", "b1"], 0)
    world.version = 1
    world.look(["a1"], 80)

    assert world.look(["a1", "b1"], 150) == [[0], [1]]


def test_what_was_not_used_for_longest_makes_room() -> None:
    """Rows are counted, and a key without rows is one; what a batch needs itself is given though it is too much."""
    world = World(max_rows=4)
    world.look(["a1", "b2", "c0"])
    world.look(["a1"])

    assert world.look(["d1"]) == [[0]]  # b2 goes
    world.look(["a1", "c0", "d1"])
    assert world.look(["b2", "e9"]) == [[0] * 2, [0] * 9]
    assert world.asked == [["a1", "b2", "c0"], ["d1"], ["b2", "e9"]]
    assert len(world.cache) == 0  # e9 alone is too much


def test_what_nobody_asks_for_again_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time alone bounds a cache of keys that come once."""
    monkeypatch.setattr(lookup_cache, "SLACK", 10)
    world = World(after_write_ms=10)
    for number in range(100):
        world.look([f"{chr(65 + number % 26)}1"], number * 10)

    assert len(world.cache) == 1
    table, _ = world.cache.rows_of([], lambda _: pytest.fail("nothing is asked"), 0)
    assert table.num_rows <= 12


keys = st.lists(st.sampled_from(["a0", "b1", "c2", "d3", "e1"]), unique=True, min_size=1)


@given(looks=st.lists(st.tuples(keys, st.integers(0, 60)), max_size=30), most=st.integers(1, 6))
def test_a_cache_never_gives_rows_older_than_its_limit(
    looks: Iterable[tuple[list[str], int]], most: int
) -> None:
    """As a plain table of when each key was read would say, whatever is evicted and moved."""
    lookup_cache.SLACK, slack = 3, lookup_cache.SLACK
    try:
        world, now = World(max_rows=most, after_write_ms=100), 0
        for wanted, pause in looks:
            now += pause
            world.version = now
            for key, versions in zip(wanted, world.look(wanted, now), strict=True):
                assert len(versions) == int(key[1:])
                assert all(now - 100 < version <= now for version in versions)
            assert len(world.cache) <= most
    finally:
        lookup_cache.SLACK = slack
