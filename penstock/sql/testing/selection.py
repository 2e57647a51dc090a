"""Which cases are run: those whose names hold the words asked for. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.testing.cases import Case, TestFile

__all__ = ["chosen"]


def chosen(files: Sequence[TestFile], pattern: str | None) -> list[tuple[TestFile, Case]]:
    """Give the cases whose name, or file's name, holds all words of `pattern`; all where it is None."""
    words = pattern.lower().split() if pattern else []
    found = [(file, case) for file in files for case in file.cases]
    return [
        (file, case)
        for file, case in found
        if all(word in f"{file.name}::{case.name}".lower() for word in words)
    ]
