"""SQL files and what fills them in, as commands take them, and how they become checked statements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.secrets.crypto import keep_catalog_key
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import read_pairs, read_variables
from penstock.sql.script.files import ScriptFile, check_link, read_script
from penstock.sql.script.project import Project, find_project, is_from_dotenv, read_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.check.script_check import CheckedScript
    from penstock.sql.execution.context import SessionContext


STDIN = Path("-")
CATALOG_VARIABLE = "PENSTOCK_CATALOG"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptInput:
    """Files and their values: the project's variables and settings, `--var` and `--set` over them.

    `master` and `spark_conf` are those of a Spark that is started for them. `option_variables` and `option_settings`
    are those of the command line alone. `strict` turns warnings into errors. `is_catalog_named`: by the user of the
    command, not by the project.
    """

    project: Project
    files: tuple[ScriptFile, ...]
    variables: Mapping[str, Any]
    settings: Mapping[str, str]
    catalog_url: str
    master: str | None
    spark_conf: Mapping[str, str]
    option_variables: Mapping[str, Any] = field(default_factory=dict)
    option_settings: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    is_catalog_named: bool = False

    def check_catalog(self) -> None:
        """Check that a static check may open the catalog. Raises ConfigError for a server that the project names."""
        from penstock.sql.check.connectivity import check_trusted

        if not self.is_catalog_named:
            check_trusted(self.catalog_url)

    def open_context(
        self, *, spark: Callable[[], SparkSession] | None = None, offline: bool = False
    ) -> SessionContext:
        """Open the catalog, with the settings of the command.

        `spark` starts Spark for statements that need its catalog; `offline` makes no request.
        """
        from penstock.catalog.definitions.empty_catalog import EmptyCatalog
        from penstock.sql.execution.context import SessionContext, open_names

        unmade = offline and self._is_unmade()
        store = EmptyCatalog() if unmade else open_catalog(self.catalog_url, self.project)
        names = open_names(store, self.project.root, spark=spark, offline=offline)
        settings = dict(self.settings)
        context = SessionContext(namespace=names, project=self.project.root, settings=settings)
        return context if spark is None else replace(context, spark=spark)

    def _is_unmade(self) -> bool:
        """Return whether the catalog is the project's own, which nothing was put into yet."""
        own = self.project.catalog_url is None
        named = self.catalog_url != self.project.default_catalog_url
        return own and not named and not self.project.own_catalog.exists()

    def check(self, context: SessionContext) -> tuple[CheckedScript, ...]:
        """Check the files as one; without Spark, and without asking anybody. Raises InputErrors."""
        from penstock.sql.check.script_check import check_scripts

        checked = check_scripts(
            self.files,
            context,
            variables=self.variables,
            env=self.project.environment,
            folders=self.project.folders,
            strict=self.strict,
        )
        if self.catalog_url == self.project.default_catalog_url:
            self._check_sharing(checked, context)
        return checked

    def _check_sharing(self, checked: Sequence[CheckedScript], context: SessionContext) -> None:
        """Refuse tables that differ between targets of one catalog. Raises InputErrors."""
        from penstock.catalog.errors import InputError
        from penstock.sql.check.script_check import check_scripts, refuse_conflicting_targets

        for target in self.project.sharing:
            other = self.of_target(target)
            overlay = replace(context.overlay(), settings=dict(other.settings))
            overlay.namespace.redefines = True
            try:
                theirs = check_scripts(
                    other.files,
                    overlay,
                    variables=other.variables,
                    env=other.project.environment,
                    folders=other.project.folders,
                    strict=None,
                )
            except InputError:
                continue  # it is the other target's, and told when that is checked
            refuse_conflicting_targets(checked, theirs, target=target)

    def of_target(self, target: str) -> ScriptInput:
        """Return the same files with what they would be filled in with for another target."""
        assert self.project.file is not None, "targets are in a file"
        project = read_project(self.project.file, target=target)
        return replace(
            self,
            project=project,
            variables={**project.variables, **self.option_variables},
            settings={**project.settings, **self.option_settings},
        )


def read_input(
    files: Sequence[Path],
    *,
    var: Sequence[str] | None = None,
    vars_file: Path | None = None,
    settings: Sequence[str] | None = None,
    master: str | None = None,
    conf: Sequence[str] | None = None,
    catalog: str | None = None,
    target: str | None = None,
    strict: bool = False,
    folder: Path | None = None,
) -> ScriptInput:
    """Read files and pairs, and fill in the values of the project in `folder` (None: here). Raises ConfigError."""
    project = find_project(folder or Path.cwd(), target=target)
    option_variables = {**read_variables(vars_file), **read_pairs("--var", var)}
    option_settings = read_pairs("--set", settings)
    keep_catalog_key(catalog or project.default_catalog_url)
    return ScriptInput(
        project=project,
        variables={**project.variables, **option_variables},
        settings={**project.settings, **option_settings},
        option_variables=option_variables,
        option_settings=option_settings,
        catalog_url=catalog or project.default_catalog_url,
        master=master or project.master,
        spark_conf={**project.spark_conf, **read_pairs("--conf", conf)},
        files=read_scripts(files, project.root),
        strict=strict,
        is_catalog_named=catalog is not None and not is_from_dotenv(CATALOG_VARIABLE, catalog),
    )


def read_scripts(files: Sequence[Path], root: Path) -> tuple[ScriptFile, ...]:
    """Read files of a project at `root`, of which `-` is standard input. Raises ConfigError."""
    for path in files:
        if path != STDIN:
            check_link(path, root)
    return tuple(
        ScriptFile(name="stdin", text=sys.stdin.read()) if path == STDIN else read_script(path)
        for path in files
    )
