"""What `penstock plan` and a dry run show: each statement, and for each query what it reads, keeps, and begins with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, assert_never

from penstock.catalog.model.identifier import short_name
from penstock.sql.check.begun_state import BegunState, read_begun
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.check.source_status import start_decisions_of
from penstock.sql.checkpoint.start_decision import (
    Incompatible,
    New,
    Resume,
    SourceStart,
    SplitStart,
    StartDecision,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines
from penstock.sql.cli.output.text import count_text
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.plan.explain.document import explain_query
from penstock.sql.plan.explain.statements import plan_lines as operator_lines
from penstock.sql.plan.explain.statements import table_writer
from penstock.sql.runner.run_mode import RunMode
from penstock.sql.runner.summary import kind_of, subject_of
from penstock.sql.statements.statement import starts_refresh

if TYPE_CHECKING:
    from penstock.sql.check.offline_plan import OfflineStatement
    from penstock.sql.checkpoint.search import OpenFiles
    from penstock.sql.jobs.startable_query import CheckpointedQuery


MOST_SPLITS = 20
"""Splits of a table that the text shows; JSON has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """One query of a statement. `verdict` is None for INSERT .. VALUES, which keeps no checkpoint."""

    sink: str
    details: dict[str, str]
    verdict: StartDecision | None
    aside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertPlan:
    """What an INSERT does with the rows that it reads, in lines; `writer` writes them, if not always Spark.

    `buckets` is the number of them in the state of keyed operators that its checkpoint has.
    """

    sink: str
    operators: tuple[str, ...]
    writer: str | None = None
    buckets: int | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The writer, the buckets and the operators."""
        writer = () if self.writer is None else (f"written by {self.writer}",)
        buckets = () if self.buckets is None else (f"keyed state in {self.buckets} buckets",)
        return (*writer, *buckets, *self.operators)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """A statement and its queries: none, one, or those of a statement set, with why they are several."""

    file: str
    line: int
    kind: str
    subject: str | None
    queries: tuple[QueryPlan, ...] = ()
    inserts: tuple[InsertPlan, ...] = ()
    reason: str | None = None


def plans_of(
    scripts: Sequence[CheckedScript],
    judged: Sequence[Sequence[OfflineStatement]],
    mode: RunMode,
    open_files: OpenFiles,
    *,
    from_scratch: bool,
) -> list[StatementPlan]:
    """Describe what would run, `judged` being its queries. Reads checkpoints and asks brokers.

    `from_scratch` begins without checkpoints.
    """
    return [
        StatementPlan(
            file=script.file.name,
            line=one.statement.span.line,
            kind=kind_of(one.statement),
            subject=subject_of(one.statement),
            queries=tuple(_queries(one, its, mode, open_files, from_scratch=from_scratch)),
            inserts=tuple(_inserts(one, its, open_files, from_scratch=from_scratch)),
            reason=its.reason,
        )
        for script, of_script in zip(scripts, judged, strict=True)
        for one, its in zip(script.statements, of_script, strict=True)
    ]


def show_plans(plans: Sequence[StatementPlan], output: OutputFormat) -> int:
    """Print plans, and return the exit status."""
    if output is OutputFormat.JSON:
        print_json(plan_document(plans))
    else:
        print_lines(plan_lines(plans))
    return ExitStatus.WRONG_INPUT if any(map(is_incompatible, plans)) else 0


def is_incompatible(plan: StatementPlan) -> bool:
    """Return whether the statement would be refused."""
    return any(isinstance(query.verdict, Incompatible) for query in plan.queries)


def plan_lines(plans: Sequence[StatementPlan]) -> list[str]:
    """Write plans for people."""
    lines: list[str] = []
    file, number = None, 0
    for plan in plans:
        if plan.file != file:
            file, number = plan.file, 0
            lines.append(file)
        number += 1
        lines.append(f"  {number:>2}  {plan.kind} {plan.subject or ''}".rstrip())
        if plan.reason is not None:
            lines.append(f"        a query per INSERT: {plan.reason}")
        for query in plan.queries:
            if len(plan.queries) > 1:
                lines.append(f"      {query.sink}")
            lines += [f"        {key:<11} {value}" for key, value in query.details.items()]
            if query.verdict is not None:
                lines += _verdict_lines(query)
        for insert in plan.inserts:
            several = len(plan.inserts) > 1
            lines += [f"        {insert.sink}:"] if several else []
            indent = "          " if several else "        "
            lines += [f"{indent}{line}" for line in insert.lines]
    return lines


def plan_document(plans: Sequence[StatementPlan]) -> dict[str, Any]:
    """Write plans for programs."""
    return {
        "statements": [
            {
                "kind": plan.kind,
                "subject": plan.subject,
                "file": plan.file,
                "line": plan.line,
                **({} if plan.reason is None else {"reason": plan.reason}),
                **_queries_document(plan),
            }
            for plan in plans
        ]
    }


def _queries(
    one: CheckedStatement,
    judged: OfflineStatement,
    mode: RunMode,
    open_files: OpenFiles,
    *,
    from_scratch: bool,
) -> Iterator[QueryPlan]:
    streams = [query for query in judged.queries if query.is_stream]
    verdicts = start_decisions_of(judged, open_files, from_scratch=from_scratch)
    known = dict(zip(map(id, streams), verdicts, strict=True))
    ends = mode.ends(bounded=all(query.bounded for query in judged.queries))
    again = starts_refresh(one.statement) and mode is not RunMode.AVAILABLE_NOW
    for query in judged.queries:
        yield QueryPlan(
            sink=short_name(query.sink),
            details=_details(query, ends=ends, again=again),
            verdict=known.get(id(query)),
            aside=from_scratch,
        )


def _inserts(
    one: CheckedStatement, judged: OfflineStatement, open_files: OpenFiles, *, from_scratch: bool
) -> Iterator[InsertPlan]:
    """Describe the INSERTs of a statement as their checkpoints run them; one query of several keeps no state."""
    shared = len(one.inserts) > 1 and judged.reason is None
    queries = () if shared or from_scratch else judged.queries
    for asked, query in zip_longest(one.inserts, queries):
        if asked is None or not asked.query.leaves:
            continue
        begun = BegunState()
        if query is not None and query.is_stream:
            begun = read_begun(open_files(query.checkpoint))
        insert = begun.form_of(asked)
        root = explain_query(insert.query, None, state_ttl_ms=insert.state_ttl_ms)
        yield InsertPlan(
            sink=short_name(insert.target.identifier),
            operators=tuple(operator_lines(begun.running(root))),
            writer=table_writer(insert, shared=shared),
            buckets=begun.buckets,
        )


def _details(query: CheckpointedQuery, *, ends: bool, again: bool) -> dict[str, str]:
    if not query.is_stream:
        return {
            "rows": "written now, and again at each multiple of its FRESHNESS"
            if again
            else "written once"
        }
    before = query.location.before
    return {
        "reads": ", ".join(short_name(source) for source in query.sources),
        "runs": "until what is there is read" if ends else "until it is stopped",
        "pipeline": query.pipeline,
        "checkpoint": query.checkpoint,
        **({} if before is None else {"changed": f"its statement was {' '.join(before.split())}"}),
    }


# --- text ---


def _verdict_lines(query: QueryPlan) -> Iterator[str]:
    match query.verdict:
        case None:
            return
        case New(sources=sources):
            aside = ", what is in the checkpoint is set aside" if query.aside else ""
            yield f"        verdict     new{aside}"
        case Resume(batch_id=batch_id, replays=replays, sources=sources, unasked=unasked):
            again = ", which was planned before and reads the same again" if replays else ""
            yield f"        verdict     resume from batch {batch_id}{again}"
            if unasked is not None:
                yield f"        target      not checked: {unasked}"
        case Incompatible(reason=reason, choices=choices):
            yield f"        verdict     incompatible: {reason}"
            for choice in choices:
                yield f"        help        {choice}"
            return
        case _:
            assert_never(query.verdict)
    for source in sources:
        yield from _source_lines(source)


def _source_lines(source: SourceStart) -> Iterator[str]:
    facts = [short_name(source.table)]
    if source.lag is not None:
        facts.append(f"{count_text(source.lag)} to be read")
    if source.note is not None:
        facts.append(source.note)
    yield f"        starts      {', '.join(facts)}"
    for split in source.splits[:MOST_SPLITS]:
        end = "" if split.end is None else f", end {split.end}, lag {split.lag}"
        yield f"                      {split.split} at {split.start}{end}"
    if len(source.splits) > MOST_SPLITS:
        yield f"                      and {len(source.splits) - MOST_SPLITS} more"


# --- JSON ---


def _queries_document(plan: StatementPlan) -> dict[str, Any]:
    """Return the document: the one query of an INSERT beside its kind, those of a set in a list."""
    found: list[dict[str, Any]] = [
        {
            **query.details,
            **({} if query.verdict is None else {"verdict": _verdict_document(query.verdict)}),
        }
        for query in plan.queries
    ]
    operators = {insert.sink: list(insert.operators) for insert in plan.inserts}
    if plan.kind != "STATEMENT SET":
        if plan.inserts:
            found[0]["operators"] = list(plan.inserts[0].operators)
            if plan.inserts[0].writer is not None:
                found[0]["written by"] = plan.inserts[0].writer
            if plan.inserts[0].buckets is not None:
                found[0]["buckets"] = plan.inserts[0].buckets
        return found[0] if found else {}
    return {
        "operators": operators,
        "queries": [
            {"sink": query.sink, **value} for query, value in zip(plan.queries, found, strict=True)
        ],
    }


def _verdict_document(verdict: StartDecision) -> dict[str, Any]:
    match verdict:
        case New(sources=sources):
            return {"kind": "new", "sources": list(map(_source_document, sources))}
        case Resume(batch_id=batch_id, replays=replays, sources=sources, unasked=unasked):
            return {
                "kind": "resume",
                "batch": batch_id,
                "replays": replays,
                "sources": list(map(_source_document, sources)),
                **({} if unasked is None else {"target": f"not checked: {unasked}"}),
            }
        case Incompatible(reason=reason, choices=choices):
            return {"kind": "incompatible", "reason": reason, "choices": list(choices)}
        case _:
            assert_never(verdict)


def _source_document(source: SourceStart) -> dict[str, Any]:
    return {
        "table": source.table,
        "lag": source.lag,
        "note": source.note,
        "splits": list(map(_split_document, source.splits)),
    }


def _split_document(split: SplitStart) -> dict[str, Any]:
    return {"split": split.split, "start": split.start, "end": split.end, "lag": split.lag}
