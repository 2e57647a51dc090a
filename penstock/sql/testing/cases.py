"""A test file as values: cases, their input rows, and their expectations; the choice of cases by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import Span
from penstock.connector.testing.values import InputRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedRow:
    """An input row of a case, and its place."""

    row: InputRow
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTable:
    """The rows of one table in one step. `name` is as SQL would name it."""

    name: str
    rows: tuple[LocatedRow, ...]
    span: Span = field(compare=False)


Step = tuple[InputTable, ...]
"""What comes together: one micro-batch of each query that reads any of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRow:
    """A row that is to come out: some columns of it, and its kind (`+I`) where changes are expected."""

    cells: Mapping[str, Any]
    kind: str | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTable:
    """The rows of one table. `changes`: every change, with its kind; else the final rows.

    `ordered`: in this order; else in any.
    """

    name: str
    rows: tuple[ExpectedRow, ...]
    changes: bool = False
    ordered: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expectations of a case. Counts and the watermark are None where they are not checked.

    `watermark` is that of the last batch, as SQL writes it; "none": there is none yet. `dead_letters` are compared by
    the columns that they name; an `error` is a part of the dead letter's text.
    """

    tables: tuple[ExpectedTable, ...] = ()
    late: int | None = None
    bad_records: int | None = None
    watermark: str | None = None
    dead_letters: tuple[ExpectedRow, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The error that a case is to end with: its code, a part of its text, or both."""

    code: str | None = None
    message: str | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThenBlock:
    """Where the value of `then` stands in the file's text: characters [`start`, `end`), nested at `indent`.

    Where a case has none, both are the place behind the case.
    """

    start: int
    end: int
    indent: int
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case: SQL files, their variables, rows in steps, and expectations.

    `now` is the clock as SQL writes it. `ends`: sources end with their last row, so that all windows close, or do not;
    None: by their tables. `goes_idle`: the time of `scan.watermark.idle-timeout` passes after each step.
    """

    name: str
    files: tuple[Path, ...]
    variables: Mapping[str, Any]
    settings: Mapping[str, str]
    target: str | None
    now: str | None
    ends: bool | None
    goes_idle: bool
    steps: tuple[Step, ...]
    then: Expectation | None
    error: ExpectedError | None
    block: ThenBlock = field(compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFile:
    """A YAML file of cases."""

    path: Path
    name: str
    text: str = field(repr=False)
    cases: tuple[Case, ...]

    __test__ = False  # no test of pytest's


def chosen(files: Sequence[TestFile], pattern: str | None) -> list[tuple[TestFile, Case]]:
    """Return the cases whose name, or file's name, holds all words of `pattern`; all where it is None."""
    words = pattern.lower().split() if pattern else []
    found = [(file, case) for file in files for case in file.cases]
    return [
        (file, case)
        for file, case in found
        if all(word in f"{file.name}::{case.name}".lower() for word in words)
    ]
