"""Every promise of docs/security.md names the test that holds it, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def test_each_test_that_is_named_is_there() -> None:
    """A test that was renamed or removed takes its promise with it."""
    there = {
        (file, name)
        for file in {file for file, _ in NAMED}
        for name in re.findall(
            r"^ *def (\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
        )
    }

    assert set(NAMED) - there == set()
    assert len(NAMED) > 25


def test_each_promise_names_a_test() -> None:
    """A row of a table without one is a wish."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "---" not in line]
    promises = [row for row in rows if not row.startswith("| promised |")]

    assert promises
    assert [row for row in promises if "::test_" not in row] == []
