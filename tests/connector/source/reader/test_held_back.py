"""What a pause holds back of fetches that were under way: all rows of its splits, nothing of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connector.source.reader.reader import PausedRecords
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds


def test_what_is_held_back_leaves_the_rest_of_a_fetch_alone() -> None:
    """Positions and ends go with the rows they belong to; skipped records are counted once."""
    held = PausedRecords()
    row = pa.record_batch({"n": [1]})
    fetched = RecordsWithSplitIds(
        batches=(("a", row), ("b", row)),
        finished=frozenset({"a", "c"}),
        positions={"a": 1, "b": 2, "c": 3},
        skipped=4,
    )
    rest = held.sift(fetched, {"a", "c"})
    waits = bool(held)

    assert rest == RecordsWithSplitIds(
        batches=(("b", row),), finished=frozenset({"c"}), positions={"b": 2, "c": 3}, skipped=4
    )
    assert waits
    assert held.release(["c", "a"]) == [
        RecordsWithSplitIds(batches=(("a", row),), finished=frozenset({"a"}), positions={"a": 1})
    ]
    assert not held


def test_parts_of_a_split_come_back_in_the_order_they_were_held() -> None:
    """Progress without rows keeps its place behind rows that wait."""
    held = PausedRecords()
    parts = [
        RecordsWithSplitIds(batches=(("a", pa.record_batch({"n": [1]})),), positions={"a": 1}),
        RecordsWithSplitIds(positions={"a": 5}, finished=frozenset("a")),
    ]
    rests = [held.sift(part, {"a"}) for part in parts]

    assert rests == [None, None]
    assert held.release(["a"]) == parts


def test_progress_without_rows_passes_a_pause() -> None:
    """Nothing of it can run ahead."""
    end = RecordsWithSplitIds(positions={"a": 5}, finished=frozenset("a"))

    assert PausedRecords().sift(end, {"a"}) == end


class Nowhere:
    """Origins that nobody asks."""

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Give nothing."""
        return ()


def test_rows_keep_their_origins_on_both_sides() -> None:
    """What waits and what goes on can both be led back to its records."""
    held, row = PausedRecords(), pa.record_batch({"n": [1]})
    of_a, of_b = Nowhere(), Nowhere()
    fetched = RecordsWithSplitIds(batches=(("a", row), ("b", row)), origins={"a": of_a, "b": of_b})
    rest = held.sift(fetched, {"a"})
    (waited,) = held.release(["a"])

    assert rest is not None
    assert (rest.origins, waited.origins) == ({"b": of_b}, {"a": of_a})
