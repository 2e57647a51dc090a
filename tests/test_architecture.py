"""ARCHITECTURE.md and CONTRIBUTING.md name modules, folders and tests: each exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py")}
FOLDERS = {
    path.relative_to(ROOT).as_posix()
    for root in ("penstock", "tests")
    for path in (ROOT / root).rglob("*")
    if path.is_dir()
}
HYPOTHETICAL = {"utils.py"}
"""Named as what must not exist."""


def is_there(path: str) -> bool:
    """Whether a path, whole or its last parts, is a module or a folder of the checkout."""
    known = FILES if path.endswith(".py") else FOLDERS
    return any(each == path or each.endswith(f"/{path}") for each in known)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    """A module that moves is moved in the page, too."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", text)) | {
        path.rstrip("/")
        for path in re.findall(r"`((?:penstock|tests|catalog|connector|sql|plan)/[\w/]+)`", text)
    }

    assert len(named) > 20
    assert sorted(path for path in named - HYPOTHETICAL if not is_there(path)) == []
