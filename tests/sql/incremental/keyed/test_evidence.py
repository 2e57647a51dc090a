"""tests/README.md says which tests show that a keyed operator is right: each operator has a row, and the tests are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
KEYED = ROOT / "penstock" / "sql" / "incremental" / "keyed"
PAGE = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## What shows that keyed operators are right\n")[2].partition("\n## ")[0]
ROWS = [line.split("|")[1:-1] for line in SECTION.splitlines() if line.startswith("| ")][1:]
TESTS = {
    path: path.read_text(encoding="utf-8")
    for path in (
        *sorted(Path(__file__).parent.glob("test_*.py")),
        ROOT / "tests" / "faults" / "test_keyed_state.py",
    )
}


def operators() -> Iterator[str]:
    """Give the classes that are operators: those that have layouts of states, and run."""
    for path in sorted(KEYED.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            if {"layouts", "run"} <= own and "Protocol" not in map(ast.unparse, node.bases):
                yield node.name


def named_in(cell: str) -> Iterator[tuple[str, str]]:
    """Give the tests that a cell names, with a parameter or without; a parameter alone is of the test before."""
    test = ""
    for name, parameter in re.findall(r"`(test_\w+)?(?:\[([^\]]+)\])?`", cell):
        test = name or test
        yield test, parameter


def is_there(test: str, parameter: str) -> bool:
    """Return whether a test is there, and names its parameter as one of its cases."""
    texts = [text for text in TESTS.values() if f"def {test}(" in text]
    return any(not parameter or f'"{parameter}"' in text for text in texts)


def test_each_operator_has_a_row() -> None:
    """One that is new says what shows that it is right."""
    named = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[1])}

    assert set(operators()) == named
    assert len(named) > 5


def test_each_row_has_tests_of_each_kind() -> None:
    """They are there, by name and parameter."""
    found = {(row[0].strip(), n): list(named_in(row[n])) for row in ROWS for n in (2, 3, 4)}

    assert [place for place, tests in found.items() if not tests] == []
    assert [test for tests in found.values() for test in tests if not is_there(*test)] == []


def test_each_case_of_the_kills_is_named() -> None:
    """So that the table says what each of them is for."""
    text = TESTS[ROOT / "tests" / "faults" / "test_keyed_state.py"]
    cases = re.findall(r'^    "([^"]+)": KilledCase\(', text, re.MULTILINE)
    named = {parameter for row in ROWS for _, parameter in named_in(row[4])}

    assert cases
    assert set(cases) <= named
