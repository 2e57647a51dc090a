"""What was expected beside what came: rows in any order, cells that changed, counts, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from penstock.catalog.errors import ConfigError, DefinitionError, InputErrors, OptionError
from penstock.catalog.model.table import Table
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.cases import Case, TestFile
from penstock.sql.testing.comparison import Mark, RowsDiffer, align, compare
from penstock.sql.testing.loader import read_test_file
from penstock.sql.testing.queries import ActualResults, ActualRow
from penstock.sql.testing.report import headline, problem_document, problem_text, write_junit
from penstock.sql.testing.update import updated_text
from tests.sql.sql_objects import new_namespace

TABLES = """
CREATE TABLE t (id BIGINT, name STRING, at TIMESTAMP(3), x DOUBLE) WITH ('connector' = 'memory');
CREATE TABLE k (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'memory')
"""
NAMESPACE = new_namespace(TABLES)


def table(name: str) -> Table:
    """A table of TABLES."""
    found = NAMESPACE.lookup(NAMESPACE.resolve([name]))
    assert isinstance(found, Table)
    return found


def marks(columns: Sequence[str], expected: Any, found: Any, **options: Any) -> str:
    """The marks of an alignment, line by line."""
    return "".join(line.mark for line in align(columns, expected, found, **options).lines)


@pytest.fixture
def read(tmp_path: Path):
    """Reads a test file with one case, whose lines are given."""
    (tmp_path / "p.sql").write_text("SELECT 1")

    def of(text: str) -> TestFile:
        path = tmp_path / "a_test.yaml"
        path.write_text("files: p.sql # the file\ncases:\n" + text, encoding="utf-8")
        return read_test_file(path)

    return of


def rows(*cells: dict[str, Any], kinds: Sequence[str] | None = None) -> list[ActualRow]:
    """Rows as they came."""
    given = kinds or [None] * len(cells)
    return [ActualRow(cells=c, kind=k) for c, k in zip(cells, given, strict=True)]


def result(case: Case, found: ActualResults | None, **more: Any) -> CaseResult:
    """A case's result, compared."""
    tables = {name: table(name) for name in ("t", "k")}
    skips = case.then is None and case.error is None
    problems = () if skips else compare(case, found, more.get("error"), tables)
    return CaseResult(case=case, seconds=0.5, problems=problems, found=found, tables=tables, **more)


def test_rows_are_the_same_in_any_order() -> None:
    """Each as often as it is expected."""
    a, b = {"x": 1}, {"x": 2}

    assert marks(["x"], [a, b, a], [a, a, b]) == "   "
    assert marks(["x"], [a, a], [a]) == " -"
    assert marks(["x"], [a], [a, a]) == " +"


def test_rows_are_paired_by_key_else_by_what_they_share() -> None:
    """A row with less than half of its cells in common is another row."""
    expected, found = [{"k": 1, "a": 1, "b": 1}], [{"k": 1, "a": 2, "b": 2}]

    assert marks("kab", expected, found, key=["k"]) == "~"
    assert marks("kab", expected, found) == "-+"
    assert marks("kab", expected, [{"k": 2, "a": 1, "b": 1}]) == "~"


def test_ordered_rows_are_compared_in_order() -> None:
    """A row in another place is missing in one and unexpected in the other."""
    a, b, c = {"x": 1}, {"x": 2}, {"x": 3}

    assert marks(["x"], [a, b], [b, a], ordered=True) in {"- +", "+ -"}
    assert marks(["x"], [a, b], [a, c], ordered=True) == " ~"
    assert marks(["x"], [a], [a, b], ordered=True) == " +"


def test_fractions_are_compared_to_twelve_digits() -> None:
    """Sums of floating point numbers depend on their order."""
    assert marks(["x"], [{"x": 0.3}], [{"x": 0.1 + 0.2}]) == " "
    assert marks(["x"], [{"x": 0.3}], [{"x": 0.3001}]) in {"~", "-+"}
    assert marks(["x"], [{"x": {"a": [0.3]}}], [{"x": {"a": [0.1 + 0.2]}}]) == " "


def test_columns_that_no_row_names_are_not_compared(read) -> None:
    """A row that leaves out what others name expects NULL there."""
    case = read("  - name: n\n    then: {t: [{id: 1, name: a}, {id: 2}]}\n").cases[0]
    found = rows(
        {"id": 1, "name": "a", "x": 5.0, "at": None}, {"id": 2, "name": None, "x": 6.0, "at": None}
    )

    assert compare(case, ActualResults(tables={"t": found}), None, {"t": table("t")}) == ()


def test_an_empty_list_expects_no_rows(read) -> None:
    """All columns of what came are shown then."""
    case = read("  - name: n\n    then: {k: []}\n").cases[0]
    found = ActualResults(tables={"k": rows({"id": 1, "name": "a"})})
    (problem,) = compare(case, found, None, {"k": table("k")})

    assert isinstance(problem, RowsDiffer)
    assert problem.difference.columns == ("id", "name")
    assert [line.mark for line in problem.difference.lines] == [Mark.UNEXPECTED]


def test_changes_are_compared_with_their_kinds(read) -> None:
    """The kind is the first column."""
    case = read("  - name: n\n    then: {k: {changes: [{$kind: +U, id: 1}]}}\n").cases[0]
    found = ActualResults(tables={"k": rows({"id": 1, "name": "a"}, kinds=["+I"])})
    (problem,) = compare(case, found, None, {"k": table("k")})

    assert headline(problem) == "changes of k differ: 1 changed"
    assert "+U => +I" in problem_text(problem)


@pytest.mark.parametrize(
    ("then", "words", "line"),
    [
        ("{t: [{nam: a}]}", "no column 'nam'", 4),
        ("{t: [{id: a}]}", "column 'id': 'a' is no value of type BIGINT", 4),
        ("{$watermark: noon}", "`$watermark`: 'noon'", 3),
        ("{$dead_letters: [{x: 1}]}", "no column 'x'", 4),
    ],
)
def test_what_cannot_be_expected_is_a_mistake_in_the_case(
    read, then: str, words: str, line: int
) -> None:
    """With its place, and not a failed case."""
    case = read(f"  - name: n\n    then: {then}\n").cases[0]
    with pytest.raises((ConfigError, DefinitionError), match=words.replace("$", r"\$")) as raised:
        compare(case, ActualResults(tables={"t": []}), None, {"t": table("t")})

    assert raised.value.span is not None
    assert raised.value.span.line == line


def test_counts_and_the_watermark_are_compared_where_they_are_expected(read) -> None:
    """A watermark as SQL writes it, with or without fractions."""
    text = "{$late: 1, $bad_records: 2, $watermark: 2024-01-01 00:00:05}"
    case = read(f"  - name: n\n    then: {text}\n").cases[0]
    same = ActualResults(late=1, bad_records=2, watermark="2024-01-01 00:00:05.000")
    other = ActualResults(late=0, bad_records=2, watermark="none")

    assert compare(case, same, None, {}) == ()
    assert [headline(problem) for problem in compare(case, other, None, {})] == [
        "late rows: expected 1, got 0",
        "watermark: expected 2024-01-01 00:00:05, got none",
    ]


def test_dead_letters_are_compared_by_a_part_of_their_error(read) -> None:
    """And by the columns that are named."""
    case = read("  - name: n\n    then: {$dead_letters: [{$split: 1, error: not JSON}]}\n").cases[0]
    letter = {
        "table": "t",
        "$split": "1",
        "$offset": 3,
        "stage": "value",
        "error": "this is not JSON at 1",
        "$key": None,
        "$raw": "{",
    }
    other = {**letter, "error": "a field is missing"}

    assert compare(case, ActualResults(dead_letters=rows(letter)), None, {}) == ()
    assert compare(case, ActualResults(dead_letters=rows(other)), None, {}) != ()
    assert compare(case, ActualResults(), None, {}) != ()


def test_an_error_is_expected_by_code_and_text(read) -> None:
    """Any of several errors will do; no error, and another one, fail the case."""
    case = read("  - name: n\n    error: {code: PEN-4001, message: no topic}\n").cases[0]
    fits, other = OptionError("there is no topic"), DefinitionError("x")

    assert compare(case, None, InputErrors([other, fits]), {}) == ()
    assert headline(compare(case, None, other, {})[0]).endswith("got PEN-3001 x")
    assert headline(compare(case, ActualResults(), None, {})[0]).endswith("and there was none")


def test_a_failed_case_shows_its_error(read) -> None:
    """Where none was expected."""
    case = read("  - name: n\n    then: {}\n").cases[0]
    (problem,) = compare(case, None, OptionError("bad option", hint="do this"), {})

    assert headline(problem) == "failed: PEN-4001 bad option"
    assert "help: do this" in problem_text(problem)


def test_a_case_that_expects_nothing_is_a_mistake(read) -> None:
    """--update writes it."""
    case = read("  - name: n\n").cases[0]
    with pytest.raises(ConfigError, match="expects nothing"):
        compare(case, ActualResults(), None, {})


def test_a_difference_is_an_aligned_table(read) -> None:
    """Marks in front, NULL by name, what came behind what was expected."""
    case = read(
        "  - name: n\n    then: {k: [{id: 1, name: a}, {id: 2, name: b}, {id: 4}]}\n"
    ).cases[0]
    came = rows({"id": 1, "name": "a"}, {"id": 2, "name": "c"}, {"id": 3, "name": "d"})
    (problem,) = compare(case, ActualResults(tables={"k": came}), None, {"k": table("k")})
    lines = problem_text(problem).splitlines()

    assert lines[0] == "rows of k differ: 1 missing, 1 unexpected, 1 changed"
    assert [line.split() for line in lines[4:]] == [
        ["1", "a"],
        ["~", "2", "b", "=>", "c"],
        ["-", "4", "NULL"],
        ["+", "3", "d"],
    ]
    assert problem_document(problem)["rows"][1] == {
        "mark": "~",
        "cells": ["2", "b"],
        "found": ["2", "c"],
    }
    assert "\x1b[" in problem_text(problem, color=True)


BLOCK = """\
  # before
  - name: one   # the first
    given: {k: []}
    then:
      # kept: it stands before the first key
      k: [{id: 1}] # replaced with its block
      $late: 0

  # between
  - name: two
    then: {k: [{id: 7, name: x}]}   # goes on
  - name: three
    error: PEN-1
  - name: four
    given: {}
  # after
"""


def test_update_rewrites_the_blocks_of_failed_cases_and_nothing_else(read) -> None:
    """Comments and order of all the rest stay; columns that were not named are not written."""
    file = read(BLOCK)
    one, two, three, four = file.cases
    kept = rows({"id": 7, "name": "x"})
    results = [
        result(one, ActualResults(tables={"k": rows({"id": 2, "name": "a"})}, late=3)),
        result(two, ActualResults(tables={"k": kept})),
        result(three, ActualResults()),
        result(four, ActualResults(tables={"k": rows({"id": 5, "name": "12:30"})})),
    ]
    text = updated_text(file, results)

    assert text == file.text.replace(
        "k: [{id: 1}] # replaced with its block\n      $late: 0",
        "k:\n        - {id: 2}\n      $late: 3",
    ).replace(
        "    given: {}\n",
        "    given: {}\n    then:\n      k:\n        - {id: 5, name: '12:30'}\n",
    )


def test_what_update_writes_is_read_as_what_was_found(read) -> None:
    """In the flow style and in blocks, with kinds, order and awkward texts."""
    file = read(
        "  - name: n\n    then: {t: [], k: {changes: []}, $watermark: none, $dead_letters: []}\n"
    )
    awkward = ["on", "2024-01-01", "1", "a: b", "#", "null", "'\"\n", "ü", ""]
    stamp = "2024-01-01 00:00:00"
    found = ActualResults(
        tables={
            "t": rows(
                *({"id": n, "name": text, "at": None, "x": 0.1} for n, text in enumerate(awkward))
            ),
            "k": rows({"id": 1, "name": "a"}, kinds=["-D"]),
        },
        watermark=f"{stamp}.000",
        dead_letters=rows(
            {
                "table": "t",
                "$split": "0",
                "$offset": 1,
                "stage": "value",
                "error": "e: f",
                "$key": None,
                "$raw": "{",
            }
        ),
    )
    text = updated_text(file, [result(file.cases[0], found)])
    file.path.write_text(text, encoding="utf-8")
    again = read_test_file(file.path).cases[0]

    assert result(again, found).problems == ()
    assert again.then is not None
    assert again.then.watermark == stamp
    assert updated_text(replace(file, text=text), [result(again, found)]) == text


def test_a_report_has_each_case_and_why_it_failed(read, tmp_path: Path) -> None:
    """JUnit's XML, with the place of the case."""
    file = read("  - {name: good, then: {}}\n  - {name: bad, then: {k: [{id: 1}]}}\n")
    good, bad = file.cases
    results = [result(good, ActualResults()), result(bad, ActualResults(tables={"k": []}))]
    write_junit(tmp_path / "out" / "r.xml", [(file, each) for each in results])
    suite = ET.fromstring((tmp_path / "out" / "r.xml").read_text(encoding="utf-8"))

    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite.findall("testcase")
    assert (first.get("name"), first.find("failure")) == ("good", None)
    failure = second.find("failure")
    assert failure is not None
    assert failure.get("message") == "rows of k differ: 1 missing"
    assert second.get("line") == "4"
