"""What a check of files goes through them with: a draft of names and settings, and the faults found so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import InputError, InputErrors, PenstockError, UnknownObjectError
from penstock.sql.ddl.definition_diff import DefinitionDiff
from penstock.sql.ddl.redefinition import definition_warning, diff_with_catalog
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define, is_definition, set_option
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.script.files import ScriptFile
from penstock.sql.settings.session import check_settings
from penstock.sql.statements.statement import ResetOption, SetOption, Statement

__all__ = ["CheckOverlay", "ErrorCollector"]

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
                    told = (
                        f"the catalog has another definition of {drift.identifier.name} than this file, which "
                        f"differs in {', '.join(named)}: `penstock catalog apply FILE` takes the file's"
                    )
                    one.hint = f"{told}; {one.hint}" if one.hint else told

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
