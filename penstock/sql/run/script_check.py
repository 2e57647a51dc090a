"""Checks whole files before anything of them runs: all that is wrong, in one go, first without a JVM, then with one.

Works on a draft of the namespace, so neither the catalog nor any table is touched. Running what was checked is
`script_run.py`'s part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.catalog.errors import (
    InputError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.external import NotReachedError
from penstock.catalog.names import Namespace
from penstock.sql.catalog_changes import filling
from penstock.sql.locating import place_of_message
from penstock.sql.lower import parse_statement
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.planned_insert import AnalysedInsert, PlannedInsert
from penstock.sql.plan.planner import Planner
from penstock.sql.run.commands import check_command
from penstock.sql.run.connector_check import check_connector
from penstock.sql.run.ddl import define, is_definition, set_option
from penstock.sql.run.explain import explain_lines
from penstock.sql.run.functions import add_jar, register_called
from penstock.sql.run.query import PlannedQuery
from penstock.sql.run.script_file import ScriptFile
from penstock.sql.run.session_settings import check_settings
from penstock.sql.run.statement_set import PlannedSet, plan_set, set_pipelines
from penstock.sql.script import Source, StatementText, split_all
from penstock.sql.show_statements import AddJar
from penstock.sql.statements import (
    Explain,
    InsertInto,
    ResetOption,
    Select,
    SetOption,
    Statement,
    StatementSet,
)
from penstock.sql.template import TemplateFolders, render_template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
D = TypeVar("D")

__all__ = [
    "CheckedScript",
    "CheckedStatement",
    "check_scripts",
    "plan_scripts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStatement:
    """A statement without a fault; an INSERT, and a statement set, come with what is known of them.

    `pipelines` are the names that its queries will hold, known before they are planned.
    """

    statement: Statement
    analysed: AnalysedInsert | None = None
    planned: PlannedInsert | None = None
    members: tuple[AnalysedInsert, ...] = ()
    pipelines: tuple[str, ...] = ()
    planned_set: PlannedSet | None = None

    @property
    def queries(self) -> tuple[PlannedQuery, ...]:
        """What it runs: none, one, or those of a statement set."""
        if self.planned_set is not None:
            return self.planned_set.queries
        return () if self.planned is None else (self.planned,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedScript:
    """A file whose statements may run, in order. `unchecked` is how many more it has that could not be looked at.

    `planner` is there once Spark has checked it: files that data sources read live as long as it does.
    """

    file: ScriptFile
    statements: tuple[CheckedStatement, ...]
    planner: Planner | None = None
    unchecked: int = 0


_DEFINES = re.compile(
    r"\s*(?:CREATE\s+)?(?:TEMPORARY\s+|(?:OR\s+)?REPLACE\s+)?(?:TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)",
    re.IGNORECASE,
)


class _Faults:
    """Collects what is wrong, so that one run shows all of it."""

    def __init__(self) -> None:
        self.unreached = 0
        self._errors: list[InputError] = []
        self._broken: set[str] = set()

    def gather(self, step: Callable[[], T], *, default: D, text: str = "") -> T | D:
        """Do a step; give `default` where it finds a fault, and keep the fault.

        `text` is the statement: a table whose definition is wrong is not reported again as missing.
        """
        try:
            return step()
        except InputErrors as error:
            self._keep(error.errors)
        except InputError as error:
            self._keep((error,))
        defined = _DEFINES.match(text)
        if defined is not None:
            self._broken.add(defined.group(1).replace("`", "").rpartition(".")[2].lower())
        return default

    def add(self, error: InputError) -> None:
        """Keep a fault, or several."""
        self._keep(error.errors if isinstance(error, InputErrors) else (error,))

    def raise_all(self) -> None:
        """Raise InputErrors if anything was wrong."""
        if self._errors:
            raise InputErrors(self._errors)

    def _keep(self, errors: Sequence[InputError]) -> None:
        for error in errors:
            if isinstance(error, NotReachedError):
                self.unreached += 1  # nothing is known to be wrong
                continue
            words = set(re.findall(r"\w+", error.message.lower()))
            if not (isinstance(error, UnknownObjectError) and words & self._broken):
                self._errors.append(error)


class _Draft:
    """What the statements so far have made of names and settings, on paper only."""

    def __init__(self, namespace: Namespace, project: Path, settings: Mapping[str, str]) -> None:
        self.namespace = namespace.overlay()
        self.settings = dict(settings)
        self.project = project

    def planner(self, file: ScriptFile) -> Planner:
        return Planner(
            namespace=self.namespace,
            project=self.project,
            settings=self.settings,
            default_pipeline=file.pipeline,
        )

    def apply(self, statement: Statement) -> None:
        """Take on what a definition or a SET changes. Raises InputError."""
        if is_definition(statement):
            define(statement, self.namespace)
        elif isinstance(statement, SetOption | ResetOption):
            before = dict(self.settings)
            set_option(statement, self.settings)
            try:
                check_settings(self.settings)
            except InputError:
                self.settings.clear()
                self.settings.update(before)
                raise


def check_scripts(
    files: Sequence[ScriptFile],
    *,
    namespace: Namespace,
    project: Path,
    settings: Mapping[str, str],
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders | None = None,
    follows: bool = False,
) -> tuple[CheckedScript, ...]:
    """Check files as one: templates, syntax, names, options, types of queries. Starts no JVM, does no I/O on tables.

    `folders` are those that templates read beside their own, by default those of the project's folder. A SELECT that
    never ends is an error, unless the caller `follows` it. Raises InputErrors with everything that is wrong.
    """
    check_settings(settings)
    folders = folders or TemplateFolders(root=project)
    draft, faults = _Draft(namespace, project, settings), _Faults()
    scripts: list[CheckedScript] = []
    for file in files:
        planner = draft.planner(file)
        checked: list[CheckedStatement] = []
        before = faults.unreached
        for text in _statements(file, variables, env, folders, faults):
            step = partial(_check, text, draft, planner, follows=follows)
            one = faults.gather(step, default=None, text=text.text)
            if one is not None:
                checked.append(one)
        unchecked = faults.unreached - before
        scripts.append(CheckedScript(file=file, statements=tuple(checked), unchecked=unchecked))
    faults.raise_all()
    return tuple(scripts)


def plan_scripts(
    scripts: Sequence[CheckedScript],
    spark: SparkSession,
    *,
    namespace: Namespace,
    project: Path,
    settings: Mapping[str, str],
    judges: bool = False,
) -> tuple[CheckedScript, ...]:
    """Let Spark check every query, and plan every INSERT. Raises InputErrors; nothing is started or written.

    A checkpoint that does not fit is an error, unless the caller `judges` what checkpoints hold.
    """
    draft, faults = _Draft(namespace, project, settings), _Faults()
    planned: list[CheckedScript] = []
    for script in scripts:
        planner = draft.planner(script.file)
        statements = tuple(
            faults.gather(partial(_plan, one, draft, planner, spark, judges=judges), default=one)
            for one in script.statements
        )
        planned.append(replace(script, statements=statements, planner=planner))
    faults.raise_all()
    return tuple(planned)


def _statements(
    file: ScriptFile,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders,
    faults: _Faults,
) -> tuple[StatementText, ...]:
    """Render and split a file; what stands in front of a fault is checked too."""
    rendered = faults.gather(
        partial(render_template, file.text, file.name, variables, env, folders), default=None
    )
    if rendered is None:
        return ()
    source = Source(file=file.name, text=rendered.text, line_map=rendered.line_map)
    texts, error = split_all(source)
    if error is not None:
        faults.add(error)
    return texts


def _check(
    text: StatementText, draft: _Draft, planner: Planner, *, follows: bool
) -> CheckedStatement:
    try:
        statement = parse_statement(text, draft.namespace)
        check_connector(statement, draft.project)
        check_command(statement, draft.namespace, draft.project)
        draft.apply(statement)
        if (insert := filling(statement)) is not None:
            return _check_insert(statement, insert, planner)
        match statement:
            case InsertInto():
                return _check_insert(statement, statement, planner)
            case StatementSet():
                members = _check_members(statement, planner)
                pipelines = set_pipelines(members, planner, _pipelines(members, planner))
                return CheckedStatement(statement=statement, members=members, pipelines=pipelines)
            case Explain():
                explain_lines(statement, planner)
            case Select():
                query = analyse(statement.query, draft.namespace, draft.project, appends=False)
                if not (query.bounded or follows):
                    raise _endless(statement)
    except InputError as error:
        _locate(error, text)
        raise
    return CheckedStatement(statement=statement)


def _check_insert(statement: Statement, insert: InsertInto, planner: Planner) -> CheckedStatement:
    """Analyse an INSERT, which may be a part of `statement`."""
    analysed = planner.analyse_insert(insert)
    pipelines = _pipelines((analysed,), planner)
    return CheckedStatement(statement=statement, analysed=analysed, pipelines=pipelines)


def _check_members(statement: StatementSet, planner: Planner) -> tuple[AnalysedInsert, ...]:
    """Analyse the INSERTs of a set. Raises InputErrors with what is wrong in all of them."""
    faults = _Faults()
    members: list[AnalysedInsert] = []
    for insert in statement.inserts:
        try:
            members.append(planner.analyse_insert(insert))
        except InputError as error:
            _locate(error, insert.source)
            faults.add(error)
    faults.raise_all()
    return tuple(members)


def _pipelines(inserts: Sequence[AnalysedInsert], planner: Planner) -> tuple[str, ...]:
    """Name the pipelines of INSERTs as planning will; INSERT .. VALUES takes a name and holds none."""
    named = [(one, planner.name_of(one.target)) for one in inserts]
    return tuple(planner.pipeline_name(sink) for one, sink in named if one.is_stream)


def _locate(error: InputError, text: StatementText) -> None:
    """Give an error without a place that of what it quotes, else of the statement's first line."""
    if error.span is not None or isinstance(error, InputErrors):
        return
    error.span = place_of_message(error.message, text)


def _plan(
    checked: CheckedStatement,
    draft: _Draft,
    planner: Planner,
    spark: SparkSession,
    *,
    judges: bool,
) -> CheckedStatement:
    statement = checked.statement
    try:
        draft.apply(statement)
        if isinstance(statement, AddJar):
            add_jar(statement.path, spark, draft.project)  # functions further down may need it
        if isinstance(statement, Select):
            register_called(statement.query, draft.namespace, spark, draft.project)
            planner.select(statement, spark)
        for analysed in (checked.analysed, *checked.members):
            if analysed is not None:
                register_called(analysed.statement.query, draft.namespace, spark, draft.project)
        if checked.analysed is not None:
            planned = planner.plan_insert(checked.analysed, spark)
            if not judges:
                planned.check_checkpoint()
            return replace(checked, planned=planned)
        if checked.members:
            planned_set = plan_set(checked.members, planner, spark)
            if not judges:
                planned_set.check_checkpoints()
            return replace(checked, planned_set=planned_set)
    except InputError as error:
        error.span = error.span or statement.span
        raise
    return checked


def _endless(statement: Select) -> UnsupportedError:
    return UnsupportedError(
        "this query never ends: a table it reads has no end, and a file prints finished results only",
        hint="give the table an end, FROM t /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */, "
        "or write the rows somewhere with INSERT INTO",
        span=statement.span,
    )
