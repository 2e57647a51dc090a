"""What EXPLAIN is asked for beside the plan: changelog modes, advice, the plan as JSON. Penstock's own, not Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.connector.contract import Guarantee
from penstock.connector.registry import connector_of
from penstock.sql.checkpoint.fingerprint import fingerprint_of
from penstock.sql.incremental.describe import bound_of, bound_of_inputs, is_bounded
from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    OverAggregate,
    RecomputeOperator,
    Stage,
    TemporalJoin,
    WindowAggregate,
)
from penstock.sql.jobs.progress import short_name
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.script.compound import Detail
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import Select, StatementSet

if TYPE_CHECKING:
    from penstock.sql.plan.analyzer import Analyzer

__all__ = ["detail_lines"]

INDENT = "  "
FLINK_LETTERS = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}
TTL = "SET 'table.exec.state.ttl' = '1 d'"
IDLE = "scan.watermark.idle-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExplainedQuery:
    """One query of the statement: what it is called, and where its rows go (None: to the screen)."""

    title: str
    query: AnalysedQuery
    insert: AnalysedInsert | None = None


def detail_lines(
    statement: Select | InsertInto | StatementSet,
    details: Sequence[Detail],
    analyzer: Analyzer,
    plan: Sequence[str],
) -> list[str]:
    """Return the sections that EXPLAIN is asked for, behind the `plan` of the statement. Raises InputError."""
    if not details:
        return []
    parts = list(_parts(statement, analyzer))
    lines: list[str] = []
    for detail in details:
        match detail:
            case Detail.CHANGELOG_MODE:
                lines += ["changelog modes:", *_by_part(parts, _modes, analyzer)]
            case Detail.PLAN_ADVICE:
                lines += ["advice:", *_by_part(parts, _advice, analyzer)]
            case Detail.JSON_EXECUTION_PLAN:
                lines += ["plan as JSON:", json.dumps(_tree(plan), indent=2, ensure_ascii=False)]
            case Detail.ESTIMATED_COST:
                raise AssertionError("it is refused where the statement is read")
            case _:
                assert_never(detail)
    return lines


def _parts(
    statement: Select | InsertInto | StatementSet, analyzer: Analyzer
) -> Iterator[_ExplainedQuery]:
    match statement:
        case Select(query=query):
            found = analyse(query, analyzer.namespace, analyzer.project, appends=False)
            yield _ExplainedQuery(title="SELECT", query=found)
        case InsertInto():
            insert = analyzer.analyse_insert(statement)
            title = f"INSERT INTO {short_name(insert.target.identifier)}"
            yield _ExplainedQuery(title=title, query=insert.query, insert=insert)
        case StatementSet(inserts=inserts):
            for one in inserts:
                yield from _parts(one, analyzer)
        case _:
            assert_never(statement)


def _by_part(parts: Sequence[_ExplainedQuery], describe: Any, analyzer: Analyzer) -> Iterator[str]:
    for part in parts:
        found = list(describe(part, analyzer))
        if len(parts) > 1:
            yield INDENT + part.title
        yield from (INDENT * (2 if len(parts) > 1 else 1) + line for line in found)


# --- changelog modes ---


def _modes(part: _ExplainedQuery, analyzer: Analyzer) -> Iterator[str]:
    """From the tables to the sink: the output of each operator, its key, its state and the bound of that."""
    query = part.query
    for leaf in query.leaves:
        connector = connector_of(leaf.table, project=analyzer.project)
        changes = (leaf.source or connector.source(leaf.table)).changes
        yield f"read {short_name(leaf.table.identifier)}: {_mode(changes)}"
    yield from _operator_modes(query, analyzer)
    if part.insert is not None:
        key = ", ".join(query.flow.key or ())
        by = f", by ({key})" if query.flow.is_changing and key else ""
        target = short_name(part.insert.target.identifier)
        accepts = part.insert.sink.capabilities.accepts
        yield f"to {target}, which takes {_mode(accepts)}: {_mode(query.flow.changes)}{by}"


def _operator_modes(query: AnalysedQuery, analyzer: Analyzer) -> Iterator[str]:
    if query.maintained is not None:
        for stage in query.maintained.stages:
            yield from _stage_mode(stage, analyzer.state_ttl_ms)
        return
    mechanism = query.flow.mechanism
    if mechanism is not None:
        key = ", ".join(mechanism.key) or "none"
        yield f"{mechanism.operator}: {_mode(query.flow.changes)}, key: {key}"
        yield f"{INDENT}state: {mechanism.state}; bound: none"
        return
    kept = fingerprint_of(query.query, (), "").state
    for operator in kept:
        yield f"{operator}: {_mode(ChangelogMode.INSERT_ONLY)}"
        yield f"{INDENT}state: rows and groups that are still open; bound: {_time_bound(query)}"
    if not kept:
        yield f"projection and filter: {_mode(query.flow.changes)}, no state"


def _stage_mode(stage: Stage, ttl_ms: int) -> Iterator[str]:
    bound = f"table.exec.state.ttl, {ttl_ms / 1000:g} s" if ttl_ms > 0 else "none"
    match stage:
        case Calc(name=name):
            yield f"{name}: changes as they come, row by row, no state"
        case ChangelogNormalize(name=name, key=key):
            yield f"{name}, rows before changes: {_mode(ChangelogMode.ALL)}, key: {', '.join(key)}"
            yield f"{INDENT}state: the last row of each key; bound: {bound}"
        case RecomputeOperator(name=name, mechanism=mechanism, key=key):
            mode = "[I,UB,UA,D]" if key else "[I,D]"
            yield f"{name}, {mechanism.operator}: {mode}, key: {', '.join(key or ()) or 'none'}"
            yield f"{INDENT}state: {mechanism.state}; bound: {bound_of_inputs(stage, ttl_ms)}"
        case (
            TemporalJoin(name=name, mechanism=mechanism, key=key)
            | WindowAggregate(name=name, mechanism=mechanism, key=key)
            | OverAggregate(name=name, mechanism=mechanism, key=key)
        ):
            inserts = _mode(ChangelogMode.INSERT_ONLY)
            yield f"{name}, {mechanism.operator}: {inserts}, key: {', '.join(key or ()) or 'none'}"
            yield f"{INDENT}state: {mechanism.state}; bound: {bound_of(stage, ttl_ms)}"
        case _:
            assert_never(stage)


def _mode(changes: ChangelogMode) -> str:
    """As Flink writes a changelog mode: [I,UB,UA,D]."""
    return f"[{','.join(FLINK_LETTERS[kind] for kind in sorted(changes.kinds))}]"


def _time_bound(query: AnalysedQuery) -> str:
    if any(leaf.rowtime is not None for leaf in query.leaves):
        return "the watermark"
    return "the end of the tables" if query.bounded else "none"


# --- advice ---


def _advice(part: _ExplainedQuery, analyzer: Analyzer) -> Iterator[str]:
    found = [*_state_advice(part.query, analyzer), *_read_advice(part.query)]
    found += _sink_advice(part)
    yield from found or ["nothing to say"]


def _state_advice(query: AnalysedQuery, analyzer: Analyzer) -> Iterator[str]:
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
            f"the {operator} keeps every key for ever: {TTL}, or group by a window so that the watermark bounds it"
        )
    elif maintained is None and _time_bound(query) == "none":
        for operator in fingerprint_of(query.query, (), "").state:
            yield f"{operator}: nothing bounds its state; give the tables a WATERMARK and compare their times"


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


def _sink_advice(part: _ExplainedQuery) -> Iterable[str]:
    if part.insert is None:
        return
    if part.insert.sink.capabilities.guarantee is Guarantee.AT_LEAST_ONCE:
        yield "a batch that fails half-way is written again: rows of it may come twice (delivery: at-least-once)"


# --- JSON ---


def _tree(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of a plan as a tree: what is indented belongs to the line above."""
    top: list[dict[str, Any]] = []
    above: list[tuple[int, list[dict[str, Any]]]] = [(-1, top)]
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        while above[-1][0] >= depth:
            above.pop()
        node: dict[str, Any] = {"text": line.strip(), "children": []}
        above[-1][1].append(node)
        above.append((depth, node["children"]))
    return top
