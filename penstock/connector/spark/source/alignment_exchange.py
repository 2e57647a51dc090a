"""Exchange of watermarks between the tables of one alignment group that one query reads.

Each source of a query is planned in a process of its own; Spark calls one after the other. The exchange is a
directory private to this start of the query, with one small file for each table, replaced atomically.
"""

from __future__ import annotations

import json
from pathlib import Path

from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.connector.scan import GroupMember
from penstock.connector.source.microbatch.events import AlignmentGroupFetched

__all__ = ["AlignmentExchange"]


class AlignmentExchange:
    """The board as one member sees it. Driver side; small local files, hardly blocking."""

    def __init__(self, member: GroupMember) -> None:
        self._directory = Path(member.directory)
        self._name = member.name
        self._others = dict(member.others)

    def publish(self, planning_round: int, reached_ms: int | None, next_ms: int | None) -> None:
        """Publish the watermark that the table reaches in this round, and could reach in the next;
        see PublishToAlignmentGroup.
        """
        make_private_folder(self._directory)
        value = {"round": planning_round, "reached_ms": reached_ms, "next_ms": next_ms}
        draft = self._path(f"{self._name}.new")
        draft.write_text(json.dumps(value), encoding="utf-8")
        draft.replace(self._path(self._name))

    def look(self, planning_round: int) -> AlignmentGroupFetched:
        """Read what the others get to in this round: Spark asks each table once a round, always in one order."""
        silent: list[str] = []
        lows: list[int] = []
        for name, table in sorted(self._others.items()):
            try:
                told = json.loads(self._path(name).read_text(encoding="utf-8"))
            except FileNotFoundError:
                silent.append(table)
                continue
            had_its_turn = told["round"] >= planning_round
            low_ms = told["reached_ms"] if had_its_turn else told["next_ms"]
            if low_ms is not None:
                lows.append(low_ms)
        return AlignmentGroupFetched(lowest_ms=min(lows, default=None), silent=tuple(silent))

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"
