"""Judges the checkpoints of planned statements: reads them, asks the sources, starts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.errors import InputError
from penstock.sql.plan.checkpoint import saved_checkpoint
from penstock.sql.plan.source_now import ask
from penstock.sql.plan.verdict import Verdict, judge, refused

if TYPE_CHECKING:
    from penstock.sql.run.query import Judged
    from penstock.sql.run.statement_set import PlannedSet

__all__ = ["verdict_on", "verdicts_on_set"]


def verdict_on(query: Judged, *, from_scratch: bool = False) -> Verdict:
    """Tell what a start of the query would do; `from_scratch`: with its checkpoint set aside. May ask brokers."""
    saved = None
    if not from_scratch:
        try:
            saved = saved_checkpoint(query.spark, query.checkpoint)
        except InputError as error:
            return refused(error)
    sources = [ask(leaf, query.project) for leaf in query.leaves]
    return judge(saved, query.shape, sources, query.checkpoint)


def verdicts_on_set(planned: PlannedSet, *, from_scratch: bool = False) -> tuple[Verdict, ...]:
    """Tell what a start of each query of a statement set that has a checkpoint would do."""
    streams = [query for query in planned.queries if query.is_stream]
    if not from_scratch:
        try:
            planned.check_rivals()
        except InputError as error:
            return (refused(error),) * len(streams)
    return tuple(verdict_on(query, from_scratch=from_scratch) for query in streams)
