"""Judges the checkpoints of planned statements: reads them, asks the sources, starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError, StateMismatchError
from penstock.catalog.external import NotReachedError
from penstock.connector.source.state import SourceState
from penstock.sql.plan.checkpoint_identity import check_identity
from penstock.sql.plan.saved import read_saved
from penstock.sql.plan.shape import ANEW
from penstock.sql.plan.source_now import Standing, ask
from penstock.sql.plan.verdict import Resume, Verdict, judge, refused

if TYPE_CHECKING:
    from penstock.sql.plan.checkpoint_search import OpenFiles
    from penstock.sql.plan.saved import SavedCheckpoint
    from penstock.sql.run.judged import JudgedStatement
    from penstock.sql.run.query import Judged

__all__ = ["check_rivals", "verdict_on", "verdicts_on"]


def verdict_on(query: Judged, open_files: OpenFiles, *, from_scratch: bool = False) -> Verdict:
    """Tell what a start of the query would do; `from_scratch`: with its checkpoint set aside. May ask brokers."""
    saved = None
    try:
        if not from_scratch:
            files = open_files(query.checkpoint)
            check_identity(files, query.place.identity)
            saved = read_saved(files)
        standings = [] if saved is None else [_standing(saved, offset) for offset in saved.offsets]
        sources = [
            ask(leaf, query.project, standing)
            for leaf, standing in zip_longest(query.leaves, standings[: len(query.leaves)])
        ]
        verdict = judge(saved, query.shape, sources, query.checkpoint)
        # a batch is done: the target is there, and is the one that has it
        if isinstance(verdict, Resume) and saved is not None and saved.committed is not None:
            return _with_target(verdict, query)
    except InputError as error:
        return refused(error)
    return verdict


def _with_target(verdict: Resume, query: Judged) -> Resume:
    try:
        query.check_target()
    except NotReachedError as error:
        return replace(verdict, unasked=error.message)
    return verdict


def _standing(saved: SavedCheckpoint, offset: SourceState | str | None) -> Standing | None:
    return (
        Standing(state=offset, replays=saved.replays) if isinstance(offset, SourceState) else None
    )


def verdicts_on(
    statement: JudgedStatement, open_files: OpenFiles, *, from_scratch: bool = False
) -> tuple[Verdict, ...]:
    """Tell what a start of each query of a statement that has a checkpoint would do."""
    streams = [query for query in statement.queries if query.is_stream]
    if not from_scratch:
        try:
            check_rivals(statement.rivals, statement.reason, open_files)
        except InputError as error:
            return (refused(error),) * len(streams)
    return tuple(verdict_on(query, open_files, from_scratch=from_scratch) for query in streams)


def check_rivals(rivals: Sequence[str], reason: str | None, open_files: OpenFiles) -> None:
    """Check that a statement set did not run the other way before. Raises StateMismatchError.

    `rivals` are the checkpoints that it would have then, `reason` says why it now is several queries.
    """
    for rival in rivals:
        if read_saved(open_files(rival)) is not None:
            way = "as one query" if reason else "as a query per INSERT"
            now = f"a query per INSERT ({reason})" if reason else "one query"
            raise StateMismatchError(
                f"what this statement set does ran {way} before, with the checkpoint {rival}; "
                f"now it is {now}",
                hint="undo the change; or " + "; or ".join(ANEW),
            )
