"""Compare the expectations of a case with its results.

Rows that are the same, missing, unexpected or changed, and every other difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    InputErrors,
    PenstockError,
    Span,
    did_you_mean,
)
from penstock.catalog.model.table import ComputedColumn, Table
from penstock.catalog.model.types import TimestampType
from penstock.connector.changelog import RowKind
from penstock.connector.testing.values import plain_text, read_value
from penstock.sql.testing.cases import Case, ExpectedError, ExpectedRow, ExpectedTable
from penstock.sql.testing.queries import ActualResults, ActualRow

Cells = Mapping[str, Any]
"""A row: values by column."""


class Mark(StrEnum):
    """What a line says."""

    SAME = " "
    MISSING = "-"
    UNEXPECTED = "+"
    CHANGED = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLine:
    """A row of a difference. Of a changed one `cells` are the expected ones, `found` the actual ones; else None."""

    mark: Mark
    cells: tuple[str, ...]
    found: tuple[str, ...] | None = None

    def changed(self, index: int) -> bool:
        """Return whether a cell differs from the expected one."""
        return self.found is not None and self.cells[index] != self.found[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All rows of one table."""

    columns: tuple[str, ...]
    lines: tuple[DifferenceLine, ...]

    @property
    def is_empty(self) -> bool:
        """Whether all results are as expected."""
        return all(line.mark is Mark.SAME for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row as texts to show, and as texts to compare: floating point numbers to twelve digits."""

    shown: tuple[str, ...]
    compared: tuple[str, ...]


def align(
    columns: Sequence[str],
    expected: Sequence[Cells],
    found: Sequence[Cells],
    *,
    key: Sequence[str] = (),
    ordered: bool = False,
) -> Difference:
    """Align rows over `columns`. Rows that are not the same are paired by `key`, else by what they share."""
    wanted = [_row(row, columns) for row in expected]
    came = [_row(row, columns) for row in found]
    if ordered:
        lines = list(_in_order(wanted, came))
    else:
        indices = [index for index, name in enumerate(columns) if name in key]
        whole_key = indices if len(indices) == len(key) else []
        lines = list(_in_any_order(wanted, came, whole_key))
    return Difference(columns=tuple(columns), lines=tuple(lines))


def _row(cells: Cells, columns: Sequence[str]) -> _Row:
    values = [cells.get(name) for name in columns]
    return _Row(
        shown=tuple(map(_shown, values)), compared=tuple(repr(_rounded(each)) for each in values)
    )


def _shown(value: Any) -> str:
    plain = plain_text(value)
    return "NULL" if plain is None else str(plain)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.12g}")
        case list():
            return [_rounded(each) for each in value]
        case dict():
            pairs = [(repr(k), _rounded(v)) for k, v in value.items()]
            return sorted(pairs, key=lambda pair: pair[0])
    return value


def _in_order(wanted: Sequence[_Row], came: Sequence[_Row]) -> Iterator[DifferenceLine]:
    texts = [[row.compared for row in rows] for rows in (wanted, came)]
    for kind, i, i_end, j, j_end in SequenceMatcher(
        a=texts[0], b=texts[1], autojunk=False
    ).get_opcodes():
        if kind == "equal":
            yield from (_same(row) for row in wanted[i:i_end])
            continue
        pairs = min(i_end - i, j_end - j)
        for a, b in zip(wanted[i : i + pairs], came[j : j + pairs], strict=True):
            yield _changed(a, b)
        yield from (_missing(row) for row in wanted[i + pairs : i_end])
        yield from (_unexpected(row) for row in came[j + pairs : j_end])


def _in_any_order(
    wanted: Sequence[_Row], came: Sequence[_Row], key: Sequence[int]
) -> Iterator[DifferenceLine]:
    left = list(came)
    same = [_taken(row, left) for row in wanted]
    for row, is_same in zip(wanted, same, strict=True):
        if is_same:
            yield _same(row)
            continue
        near = _nearest(row, left, key)
        if near is None:
            yield _missing(row)
        else:
            left.remove(near)
            yield _changed(row, near)
    yield from map(_unexpected, left)


def _taken(row: _Row, left: list[_Row]) -> bool:
    """Remove a row that is equal."""
    for index, other in enumerate(left):
        if other.compared == row.compared:
            del left[index]
            return True
    return False


def _nearest(row: _Row, left: Sequence[_Row], key: Sequence[int]) -> _Row | None:
    """Find the row that is meant: of the same key, else one with at least half of its cells."""
    if key:
        fits = (o for o in left if all(o.compared[i] == row.compared[i] for i in key))
        return next(fits, None)
    best = max(left, key=lambda other: _common(row, other), default=None)
    if best is None or 2 * _common(row, best) < len(row.compared):
        return None
    return best


def _common(a: _Row, b: _Row) -> int:
    return sum(x == y for x, y in zip(a.compared, b.compared, strict=True))


def _same(row: _Row) -> DifferenceLine:
    return DifferenceLine(mark=Mark.SAME, cells=row.shown)


def _missing(row: _Row) -> DifferenceLine:
    return DifferenceLine(mark=Mark.MISSING, cells=row.shown)


def _unexpected(row: _Row) -> DifferenceLine:
    return DifferenceLine(mark=Mark.UNEXPECTED, cells=row.shown)


def _changed(row: _Row, other: _Row) -> DifferenceLine:
    return DifferenceLine(mark=Mark.CHANGED, cells=row.shown, found=other.shown)


KIND = "$kind"

LETTER_COLUMNS = ("table", "$split", "$offset", "stage", "error", "$key", "$raw")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsDiffer:
    """A table has other rows than expected."""

    what: str
    difference: Difference
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDiffers:
    """A count or the watermark is another."""

    what: str
    expected: str
    found: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongError:
    """The case failed, or did not fail, or not with the error that was expected. `expected` is None for none."""

    expected: str | None
    error: PenstockError | None
    span: Span


Problem = RowsDiffer | ValueDiffers | WrongError


def compare(
    case: Case,
    found: ActualResults | None,
    error: PenstockError | None,
    tables: Mapping[str, Table],
) -> tuple[Problem, ...]:
    """Return every difference. `tables` are those that the case names. Raises ConfigError for what
    cannot be expected.
    """
    if error is not None or case.error is not None:
        wrong = _compare_error(case, error)
        return () if wrong is None else (wrong,)
    assert found is not None, "what did not fail has a result"
    if case.then is None:
        raise _expects_nothing(case)
    problems: list[Problem] = []
    for table in case.then.tables:
        rows = _compare_table(table, found.tables[table.name], tables[table.name])
        if rows is not None:
            problems.append(rows)
    then = case.then
    if then.dead_letters is not None:
        letters = _compare_letters(then.dead_letters, found.dead_letters, case)
        if letters is not None:
            problems.append(letters)
    watermark = None if then.watermark is None else _watermark(then.watermark, case)
    for what, expected, came in (
        ("late rows", then.late, found.late),
        ("bad records", then.bad_records, found.bad_records),
        ("watermark", watermark, _watermark(found.watermark, case)),
    ):
        if expected is not None and expected != came:
            differs = ValueDiffers(
                what=what, expected=str(expected), found=str(came), span=case.span
            )
            problems.append(differs)
    return tuple(problems)


def check_expected(case: Case, tables: Mapping[str, Table], *, lenient: bool) -> None:
    """Check what a case expects for mistakes. Raises ConfigError, DefinitionError."""
    if case.then is None:
        if case.error is None and not lenient:
            raise _expects_nothing(case)
        return
    for table in case.then.tables:
        expected_columns(table.rows, tables[table.name])
        for row in table.rows:
            _typed(row, tables[table.name])
    if case.then.dead_letters is not None:
        _letter_columns(case.then.dead_letters)
    if case.then.watermark is not None:
        _watermark(case.then.watermark, case)


def expected_columns(rows: Sequence[ExpectedRow], table: Table) -> tuple[str, ...]:
    """Return the columns that are compared: all that any row names, in the table's order. Raises ConfigError."""
    known = [c.name for c in table.schema.columns if not isinstance(c, ComputedColumn)]
    for row in rows:
        for name in row.cells:
            if name not in known:
                raise ConfigError(
                    f"table {table.identifier.name} has no column '{name}' that is written",
                    hint=did_you_mean(name, known) or f"columns are: {', '.join(known)}",
                    span=row.span,
                )
    named = {name for row in rows for name in row.cells}
    return tuple(name for name in known if name in named or not rows)


def _compare_table(
    expected: ExpectedTable, found: Sequence[ActualRow], table: Table
) -> RowsDiffer | None:
    columns = expected_columns(expected.rows, table)
    wanted: list[Cells] = [_typed(row, table) for row in expected.rows]
    came: list[Cells] = [row.cells for row in found]
    if expected.changes:
        columns = (KIND, *columns)
        wanted = [{KIND: r.kind, **c} for r, c in zip(expected.rows, wanted, strict=True)]
        came = [{KIND: row.kind, **row.cells} for row in found]
    key = table.schema.primary_key.columns if table.schema.primary_key is not None else ()
    if expected.changes and key:
        wanted, came = [[_deleted(row, key) for row in rows] for rows in (wanted, came)]
    difference = align(
        columns, wanted, came, key=() if expected.changes else key, ordered=expected.ordered
    )
    if difference.is_empty:
        return None
    what = f"{'changes' if expected.changes else 'rows'} of {expected.name}"
    return RowsDiffer(what=what, difference=difference, span=expected.span)


def _deleted(row: Cells, key: Sequence[str]) -> Cells:
    """Keep the key alone of a row that is deleted: no more of it counts."""
    if row[KIND] != RowKind.DELETE.short:
        return row
    return {name: value for name, value in row.items() if name == KIND or name in key}


def _typed(row: ExpectedRow, table: Table) -> dict[str, Any]:
    """Read expected cells by the types of the table. Raises DefinitionError with the row's place."""
    values: dict[str, Any] = {}
    for name, cell in row.cells.items():
        kind = table.schema.column(name).type
        assert kind is not None, "computed columns were refused"
        try:
            values[name] = read_value(cell, kind)
        except DefinitionError as error:
            error.span = row.span
            raise error.within(f"column '{name}'") from error
    return values


def _compare_letters(
    expected: Sequence[ExpectedRow], found: Sequence[ActualRow], case: Case
) -> RowsDiffer | None:
    columns = _letter_columns(expected)
    came = [dict(row.cells) for row in found]
    wanted = [{**row.cells, "$split": _split(row)} for row in expected]
    for row, letter in zip(wanted, came, strict=False):
        # a part of the text is enough
        if "error" in row and str(row["error"]) in letter["error"]:
            letter["error"] = row["error"]
    difference = align(columns, wanted, came)
    if difference.is_empty:
        return None
    return RowsDiffer(what="dead letters", difference=difference, span=case.span)


def _letter_columns(expected: Sequence[ExpectedRow]) -> list[str]:
    """Return the columns of dead letters that are compared: those that are named. Raises ConfigError."""
    named = {name for row in expected for name in row.cells}
    unknown = sorted(named - set(LETTER_COLUMNS))
    if unknown:
        raise ConfigError(
            f"a dead letter has no column '{unknown[0]}'",
            hint=f"columns are: {', '.join(LETTER_COLUMNS)}",
            span=expected[0].span,
        )
    return [name for name in LETTER_COLUMNS if name in (named or LETTER_COLUMNS)]


def _expects_nothing(case: Case) -> ConfigError:
    return ConfigError(
        f"the case {case.name!r} expects nothing",
        hint="add `then`, with the rows of tables, or `error`; or let --update write it",
        span=case.span,
    )


def _split(row: ExpectedRow) -> str | None:
    split = row.cells.get("$split")
    return None if split is None else str(split)


def _compare_error(case: Case, error: PenstockError | None) -> WrongError | None:
    if case.error is None:
        return WrongError(expected=None, error=error, span=case.span)
    wanted = case.error
    if error is not None and any(_fits(wanted, each) for each in _each(error)):
        return None
    text = " ".join(part for part in (wanted.code, wanted.message) if part is not None)
    return WrongError(expected=text, error=error, span=wanted.span)


def _each(error: PenstockError) -> Sequence[PenstockError]:
    return error.errors if isinstance(error, InputErrors) else (error,)


def _fits(wanted: ExpectedError, error: PenstockError) -> bool:
    text = re.sub(r"\s+", " ", error.message)
    return wanted.code in (None, error.code) and (wanted.message is None or wanted.message in text)


def _watermark(text: str, case: Case) -> str:
    if text == "none":
        return text
    try:
        return str(plain_text(read_value(text, TimestampType(precision=3))))
    except DefinitionError as error:
        hint = "write it as SQL does: 2024-01-31 12:00:00; or none"
        raise ConfigError(f"`$watermark`: {error.message}", hint=hint, span=case.span) from error
