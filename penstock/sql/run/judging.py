"""Judges the checkpoints of planned statements: reads them, asks the sources, starts nothing."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError
from penstock.connector.source.state import SourceState
from penstock.sql.plan.checkpoint import checkpoint_files, saved_checkpoint
from penstock.sql.plan.checkpoint_identity import check_identity
from penstock.sql.plan.source_now import Standing, ask
from penstock.sql.plan.verdict import Resume, Verdict, judge, refused

if TYPE_CHECKING:
    from penstock.sql.plan.saved import SavedCheckpoint
    from penstock.sql.run.query import Judged
    from penstock.sql.run.statement_set import PlannedSet

__all__ = ["verdict_on", "verdicts_on_set"]


def verdict_on(query: Judged, *, from_scratch: bool = False) -> Verdict:
    """Tell what a start of the query would do; `from_scratch`: with its checkpoint set aside. May ask brokers."""
    saved = None
    try:
        if not from_scratch:
            check_identity(checkpoint_files(query.spark)(query.checkpoint), query.place.identity)
            saved = saved_checkpoint(query.spark, query.checkpoint)
        standings = [] if saved is None else [_standing(saved, offset) for offset in saved.offsets]
        sources = [
            ask(leaf, query.project, standing)
            for leaf, standing in zip_longest(query.leaves, standings[: len(query.leaves)])
        ]
        verdict = judge(saved, query.shape, sources, query.checkpoint)
        # a batch is done: the target is there, and is the one that has it
        if isinstance(verdict, Resume) and saved is not None and saved.committed is not None:
            query.check_target()
    except InputError as error:
        return refused(error)
    return verdict


def _standing(saved: SavedCheckpoint, offset: SourceState | str | None) -> Standing | None:
    return (
        Standing(state=offset, replays=saved.replays) if isinstance(offset, SourceState) else None
    )


def verdicts_on_set(planned: PlannedSet, *, from_scratch: bool = False) -> tuple[Verdict, ...]:
    """Tell what a start of each query of a statement set that has a checkpoint would do."""
    streams = [query for query in planned.queries if query.is_stream]
    if not from_scratch:
        try:
            planned.check_rivals()
        except InputError as error:
            return (refused(error),) * len(streams)
    return tuple(verdict_on(query, from_scratch=from_scratch) for query in streams)
