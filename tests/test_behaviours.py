"""docs/behaviours.md names tests: each is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_behaviour_names_a_test_that_is_there() -> None:
    """A renamed test is renamed there too."""
    text = (ROOT / "docs" / "behaviours.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])}
    there = {
        name
        for pattern in ("test_*.py", "contract/*.py")
        for file in (ROOT / "tests").rglob(pattern)
        for name in re.findall(r"^ *def test_(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert len(named) > 60
    assert named - there == set()
