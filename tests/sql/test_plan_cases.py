"""Golden files of planning: each `cases/plan/<topic>/*.sql` holds queries and, below a line of dashes, how each is run.

    -- what the case is about
    -- tables: changes
    SELECT k, COUNT(*) AS n FROM events GROUP BY k
    -- and: sink: append
    -- and: sink: upsert(k) of k, n; ttl: 1 h
    -- and: another query
    SELECT ...
    -- ----- expected

`tables` is a file of `cases/plan/tables`. A case without SQL is the query before it. `sink` is `all` (the default),
`append`, `before` (one that wants rows before an update), `upsert(key) of columns`, or `none`: a SELECT that is shown.
`form` is a value of PlanForm: `ties-open` is that of versions that left ties of ROW_NUMBER open.

`UPDATE_CASES=1 pytest tests/sql/test_plan_cases.py` writes the expectations anew; review the diff: what changes there
changes which checkpoints resume.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors
from penstock.connector.changelog import ChangelogMode
from penstock.sql.checkpoint.fingerprint import fingerprint_of
from penstock.sql.dialect import to_text
from penstock.sql.errors.render import render
from penstock.sql.incremental.describe import state_of, text_of
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.builder.relations import shown_columns
from penstock.sql.plan.explain.document import explain_query
from penstock.sql.plan.explain.statements import plan_lines
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.plan.syntax_rules import PlanForm
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

FOLDER = Path(__file__).parent / "cases" / "plan"
CASES = sorted(FOLDER.rglob("*.sql"))
LINE = "-- ----- expected"
AND = "-- and:"
READS = ("- columns: ", "- computed: ", "- watermark: ", "- looked up: ")
SINK = re.compile(r"upsert\((?P<key>[^)]*)\)(?: of (?P<columns>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query, and what it is planned for."""

    title: str
    sql: str
    sink: str = "all"
    ttl: str = ""
    form: str = "current"

    @property
    def settings(self) -> str:
        """What differs from the defaults, as the file says it."""
        said = {"sink": self.sink, "ttl": self.ttl, "form": self.form}
        defaults = {"sink": "all", "ttl": "", "form": "current"}
        return "; ".join(
            f"{name}: {value}" for name, value in said.items() if value != defaults[name]
        )


@cache
def namespace(tables: str) -> Namespace:
    """The tables that the queries of a file are over."""
    return new_namespace((FOLDER / "tables" / f"{tables}.ddl").read_text(encoding="utf-8"))


def read_cases(text: str) -> tuple[str, list[Case]]:
    """Return the name of the file of tables, and the cases."""
    tables = re.search(r"^-- tables: (\S+)$", text, re.MULTILINE)
    assert tables is not None, "a file says over which tables its queries are"
    cases: list[Case] = []
    head = text.replace(f"{tables[0]}\n", "")
    for part in head.split(f"\n{AND}"):
        said, _, sql = (part.removeprefix("-- ") + "\n").partition("\n")
        settings = dict(re.findall(r"\b(sink|ttl|form): ([^;]+)", said))
        assert sql.strip() or cases, "the first case has a query"
        written = sql.strip() or cases[-1].sql
        cases.append(Case(title=said.strip(), sql=written, **settings))
    return tables[1], cases


def sink_of(words: str) -> SinkTable | None:
    """The sink that a case names."""
    into = SinkTable(name="the sink", accepts=ChangelogMode.ALL, columns=())
    match words:
        case "none":
            return None
        case "all":
            return into
        case "append":
            return replace(into, accepts=ChangelogMode.INSERT_ONLY)
        case "before":
            return replace(into, wants_rows_before=True)
    found = SINK.fullmatch(words)
    assert found is not None, words
    return replace(
        into,
        accepts=ChangelogMode.UPSERT,
        key=tuple(found["key"].split(", ")),
        columns=tuple((found["columns"] or "").split(", ")),
    )


@cache
def parsed(sql: str, tables: str) -> exp.Expr:
    """Return the query of a case, and of those behind it that ask for it again. Raises InputError."""
    (statement,) = parse_script(sql, "case.sql", namespace(tables))
    assert isinstance(statement, Select)
    return statement.query


def planned(case: Case, tables: str) -> AnalysedQuery:
    """Plan the query of a case. Raises InputError."""
    into = sink_of(case.sink)
    return analyse(
        parsed(case.sql, tables),
        namespace(tables),
        Path("/nowhere"),
        appends=into is not None,
        sink=into,
        state_ttl_ms=_milliseconds(case.ttl),
        form=PlanForm.CURRENT if case.form == "current" else PlanForm(case.form),
    )


def _milliseconds(ttl: str) -> int:
    number, _, unit = ttl.partition(" ")
    return int(number or 0) * {"": 0, "h": 3_600_000}[unit]


def outcome(case: Case, tables: str) -> list[str]:
    """Write how a query is run, or why not."""
    try:
        query = planned(case, tables)
    except InputErrors as errors:
        return ["error:", *(line for one in errors.errors for line in _indented(render(one)))]
    except InputError as error:
        return ["error:", *_indented(render(error))]
    flow, maintained = query.flow, query.maintained
    assert query.plan is not None, "it was planned"
    assert _said(query.plan.flow) == _said(flow), "what the plan says is what runs"
    check_columns(query, query.plan.plan)
    text = to_text(query.query)
    stages = "" if maintained is None else text_of(maintained)
    shape = fingerprint_of(
        query.query,
        query.source_names,
        "sink",
        query.phases if maintained is None else state_of(maintained),
    )
    names = [name.rpartition(".")[2] for name in shape.sources]
    whole = text if maintained is None else f"{text}\n{stages}"
    return [
        "plan:",
        *_indented("\n".join(_plan(query, case))),
        f"flow: {_said(flow)}",
        "reads:",
        *_indented("\n".join(map(_read, query.leaves))),
        "query:",
        *_indented(text),
        *(["stages:", *_indented(stages)] if stages else []),
        f"checkpoint: {', '.join(names) or 'no sources'}",
        *_indented("\n".join(shape.state)),
        f"digest: {sha256(whole.encode()).hexdigest()[:16]}",
    ]


def check_columns(query: AnalysedQuery, plan: Plan) -> None:
    """Check that the columns of a logical plan are those that engines give."""
    given = query.flow.columns
    if query.maintained is not None:
        assert shown_columns(plan.root) == given, query.query
    elif query.flow != Flow(columns=None):
        assert _named(plan.root.facts.names) == _named(given), query.query


def _named(columns: tuple[str, ...] | None) -> list[str] | None:
    """The columns that the query names: others are named by whoever writes them."""
    return None if columns is None else [n if n.isidentifier() else "" for n in columns]


def _plan(query: AnalysedQuery, case: Case) -> list[str]:
    """The operators of a query as EXPLAIN shows them, without how tables are read."""
    root = explain_query(query, None, state_ttl_ms=_milliseconds(case.ttl))
    return [line for line in plan_lines(root) if not line.lstrip().startswith(READS)]


def _said(flow: Flow) -> str:
    return (
        f"{flow.changes}, columns {_names(flow.columns)}, key {_names(flow.key)}"
        + (f", constants {_names(tuple(sorted(flow.constants)))}" if flow.constants else "")
        + (", kinds" if flow.kinds else "")
        + (f", {flow.mechanism.way}" if flow.mechanism is not None else "")
    )


def _read(leaf: TableScan) -> str:
    fields = [f"fields {name}: {sorted(paths)}" for name, paths in sorted(leaf.fields.items())]
    more = [
        *(["looked up"] if leaf.looked_up else []),
        *([f"rowtime {leaf.rowtime.column}"] if leaf.rowtime is not None else []),
        *(["marked"] if leaf.marked else []),
        *fields,
    ]
    return (
        f"{leaf.table.identifier.name} {_names(leaf.columns)}{''.join(f', {one}' for one in more)}"
    )


def _names(names: tuple[str, ...] | None) -> str:
    return "unknown" if names is None else f"({', '.join(names)})"


def _indented(text: str) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        yield f"  {line}"


def written(cases: list[Case], tables: str) -> str:
    """Write what the cases of a file come to; one that comes to the same as one before says which."""
    seen: dict[tuple[str, ...], int] = {}
    lines: list[str] = []
    for number, case in enumerate(cases, 1):
        found = tuple(outcome(case, tables))
        lines.append(f"[{number}] {case.title}")
        if found in seen and case.sql == cases[seen[found] - 1].sql:
            lines.append(f"  as [{seen[found]}]")
            continue
        seen.setdefault(found, number)
        lines += (f"  {line}" for line in found)
    return "\n".join(f"-- {line}".rstrip() for line in lines)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_queries_are_planned_as_their_file_says(path: Path) -> None:
    """See the top of this file."""
    head, _, expected = path.read_text(encoding="utf-8").partition(f"\n{LINE}\n")
    tables, cases = read_cases(head)
    actual = written(cases, tables)
    if os.environ.get("UPDATE_CASES"):
        path.write_text(f"{head.rstrip()}\n{LINE}\n{actual}\n", encoding="utf-8")
        return

    assert head.startswith("-- "), "a file says what it is about"
    assert actual == expected.rstrip("\n")
