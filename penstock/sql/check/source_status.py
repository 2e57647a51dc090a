"""Ask the sources of a query for splits and bounds; decide with its checkpoint whether it starts new or resumes.

The answers inform a person who decides whether to start; nothing else depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import InputError, PenstockError, StateMismatchError
from penstock.connector.contract import ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.source.coordinator.coordinator import known_source_ids
from penstock.connector.source.microbatch.events import read_in_earlier_epochs, read_past_the_end
from penstock.connector.source.microbatch.watermark import check_goes_on
from penstock.connector.source.split import ChecksEpochs, ChecksLogEnds, Discovery, SplitOffsets
from penstock.connector.source.state import SourceState
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.checkpoint.identity import check_identity
from penstock.sql.checkpoint.reader import read_checkpoint
from penstock.sql.checkpoint.start_decision import (
    Resume,
    SourceStatus,
    StartDecision,
    decide_start,
    refuse_start,
)
from penstock.sql.plan.analysed import TableScan

if TYPE_CHECKING:
    from penstock.sql.check.offline_plan import OfflineStatement
    from penstock.sql.checkpoint.reader import SavedCheckpoint
    from penstock.sql.checkpoint.search import OpenFiles
    from penstock.sql.jobs.startable_query import CheckpointedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPosition:
    """Where a checkpoint stands in a table: the state with its last batch, and whether that batch is run again."""

    state: SourceState
    replays: bool


def ask(leaf: TableScan, project: Path, standing: CheckpointPosition | None = None) -> SourceStatus:
    """Check a table. May block on I/O for as long as its connector's timeouts; a failure is part of the answer.

    With `standing` it is to be gone on with from there.
    """
    name = str(leaf.table.identifier)
    if not leaf.by_splits:
        return SourceStatus(table=name)
    source: SplitSource = connector_of(leaf.table, project=project).source(leaf.table)  # type: ignore[assignment]
    try:
        planner = source.open_planner(ReadRequest(columns=()))
        try:
            return _look(leaf, source, planner, standing)
        finally:
            planner.close()
    except PenstockError as error:
        gone = standing is not None and isinstance(error, InputError)
        return SourceStatus(
            table=name,
            unknown=f"its ends are not known: {error.message}",
            refusal=error if gone else None,
        )


def check_resumable(
    source: SplitSource,
    planner: SplitMetadataClient,
    standing: CheckpointPosition,
    found: Discovery,
    extents: Mapping[str, SplitOffsets],
) -> None:
    """Raise what a start would: for a topic made again, or records that are gone, before they were read or since."""
    known = known_source_ids(source.enumerator_type, standing.state.coordinator)
    for change in found.changes_since(known):
        raise planner.changed(*change)
    for split in standing.state.splits:
        start = split.start if standing.replays else split.end
        extent = extents.get(split.split_id)
        unread = extent is not None and not split.finished and start < extent.first
        if extent is not None and unread and not source.tolerates_loss:
            raise planner.lost(split.split_id, start, extent)
    if not source.tolerates_loss:
        _check_log_ends(planner, standing.state, extents)
        _check_epochs(planner, standing, extents)


def _check_log_ends(
    planner: SplitMetadataClient, state: SourceState, extents: Mapping[str, SplitOffsets]
) -> None:
    """Raise for a log that ends before what was read of it: other records would take the place of those."""
    shorter = read_past_the_end(state.splits, extents)
    if shorter and isinstance(planner, ChecksLogEnds):
        for split_id, end in sorted(planner.log_ends(sorted(shorter)).items()):
            if end < shorter[split_id]:
                extent = replace(extents[split_id], end=end)
                raise planner.lost(split_id, shorter[split_id], extent)


def _check_epochs(
    planner: SplitMetadataClient,
    standing: CheckpointPosition,
    extents: Mapping[str, SplitOffsets],
) -> None:
    """Raise for a log that was cut below what was read of it, and has grown again."""
    splits = {split.split_id: split for split in standing.state.splits if not split.finished}
    earlier = read_in_earlier_epochs(splits.values(), extents)
    if earlier and isinstance(planner, ChecksEpochs):
        for split_id, cut in sorted(planner.cuts(earlier).items()):
            split = splits[split_id]
            start = split.start if standing.replays else split.end
            if cut < start:
                raise planner.lost(split_id, start, replace(extents[split_id], end=cut))


def _look(
    leaf: TableScan,
    source: SplitSource,
    planner: SplitMetadataClient,
    standing: CheckpointPosition | None,
) -> SourceStatus:
    name = str(leaf.table.identifier)
    found = planner.list_splits()
    split_ids = tuple(found.owners)
    extents = planner.extents(split_ids)
    refusal = None
    if standing is not None:
        try:
            check_resumable(source, planner, standing, found, extents)
            if leaf.rowtime is not None:
                check_goes_on(name, standing.state, bounded=source.bounded)
        except PenstockError as error:
            refusal = error
    return SourceStatus(
        table=name,
        starts=dict(planner.start_positions(split_ids, first_listing=True)),
        ends={split: extent.end for split, extent in extents.items()},
        refusal=refusal,
    )


def start_decision_of(
    query: CheckpointedQuery, open_files: OpenFiles, *, from_scratch: bool = False
) -> StartDecision:
    """Return what a start of the query would do; `from_scratch`: with its checkpoint set aside. May ask brokers."""
    saved = None
    try:
        if not from_scratch:
            files = open_files(query.checkpoint)
            check_identity(files, query.location.identity)
            saved = read_checkpoint(files)
        standings = [] if saved is None else [_standing(saved, offset) for offset in saved.offsets]
        sources = [
            ask(leaf, query.project, standing)
            for leaf, standing in zip_longest(query.leaves, standings[: len(query.leaves)])
        ]
        verdict = decide_start(saved, query.shape, sources, query.checkpoint)
        # a batch is done: the target is there, and is the one that has it
        if isinstance(verdict, Resume) and saved is not None and saved.committed is not None:
            return _with_target(verdict, query)
    except InputError as error:
        return refuse_start(error)
    return verdict


def _with_target(verdict: Resume, query: CheckpointedQuery) -> Resume:
    try:
        query.check_target()
    except NotReachedError as error:
        return replace(verdict, unasked=error.message)
    return verdict


def _standing(
    saved: SavedCheckpoint, offset: SourceState | str | None
) -> CheckpointPosition | None:
    return (
        CheckpointPosition(state=offset, replays=saved.replays)
        if isinstance(offset, SourceState)
        else None
    )


def start_decisions_of(
    statement: OfflineStatement, open_files: OpenFiles, *, from_scratch: bool = False
) -> tuple[StartDecision, ...]:
    """Return what a start of each query of a statement that has a checkpoint would do."""
    streams = [query for query in statement.queries if query.is_stream]
    if not from_scratch:
        try:
            check_rivals(statement.rivals, statement.reason, open_files)
        except InputError as error:
            return (refuse_start(error),) * len(streams)
    return tuple(
        start_decision_of(query, open_files, from_scratch=from_scratch) for query in streams
    )


def check_rivals(rivals: Sequence[str], reason: str | None, open_files: OpenFiles) -> None:
    """Check that a statement set did not run the other way before. Raises StateMismatchError.

    `rivals` are the checkpoints that it would have then, `reason` says why it now is several queries.
    """
    for rival in rivals:
        if read_checkpoint(open_files(rival)) is not None:
            way = "as one query" if reason else "as a query per INSERT"
            now = f"a query per INSERT ({reason})" if reason else "one query"
            raise StateMismatchError(
                f"what this statement set does ran {way} before, with the checkpoint {rival}; "
                f"now it is {now}",
                hint="undo the change; or " + "; or ".join(START_OVER_HINTS),
            )
