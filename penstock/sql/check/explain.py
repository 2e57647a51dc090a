"""EXPLAIN: how a query, an INSERT or a statement set would run, as stable text. Starts nothing and reads no table.

What a checkpoint holds and where each partition would start is `penstock plan`'s part, which asks brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import SplitSource
from penstock.connector.registry import connector_of
from penstock.sql.check.explain_details import detail_lines
from penstock.sql.checkpoint.fingerprint import fingerprint_of
from penstock.sql.ddl.apply_ddl import apply_ddl
from penstock.sql.dialect.rewrites.unfold_grouping_sets import described_sets
from penstock.sql.incremental.stages import ChangelogNormalize
from penstock.sql.jobs.progress import short_name
from penstock.sql.plan.analysed import AnalysedQuery, TableScan, updating_operator_lines
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.analyzer import analyse_unbounded
from penstock.sql.plan.lookup_keys import (
    FullScanLookup,
    KeyLookup,
    LookupStrategy,
    lookup_strategy,
    lookups_in,
)
from penstock.sql.plan.rules.prune_columns import path_texts
from penstock.sql.plan.rules.query_kind import is_plain_projection
from penstock.sql.plan.statement_set import SeparateQueries, SharedRead, share
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTableAs,
    Explain,
    ReplaceTableAs,
    Select,
    StatementSet,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sqlglot import exp

    from penstock.sql.plan.analysed import AnalysedInsert
    from penstock.sql.plan.analyzer import Analyzer

__all__ = ["explain_lines", "operator_lines"]

_INDENT = "  "


def explain_lines(statement: Explain, analyzer: Analyzer) -> list[str]:
    """Describe what would run, line by line, with the requested details. Raises InputError for what could not run."""
    made: list[str] = []
    match statement.statement:
        case (CreateTableAs() | ReplaceTableAs()) as create:
            made, explained = _made(create), create.insert
            draft = analyzer.namespace.overlay()
            apply_ddl(create, draft)
            analyzer = replace(analyzer, namespace=draft)
        case explained:
            pass
    plan = [*made, *_plan(explained, analyzer)]
    return [*plan, *detail_lines(explained, statement.details, analyzer, plan)]


def _made(statement: CreateTableAs | ReplaceTableAs) -> list[str]:
    """Return the columns of a table that is created from a query: its types are nowhere in the statement."""
    table = statement.create.table
    verb = "CREATE" if isinstance(statement, CreateTableAs) else "REPLACE"
    columns = [f"{column.name} {column.type}" for column in table.schema.columns]
    return [f"{verb} TABLE {short_name(table.identifier)}", *_indented(columns)]


def _plan(statement: Select | InsertInto | StatementSet, analyzer: Analyzer) -> list[str]:
    match statement:
        case Select() as select:
            query = analyse_unbounded(select.query, analyzer) or analyse(
                select.query, analyzer.namespace, analyzer.project, appends=False
            )
            return ["SELECT", *_indented(_query(query, analyzer))]
        case InsertInto() as insert:
            return _insert(analyzer.analyse_insert(insert), analyzer)
        case StatementSet(inserts=inserts):
            return _statement_set([analyzer.analyse_insert(one) for one in inserts], analyzer)
        case _:
            assert_never(statement)


def operator_lines(query: AnalysedQuery, *, state_ttl_ms: int) -> list[str]:
    """Describe the operators over the rows, and their state. `state_ttl_ms` is `table.exec.state.ttl`; 0 is none."""
    mechanism, sets = (
        updating_operator_lines(query, state_ttl_ms=state_ttl_ms),
        _grouping_sets(query),
    )
    if mechanism:
        title = "operators, whose results change:" if query.flow.is_changing else "operators:"
        return [title, *_indented([*sets, *mechanism])]
    kept = fingerprint_of(query.query, (), "").state
    if kept:
        return ["operators, with state in the checkpoint:", *_indented([*sets, *kept])]
    if is_plain_projection(query.query):
        return ["operators: projection of each row, no state"]
    return ["operators: projection and filter of each row, no state"]


def _grouping_sets(query: AnalysedQuery) -> list[str]:
    trees = [query.query]
    if query.maintained is not None:
        trees += [s.query for s in query.maintained.stages if not isinstance(s, ChangelogNormalize)]
    found = dict.fromkeys(text for tree in trees for text in described_sets(tree))
    return [f"grouping sets: {text}; each row counts in every one" for text in found]


def _statement_set(inserts: Sequence[AnalysedInsert], analyzer: Analyzer) -> list[str]:
    match share([one.query for one in inserts], analyzer.project):
        case SharedRead(leaf=leaf):
            lines = ["STATEMENT SET: one query, which reads once and writes every sink"]
            lines += _indented(_read(leaf, analyzer.project))
            for one in inserts:
                operators = operator_lines(one.query, state_ttl_ms=analyzer.state_ttl_ms)
                lines += _indented([_title(one), *_indented(operators), *_sink(one)])
            return lines
        case SeparateQueries(reason=reason):
            lines = [f"STATEMENT SET: a query per INSERT ({reason})"]
            for one in inserts:
                lines += _indented(_insert(one, analyzer))
            return lines


def _insert(insert: AnalysedInsert, analyzer: Analyzer) -> list[str]:
    return [_title(insert), *_indented(_query(insert.query, analyzer)), *_sink(insert)]


def _title(insert: AnalysedInsert) -> str:
    verb = "OVERWRITE" if insert.editor is not None else "INTO"
    return f"INSERT {verb} {short_name(insert.target.identifier)}"


def _query(query: AnalysedQuery, analyzer: Analyzer) -> list[str]:
    lookups = lookups_in(query.query)
    lines: list[str] = []
    for index, leaf in enumerate(query.leaves):
        joins = [join for looked_up, join in lookups if looked_up == index]
        lines += _read(leaf, analyzer.project, joins)
    return [*lines, *operator_lines(query, state_ttl_ms=analyzer.state_ttl_ms)]


def _read(leaf: TableScan, project: Path, lookups: Sequence[exp.Join] = ()) -> list[str]:
    """Describe what is read of a table. `lookups` are the lookup joins with it."""
    table = leaf.table
    source = leaf.source or connector_of(table, project=project).source(table)
    read = [name for name in leaf.columns if name != ROW_KIND]
    names = [
        text
        for name in read
        for text in (path_texts(name, leaf.fields[name]) if name in leaf.fields else (name,))
    ]
    names += leaf.computed
    columns = ", ".join(names) or "none, rows are counted"
    lines = [f"columns: {columns}"]
    if leaf.looked_up and not lookups:
        lines.append("looked up: read anew in each batch")
    for join in lookups:
        lines += _lookup(lookup_strategy(join, leaf, source))
    lines += [f"computed: {name} AS {text}" for name, text in leaf.computed.items()]
    if (watermark := table.schema.watermark) is not None:
        use = "" if leaf.rowtime is not None else " (not followed: nothing waits for it)"
        lines.append(f"watermark: {watermark.column} AS {watermark.expression}{use}")
    if source.changes is not ChangelogMode.INSERT_ONLY:
        lines.append(f"changes: {source.changes}")
    lines.append(f"end: {'where its options say' if leaf.bounded else 'none'}")
    lines.append(f"splits: {_splits(source)}" if leaf.by_splits else "splits: Spark's own")  # type: ignore[arg-type]
    title = f"read {short_name(table.identifier)} ({table.option_map['connector']})"
    return [title, *_indented(lines)]


def _lookup(way: LookupStrategy) -> list[str]:
    match way:
        case KeyLookup(source=source, keys=keys, retry=retry):
            names = ", ".join(key.column for key in keys)
            lines = [
                f"looked up: the rows of each batch's keys ({names}), asked for by key",
                f"lookup cache: {source.lookup_cache}",
            ]
            if retry is not None:
                after = f"{retry.delay_ms / 1000:g} s"
                lines.append(
                    f"keys without rows: asked for again after {after}, {retry.attempts} times at most"
                )
            return lines
        case FullScanLookup(reason=reason):
            return [
                "looked up: read anew in each batch" + (f", whole, as {reason}" if reason else "")
            ]
        case _:
            assert_never(way)


def _splits(source: SplitSource) -> str:
    tasks = source.parallelism
    text = "a task for each" if tasks is None else f"{tasks} tasks"
    if source.max_records_per_batch is not None:
        text += f", at most {source.max_records_per_batch} records in a batch"
    if source.discovery_interval_ms > 0 and not source.bounded:
        text += f", new ones are looked for every {source.discovery_interval_ms / 1000:g} s"
    return text


def _sink(insert: AnalysedInsert) -> list[str]:
    """Describe what the target accepts, and what it guarantees for a batch that is written again."""
    table, lines = insert.target, []
    if (key := table.schema.primary_key) is not None:
        lines.append(f"key: {', '.join(key.columns)}")
    capabilities = insert.sink.capabilities
    lines += [f"takes: {capabilities.accepts}", f"delivery: {capabilities.guarantee}"]
    title = f"write {short_name(table.identifier)} ({table.option_map['connector']})"
    return _indented([title, *_indented(lines)])


def _indented(lines: Sequence[str]) -> list[str]:
    return [_INDENT + line for line in lines]
