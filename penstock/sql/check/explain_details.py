"""What EXPLAIN is asked for beside the plan: advice, the plan as JSON. Penstock's own, not Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from penstock.connector.contract import Guarantee
from penstock.sql.incremental.describe import is_bounded
from penstock.sql.incremental.stages import (
    RecomputeOperator,
    Stage,
)
from penstock.sql.jobs.progress import short_name
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery
from penstock.sql.plan.explain.statements import ExplainedQuery
from penstock.sql.script.compound import Detail

if TYPE_CHECKING:
    from penstock.sql.plan.analyzer import Analyzer

__all__ = ["ExplainedPart", "detail_lines"]

INDENT = "  "
TTL = "SET 'table.exec.state.ttl' = '1 d'"
IDLE = "scan.watermark.idle-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPart:
    """One query of the statement as it is shown, and where its rows go (None: to the screen)."""

    shown: ExplainedQuery
    query: AnalysedQuery
    insert: AnalysedInsert | None = None


def detail_lines(
    parts: Sequence[ExplainedPart],
    document: Mapping[str, Any],
    details: Sequence[Detail],
    analyzer: Analyzer,
) -> list[str]:
    """Return the sections that EXPLAIN is asked for, behind the plan of the statement; `document` is that as JSON."""
    lines: list[str] = []
    for detail in details:
        match detail:
            case Detail.CHANGELOG_MODE:
                pass  # the plan has the changes of every operator, and now their keys
            case Detail.PLAN_ADVICE:
                lines += ["advice:", *_by_part(parts, analyzer)]
            case Detail.JSON_EXECUTION_PLAN:
                lines += ["plan as JSON:", json.dumps(document, indent=2, ensure_ascii=False)]
            case Detail.ESTIMATED_COST:
                raise AssertionError("it is refused where the statement is read")
            case _:
                assert_never(detail)
    return lines


def _by_part(parts: Sequence[ExplainedPart], analyzer: Analyzer) -> Iterator[str]:
    for part in parts:
        if len(parts) > 1:
            yield INDENT + part.shown.title
        yield from (
            INDENT * (2 if len(parts) > 1 else 1) + line for line in _advice(part, analyzer)
        )


# --- advice ---


def _advice(part: ExplainedPart, analyzer: Analyzer) -> Iterator[str]:
    found = [*_state_advice(part, analyzer), *_read_advice(part.query)]
    found += _sink_advice(part)
    yield from found or ["nothing to say"]


def _state_advice(part: ExplainedPart, analyzer: Analyzer) -> Iterator[str]:
    query = part.query
    if query.bounded:
        return
    maintained = query.maintained
    if maintained is not None and analyzer.state_ttl_ms == 0:
        keeping = [s for s in maintained.stages if _keeps_for_ever(s)]
        if keeping:
            yield f"{len(keeping)} operators keep state that nothing bounds: {TTL}, if late changes may be lost"
    elif maintained is None and query.flow.mechanism is not None and analyzer.state_ttl_ms == 0:
        operator = query.flow.mechanism.operator
        yield (
            f"the {operator} keeps every key without limit: {TTL}, or group by a window so that the watermark bounds it"
        )
    if maintained is None and query.flow.mechanism is None:
        for one in part.shown.root.walk():
            if one.state is not None and one.state.bound is None:
                yield f"{one.line}: nothing bounds its state; give the tables a WATERMARK and compare their times"


def _keeps_for_ever(stage: Stage) -> bool:
    """Return whether the state of a stage grows without bound unless a setting bounds it."""
    if isinstance(stage, RecomputeOperator):
        return not all(given.time_to_live_ms for given in stage.inputs)
    return not is_bounded(stage)


def _read_advice(query: AnalysedQuery) -> Iterator[str]:
    for leaf in query.leaves:
        name = short_name(leaf.table.identifier)
        if leaf.rowtime is not None and not leaf.bounded and IDLE not in leaf.table.option_map:
            yield f"{name}: a split without new rows holds the watermark back; '{IDLE}' = '1 min' leaves it out"
        if leaf.by_splits and len(leaf.columns) == len(leaf.table.schema.columns) > 1:
            yield f"{name}: every column is read; naming those that are needed spares decoding the rest"


def _sink_advice(part: ExplainedPart) -> Iterable[str]:
    if part.insert is None:
        return
    if part.insert.sink.capabilities.guarantee is Guarantee.AT_LEAST_ONCE:
        yield "a batch that fails half-way is written again: rows of it may come twice (delivery: at-least-once)"
