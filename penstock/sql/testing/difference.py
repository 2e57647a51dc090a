"""Rows that were expected beside rows that came: which are the same, missing, unexpected, or changed in a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from penstock.connector.fixture.values import plain_text

__all__ = ["Cells", "Difference", "DifferenceLine", "Mark", "align"]

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
    """A row of a difference. Of a changed one `cells` are as expected, `found` those that came; else None."""

    mark: Mark
    cells: tuple[str, ...]
    found: tuple[str, ...] | None = None

    def changed(self, index: int) -> bool:
        """Whether a cell came otherwise than expected."""
        return self.found is not None and self.cells[index] != self.found[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All rows of one table."""

    columns: tuple[str, ...]
    lines: tuple[DifferenceLine, ...]

    @property
    def is_empty(self) -> bool:
        """Whether everything came as expected."""
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
        places = [index for index, name in enumerate(columns) if name in key]
        whole_key = places if len(places) == len(key) else []
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
    """Take a row out that is the same."""
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
