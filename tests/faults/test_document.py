"""docs/faults.md names tests: each is there, and is marked as the document says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [line.split("|") for line in DOCUMENT.splitlines() if re.match(r"\| (\d+ )?\|", line)]


def marks_below(folder: Path) -> dict[str, bool]:
    """Name every test below a folder, and tell whether it is one of `make faults` alone."""
    found: dict[str, bool] = {}
    for file in folder.rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        for marks, name in re.findall(r"((?:^@.*\n)*)^def test_(\w+)", text, re.MULTILINE):
            found[name] = "pytest.mark.faults" in marks
    return found


def test_every_case_names_a_test_that_is_there() -> None:
    """A renamed test is renamed there too, and the mark says whether `make test` runs it."""
    known = marks_below(ROOT / "tests")
    named = {
        name: marked == " F" for row in ROWS for name, marked in re.findall(r"`(\w+)`( F)?", row[3])
    }

    assert len(named) > 20
    assert {name: mark for name, mark in named.items() if known.get(name) is not mark} == {}


def test_every_case_has_a_test() -> None:
    """No row without one, and no test of a fault without a row."""
    silent = {"test_checker", "test_document"}
    faults = {
        name
        for file in (ROOT / "tests" / "faults").glob("test_*.py")
        if file.stem not in silent
        for name in re.findall(r"^def test_(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert [row[1] for row in ROWS if "`" not in row[3]] == []
    assert faults <= {name for row in ROWS for name in re.findall(r"`(\w+)`", row[3])}
