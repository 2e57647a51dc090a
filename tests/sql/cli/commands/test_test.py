"""`penstock test` as a person meets it, before Spark is started: mistakes in test files, and nothing to run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.sql.cli.commands import test as command
from penstock.sql.cli.commands.app import app
from penstock.sql.errors.render import ErrorFormat
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.cases import TestFile
from penstock.sql.testing.comparison import ValueDiffers
from penstock.sql.testing.loader import read_test_file
from tests.sql.cli.command_runner import CommandRunner

SQL = """
CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE u (id BIGINT) WITH ('connector' = 'print');
INSERT INTO u SELECT id FROM t;
"""


@pytest.fixture
def penstock(project: Path):
    """Runs `penstock test` on one test file, whose cases are given."""
    (project / "p.sql").write_text(SQL)
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})

    def run(cases: str, *options: str):
        (project / "a_test.yaml").write_text(f"files: p.sql\ncases:\n{cases}")
        return runner.invoke(app, ["test", *options])

    return run


def test_nothing_to_run_is_an_error(project: Path) -> None:
    """A pipeline without tests should not look tested."""
    result = CommandRunner().invoke(app, ["test"])

    assert result.exit_code == 2
    assert "there is no case to run" in result.stderr


def test_a_mistake_in_yaml_is_shown_with_its_place(penstock) -> None:
    """Underlined, with the nearest word."""
    result = penstock("  - name: n\n    thne: {}\n")

    assert result.exit_code == 2
    assert "a_test.yaml:4" in result.stderr
    assert "did you mean 'then'?" in result.stderr


def test_mistakes_in_cases_are_all_told_before_spark_is_started(penstock, monkeypatch) -> None:
    """Unknown tables, columns and values, rows of tables that are only written, cases that expect nothing."""
    monkeypatch.setattr("penstock.sql.cli.spark.open_spark", None)
    result = penstock(
        "  - {name: a, given: {s: []}, then: {}}\n"
        "  - {name: b, given: {t: [{idd: 1}]}, then: {}}\n"
        "  - {name: c, given: {t: [{id: x}]}, then: {}}\n"
        "  - {name: d, given: {u: [{id: 1}]}, then: {}}\n"
        "  - {name: e, then: {u: [{idd: 1}]}}\n"
        "  - {name: f}\n",
        "--output-format",
        "concise",
    )
    lines = result.stderr.splitlines()

    assert result.exit_code == 2
    assert [line.split(":")[1] for line in lines] == ["3", "4", "5", "6", "7", "8"]
    for line, words in zip(
        lines,
        [
            "s",
            "no column 'idd'",
            "no value of type BIGINT",
            "only written",
            "'idd'",
            "expects nothing",
        ],
        strict=True,
    ):
        assert words in line


def test_words_that_no_case_has_leave_nothing_to_run(penstock) -> None:
    """They are in the message."""
    result = penstock("  - {name: n, then: {}}\n", "-k", "other")

    assert result.exit_code == 2
    assert "with 'other'" in result.stderr
    assert "stand in the name of the file or of the case" in result.stderr


def results_of(project: Path) -> list[tuple[TestFile, CaseResult]]:
    """A case that passed and one that failed."""
    (project / "p.sql").write_text(SQL)
    (project / "a_test.yaml").write_text(
        "files: p.sql\ncases:\n  - {name: good, then: {}}\n  - {name: bad, then: {$late: 1}}\n"
    )
    file = read_test_file(project / "a_test.yaml")
    good, bad = file.cases
    problem = ValueDiffers(what="late rows", expected="1", found="0", span=bad.span)
    return [
        (file, CaseResult(case=good, seconds=0.25)),
        (file, CaseResult(case=bad, seconds=0.5, problems=(problem,))),
    ]


@pytest.mark.parametrize(
    ("shape", "lines"),
    [
        (
            ErrorFormat.FULL,
            [
                "ok     {0}::good  0.2 s",
                "FAILED {0}::bad  0.5 s",
                "  {0}:4: late rows: expected 1, got 0",
            ],
        ),
        (ErrorFormat.CONCISE, ["{0}:4:12: bad: late rows: expected 1, got 0"]),
        (
            ErrorFormat.GITHUB,
            [
                "::error file={0},line=4,title=PEN-4002,col=12,endColumn=15::bad: late rows: expected 1, got 0"
            ],
        ),
        (ErrorFormat.JSON, []),
    ],
)
def test_results_are_told_in_the_shape_asked_for(
    project: Path, shape: ErrorFormat, lines: list[str]
) -> None:
    """A line when a case ends, and what is wrong below it; one document in the end for programs."""
    told = [
        line for file, result in results_of(project) for line in command._lines(file, result, shape)
    ]

    assert told == [line.format(project / "a_test.yaml") for line in lines]


def test_results_are_one_document(project: Path) -> None:
    """With places and problems."""
    document = json.loads(json.dumps(command._document(results_of(project))))
    good, bad = document["cases"]

    assert (good["passed"], good["line"], good["problems"]) == (True, 3, [])
    assert bad["problems"][0]["message"] == "late rows: expected 1, got 0"
