"""`penstock test`: runs the cases of YAML files on the real planner and split runtime, with no broker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.options import ConfOption, VerboseOption
from penstock.sql.cli.output.report import print_json, print_lines, reporting, say
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.errors.render import ErrorFormat
from penstock.sql.script.project import Project, find_project

if TYPE_CHECKING:
    from penstock.sql.testing.case_run import CaseResult
    from penstock.sql.testing.cases import Case, TestFile


MASTER = "local[2]"


def run_tests(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Test files, or folders that are searched for `*_test.yaml` and `test_*.yaml`; default here. "
            "Example: `tests/orders_test.yaml`",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "-k",
            metavar="WORDS",
            envvar="PENSTOCK_TEST_ONLY",
            help="Only cases whose file and name hold all these words. Example: `-k 'late rows'`",
            show_default=False,
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            envvar="PENSTOCK_TEST_UPDATE",
            help="Write what came into the `then` blocks of failed cases, and leave all other text as it is. "
            "Example: `--update -k late`",
        ),
    ] = False,
    shape: Annotated[
        ErrorFormat,
        typer.Option(
            "--output-format",
            envvar="PENSTOCK_OUTPUT_FORMAT",
            help="full for people, concise a line each, json one document, github as annotations. "
            "Example: `--output-format concise`",
        ),
    ] = ErrorFormat.FULL,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            envvar="PENSTOCK_JUNIT",
            help="Also write a report in JUnit's XML. Example: `--junit report.xml`",
            show_default=False,
        ),
    ] = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run test files: rows in, rows out, with no broker. Exit status 1 where a case failed.

    Example: `penstock test tests`
    """
    with reporting(context, verbose=verbose, errors=shape) as is_verbose:
        from penstock.sql.cli.options import read_pairs
        from penstock.sql.testing.cases import chosen
        from penstock.sql.testing.loader import find_files, load_files

        project = find_project(Path.cwd())
        files = load_files(find_files(paths or [Path()]))
        cases = chosen(files, only)
        if not cases:
            raise ConfigError(
                "there is no case to run" + (f" with {only!r}" if only else ""),
                hint="its words have to stand in the name of the file or of the case"
                if only and files
                else "test files are called *_test.yaml or test_*.yaml; docs/testing.md says what is in them",
            )
        results = _run(
            cases, project, read_pairs("--conf", conf), shape, lenient=update, verbose=is_verbose
        )
        if junit is not None:
            from penstock.sql.testing.report import write_junit

            write_junit(junit, results)
        left = _update(files, results) if update else results
        _sum_up(results, shape)
        if any(not result.passed for _, result in left):
            raise typer.Exit(ExitStatus.FAILED)


def _run(
    cases: Sequence[tuple[TestFile, Case]],
    project: Project,
    conf: dict[str, str],
    shape: ErrorFormat,
    *,
    lenient: bool,
    verbose: bool,
) -> list[tuple[TestFile, CaseResult]]:
    """Start Spark and run the cases; each is reported when it ends."""
    from penstock.sql.cli.spark import open_spark, spark_logs
    from penstock.sql.spark_process.jvm import end_jvm
    from penstock.sql.testing.case_run import SPARK_CONF, check_suite, run_suite

    results: list[tuple[TestFile, CaseResult]] = []

    def ended(file: TestFile, result: CaseResult) -> None:
        results.append((file, result))
        print_lines(_lines(file, result, shape))

    check_suite(cases, project, lenient=lenient)
    logs = spark_logs(project, verbose=verbose)
    try:
        spark = open_spark(MASTER, {**SPARK_CONF, **project.spark_conf, **conf}, logs)
        for _ in run_suite(cases, spark, project, lenient=lenient, ended=ended):
            pass
    finally:
        end_jvm()
    return results


def _lines(file: TestFile, result: CaseResult, shape: ErrorFormat) -> list[str]:
    """Return the lines that describe how a case ended."""
    from penstock.sql.testing.report import headline, problem_text

    name = f"{file.name}::{result.case.name}"
    if shape is ErrorFormat.FULL:
        mark = "ok    " if result.passed else "FAILED"
        color = sys.stdout.isatty()
        lines = [f"{mark} {name}  {result.seconds:.1f} s"]
        for problem in result.problems:
            position = f"{problem.span.file}:{problem.span.line}"
            first, *rest = problem_text(problem, color=color).splitlines()
            lines += [f"  {position}: {first}", *(f"  {line}" for line in rest)]
        return lines
    lines = []
    for problem in result.problems:
        span, text = problem.span, headline(problem)
        if shape is ErrorFormat.CONCISE:
            lines.append(f"{span.file}:{span.line}:{span.column}: {result.case.name}: {text}")
        elif shape is ErrorFormat.GITHUB:
            from penstock.sql.errors.render import show_error

            error = ConfigError(f"{result.case.name}: {problem_text(problem)}", span=span)
            lines.append(show_error(error, ErrorFormat.GITHUB))
    return lines


def _update(
    files: Sequence[TestFile], results: Sequence[tuple[TestFile, CaseResult]]
) -> list[tuple[TestFile, CaseResult]]:
    """Rewrite expectations; returns the cases that could not be."""
    from penstock.sql.script.files import ScriptFile, write_script
    from penstock.sql.testing.update import updated_text

    for file in files:
        own = [result for of, result in results if of is file]
        text = updated_text(file, own)
        if text != file.text:
            write_script(ScriptFile(name=file.name, text=file.text, path=file.path), text)
            say(f"wrote {file.name}")
    return [(f, r) for f, r in results if r.found is None or r.case.error is not None]


def _sum_up(results: Sequence[tuple[TestFile, CaseResult]], shape: ErrorFormat) -> None:
    if shape is ErrorFormat.JSON:
        print_json(_document(results))
    passed = sum(result.passed for _, result in results)
    failed = len(results) - passed
    seconds = sum(result.seconds for _, result in results)
    text = f"{passed} passed" + (f", {failed} failed" if failed else "")
    say(f"{text} in {seconds:.1f} s")


def _document(results: Sequence[tuple[TestFile, CaseResult]]) -> dict[str, Any]:
    from penstock.sql.testing.report import problem_document

    return {
        "cases": [
            {
                "file": file.name,
                "line": result.case.span.line,
                "name": result.case.name,
                "passed": result.passed,
                "seconds": round(result.seconds, 3),
                "problems": [problem_document(problem) for problem in result.problems],
            }
            for file, result in results
        ]
    }
