"""Results as JUnit's XML, which build servers read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from penstock.catalog.errors import ConfigError
from penstock.catalog.secret_mask import without_secrets
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.cases import TestFile
from penstock.sql.testing.shown import headline, problem_text

__all__ = ["write_junit"]


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
