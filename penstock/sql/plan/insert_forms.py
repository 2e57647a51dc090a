"""The forms of an INSERT's query: the one that runs now, and those whose state checkpoints of earlier versions hold.

The analyzer asks for the first. The others are analysed where there is a checkpoint that does not fit it: each is a
whole analysis, and most starts have no such checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse_or_refuse
from penstock.sql.plan.rules.sink_changelog import (
    SinkTable,
    conflict_refusal,
    has_several_rows_of_a_key,
    keeps_first,
    one_of_each_key,
    sink_refusal,
)
from penstock.sql.plan.syntax_rules import PlanForm
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.refusal import Refusal

Forms = Callable[[], tuple[AnalysedQuery, ...]]
"""Analyses other forms of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormsOfInsert:
    """The query of an INSERT as it runs now, and what analyses its `earlier` forms; None where it has none."""

    current: AnalysedQuery
    earlier: Forms | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormForSink:
    """A query in one form; `before` are those in which versions left more to the sink, or ties open."""

    query: AnalysedQuery
    before: Forms = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertForms:
    """Analyses the query of an INSERT into a sink, form by form.

    `names` is an overlay that the INSERT has for itself: a name that was resolved for one form is the same for all,
    whenever they are analysed. `shown` has what tables of `information_schema` show. `time_zone` is the session's.
    """

    statement: InsertInto
    into: SinkTable
    names: Namespace
    shown: Namespace
    project: Path
    state_ttl_ms: int
    time_zone: str

    def analyse(self) -> FormsOfInsert | Refusal:
        """Analyse the form that runs now. Raises InputError."""
        found = self._one_row_of_each_key(PlanForm.CURRENT)
        if isinstance(found, Refusal):
            return found
        query = found.query
        differs = (
            found.before is not tuple
            or query.aggregates_panes
            or query.ranks_rows
            or query.accumulates
            or query.joins_in_time
            or query.joins_regularly
            or query.streams_joins
            or query.lists_apart
            or query.follows_windows
            or query.in_other_phases()
        )
        earlier = cache(lambda: self._earlier(found)) if differs else None
        return FormsOfInsert(current=query, earlier=earlier)

    def _earlier(self, current: _FormForSink) -> tuple[AnalysedQuery, ...]:
        """Analyse the forms of earlier versions. Raises InputError."""
        if current.query.accumulates:
            earlier = [*self._all_of(PlanForm.BEST_ROWS)]
        else:
            by_position = current.query.ranks_rows
            earlier = [*(self._all_of(PlanForm.PANES) if by_position else current.before())]
        if current.query.lists_apart:
            earlier += self._all_of(PlanForm.STORED_JOINS)
        if current.query.streams_joins:
            earlier += self._all_of(PlanForm.ACCUMULATORS)
        found = (current.query, *earlier)
        if any(query.aggregates_panes for query in found):
            earlier += self._all_of(PlanForm.TIME_JOINS)
        if any(query.joins_in_time for query in found):
            earlier += self._all_of(PlanForm.REGULAR_JOINS)
        if any(query.joins_regularly for query in found):
            earlier += _of_spark(self._all_of(PlanForm.WINDOWS_FOLLOWED))
        if any(query.follows_windows for query in found):
            earlier += self._all_of(PlanForm.TIES_BROKEN)
        return *current.query.in_other_phases(), *(query.in_one_phase() for query in earlier)

    def _all_of(self, form: PlanForm) -> tuple[AnalysedQuery, ...]:
        """Return the query in a form, with those that were before it; none where it is refused there."""
        found = self._one_row_of_each_key(form)
        return () if isinstance(found, Refusal) else (found.query, *found.before())

    def _one_row_of_each_key(self, form: PlanForm) -> _FormForSink | Refusal:
        """Analyse the query so that the sink keeps Flink's row of each key. Raises InputError."""
        into, asked, conflict = self.into, self.statement.query, self.statement.conflict
        query = self._analyse_into(asked, into, form)
        refusal = query if isinstance(query, Refusal) else None
        if refusal is not None and into.key:
            # by whatever key; what else is wrong is wrong here, too
            query = self._analyse_into(asked, replace(into, key=()), form)
        if isinstance(query, Refusal):
            return query
        if conflict is not None:
            wrong = conflict_refusal(conflict, query.flow, into, followed=bool(query.followed))
            if wrong is not None:
                return wrong
            if keeps_first(conflict, query.flow, into):
                asked, refusal = one_of_each_key(asked, into, last=False), None
                query = self._analyse_into(asked, into, form)
                if isinstance(query, Refusal):
                    return query
        if refusal is None:
            return _FormForSink(query=query, before=self._with_open_ties(asked, into, query))
        if not has_several_rows_of_a_key(query.flow, into):
            return refusal
        materialized = self._analyse_into(one_of_each_key(asked, into, last=True), into, form)
        if isinstance(materialized, Refusal):
            return sink_refusal(query.flow, into) or refusal
        if query.flow.key is not None:
            return _FormForSink(query=materialized)  # it was refused
        # the changes went into the sink as they came
        as_they_came = query
        open_ties = self._with_open_ties(asked, replace(into, key=()), as_they_came)
        return _FormForSink(query=materialized, before=lambda: (as_they_came, *open_ties()))

    def _with_open_ties(self, asked: exp.Expr, into: SinkTable, query: AnalysedQuery) -> Forms:
        """Return the form with open ties, in which the bounds of windows are known by their names."""
        if not query.breaks_ties or query.follows_windows:
            return tuple

        def analysed() -> tuple[AnalysedQuery, ...]:
            found = self._analyse_into(asked, into, PlanForm.TIES_OPEN)
            return () if isinstance(found, Refusal) else (found,)

        return analysed

    def _analyse_into(
        self, query: exp.Expr, sink: SinkTable, form: PlanForm
    ) -> AnalysedQuery | Refusal:
        return analyse_or_refuse(
            query,
            self.names,
            self.project,
            appends=True,
            sink=sink,
            state_ttl_ms=self.state_ttl_ms,
            form=form,
            shown=self.shown,
            time_zone=self.time_zone,
        )


def _of_spark(queries: Sequence[AnalysedQuery]) -> list[AnalysedQuery]:
    """Return the queries that Spark streams by itself."""
    return [query for query in queries if query.maintained is None]
