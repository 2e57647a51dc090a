"""Columns of a relation: their names and types, which of them are rowtimes, and grouping columns."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    is_determined,
    key_text,
    telling_calls,
)

__all__ = ["Column", "Facts", "GroupKey", "Item", "RowtimeColumn"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of a relation's rows whichever engine runs it.

    `columns` are None where Spark alone can tell them. `arrival`: each row is a row of one record, so that it can
    carry the order in which records came.
    """

    columns: tuple[Column, ...] | None
    rowtimes: tuple[RowtimeColumn, ...] = ()
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
