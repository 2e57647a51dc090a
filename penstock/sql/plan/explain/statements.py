"""What EXPLAIN shows of a statement: the sink, and the operators of its query below; of a statement set each INSERT.

An operator is a line, its facts are lines that begin with a dash, its inputs are below, indented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connector.changelog import ChangelogMode
from penstock.connector.file_output import FileOutput, RecordOutput, WrittenByEngine
from penstock.sql.plan.analyzer import filled_columns
from penstock.sql.plan.explain.document import ExplainedOperator, explain_query, flink_letters
from penstock.sql.plan.explain.scans import unnested_text
from penstock.sql.plan.rules.flow import describe_changes
from penstock.sql.plan.table_writer import choose_table_writer

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.sql.plan.analysed import AnalysedInsert, TableScan

# --- plans ---

_INDENT = "  "


def plan_lines(
    root: ExplainedOperator, *, keys: bool = False, shown: set[int] | None = None
) -> list[str]:
    """Write a plan. `keys`: the key of every operator; else of those with state that update their rows.

    How a table is read is told where it is named first; `shown` are the numbers of tables that were told before.
    """
    return list(_lines(root, 0, set() if shown is None else shown, keys=keys))


def _lines(node: ExplainedOperator, depth: int, shown: set[int], *, keys: bool) -> Iterator[str]:
    indent = _INDENT * depth
    again = node.scan is not None and node.number in shown
    line = node.line + (", as above" if again else "")
    yield f"{indent}{line} [{_runs_on(node)}] [{','.join(node.changes)}]"
    if not again:
        yield from (f"{indent}- {fact}" for fact in _facts(node, keys=keys))
    if node.number is not None:
        shown.add(node.number)
    for child in node.inputs:
        yield from _lines(child, depth + 1, shown, keys=keys)


def _runs_on(node: ExplainedOperator) -> str:
    if node.stage is None:
        return node.runs
    return f"stage {node.stage}" if node.runs == "stage" else f"{node.runs}, {node.stage}"


def _facts(node: ExplainedOperator, *, keys: bool) -> Iterator[str]:
    updates = node.state is not None and node.changes != ("I",)
    if keys or updates:
        yield f"key: {_key(node.key)}"
    sets = node.details.get("grouping_sets")
    if sets:
        yield f"grouping sets: {sets}; each row counts in every one"
    if first_phase := node.details.get("first_phase"):
        yield f"first phase {first_phase}"
    if node.state is not None:
        yield f"state: {node.state.keeps}"
        yield f"bound: {node.state.bound or 'none'}"
    if node.reread is not None:
        yield node.reread
    yield from dict.fromkeys(line for run in node.stage_runs for line in run.lines)
    if node.scan is not None:
        yield from node.scan.lines


def _key(key: tuple[str, ...] | None) -> str:
    if key is None:
        return "none"
    return ", ".join(key) or "none: one row in all"


# --- statements ---

VERSION = 1
"""The version of the JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSink:
    """A table that rows go into: the kinds of changes that it takes, its PRIMARY KEY, and what reaches it.

    `writer` says who writes them, where that is not always Spark.
    """

    table: str
    connector: str
    takes: ChangelogMode
    key: tuple[str, ...] | None
    rows: str
    delivery: str
    writer: str | None = None

    @property
    def lines(self) -> list[str]:
        """The sink, and what is known of it in lines that begin with a dash."""
        key = [] if self.key is None else [f"key: {', '.join(self.key)}"]
        writer = [] if self.writer is None else [f"written by {self.writer}"]
        facts = [*key, f"rows: {self.rows}", f"delivery: {self.delivery}", *writer]
        title = (
            f"write {self.table} ({self.connector}), takes [{','.join(flink_letters(self.takes))}]"
        )
        return [title, *(f"- {fact}" for fact in facts)]

    @property
    def document(self) -> dict[str, Any]:
        """The sink as JSON."""
        return {
            "table": self.table,
            "connector": self.connector,
            "takes": list(flink_letters(self.takes)),
            "key": None if self.key is None else list(self.key),
            "rows": self.rows,
            "delivery": self.delivery,
            **({} if self.writer is None else {"written by": self.writer}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedQuery:
    """A SELECT or an INSERT; a SELECT has no sink."""

    title: str
    sink: ExplainedSink | None
    root: ExplainedOperator

    def lines(self, *, keys: bool, shown: set[int] | None = None) -> list[str]:
        """Write it; `keys` and `shown` as `plan_lines` takes them."""
        sink = [] if self.sink is None else self.sink.lines
        plan = plan_lines(self.root, keys=keys, shown=shown)
        return [self.title, *sink, *indented(plan)]

    @property
    def document(self) -> dict[str, Any]:
        """The statement as JSON."""
        return {
            "statement": self.title,
            "sink": None if self.sink is None else self.sink.document,
            "plan": self.root.document,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSet:
    """A statement set. `reason` says why it is a query per INSERT; None: it is one, which reads once."""

    inserts: Sequence[ExplainedQuery]
    reason: str | None

    def lines(self, *, keys: bool) -> list[str]:
        """Write each INSERT below the set; a table that is read once is told once."""
        if self.reason is None:
            title, shown = "one query, which reads once and writes every sink", set[int]()
            parts = [line for one in self.inserts for line in one.lines(keys=keys, shown=shown)]
        else:
            title = f"a query per INSERT ({self.reason})"
            parts = [line for one in self.inserts for line in one.lines(keys=keys)]
        return [f"STATEMENT SET: {title}", *indented(parts)]

    @property
    def document(self) -> dict[str, Any]:
        """The set as JSON."""
        return {
            "statement": "STATEMENT SET",
            "reads once": self.reason is None,
            "reason": self.reason,
            "inserts": [one.document for one in self.inserts],
        }


def indented(lines: Sequence[str]) -> Iterator[str]:
    """Write lines one step further to the right."""
    return (_INDENT + line for line in lines)


def explain_insert(
    insert: AnalysedInsert,
    project: Path,
    *,
    title: str,
    table: str,
    state_ttl_ms: int,
    shared: TableScan | None = None,
) -> ExplainedQuery:
    """Explain an INSERT into `table`. `shared` is the read that it has in common with others of a statement set."""
    target, flow = insert.target, insert.query.flow
    capabilities = insert.sink.capabilities
    rows = describe_changes(flow.changes, flow.key)
    if flow.changes is ChangelogMode.ALL and capabilities.accepts is ChangelogMode.UPSERT:
        rows += "; rows before an update are left out"
    key = target.schema.primary_key
    return ExplainedQuery(
        title=title,
        sink=ExplainedSink(
            table=table,
            connector=str(target.option_map["connector"]),
            takes=capabilities.accepts,
            key=None if key is None else tuple(key.columns),
            rows=rows,
            delivery=str(capabilities.guarantee),
            writer=table_writer(insert, shared=shared is not None),
        ),
        root=explain_query(insert.query, project, state_ttl_ms=state_ttl_ms, shared=shared),
    )


def table_writer(insert: AnalysedInsert, *, shared: bool) -> str | None:
    """Say who writes the rows of a stream; None where there is only one way.

    Reads the log of a Delta table on this machine. Of rows that are replaced by the key it says how. `shared`: a query
    reads once for several tables.
    """
    if insert.sink.task_writer is None or not insert.is_stream:
        return None
    if (upserts := insert.sink.describe_upserts()) is not None:
        return upserts
    if shared:
        return "Spark: the statement set reads once for several tables"
    columns = tuple(filled_columns(insert.statement, insert.target).values())
    match choose_table_writer(insert.query, columns, insert.sink):
        case None:
            return None
        case WrittenByEngine(reason=reason):
            return f"Spark: {reason}"
        case FileOutput() | RecordOutput():
            (leaf,) = insert.query.leaves
            calls = "" if leaf.fragment is None else unnested_text(leaf.fragment.calls)
            return f"the reading tasks, behind {calls}" if calls else "the reading tasks"
