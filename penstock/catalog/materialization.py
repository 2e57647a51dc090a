"""What makes a table a materialized one: the query that fills it, and how fresh it is to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import DefinitionError

__all__ = [
    "Materialization",
    "RefreshMode",
    "materialization_from_json",
    "materialization_to_json",
]

DEFAULT_FRESHNESS_MS = {"CONTINUOUS": 3 * 60_000, "FULL": 60 * 60_000}
"""Of a table that names none (Flink: materialized-table.default-freshness.continuous and .full)."""

FULL_FROM_MS = 30 * 60_000
"""From this freshness on a table that names no mode is refreshed in full.

Flink: materialized-table.refresh-mode.freshness-threshold.
"""


class RefreshMode(StrEnum):
    """How a materialized table is kept: by a streaming query, or written anew as a whole from time to time."""

    CONTINUOUS = "CONTINUOUS"
    FULL = "FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialization:
    """A materialized table's query, as Flink SQL with full names, and what it was declared with.

    `freshness_ms` and `mode` are None where the declaration leaves them open. `suspended`: it is not to be kept fresh,
    neither by a streaming query nor by refreshes.
    """

    query: str
    freshness_ms: int | None = None
    mode: RefreshMode | None = None
    suspended: bool = False

    def __post_init__(self) -> None:
        if self.freshness_ms is not None and self.freshness_ms < 1:
            raise DefinitionError(
                "FRESHNESS is a time above zero", hint="FRESHNESS = INTERVAL '3' MINUTE"
            )

    @property
    def refresh_mode(self) -> RefreshMode:
        """How it is kept: as declared, else by its freshness."""
        if self.mode is not None:
            return self.mode
        long = self.freshness_ms is not None and self.freshness_ms >= FULL_FROM_MS
        return RefreshMode.FULL if long else RefreshMode.CONTINUOUS

    @property
    def interval_ms(self) -> int:
        """Its freshness: as declared, else by its mode."""
        return self.freshness_ms or DEFAULT_FRESHNESS_MS[self.refresh_mode]


def materialization_to_json(value: Materialization | None) -> dict[str, Any] | None:
    """Write it as plain values."""
    if value is None:
        return None
    return {
        "query": value.query,
        "freshness_ms": value.freshness_ms,
        "mode": None if value.mode is None else value.mode.value,
        "suspended": value.suspended,
    }


def materialization_from_json(value: Mapping[str, Any] | None) -> Materialization | None:
    """Read what `materialization_to_json` wrote."""
    if value is None:
        return None
    return Materialization(
        query=value["query"],
        freshness_ms=value["freshness_ms"],
        mode=None if value["mode"] is None else RefreshMode(value["mode"]),
        suspended=value["suspended"],
    )
