"""Facts of the rows of an operator: its columns and rowtimes, and how they follow from those of its inputs.

Also properties of scans that operators depend on: order of arrival, ties, retried lookups. A rowtime stays one through
projections, filters, UNNEST, UNION ALL, OVER, and on the left of temporal joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Generic, TypeVar

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.connector.lookup.contract import MissRetry
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    is_determined,
    key_text,
    telling_calls,
)
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS


class Arrival(StrEnum):
    """The known arrival order of a table's rows."""

    OPEN = "open"
    """Not requested, as in versions of Penstock whose checkpoints still resume."""
    BATCH = "batch"
    """The micro-batch of a row's arrival."""
    RECORD = "record"
    """The order of any two rows, by the column ARRIVED (`connector/scan.py`)."""


class TieBreak(StrEnum):
    """Which of rows with equal order comes first."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRetry:
    """How to retry keys without rows; `span` is the place of the hint."""

    retry: MissRetry
    span: Span | None


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted`, with a number behind it where that name is taken; Spark ignores case."""
    return _unique(wanted, {name.casefold() for name in taken})


def own_names(items: Sequence[exp.Expr]) -> tuple[str, ...]:
    """Name the columns of a SELECT list uniquely; unnamed ones get a reserved name."""
    names: list[str] = []
    known: set[str] = set()
    for index, item in enumerate(items):
        named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
        wanted = item.alias_or_name if named and item.alias_or_name else f"__column{index}"
        names.append(_unique(wanted, known))
        known.add(names[-1].casefold())
    return tuple(names)


def _unique(wanted: str, known: AbstractSet[str]) -> str:
    name, number = wanted, 1
    while name.casefold() in known:
        number += 1
        name = f"{wanted}__{number}"
    return name


Item = tuple[str, exp.Expr]
"""An output column of an operator: its name, and its value over the operator's input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a relation; `type` is None where it is unknown."""

    name: str
    type: exp.DataType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowtimeColumn:
    """A column that is a time attribute of event time.

    `sources` are the scans whose watermarks bound it. None of them: rows of aggregated windows, which come behind the
    watermark, those of one window before the next's.
    """

    column: str
    sources: frozenset[int]


Name = TypeVar("Name", str, tuple[str, str])
OtherName = TypeVar("OtherName", str, tuple[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Generic[Name]):
    """A window that each row is of: the columns that are its start, its end and its time.

    There are several of one where a query gives it several names, or joins rows of equal windows. `sources` are the
    scans whose watermarks close it. None of them: rows of aggregated windows, which are closed.
    """

    starts: frozenset[Name]
    ends: frozenset[Name]
    times: frozenset[Name] = frozenset()
    sources: frozenset[int] = frozenset()

    def under(self, names: Callable[[Name], Iterable[OtherName]]) -> Window[OtherName] | None:
        """Return the window under other names of its columns; None where a bound has none."""
        starts, ends, times = (
            frozenset(new for old in part for new in names(old))
            for part in (self.starts, self.ends, self.times)
        )
        if not starts or not ends:
            return None
        return Window(starts=starts, ends=ends, times=times, sources=self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTime:
    """The column by which windows are closed, and the scans whose watermarks close them."""

    column: exp.Column
    sources: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of a relation's rows whichever engine runs it.

    `columns` are None where Spark alone can tell them. `windows` are those whose bounds are among them. `arrival`: each
    row is a row of one record, so that it can carry the order in which records came.
    """

    columns: tuple[Column, ...] | None
    rowtimes: tuple[RowtimeColumn, ...] = ()
    windows: tuple[Window[str], ...] = ()
    arrival: bool = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns; None where they are unknown."""
        return None if self.columns is None else tuple(column.name for column in self.columns)

    def sources(self, name: str) -> frozenset[int] | None:
        """Return the scans whose watermarks bound a column; None where it is no rowtime."""
        return next((found.sources for found in self.rowtimes if found.column == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A grouping column.

    `text` is what the query wrote for it, `telling_calls` are calls that tell grouping sets apart, where the column is
    the number of one, and `determined`: the other grouping columns determine it.
    """

    value: exp.Expr
    text: str
    telling_calls: str | None = None
    determined: bool = False

    @classmethod
    def of(cls, value: exp.Expr) -> GroupKey:
        """Read a value of GROUP BY, in which grouping sets are unfolded."""
        return cls(
            value=value,
            text=key_text(value),
            telling_calls=telling_calls(value),
            determined=is_determined(value),
        )


_START, _END, WINDOW_TIME = WINDOW_COLUMNS


def facts_of_scan(
    index: int, columns: Sequence[str], rowtime: str | None, *, arrival: bool
) -> Facts:
    """Return the facts of the table that is scan number `index`."""
    times = () if rowtime is None else (RowtimeColumn(column=rowtime, sources=frozenset({index})),)
    return Facts(
        columns=tuple(Column(name=name) for name in columns), rowtimes=times, arrival=arrival
    )


def facts_of_alias(child: Facts, names: Sequence[str], *, keeps_rowtimes: bool) -> Facts:
    """Return the facts of a relation whose columns have other names, by position; none: the same names.

    `keeps_rowtimes`: rowtimes stay ones under the other names.
    """
    if not names:
        return child
    types: list[exp.DataType | None] = [None] * len(names)
    if child.columns is not None and len(child.columns) == len(names):
        types = [column.type for column in child.columns]
    columns = tuple(Column(name=n, type=t) for n, t in zip(names, types, strict=True))
    times: list[RowtimeColumn] = []
    if keeps_rowtimes and child.columns is not None:
        pairs = list(zip(names, child.columns, strict=False))
        for position, (name, column) in enumerate(pairs):
            sources = child.sources(column.name)
            if sources is not None and name not in names[:position]:
                times.append(RowtimeColumn(column=name, sources=sources))
    return Facts(columns=columns, rowtimes=tuple(times), windows=_windows_by_position(child, names))


def _windows_by_position(child: Facts, names: Sequence[str]) -> tuple[Window[str], ...]:
    """Return windows under other names of the columns, by position; none where these are not sure."""
    known = child.names or ()
    if not child.windows or len(known) != len(names):
        return ()
    new = {old: name for old, name in zip(known, names, strict=True) if known.count(old) == 1}
    found = (w.under(lambda old: [new[old]] if old in new else []) for w in child.windows)
    return tuple(window for window in found if window is not None)


def facts_of_windows(child: Facts, time_column: str, *, follows: bool = True) -> Facts:
    """Return the facts of the rows of a windowing function: their window_time is a rowtime, and no other is.

    Without `follows` its bounds are known by their names alone, as are those of a time that no watermark follows.
    """
    columns = None
    if child.columns is not None:
        columns = (*child.columns, *(Column(name=name) for name in WINDOW_COLUMNS))
    sources = child.sources(time_column)
    if sources is None:
        return Facts(columns=columns, arrival=child.arrival)
    window = Window(
        starts=frozenset({_START}),
        ends=frozenset({_END}),
        times=frozenset({WINDOW_TIME}),
        sources=sources,
    )
    return Facts(
        columns=columns,
        rowtimes=(RowtimeColumn(column=WINDOW_TIME, sources=sources),),
        windows=(window,) if follows else (),
        arrival=child.arrival,
    )


def facts_of_unnest(child: Facts, names: Sequence[str]) -> Facts:
    """Return the facts of rows that are unfolded; no names: those of the new columns are unknown."""
    columns = None
    if child.columns is not None and names:
        columns = (*child.columns, *(Column(name=name) for name in names))
    return Facts(columns=columns, rowtimes=child.rowtimes, windows=child.windows)


def facts_of_join(left: Facts, right: Facts) -> Facts:
    """Return the facts of a join that may give a row at any time: none of its columns is a rowtime."""
    if left.columns is None or right.columns is None:
        return Facts(columns=None)
    return Facts(columns=(*left.columns, *right.columns))


def facts_of_temporal_join(left: Facts, right: Facts, versions: frozenset[int]) -> Facts:
    """Return the facts of a join whose rows wait for the watermarks of the scans `versions` too."""
    times = tuple(
        RowtimeColumn(column=t.column, sources=t.sources | versions) for t in left.rowtimes
    )
    return Facts(columns=facts_of_join(left, right).columns, rowtimes=times)


def facts_of_projection(
    child: Facts,
    columns: tuple[Column, ...] | None,
    items: Sequence[Item],
    first: str,
    *,
    keeps_rowtimes: bool = True,
) -> Facts:
    """Return the facts of a SELECT list over `child`, whose first relation in FROM is `first`.

    `items` are its values under their names in the text. A star among them, which could not be written out, passes on
    every column.
    """
    names = list(dict.fromkeys(name for name, _ in items))
    if any(_is_star(value) for _, value in items):
        names += [time.column for time in child.rowtimes if time.column not in names]
    times: list[RowtimeColumn] = []
    for name in names if keeps_rowtimes else ():
        inner = _selected(items, name, first)
        sources = None if inner is None else child.sources(inner)
        if sources is not None:
            times.append(RowtimeColumn(column=name, sources=sources))
    return Facts(columns=columns, rowtimes=tuple(times))


def facts_of_windowed_aggregate(
    child: Facts, columns: tuple[Column, ...] | None, items: Sequence[Item], first: str
) -> Facts:
    """Return the facts of an aggregation by windows: their time comes behind the watermark, and waits for no scan."""
    own = frozenset({WINDOW_TIME}).union(*(window.times for window in child.windows))
    known = {name for name in own if child.sources(name) is not None}
    names = dict.fromkeys(name for name, _ in items) if known else ()
    times = tuple(
        RowtimeColumn(column=name, sources=frozenset())
        for name in names
        if _selected(items, name, first) in known
    )
    return Facts(columns=columns, rowtimes=times)


def facts_of_set_operation(left: Facts, right: Facts, *, keeps_rowtimes: bool) -> Facts:
    """Return the facts of a set operation, whose columns have the names of the left side.

    `keeps_rowtimes`: it is UNION ALL of queries that name their columns.
    """
    times: list[RowtimeColumn] = []
    if keeps_rowtimes and left.columns is not None and right.columns is not None:
        names = [column.name for column in left.columns]
        for time in left.rowtimes:
            other = right.columns[names.index(time.column) :][:1]
            sources = right.sources(other[0].name) if other else None
            if sources is not None and bool(sources) == bool(time.sources):
                times.append(RowtimeColumn(column=time.column, sources=time.sources | sources))
    return Facts(columns=left.columns, rowtimes=tuple(times))


def windows_of_union(left: Facts, right: Facts) -> tuple[Window[str], ...]:
    """Return the windows of the rows of UNION ALL: both sides have their bounds in the same columns."""
    other = _windows_by_position(right, left.names or ())
    found: list[Window[str]] = []
    for one, two in product(left.windows, other):
        sources = one.sources | two.sources if one.sources and two.sources else frozenset[int]()
        both = Window(
            starts=one.starts & two.starts,
            ends=one.ends & two.ends,
            times=one.times & two.times,
            sources=sources,
        )
        found += [both] if both.starts and both.ends else []
    return tuple(found)


def _selected(items: Sequence[Item], name: str, first: str) -> str | None:
    """Return the column of the relation `first` that a SELECT list gives as `name`."""
    for own, value in items:
        if isinstance(value, exp.Column) and value.table in ("", first):
            if isinstance(value.this, exp.Star):
                return name
            if own == name:
                return str(value.name)
    return name if any(isinstance(value, exp.Star) for _, value in items) else None


def _is_star(value: exp.Expr) -> bool:
    return isinstance(value, exp.Star) or (
        isinstance(value, exp.Column) and isinstance(value.this, exp.Star)
    )
