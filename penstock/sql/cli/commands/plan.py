"""`penstock plan` and `penstock explain`: what a run of the same files would do. Starts and changes nothing.

`plan` looks at the checkpoints of the queries; `explain` prints how they would run, and makes no request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import typer

from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.cli.commands.script_input import ScriptInput, read_input
from penstock.sql.cli.options import (
    AvailableNowOption,
    CatalogOption,
    ConfOption,
    ErrorFormatOption,
    FilesArgument,
    FormatOption,
    FromScratchOption,
    MasterOption,
    SetOption,
    StrictOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.plan_text import plans_of, show_plans
from penstock.sql.cli.output.progress import ProgressMode
from penstock.sql.cli.output.report import (
    OutputFormat,
    print_json,
    print_lines,
    reporting,
    say,
    say_warnings,
)
from penstock.sql.errors.render import ErrorFormat
from penstock.sql.runner.run_mode import run_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.runner.replay import Replayed
    from penstock.sql.statements.statement import Explain


def plan(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    available_now: AvailableNowOption = None,
    from_scratch: FromScratchOption = False,
    settings: SetOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what a run of SQL files would do: for each INSERT whether it starts from scratch, resumes, or is refused.

    Offsets come from the checkpoints, ends of partitions from the brokers; nothing is started or changed. Queries are
    checked as by `penstock validate`; `penstock run --dry-run` shows the same, and lets Spark plan them, too. Spark is
    started only for checkpoints in an object store, names in Spark's own catalog, and statement sets that call
    functions of Python. The exit status is 2 when a checkpoint does not fit its query or is damaged.

    Example: `penstock plan examples/quickstart.sql --var bootstrap=127.0.0.1:9092`
    """
    with reporting(context, verbose=verbose, output=output, errors=errors) as is_verbose:
        script = read_input(
            files,
            var=var,
            vars_file=vars_file,
            settings=settings,
            master=master,
            conf=conf,
            catalog=catalog,
            target=target,
            strict=strict,
        )
        asked = _Asked(
            script=script,
            available_now=available_now,
            from_scratch=from_scratch,
            output=output,
            errors=errors,
            verbose=is_verbose,
        )
        status = _plan(asked)
    raise typer.Exit(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the command was asked for."""

    script: ScriptInput
    available_now: bool | None
    from_scratch: bool
    output: OutputFormat
    errors: ErrorFormat
    verbose: bool


def _plan(asked: _Asked) -> int:
    """Plan without Spark where possible, and return the exit status. Raises InputErrors."""
    from penstock.sql.check.connectivity import check_target_folders
    from penstock.sql.check.offline_plan import OnlySparkKnowsError, plan_scripts_offline

    script, root = asked.script, asked.script.project.root
    with _Engine(asked) as engine:
        context = script.open_context(spark=engine.start)
        checked = script.check(context)
        check_target_folders(checked, root)
        try:
            judged = plan_scripts_offline(checked, context, from_scratch=asked.from_scratch)
        except OnlySparkKnowsError as error:
            say(str(error))
            return _plan_in_spark(asked)
        say_warnings([one for file in checked for one in file.warnings], asked.errors)
        if not any(one.statements for one in checked):
            say("nothing to run: the files have no statement")
            return 0
        plans = plans_of(
            checked,
            judged,
            run_mode(available_now=asked.available_now),
            lambda location: LocalFiles(location=location),
            from_scratch=asked.from_scratch,
        )
        if asked.output is OutputFormat.TABLE:
            say(
                "checked as by `penstock validate`; `penstock run --dry-run` lets Spark plan the queries, too"
            )
        return show_plans(plans, asked.output)


def _plan_in_spark(asked: _Asked) -> int:
    from penstock.sql.cli.commands.run_scripts import RunOptions, run_scripts

    return run_scripts(
        RunOptions(
            script=asked.script,
            available_now=asked.available_now,
            dry_run=True,
            from_scratch=asked.from_scratch,
            output=asked.output,
            progress=ProgressMode.LOG,
            verbose=asked.verbose,
            errors=asked.errors,
        )
    )


class _Engine:
    """Spark, started when a name in its own catalog is asked for, and ended with the command."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._started = False

    def start(self) -> SparkSession:
        """Start Spark, or return the running session. Raises ConfigError."""
        from penstock.sql.cli.spark import open_spark, spark_logs

        script = self._asked.script
        self._started = True
        files = spark_logs(script.project, verbose=self._asked.verbose)
        return open_spark(script.master, script.spark_conf, files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            from penstock.sql.spark_process.jvm import end_jvm

            end_jvm()


def explain(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Show how each INSERT, query and statement set of SQL files would run. Starts no Spark and reads only the
    catalog.

    `penstock plan` shows what a checkpoint holds, and where a run would resume.

    Example: `penstock explain examples/quickstart.sql`
    """
    from penstock.sql.check.explain import explain_lines

    with reporting(context, verbose=verbose, output=output, errors=errors):
        script = read_input(
            files, var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
        )
        from penstock.sql.runner.replay import replay

        opened = script.open_context()
        checked = script.check(opened)
        say_warnings([one for file in checked for one in file.warnings], errors)
        statements = replay(checked, opened)
        found = [(one, asked) for one in statements if (asked := _explained(one)) is not None]
        if output is OutputFormat.JSON:
            print_json({"plans": [_document(one, asked) for one, asked in found]})
            return
        if not found:
            say("nothing to explain: the files have no INSERT and no query")
        for number, (one, asked) in enumerate(found):
            lines = explain_lines(asked, one.planner)
            print_lines(["", *lines] if number else lines)


def _explained(one: Replayed) -> Explain | None:
    from penstock.sql.statements.dml import InsertInto
    from penstock.sql.statements.statement import Explain, Select, StatementSet

    statement = one.checked.statement
    if one.checked.analysed is not None:
        statement = one.checked.analysed.statement  # of a CREATE TABLE AS, what fills it
    match statement:
        case Explain():
            return statement
        case InsertInto() | Select() | StatementSet():
            return Explain(statement=statement, span=statement.span)
    return None


def _document(one: Replayed, asked: Explain) -> dict[str, object]:
    from penstock.sql.check.explain import explained

    span = one.checked.statement.span
    return {"file": span.file, "line": span.line, **explained(asked, one.planner).document}
