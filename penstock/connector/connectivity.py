"""Check that the external system of a table is reachable, by the splits of its source.

A connector has a `ConnectivityCheck` (`capabilities.py`) of its own where these do not say enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connector.capabilities import TableAccess
from penstock.connector.contract import ReadRequest, Source, SourceKind, SplitSource

if TYPE_CHECKING:
    from penstock.connector.source.split import SplitOffsets

__all__ = ["check_nothing", "check_source", "counted", "list_splits"]


def check_nothing(access: TableAccess) -> str:
    """Check a table that has no external system."""
    del access
    return "nothing to look at"


def check_source(source: Source) -> str:
    """Check a source by its splits; one that Spark reads is not asked."""
    if source.kind is not SourceKind.SPLITS:
        return "only Spark reaches it: not checked"
    owners, extents = list_splits(source)
    records = sum(max(extent.end - extent.first, 0) for extent in extents.values())
    names = sorted(set(owners.values()))
    topics = ", ".join(names) if len(names) <= 3 else f"{len(names)} topics"
    return f"{topics}: {counted(len(extents), 'partition')}, {records:,} offsets held"


def list_splits(source: SplitSource) -> tuple[dict[str, str], dict[str, SplitOffsets]]:
    """Return the owner of each split, and the offsets that each holds now."""
    planner = source.open_planner(ReadRequest(columns=()))
    try:
        found = planner.list_splits()
        return dict(found.owners), dict(planner.extents(tuple(found.owners)))
    finally:
        planner.close()


def counted(count: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
