"""Read the dead letters of a Delta table without an engine. `store.py` reads them with Spark.

The process that asks may be one that runs pipelines: columns are read a batch at a time, records only of the letters
that are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from penstock.connector.dead_letters.table import (
    ERROR_KIND,
    RECORD_POSITION,
    REPLAYED_SUFFIX,
    DeadLetterCount,
    ReplayState,
    define_dead_letter_table,
    define_replay_table,
)
from penstock.connector.delta.files.live_rows import LiveRows, NotReadableHereError
from penstock.connector.delta.log import is_delta_table, live_rows, newest_log
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.storage import open_folder

__all__ = ["DeadLetterFiles", "NotReadableHereError", "has_dead_letters"]

_DEAD_LETTER_COLUMNS = tuple(define_dead_letter_table(BesideCheckpoint(), "").schema.names)
_REPLAYS = tuple(define_replay_table("").schema.names)
_COUNTED = ("table", "pipeline", "stage", "error")
_ORDER = ("left_out_at", "batch_id", "offset", "position")
_KIND = re.compile(ERROR_KIND)
_RecordPosition = tuple[Any, ...]
_RowPosition = tuple[int, int]


def has_dead_letters(path: str) -> bool:
    """Return whether there is a Delta table at `path`."""
    return is_delta_table(open_folder(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFiles:
    """The dead letters in the Delta table at `path` (absolute).

    `pipelines`, `others` (paths of more tables) and `clusters` are as `DeadLetterStore` has them.
    """

    path: str
    pipelines: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)

    def standing(self) -> tuple[object, ...]:
        """Return a value that is another once letters or replays are written. Raises NotReadableHereError."""
        paths = [self.path, *(f"{path.rstrip('/')}{REPLAYED_SUFFIX}" for path in self._paths())]
        return tuple((path, newest_log(open_folder(path))) for path in paths)

    def counts(self) -> Sequence[DeadLetterCount]:
        """Count as `DeadLetterStore.counts` does. Raises NotReadableHereError."""
        planned = self._planned_positions()
        columns = (*_COUNTED, *RECORD_POSITION) if planned else _COUNTED
        letters: Counter[tuple[str, ...]] = Counter()
        replayed: Counter[tuple[str, ...]] = Counter()
        for _, row in self._rows(live_rows(open_folder(self.path)), columns):
            found = _KIND.match(row["error"] or "")
            kind = (row["table"], row["pipeline"], row["stage"], found[1] if found else "")
            letters[kind] += 1
            if planned:
                replayed[kind] += self._position(row) in planned
        ordered = sorted(letters, key=lambda kind: (-letters[kind], kind))
        return [
            DeadLetterCount(
                table=kind[0],
                pipeline=kind[1],
                stage=kind[2],
                error=kind[3],
                letters=letters[kind],
                replayed=replayed[kind],
            )
            for kind in ordered
        ]

    def newest(self, limit: int | None, *, table: str | None = None) -> Sequence[dict[str, Any]]:
        """Return the last dead letters, newest first, of one table or of all; a `limit` of None is all of them.

        Raises NotReadableHereError.
        """
        found = live_rows(open_folder(self.path))
        if found is None:
            return []

        def order(row: tuple[_RowPosition, Mapping[str, Any]]) -> tuple[Any, ...]:
            first, *numbers = (row[1][name] for name in _ORDER)
            return (first, *(-1 if number is None else number for number in numbers))

        rows = (
            row
            for row in self._rows(found, (*_ORDER, "table", "pipeline"))
            if table in {None, row[1]["table"]}
        )
        last = (
            nlargest(limit, rows, order)
            if limit is not None
            else sorted(rows, key=order, reverse=True)
        )
        positions = [position for position, _ in last]
        whole = dict(found.pick(_DEAD_LETTER_COLUMNS, set(positions)))
        planned = self._planned_positions()
        return [
            {**whole[position], "replayed": self._position(whole[position]) in planned}
            for position in positions
        ]

    def _rows(
        self, found: LiveRows | None, columns: Sequence[str]
    ) -> Iterator[tuple[_RowPosition, dict[str, Any]]]:
        """Yield columns of the letters that are asked for, each with its position."""
        if found is None:
            return
        for (file, first), batch in found.batches(columns):
            for at, row in enumerate(batch.to_pylist(), first):
                if self._is_asked_for(row["pipeline"]):
                    yield (file, at), row

    def _paths(self) -> tuple[str, ...]:
        return (self.path, *self.others)

    def _is_asked_for(self, pipeline: str) -> bool:
        return self.pipelines is None or any(
            pipeline == name or pipeline.startswith(f"{name}/") for name in self.pipelines
        )

    def _position(self, row: Mapping[str, Any]) -> _RecordPosition:
        return (
            *(row[name] for name in RECORD_POSITION),
            self.clusters.get(row["table"], row["table"]),
        )

    def _planned_positions(self) -> set[_RecordPosition]:
        """Return the positions of records that were replayed: from here, or from elsewhere to where they came from."""
        positions = set()
        for path in self._paths():
            found = live_rows(open_folder(f"{path.rstrip('/')}{REPLAYED_SUFFIX}"))
            batches = () if found is None else found.batches(_REPLAYS)
            for row in (row for _, batch in batches for row in batch.to_pylist()):
                back = path == self.path or row["target"] in {None, row["topic"]}
                if row["state"] == ReplayState.PLANNED.value and back:
                    positions.add(self._position(row))
        return positions
