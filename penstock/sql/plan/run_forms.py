"""Choose the form of a plan by what would run its stages: keyed operators, or Spark in several jobs a batch.

What is planned knows no types; which operator a stage has hangs on them (`stage_runs.py`). So analysis asks here,
behind planning, and analyses a query again in another form where that one runs better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from penstock.sql.incremental.stages import RecomputeOperator
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.plan.stage_runs import is_run_by_spark, is_run_keyed
from penstock.sql.plan.syntax_rules import PlanForm
from penstock.sql.syntax.refusal import Refusal

if TYPE_CHECKING:
    from penstock.sql.plan.analysed import AnalysedQuery
    from penstock.sql.plan.placement.place import PhysicalPlan


class InForm(Protocol):
    """Analyses the query in another form."""

    def __call__(self, form: PlanForm, *, lists_apart: bool = False) -> AnalysedQuery | Refusal:
        """Analyse it. `lists_apart`: SELECT lists of aggregations are computed behind their stages."""
        ...


def in_form_that_is_run(
    found: AnalysedQuery, placed: PhysicalPlan, state_ttl_ms: int, in_form: InForm
) -> AnalysedQuery | Refusal:
    """Return the form of an earlier version where what is new in stages is nothing that keyed operators run."""
    before = _form_by_spark(placed)
    if before is not None:
        return found if is_run_keyed(found, state_ttl_ms) else in_form(before)
    if not found.joins_in_time:
        return found
    if found.aggregates_panes and not is_run_keyed(found, state_ttl_ms):
        return in_form(PlanForm.TIME_JOINS)
    by_spark = in_form(PlanForm.REGULAR_JOINS)
    if isinstance(by_spark, Refusal):
        return found
    # Spark streams windows whose rows tasks group as they read them; and only keyed operators drop rows that have ended
    grouped = any(leaf.in_two_phases for leaf in by_spark.leaves)
    return by_spark if grouped or is_run_by_spark(found, state_ttl_ms) else found


def _form_by_spark(placed: PhysicalPlan) -> PlanForm | None:
    """Return the form in which Spark's update mode runs what stages run here; None where it does not.

    It does where no keyed operators run them: types that these do not store would cost several jobs a batch.
    """
    if placed.of_accumulators:
        return PlanForm.BEST_ROWS
    return PlanForm.PANES if placed.of_best_rows else None


def with_streamed_joins(found: AnalysedQuery, state_ttl_ms: int, in_form: InForm) -> AnalysedQuery:
    """Leave a query to Spark that has no other stages than joins, where keyed operators do not run these.

    As stages of Spark they would cost several jobs a batch, and as its join one, which knows no time to live.
    """
    by_jobs = state_ttl_ms == 0 and found.joins_regularly and is_run_by_spark(found, state_ttl_ms)
    if not by_jobs:
        return found
    streamed = in_form(PlanForm.WINDOWS_FOLLOWED)
    if isinstance(streamed, Refusal) or streamed.maintained is not None:
        return found
    return streamed


def with_lists_apart(
    found: AnalysedQuery | Refusal, state_ttl_ms: int, in_form: InForm
) -> AnalysedQuery | Refusal:
    """Compute the SELECT lists of aggregations behind their stages, where keyed operators then run all of these.

    Whoever has these compute more has to look for this form among the earlier ones, too: checkpoints have it.
    """
    if isinstance(found, Refusal) or found.maintained is None:
        return found
    aggregates = (
        isinstance(stage, RecomputeOperator) and stage.mechanism.way is OperatorKind.AGGREGATE
        for stage in found.maintained.stages
    )
    if not any(aggregates) or not is_run_by_spark(found, state_ttl_ms):
        return found
    apart = in_form(PlanForm.STORED_JOINS, lists_apart=True)
    if isinstance(apart, Refusal) or apart.maintained is None:
        return found
    one, two = (
        (of.flow.changes, of.flow.key, of.flow.columns, of.source_names) for of in (found, apart)
    )
    if one != two or not is_run_keyed(apart, state_ttl_ms):
        return found
    return replace(apart, lists_apart=True)
