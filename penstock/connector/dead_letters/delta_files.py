"""Read the dead letters of a Delta table without an engine. `store.py` reads them with Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from penstock.connector.delta.log import NotReadableHereError, is_delta_table, read_rows
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.storage import open_folder

__all__ = ["DeadLetterFiles", "NotReadableHereError", "has_dead_letters"]

_DEAD_LETTER_COLUMNS = tuple(define_dead_letter_table(BesideCheckpoint(), "").schema.names)
_REPLAYS = tuple(define_replay_table("").schema.names)
_COUNTED = ("table", "pipeline", "stage", "error", *RECORD_POSITION)
_KIND = re.compile(ERROR_KIND)
_RecordPosition = tuple[Any, ...]


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

    def counts(self) -> Sequence[DeadLetterCount]:
        """Count as `DeadLetterStore.counts` does. Raises NotReadableHereError."""
        planned = self._planned_positions()
        letters: Counter[tuple[str, ...]] = Counter()
        replayed: Counter[tuple[str, ...]] = Counter()
        for row in self._rows(_COUNTED):
            found = _KIND.match(row["error"] or "")
            kind = (row["table"], row["pipeline"], row["stage"], found[1] if found else "")
            letters[kind] += 1
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

    def newest(self, limit: int | None) -> Sequence[dict[str, Any]]:
        """Return the last dead letters, newest first; None is all. Raises NotReadableHereError."""
        planned = self._planned_positions()

        def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
            numbers = (-1 if row[name] is None else row[name] for name in ("offset", "position"))
            return (row["left_out_at"], row["batch_id"], *numbers)

        rows = sorted(self._rows(_DEAD_LETTER_COLUMNS), key=order, reverse=True)[:limit]
        return [{**row, "replayed": self._position(row) in planned} for row in rows]

    def _rows(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        found = read_rows(open_folder(self.path), columns)
        rows = [] if found is None else found.to_pylist()
        return [row for row in rows if self._is_asked_for(row["pipeline"])]

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
        """Return the places of records that were replayed: from here, or from elsewhere to where they came from."""
        positions = set()
        for path in (self.path, *self.others):
            found = read_rows(open_folder(f"{path.rstrip('/')}{REPLAYED_SUFFIX}"), _REPLAYS)
            for row in [] if found is None else found.to_pylist():
                back = path == self.path or row["target"] in {None, row["topic"]}
                if row["state"] == ReplayState.PLANNED.value and back:
                    positions.add(self._position(row))
        return positions
