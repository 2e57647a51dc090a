"""EXPLAIN: how a query, an INSERT or a statement set would run, as stable text. Starts nothing and reads no table.

What a checkpoint holds and where each partition would start is `penstock plan`'s part, which asks brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from penstock.sql.check.explain_details import ExplainedPart, detail_lines
from penstock.sql.ddl.apply_ddl import apply_ddl
from penstock.sql.jobs.progress import short_name
from penstock.sql.plan.analysis import analyse
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
from penstock.sql.script.compound import Detail
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTableAs,
    Explain,
    ReplaceTableAs,
    Select,
    StatementSet,
)

if TYPE_CHECKING:
    from penstock.sql.plan.analysed import AnalysedInsert, TableScan
    from penstock.sql.plan.analyzer import Analyzer

__all__ = ["ExplainedStatement", "explain_lines", "explained"]


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
            draft = analyzer.namespace.overlay()
            apply_ddl(create, draft)
            found = _explained(create.insert, replace(analyzer, namespace=draft))
            return replace(found, made=_made(create))
        case query:
            return _explained(query, analyzer)


def _explained(
    statement: Select | InsertInto | StatementSet, analyzer: Analyzer
) -> ExplainedStatement:
    match statement:
        case Select(query=query):
            found = analyse_unbounded(query, analyzer) or analyse(
                query, analyzer.namespace, analyzer.project, appends=False
            )
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
