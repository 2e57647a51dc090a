"""Report differences: as aligned tables for people, and results as JUnit's XML for build servers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never
from xml.etree import ElementTree as ET

from penstock.catalog.errors import ConfigError, PenstockError
from penstock.catalog.masking import without_secrets
from penstock.sql.errors.render import render
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.cases import TestFile
from penstock.sql.testing.comparison import (
    Difference,
    DifferenceLine,
    Mark,
    Problem,
    RowsDiffer,
    ValueDiffers,
    WrongError,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


WIDTH = 100_000

MOST_SAME = 20
"""Number of expected rows that are shown beside differing ones."""

_STYLES = {Mark.SAME: "", Mark.MISSING: "red", Mark.UNEXPECTED: "green", Mark.CHANGED: "yellow"}


def headline(problem: Problem) -> str:
    """Describe in one line what is wrong."""
    match problem:
        case RowsDiffer(what=what, difference=difference):
            counts = {
                word: sum(line.mark is mark for line in difference.lines)
                for mark, word in (
                    (Mark.MISSING, "missing"),
                    (Mark.UNEXPECTED, "unexpected"),
                    (Mark.CHANGED, "changed"),
                )
            }
            counted = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
            return f"{what} differ: {counted}"
        case ValueDiffers(what=what, expected=expected, found=found):
            return f"{what}: expected {expected}, got {found}"
        case WrongError(expected=None, error=error):
            return f"failed: {_first_line(error)}"
        case WrongError(expected=expected, error=None):
            return f"expected the error {expected}, and there was none"
        case WrongError(expected=expected, error=error):
            return f"expected the error {expected}, got {_first_line(error)}"
        case _:
            assert_never(problem)


def problem_text(problem: Problem, *, color: bool = False) -> str:
    """Describe a problem, with its table or error below."""
    lines = [headline(problem)]
    if isinstance(problem, RowsDiffer):
        lines.append(_printed(problem.difference, color=color))
    elif isinstance(problem, WrongError) and problem.error is not None:
        lines.append(render(problem.error, color=color).rstrip())
    return "\n".join(lines)


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return a problem as plain values."""
    document: dict[str, Any] = {
        "message": headline(problem),
        "file": problem.span.file,
        "line": problem.span.line,
    }
    if isinstance(problem, RowsDiffer):
        columns = problem.difference.columns
        document["columns"] = list(columns)
        document["rows"] = [_line_document(line) for line in problem.difference.lines]
    return document


def _line_document(line: DifferenceLine) -> dict[str, Any]:
    document: dict[str, Any] = {"mark": line.mark.value, "cells": list(line.cells)}
    return document if line.found is None else document | {"found": list(line.found)}


def _first_line(error: PenstockError | None) -> str:
    return "" if error is None else f"{error.code} {error.message.splitlines()[0]}"


def _printed(difference: Difference, *, color: bool) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=WIDTH,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        legacy_windows=False,
    )
    console.print(_table(difference))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _table(difference: Difference) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for column in difference.columns:
        table.add_column(Text(column))
    same = 0
    for line in difference.lines:
        same += line.mark is Mark.SAME
        if line.mark is Mark.SAME and same > MOST_SAME:
            continue
        style = _STYLES[line.mark]
        cells = [_cell(line, index) for index in range(len(line.cells))]
        table.add_row(Text(line.mark.value), *cells, style=style)
    if same > MOST_SAME:
        table.add_row(Text(" "), Text(f"({same - MOST_SAME} more as expected)"))
    return table


def _cell(line: DifferenceLine, index: int) -> Text:
    """Write a cell; of a changed one the expected and the actual value."""
    from rich.text import Text

    if not line.changed(index) or line.found is None:
        return Text(line.cells[index])
    return Text.assemble(
        (line.cells[index], "red strike"), " => ", (line.found[index], "bold green")
    )


def write_junit(path: Path, results: Sequence[tuple[TestFile, CaseResult]]) -> None:
    """Write a report. Raises ConfigError where it cannot be written."""
    suite = ET.Element(
        "testsuite",
        name="penstock",
        tests=str(len(results)),
        failures=str(sum(not result.passed for _, result in results)),
        errors="0",
        time=f"{sum(result.seconds for _, result in results):.3f}",
    )
    for file, result in results:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=file.name,
            name=result.case.name,
            file=file.name,
            line=str(result.case.span.line),
            time=f"{result.seconds:.3f}",
        )
        if not result.passed:
            first = result.problems[0]
            failure = ET.SubElement(case, "failure", message=without_secrets(headline(first)))
            failure.text = without_secrets("\n\n".join(map(problem_text, result.problems)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
