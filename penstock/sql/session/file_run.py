"""Runs a file in a session of Python: `Session.run_file`. Commands run files by `sql/runner/run.py` themselves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.sql.check.script_check import check_scripts
from penstock.sql.errors.render import Severity, render
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.job import Job
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import RunMode
from penstock.sql.script.files import read_script
from penstock.sql.script.project import Project

log = logging.getLogger(__name__)


def run_file(
    path: Path,
    variables: Mapping[str, Any],
    context: SessionContext,
    project: Project,
    *,
    available_now: bool = False,
    from_scratch: bool = False,
) -> tuple[Job, ...]:
    """Run a file: bounded INSERTs to their end, unbounded ones stay running. Returns the jobs of its INSERTs.

    `available_now` ends all of them with the present data, `from_scratch` sets their checkpoints aside. Raises
    InputErrors before anything is started, and the error of the first statement that fails.
    """
    checked = check_scripts(
        (read_script(path),),
        context,
        variables={**project.variables, **variables},
        env=project.environment,
        folders=project.folders,
        follows=False,
    )
    for script in checked:
        for warning in script.warnings:
            log.warning("%s", render(warning, severity=Severity.WARNING).rstrip())
    planned = plan_scripts(
        checked, context.spark(), context, judges=from_scratch, from_scratch=from_scratch
    )
    mode = RunMode.AVAILABLE_NOW if available_now else RunMode.BY_TABLES
    run = ScriptRun(context, mode=mode, from_scratch=from_scratch)
    run.run(planned, wait=False)
    if run.error is not None:
        raise run.error
    return tuple(run.jobs)
