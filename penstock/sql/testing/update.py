"""Rewrites the expectations of cases by their results: only the block behind `then:`, all other text stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from penstock.connector.testing.values import plain_text
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.cases import Expectation, ExpectedTable, TestFile
from penstock.sql.testing.comparison import KIND, LETTER_COLUMNS, expected_columns
from penstock.sql.testing.queries import ActualResults, ActualRow

STEP = 2


def updated_text(file: TestFile, results: Sequence[CaseResult]) -> str:
    """Return the text of a test file with the actual results as expectations of failed cases.

    A case that ended with an error, or expects one, is left: a person has to decide there.
    """
    text = file.text
    changed = [r for r in results if r.found is not None and r.case.error is None]
    needed = [r for r in changed if r.problems or r.case.then is None]
    # from the end, so that the places of the others stay right
    for result in sorted(needed, key=lambda result: result.case.block.start, reverse=True):
        block = result.case.block
        text = text[: block.start] + _block(text, result) + text[block.end :]
    return text


def _block(text: str, result: CaseResult) -> str:
    block, found = result.case.block, result.found
    assert found is not None, "only cases with a result are rewritten"
    lines = list(_lines(result, found))
    line = text[: block.start].rpartition("\n")[2]
    if not block.exists:
        begin = f"\n{' ' * block.indent}then:"
    elif line.strip():
        begin = ""  # behind `then:`, on its line
    else:
        # the block's first line has its indentation already
        return f"\n{line}".join(lines)
    pad = " " * (block.indent + STEP)
    return begin + "".join(f"\n{pad}{each}" for each in lines)


def _lines(result: CaseResult, found: ActualResults) -> Iterator[str]:
    """Write the block, not indented."""
    then = result.case.then or Expectation()
    tables = {table.name: table for table in then.tables}
    for name, rows in found.tables.items():
        yield from _table(name, rows, tables.get(name), result)
    if then.late is not None:
        yield f"$late: {found.late}"
    if then.bad_records is not None:
        yield f"$bad_records: {found.bad_records}"
    if then.watermark is not None:
        yield f"$watermark: {_flow(found.watermark.removesuffix('.000'))}"
    if then.dead_letters is not None:
        named = {name for row in then.dead_letters for name in row.cells}
        columns = [name for name in LETTER_COLUMNS if name in (named or LETTER_COLUMNS)]
        yield from _rows("$dead_letters", found.dead_letters, columns, "")


def _table(
    name: str, rows: Sequence[ActualRow], expected: ExpectedTable | None, result: CaseResult
) -> Iterator[str]:
    columns = expected_columns(() if expected is None else expected.rows, result.tables[name])
    key = _flow(name)
    if expected is None or not (expected.changes or expected.ordered):
        yield from _rows(key, rows, columns, "")
        return
    yield f"{key}:"
    if expected.ordered:
        yield " " * STEP + "ordered: true"
    yield from _rows("changes" if expected.changes else "rows", rows, columns, " " * STEP)


def _rows(key: str, rows: Sequence[ActualRow], columns: Sequence[str], pad: str) -> Iterator[str]:
    if not rows:
        yield f"{pad}{key}: []"
        return
    yield f"{pad}{key}:"
    for row in rows:
        cells = {name: plain_text(row.cells.get(name)) for name in columns}
        kind = {} if row.kind is None else {KIND: row.kind}
        yield f"{pad}{' ' * STEP}- {_flow(kind | cells)}"


def _flow(value: Any) -> str:
    """Write a value on one line."""
    text: str = yaml.safe_dump(
        value,
        default_flow_style=True,
        allow_unicode=True,
        sort_keys=False,
        width=1_000_000,
    )
    return text.removesuffix("\n").removesuffix("\n...")
