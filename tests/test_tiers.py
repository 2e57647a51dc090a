"""tests/README.md says which test is in which command, and so do the marks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.order import LONG_FILES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py::test_\w+)` \|(?: (all|some) \|)?", PAGE)


def marked(mark: str) -> dict[str, str]:
    """Tests with a mark: "all" where it is the test's, "some" where it is one of its parameters'."""
    found: dict[str, str] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if f"mark.{mark}" not in text or file == Path(__file__):
            continue
        tree = ast.parse(text)
        lists = {
            target.id: ast.unparse(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            name = f"{file.relative_to(ROOT).as_posix()}::{node.name}"
            for decorator in node.decorator_list:
                said = ast.unparse(decorator)
                named = [
                    lists.get(n.id, "") for n in ast.walk(decorator) if isinstance(n, ast.Name)
                ]
                if said == f"pytest.mark.{mark}":
                    found[name] = "all"
                elif f"mark.{mark}" in said + " ".join(named):
                    found.setdefault(name, "some")
    return found


def test_the_nightly_tests_are_those_of_the_page() -> None:
    """Whoever moves a test says what holds its rule in `make test`."""
    assert {name: how for name, how in NAMED if how} == marked("nightly")


def test_each_subject_has_a_test_in_make_test() -> None:
    """It is there, and neither of `make test-all` nor of `make faults` alone."""
    subjects = [name for name, how in NAMED if not how]
    apart = {n for mark in ("nightly", "faults") for n, how in marked(mark).items() if how == "all"}
    lacking = [
        name
        for name in subjects
        if f"def {name.partition('::')[2]}(" not in (ROOT / name.partition("::")[0]).read_text()
    ]

    assert len(subjects) > 20
    assert lacking == []
    assert apart.intersection(subjects) == set()


def test_the_longest_files_are_there() -> None:
    """One that was renamed would be begun among the last, and its worker would end alone."""
    assert [file for file in LONG_FILES if not (ROOT / file).is_file()] == []
