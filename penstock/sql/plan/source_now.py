"""Asks the tables of a query what they hold now: split ids, starts by the startup mode, ends. Starts no query.

The answers are for a person who decides whether to start; nothing else rests on them.
"""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.errors import PenstockError
from penstock.connector.contract import ReadRequest, SplitSource
from penstock.connector.registry import connector_of
from penstock.sql.plan.analysis import AnalysedLeaf
from penstock.sql.plan.verdict import SourceNow

__all__ = ["ask"]


def ask(leaf: AnalysedLeaf, project: Path) -> SourceNow:
    """Look at a table. May block on I/O for as long as its connector's timeouts; a failure is part of the answer."""
    name = str(leaf.table.identifier)
    if not leaf.by_splits:
        return SourceNow(table=name)
    source: SplitSource = connector_of(leaf.table, project=project).source(leaf.table)  # type: ignore[assignment]
    try:
        planner = source.open_planner(ReadRequest(columns=()))
        try:
            split_ids = tuple(planner.list_splits().owners)
            return SourceNow(
                table=name,
                starts=dict(planner.start_positions(split_ids, first_listing=True)),
                ends={split: extent.end for split, extent in planner.extents(split_ids).items()},
            )
        finally:
            planner.close()
    except PenstockError as error:
        return SourceNow(table=name, unknown=f"its ends are not known: {error.message}")
