"""docs/faults.md names tests: each is there, and is marked as the document says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [line.split("|") for line in DOCUMENT.splitlines() if re.match(r"\| (\d+ )?\|", line)]


def names_in(text: str) -> list[str]:
    """List the tests of a file."""
    return re.findall(r"^def test_(\w+)", text, re.MULTILINE)


def marks_below(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Give tests below a folder their letter: F of `make faults` alone, N of `make test-all`."""
    letters = {"pytest.mark.faults": "F", "pytest.mark.nightly": "N"}
    texts = (file.read_text(encoding="utf-8") for file in folder.rglob("test_*.py"))
    wanted = set(names)
    return {
        node.name.removeprefix("test_"): "".join(
            letters.get(ast.unparse(mark), "") for mark in node.decorator_list
        )
        for text in texts
        if not wanted.isdisjoint(names_in(text))
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_case_names_a_test_that_is_there() -> None:
    """A renamed test is renamed there too, and its letter says which command runs it."""
    named = {
        name: mark for row in ROWS for name, mark in re.findall(r"`(\w+)`(?: ([FN])\b)?", row[3])
    }
    known = marks_below(ROOT / "tests", named)

    assert len(named) > 20
    assert {name: mark for name, mark in named.items() if known.get(name) != mark} == {}


def test_every_case_has_a_test() -> None:
    """No row without one, and no test of a fault without a row."""
    silent = {"test_checker", "test_document"}
    faults = {
        name
        for file in (ROOT / "tests" / "faults").glob("test_*.py")
        if file.stem not in silent
        for name in names_in(file.read_text(encoding="utf-8"))
    }

    assert [row[1] for row in ROWS if "`" not in row[3]] == []
    assert faults <= {name for row in ROWS for name in re.findall(r"`(\w+)`", row[3])}
