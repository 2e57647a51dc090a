"""A proposed table, each of its parts with the reason for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.catalog.identifier import Identifier, quote
from penstock.catalog.schema import Column, PrimaryKey, Schema, Watermark
from penstock.catalog.table import Table

__all__ = ["PROPOSAL", "Draft", "DraftColumn", "free_name", "name_from", "sql_name"]

PROPOSAL = "A proposal: look it over before it is used."


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RESERVED = _words(
    """
    all and any array as at between both by case cast column constraint cross current date day
    default delete desc distinct double else end exists false float for foreign from full function
    group having hour in inner int integer interval into is join key language left like limit map
    minute month natural not null offset on or order outer over partition partitions primary range
    real references right row rows second select set smallint start system table then time timestamp
    to true union unique update user using value values watermark when where window with year
    """
)
"""Words that are quoted as names: those of Flink's reserved ones that columns are often called by."""

_NOT_IN_NAMES = re.compile(r"\W+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftColumn:
    """A column, and what was seen of it."""

    column: Column
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A table to review. `remarks` stand above it, `watermark_remark` beside its WATERMARK."""

    name: str
    columns: tuple[DraftColumn, ...]
    options: tuple[tuple[str, str], ...]
    watermark: Watermark | None = None
    watermark_remark: str = ""
    primary_key: PrimaryKey | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    remarks: tuple[str, ...] = ()

    def table(self, catalog: str, database: str) -> Table:
        """Give the table as a value. Raises DefinitionError where its parts do not fit together."""
        return Table(
            identifier=Identifier(catalog=catalog, database=database, name=self.name),
            schema=Schema(
                columns=tuple(each.column for each in self.columns),
                watermark=self.watermark,
                primary_key=self.primary_key,
            ),
            options=self.options,
            partition_keys=self.partition_keys,
            comment=self.comment,
        )


def name_from(text: str) -> str:
    """Make a table's name of a topic, a subject or a path: `sales.orders-v2` gives `sales_orders_v2`."""
    last = PurePosixPath(text.rstrip("/")).name or "t"
    name = _NOT_IN_NAMES.sub("_", last).strip("_") or "t"
    return f"t_{name}" if name[0].isdigit() else name


def free_name(wanted: str, taken: list[str]) -> str:
    """Give a name that no column has yet, compared as Spark does: without case."""
    lower = {name.lower() for name in taken}
    candidates = (wanted, *(f"{wanted}_{number}" for number in range(2, len(lower) + 3)))
    return next(name for name in candidates if name.lower() not in lower)


def sql_name(name: str) -> str:
    """Write a name as SQL: in backticks where it needs them, or where SQL has the word for itself."""
    return f"`{name}`" if name.lower() in _RESERVED else quote(name)
