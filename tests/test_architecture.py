"""Pages and docstrings of folders name modules, folders and tests: each exists, and callers are callers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.graph import module_graph
from tests.house.modules import When, penstock

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


CALLERS = re.compile(r"Called\s+by\s+([^.]*)\.(?:\s|\Z)")
QUOTED = re.compile(r"[\"'](penstock\.[a-z_.]+)")


def folders_above(module: str) -> set[str]:
    """Return a module and the folders that it is in, dotted."""
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def importers() -> dict[str, set[str]]:
    """Return, for each folder, the modules that import something of it, or name it in a string for a later import."""
    found: dict[str, set[str]] = {}
    graph = module_graph(penstock(), When)
    for module in penstock().modules:
        named = {*graph[module.name], *QUOTED.findall(module.text)}
        for folder in {above for each in named for above in folders_above(each)}:
            found.setdefault(folder, set()).add(module.name)
    return found


def test_callers_that_a_folder_names_import_it() -> None:
    """The docstring of a folder names its callers after "Called by": folders and modules, by the ends of their paths."""
    known = importers()
    wrong: list[str] = []
    checked = 0
    for module in penstock().modules:
        if not module.is_package:
            continue
        callers = {
            "/".join(caller.split("."))
            for caller in known.get(module.name, ())
            if module.name not in folders_above(caller)
        }
        for sentence in CALLERS.findall(ast.get_docstring(module.tree) or ""):
            for name in re.findall(r"`([\w/]+)`(?!\))", sentence):
                checked += 1
                if not any(f"/{name}/" in f"/{caller}/" for caller in callers):
                    wrong.append(f"{module.name}: {name} does not import it")

    assert checked > 100
    assert wrong == []
