"""Plans checked files in Spark, before anything of them runs, to report all errors at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from penstock.catalog.errors import InputError
from penstock.sql.check.overlay import CheckOverlay, ErrorCollector
from penstock.sql.check.query_names import name_scripts
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.checkpoint.directory import checkpoint_files
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.functions import add_jar, register_called
from penstock.sql.jobs.live_query import live_query
from penstock.sql.plan.analyzer import analyse_unbounded
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.runner.statement_set import plan_set
from penstock.sql.statements.show import AddJar
from penstock.sql.statements.statement import Select

__all__ = ["plan_scripts"]


def plan_scripts(
    scripts: Sequence[CheckedScript],
    spark: SparkSession,
    context: SessionContext,
    *,
    judges: bool = False,
    from_scratch: bool = False,
) -> tuple[CheckedScript, ...]:
    """Check every query by Spark, and plan every INSERT. Raises InputErrors; nothing is started or written.

    A checkpoint that does not fit is an error, unless the caller `judges` checkpoints; with `from_scratch` no query
    resumes from one.
    """
    draft, faults = CheckOverlay(context), ErrorCollector()
    scripts = name_scripts(
        scripts, context.project, checkpoint_files(spark), from_scratch=from_scratch
    )
    taken = {job for s in scripts for one in s.statements if one.placed for job in one.placed.jobs}
    planned: list[CheckedScript] = []
    for script in scripts:
        planner = Planner(
            namespace=draft.context.namespace,
            project=draft.context.project,
            settings=draft.context.settings,
            default_pipeline=script.file.pipeline,
            taken=taken,
            from_scratch=from_scratch,
        )
        statements = tuple(
            faults.gather(partial(_plan, one, draft, planner, spark, judges=judges), default=one)
            for one in script.statements
        )
        planned.append(replace(script, statements=statements, planner=planner))
    faults.raise_all()
    return tuple(planned)


def _plan(
    checked: CheckedStatement,
    draft: CheckOverlay,
    planner: Planner,
    spark: SparkSession,
    *,
    judges: bool,
) -> CheckedStatement:
    statement = checked.statement
    namespace, project = draft.context.namespace, draft.context.project
    try:
        draft.apply(statement)
        if isinstance(statement, AddJar):
            add_jar(statement.path, spark, project)  # functions further down may need it
        if isinstance(statement, Select):
            register_called(statement.query, namespace, spark, project)
            watched = analyse_unbounded(statement.query, planner)
            if watched is not None:
                live_query(watched, planner, spark)
            else:
                planner.select(statement, spark)
        for analysed in (checked.analysed, *checked.members):
            if analysed is not None:
                register_called(analysed.statement.query, namespace, spark, project)
        if checked.analysed is not None:
            planned = planner.plan_insert(checked.analysed, spark)
            if not judges:
                planned.check_checkpoint()
            return replace(checked, planned=planned)
        if checked.members:
            planned_set = plan_set(checked.members, planner, spark, checked.placed)
            if not judges:
                planned_set.check_checkpoints()
            return replace(checked, planned_set=planned_set)
    except InputError as error:
        error.span = error.span or statement.span
        raise
    return checked
