"""EXPLAIN: how a query, an INSERT or a statement set would run, as stable text. Starts nothing and reads no table.

Advice and the plan as JSON are Penstock's own details, not Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from penstock.catalog.model.identifier import short_name
from penstock.connector.contract import Guarantee
from penstock.sql.ddl.apply_ddl import apply_ddl
from penstock.sql.incremental.describe import is_bounded
from penstock.sql.incremental.stages import (
    RecomputeOperator,
    Stage,
)
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery
from penstock.sql.plan.analyzer import analyse_unbounded
from penstock.sql.plan.explain.document import explain_query
from penstock.sql.plan.explain.statements import (
    VERSION,
    ExplainedQuery,
    ExplainedSet,
    explain_insert,
    indented,
)
from penstock.sql.plan.statement_set import SeparateQueries, SharedRead, share
from penstock.sql.script.splitter import Detail
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTableAs,
    Explain,
    ReplaceTableAs,
    Select,
    StatementSet,
)

if TYPE_CHECKING:
    from penstock.sql.plan.analysed import TableScan
    from penstock.sql.plan.analyzer import Analyzer


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
    found = [*_state_advice(part, analyzer), *_rows_advice(part), *_read_advice(part.query)]
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
            many = "1 operator keeps" if len(keeping) == 1 else f"{len(keeping)} operators keep"
            yield f"{many} state that nothing bounds: {TTL}, if late changes may be lost"
    elif maintained is None and query.flow.mechanism is not None and analyzer.state_ttl_ms == 0:
        operator = query.flow.mechanism.operator
        yield (
            f"the {operator} keeps every key without limit: {TTL}, or group by a window so that the watermark bounds it"
        )
    if not query.flow.is_changing:
        for one in part.shown.root.walk():
            # the other operators of stages are counted
            named = maintained is None or one.operator == "Join"
            if named and one.state is not None and one.state.bound is None:
                yield f"{one.line}: nothing bounds its state; give the tables a WATERMARK and compare their times"


def _keeps_for_ever(stage: Stage) -> bool:
    """Return whether the state of a stage grows without bound unless a setting bounds it."""
    if isinstance(stage, RecomputeOperator) and stage.times is None:
        return not all(stage_input.time_to_live_ms for stage_input in stage.inputs)
    return not is_bounded(stage)


def _rows_advice(part: ExplainedPart) -> Iterator[str]:
    if part.query.bounded:
        return
    for one in part.shown.root.walk():
        if one.reread is None:
            continue
        distinct = any(call.startswith("COUNT(DISTINCT") for call in one.rereads)
        instead = (
            "COUNT(x) over SELECT DISTINCT of the key and x reads less; else " if distinct else ""
        )
        yield (
            f"{one.line}: {one.reread}: {instead}bound the rows of a key by a window, or aggregate by more columns in "
            "a query below"
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStatement:
    """What EXPLAIN shows: the columns of a table that is `made` of a query, the plan, and its queries."""

    body: ExplainedQuery | ExplainedSet
    parts: Sequence[ExplainedPart]
    made: Sequence[str] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The plan as JSON."""
        creates: dict[str, Any] = {}
        if self.made:
            title, *columns = self.made
            creates["creates"] = {"table": title, "columns": [one.strip() for one in columns]}
        return {"version": VERSION, **creates, **self.body.document}


def explain_lines(statement: Explain, analyzer: Analyzer) -> list[str]:
    """Describe what would run, line by line, with the requested details. Raises InputError for what could not run."""
    plan = explained(statement, analyzer)
    keys = Detail.CHANGELOG_MODE in statement.details
    lines = [*plan.made, *plan.body.lines(keys=keys)]
    return [*lines, *detail_lines(plan.parts, plan.document, statement.details, analyzer)]


def explained(statement: Explain, analyzer: Analyzer) -> ExplainedStatement:
    """Plan what is explained. Raises InputError for what could not run."""
    match statement.statement:
        case (CreateTableAs() | ReplaceTableAs()) as create:
            overlay = analyzer.namespace.overlay()
            apply_ddl(create, overlay)
            found = _explained(create.insert, replace(analyzer, namespace=overlay))
            return replace(found, made=_made(create))
        case query:
            return _explained(query, analyzer)


def _explained(
    statement: Select | InsertInto | StatementSet, analyzer: Analyzer
) -> ExplainedStatement:
    match statement:
        case Select(query=query):
            found = analyse_unbounded(query, analyzer) or analyzer.analyse_once(query)
            root = explain_query(found, analyzer.project, state_ttl_ms=analyzer.state_ttl_ms)
            body = ExplainedQuery(title="SELECT", sink=None, root=root)
            return ExplainedStatement(body=body, parts=(ExplainedPart(shown=body, query=found),))
        case InsertInto():
            part = _insert(analyzer.analyse_insert(statement), analyzer)
            return ExplainedStatement(body=part.shown, parts=(part,))
        case StatementSet(inserts=inserts):
            return _statement_set([analyzer.analyse_insert(one) for one in inserts], analyzer)
        case _:
            assert_never(statement)


def _statement_set(inserts: Sequence[AnalysedInsert], analyzer: Analyzer) -> ExplainedStatement:
    way = share([one.query for one in inserts], analyzer.project)
    shared = way.leaf if isinstance(way, SharedRead) else None
    reason = way.reason if isinstance(way, SeparateQueries) else None
    parts = [_insert(one, analyzer, shared=shared) for one in inserts]
    body = ExplainedSet(inserts=[part.shown for part in parts], reason=reason)
    return ExplainedStatement(body=body, parts=parts)


def _insert(
    insert: AnalysedInsert, analyzer: Analyzer, *, shared: TableScan | None = None
) -> ExplainedPart:
    verb = "OVERWRITE" if insert.editor is not None else "INTO"
    name = short_name(insert.target.identifier)
    shown = explain_insert(
        insert,
        analyzer.project,
        title=f"INSERT {verb} {name}",
        table=name,
        state_ttl_ms=analyzer.state_ttl_ms,
        shared=shared,
    )
    return ExplainedPart(shown=shown, query=insert.query, insert=insert)


def _made(statement: CreateTableAs | ReplaceTableAs) -> list[str]:
    """Return the columns of a table that is created from a query: its types are nowhere in the statement."""
    table = statement.create.table
    verb = "CREATE" if isinstance(statement, CreateTableAs) else "REPLACE"
    columns = [f"{column.name} {column.type}" for column in table.schema.columns]
    return [f"{verb} TABLE {short_name(table.identifier)}", *indented(columns)]
