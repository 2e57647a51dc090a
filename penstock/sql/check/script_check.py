"""Check whole files before anything of them runs, without a JVM: all errors in one pass.

Refuses tables that two targets define differently. Works on an overlay of the namespace: neither the catalog
nor any table is touched. `sql/runner/plan.py` has Spark's part of the check, `sql/runner/run.py` runs what was
checked.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    PenstockError,
    SqlSyntaxError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.sql.check.explain import explain_lines
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.apply_ddl import (
    check_connector,
    check_written_secrets,
    filling_insert,
    is_definition,
)
from penstock.sql.ddl.redefinition import (
    DefinitionDiff,
    definition_warning,
    diff_definitions,
    diff_with_catalog,
    refilled_error,
)
from penstock.sql.errors.locate import position_of_message
from penstock.sql.execution.commands import check_command
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define, set_option
from penstock.sql.jobs.startable_query import StartableQuery, StartableStatementSet
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.analyzer import Analyzer, analyse_unbounded
from penstock.sql.plan.query_location import LocatedStatement
from penstock.sql.script.files import ScriptFile, TemplateFolders
from penstock.sql.script.splitter import StatementText, split_all
from penstock.sql.script.templates import render_template
from penstock.sql.settings import check_settings
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    Explain,
    ResetOption,
    Select,
    SetOption,
    Statement,
    StatementSet,
    starts_refresh,
)

if TYPE_CHECKING:
    from penstock.sql.plan.physical.insert import PlannedInsert  # noqa: TC004 - a check without a JVM loads this module
    from penstock.sql.plan.physical.planner import Planner  # noqa: TC004 - a check without a JVM loads this module


T = TypeVar("T")
D = TypeVar("D")

_DEFINES = re.compile(
    r"\s*(?:CREATE\s+)?(?:TEMPORARY\s+|(?:OR\s+)?REPLACE\s+)?(?:TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)",
    re.IGNORECASE,
)


class ErrorCollector:
    """Collects what is wrong, so that one run shows all of it."""

    def __init__(self) -> None:
        self.unreached = 0
        self._errors: list[InputError] = []
        self._broken: set[str] = set()

    def gather(self, step: Callable[[], T], *, default: D, text: str = "") -> T | D:
        """Run a step; returns `default` where it finds a fault, and records the fault.

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


class CheckOverlay:
    """Names and settings after the statements so far, without a change of the catalog."""

    def __init__(self, context: SessionContext, *, strict: bool | None = False) -> None:
        self.strict = strict
        self.context = context.overlay()
        self.warnings: list[PenstockError] = []
        self._drifts: list[DefinitionDiff] = []

    def analyzer(self, file: ScriptFile) -> Analyzer:
        """Make the checker of a file's statements; it sees the changes made here."""
        return Analyzer(
            namespace=self.context.namespace,
            project=self.context.project,
            settings=self.context.settings,
            default_pipeline=file.pipeline,
        )

    def explain(self, error: InputError) -> None:
        """Add to an error about a column that the file's definition of a table is not the one that is used."""
        for one in error.errors if isinstance(error, InputErrors) else (error,):
            words = set(re.findall(r"\w+", one.message))
            for drift in self._drifts:
                if named := sorted(drift.names & words):
                    reason = (
                        f"the catalog has another definition of {drift.identifier.name} than this file, which "
                        f"differs in {', '.join(named)}: `penstock catalog apply FILE` takes the file's"
                    )
                    one.hint = f"{reason}; {one.hint}" if one.hint else reason

    def apply(self, statement: Statement) -> None:
        """Apply what a definition or a SET changes. Raises InputError."""
        namespace, settings = self.context.namespace, self.context.settings
        if is_definition(statement):
            drift = diff_with_catalog(statement, namespace)
            define(statement, namespace)
            if drift is not None:
                self._drifts.append(drift)
                self.warnings.append(definition_warning(statement, drift, namespace))
        elif isinstance(statement, SetOption | ResetOption):
            before = dict(settings)
            set_option(statement, settings)
            try:
                check_settings(settings)
            except InputError:
                settings.clear()
                settings.update(before)
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStatement:
    """A statement without a fault; an INSERT, and a statement set, come with what is known of them.

    `with_location` are the names and checkpoints of its queries, once they are chosen (`checkpoint_assignment.py`).
    """

    statement: Statement
    analysed: AnalysedInsert | None = None
    planned: PlannedInsert | None = None
    members: tuple[AnalysedInsert, ...] = ()
    placed: LocatedStatement | None = None
    planned_set: StartableStatementSet | None = None

    @property
    def inserts(self) -> tuple[AnalysedInsert, ...]:
        """The INSERTs in it."""
        return self.members if self.analysed is None else (self.analysed,)

    @property
    def pipelines(self) -> tuple[str, ...]:
        """What its queries will hold, known before they are planned; none before places are chosen."""
        if self.placed is None:
            return ()
        if self.placed.set_location is not None:
            return self.placed.set_location.leases
        held = [
            location.leases
            for location, one in zip(self.placed.locations, self.inserts, strict=True)
            if one.is_stream or starts_refresh(self.statement)
        ]
        return tuple(lease for leases in held for lease in leases)

    @property
    def queries(self) -> tuple[StartableQuery, ...]:
        """What it runs: none, one, or those of a statement set."""
        if self.planned_set is not None:
            return self.planned_set.queries
        return () if self.planned is None else (self.planned,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedScript:
    """A file whose statements may run, in order. `unchecked` is how many more it has that could not be looked at.

    `warnings` stop nothing: they report surprises, such as an unused definition. `planner` is set once Spark has
    checked it: files that data sources read exist as long as it.
    """

    file: ScriptFile
    statements: tuple[CheckedStatement, ...]
    planner: Planner | None = None
    unchecked: int = 0
    warnings: tuple[PenstockError, ...] = ()


def check_scripts(
    files: Sequence[ScriptFile],
    context: SessionContext,
    *,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders | None = None,
    follows: bool = True,
    strict: bool | None = False,
) -> tuple[CheckedScript, ...]:
    """Check files as one: templates, syntax, names, options, types of queries. Starts no JVM, does no I/O on tables.

    `folders` are those that templates read beside their own, by default those of the project's folder. An unbounded
    SELECT is an error where the caller does not follow it. `strict` turns warnings into errors; None: no warnings.

    Raises InputErrors with all errors.
    """
    check_settings(context.settings)
    folders = folders or TemplateFolders(root=context.project)
    overlay, faults = CheckOverlay(context, strict=strict), ErrorCollector()
    scripts: list[CheckedScript] = []
    with _nothing_collected():
        for file in files:
            texts, error = _statements(file, variables, env, folders, faults)
            scripts.append(_check_file(file, texts, overlay, faults, follows=follows))
            if error is not None:
                faults.add(error)  # it is behind all that could be read
    faults.raise_all()
    return tuple(scripts)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep the garbage collector from looking through syntax trees, again and again: they are all still in use.

    It takes them for old ones then, which it looks through seldom; as new ones it would all of them at once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation, as its documentation says
        if was_enabled:
            gc.enable()


def _check_file(
    file: ScriptFile,
    texts: Sequence[StatementText],
    overlay: CheckOverlay,
    faults: ErrorCollector,
    *,
    follows: bool,
) -> CheckedScript:
    """Check the statements of a file, each against what those before it define."""
    analyzer = overlay.analyzer(file)
    checked: list[CheckedStatement] = []
    before = faults.unreached
    overlay.warnings.clear()
    for text in texts:
        step = partial(_check, text, overlay, analyzer, follows=follows)
        one = faults.gather(step, default=None, text=text.text)
        if one is not None:
            checked.append(one)
    unchecked = faults.unreached - before
    warnings = tuple(overlay.warnings)
    return CheckedScript(
        file=file, statements=tuple(checked), unchecked=unchecked, warnings=warnings
    )


def _statements(
    file: ScriptFile,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders,
    faults: ErrorCollector,
) -> tuple[tuple[StatementText, ...], InputError | None]:
    """Render and split a file; returns the text before a fault, to be checked too, and the fault."""
    rendered = faults.gather(
        partial(render_template, file.text, file.name, variables, env, folders), default=None
    )
    if rendered is None:
        return (), None
    return split_all(rendered)


def _check(
    text: StatementText, overlay: CheckOverlay, analyzer: Analyzer, *, follows: bool
) -> CheckedStatement:
    try:
        namespace, project = overlay.context.namespace, overlay.context.project
        statement = parse_statement(text, namespace)
        check_connector(statement, project)
        if overlay.strict is not None:
            check_written_secrets(statement, strict=overlay.strict)
        check_command(statement, namespace, project)
        refilled = refilled_error(statement, namespace)
        overlay.apply(statement)
        if (insert := filling_insert(statement)) is not None:
            checked = _check_insert(statement, insert, analyzer)
            if refilled and checked.analysed is not None and not checked.analysed.is_stream:
                raise refilled
            return checked
        match statement:
            case InsertInto():
                return _check_insert(statement, statement, analyzer)
            case StatementSet():
                members = _check_members(statement, analyzer)
                return CheckedStatement(statement=statement, members=members)
            case Explain():
                explain_lines(statement, analyzer)
            case Select():
                query = analyse_unbounded(statement.query, analyzer)
                if query is not None and not follows:
                    raise _endless(statement)
    except InputError as error:
        _locate(error, text)
        overlay.explain(error)
        raise
    except RecursionError:
        raise SqlSyntaxError(
            "the statement is nested too deeply",
            hint="split it by WITH or views; write long lists as IN (...) or as a table",
            span=text.span,
        ) from None
    return CheckedStatement(statement=statement)


def _check_insert(statement: Statement, insert: InsertInto, analyzer: Analyzer) -> CheckedStatement:
    """Analyse an INSERT, which may be a part of `statement`."""
    return CheckedStatement(statement=statement, analysed=analyzer.analyse_insert(insert))


def _check_members(statement: StatementSet, analyzer: Analyzer) -> tuple[AnalysedInsert, ...]:
    """Analyse the INSERTs of a set. Raises InputErrors with what is wrong in all of them."""
    faults = ErrorCollector()
    members: list[AnalysedInsert] = []
    for insert in statement.inserts:
        try:
            members.append(analyzer.analyse_insert(insert))
        except InputError as error:
            _locate(error, insert.source)
            faults.add(error)
    faults.raise_all()
    return tuple(members)


def _locate(error: InputError, text: StatementText) -> None:
    """Set the position of an error without one: that of what it quotes, else of the statement's first line."""
    if error.span is not None or isinstance(error, InputErrors):
        return
    error.span = position_of_message(error.message, text)


def _endless(statement: Select) -> UnsupportedError:
    return UnsupportedError(
        "this query never ends, and nobody would see its rows here",
        hint="`penstock run` shows them as they come, session.sql('SELECT ...') gives them as a DataFrame; or write "
        "them somewhere with INSERT INTO",
        span=statement.span,
    )


def refuse_conflicting_targets(
    ours: Sequence[CheckedScript], theirs: Sequence[CheckedScript], *, target: str
) -> None:
    """Compare the tables of files with those of the same files for `target`. Raises InputErrors."""
    others = {create.table.identifier: create.table for create in _tables(theirs)}
    errors: list[DefinitionError] = []
    for create in _tables(ours):
        other = others.get(create.table.identifier)
        drift = None if other is None else diff_definitions(other, create.table)
        if drift is not None and drift.parts:
            errors.append(_shared(create, str(drift), target))
    if errors:
        raise InputErrors(errors)


def _tables(scripts: Sequence[CheckedScript]) -> Iterator[CreateTable]:
    """Return the tables that stay, each as it is first made."""
    seen: set[Identifier] = set()
    for script in scripts:
        for one in script.statements:
            made = (
                one.statement.create if isinstance(one.statement, CreateTableAs) else one.statement
            )
            if not isinstance(made, CreateTable) or made.table.temporary:
                continue
            if made.table.identifier not in seen:
                seen.add(made.table.identifier)
                yield made


def _shared(create: CreateTable, drift: str, target: str) -> DefinitionError:
    name = create.table.identifier.name
    return DefinitionError(
        f"{name} is another table for the target {target!r}, which has the same catalog; here it has: {drift}",
        hint=f"give the targets catalogs of their own: [targets.{target}] catalog.url = '...' (without any url "
        "each target has one), or make the table TEMPORARY",
        span=create.span,
    )
