"""Asks the tables of a query what they hold now: split ids, starts by the startup mode, ends. Starts no query.

The answers are for a person who decides whether to start; nothing else rests on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import InputError, PenstockError
from penstock.connector.contract import ReadRequest, SplitPlanner, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.source.split import Discovery, Extent
from penstock.connector.source.state import SourceState
from penstock.sql.plan.analysed_query import AnalysedLeaf
from penstock.sql.plan.verdict import SourceNow

__all__ = ["Standing", "ask", "check_goes_on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a checkpoint stands in a table: the state with its last batch, and whether that batch is run again."""

    state: SourceState
    replays: bool


def ask(leaf: AnalysedLeaf, project: Path, standing: Standing | None = None) -> SourceNow:
    """Look at a table. May block on I/O for as long as its connector's timeouts; a failure is part of the answer.

    With `standing` it is to be gone on with from there.
    """
    name = str(leaf.table.identifier)
    if not leaf.by_splits:
        return SourceNow(table=name)
    source: SplitSource = connector_of(leaf.table, project=project).source(leaf.table)  # type: ignore[assignment]
    try:
        planner = source.open_planner(ReadRequest(columns=()))
        try:
            return _look(name, planner, standing, tolerates_loss=source.tolerates_loss)
        finally:
            planner.close()
    except PenstockError as error:
        gone = standing is not None and isinstance(error, InputError)
        return SourceNow(
            table=name,
            unknown=f"its ends are not known: {error.message}",
            refusal=error if gone else None,
        )


def check_goes_on(
    planner: SplitPlanner,
    standing: Standing,
    found: Discovery,
    extents: Mapping[str, Extent],
    *,
    tolerates_loss: bool,
) -> None:
    """Raise what a start would: for a topic made again, or records that were deleted before they were read."""
    for owner, known in sorted(standing.state.incarnations.items()):
        now = found.incarnations.get(owner)
        if now != known:
            raise planner.changed(owner, known, now)
    for split in standing.state.splits:
        start = split.start if standing.replays else split.end
        extent = extents.get(split.split_id)
        unread = extent is not None and not split.finished and start < extent.first
        if extent is not None and unread and not tolerates_loss:
            raise planner.lost(split.split_id, start, extent)


def _look(
    name: str, planner: SplitPlanner, standing: Standing | None, *, tolerates_loss: bool
) -> SourceNow:
    found = planner.list_splits()
    split_ids = tuple(found.owners)
    extents = planner.extents(split_ids)
    refusal = None
    if standing is not None:
        try:
            check_goes_on(planner, standing, found, extents, tolerates_loss=tolerates_loss)
        except PenstockError as error:
            refusal = error
    return SourceNow(
        table=name,
        starts=dict(planner.start_positions(split_ids, first_listing=True)),
        ends={split: extent.end for split, extent in extents.items()},
        refusal=refusal,
    )
