"""Rows of several splits one split after the other, whatever order fetches bring them in. Called in reading tasks.

A consumer of several partitions gives their records as they come, which depends on timing. Here the rows of the first
split that is not finished pass, and those of the others wait. Beyond a bound the splits that wait are paused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from penstock.connector.source.reader.source_operator import PauseOrResume

WAITING_BYTES = 64 << 20
"""Bytes of rows that wait in one task before their splits are paused: what is fetched again then costs more time than
this memory saves."""


class SplitOrder:
    """Orders the rows of splits by split, in the order of `split_ids`. Rows of a split come in reading order.

    `waiting_bytes` is the size of the rows that wait.
    """

    def __init__(self, split_ids: Sequence[str], *, most_bytes: int = WAITING_BYTES) -> None:
        self.waiting_bytes = 0
        self._most_bytes = most_bytes
        self._waiting: dict[str, list[pa.RecordBatch]] = {split_id: [] for split_id in split_ids}
        self._finished: set[str] = set()
        self._paused: frozenset[str] = frozenset()

    def take(
        self, batches: Iterable[tuple[str, pa.RecordBatch]], finished: Collection[str]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take the rows of a fetch, which finishes some splits, and yield those whose turn it is."""
        for split_id, batch in batches:
            self._waiting[split_id].append(batch)
            self.waiting_bytes += batch.nbytes
        self._finished.update(finished)
        while self._waiting:
            first = next(iter(self._waiting))
            rows, self._waiting[first] = self._waiting[first], []
            self.waiting_bytes -= sum(batch.nbytes for batch in rows)
            for batch in rows:
                yield first, batch
            if first not in self._finished:
                return
            del self._waiting[first]

    def check_end(self) -> None:
        """Check behind the last fetch that no row waits: its split, or one before, was never said to be finished."""
        left = [split_id for split_id, rows in self._waiting.items() if rows]
        assert not left, (
            f"rows of {left} wait for splits that did not finish: {list(self._waiting)}"
        )

    def change(self) -> PauseOrResume:
        """Return which splits are to be paused now, and which are to go on: the first one always does.

        Those that are paused stay so until half of the bytes are taken.
        """
        others = frozenset(islice(self._waiting, 1, None)) - self._finished
        if self.waiting_bytes >= self._most_bytes:
            paused = others
        else:
            paused = (
                self._paused & others if self.waiting_bytes * 2 > self._most_bytes else frozenset()
            )
        change = PauseOrResume(
            pause=paused - self._paused, resume=(self._paused - paused) - self._finished
        )
        self._paused = paused
        return change
