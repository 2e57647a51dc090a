"""An inferred table, with the reason for each part, and its CREATE TABLE statement with the reasons as comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.catalog.model.identifier import Identifier, quote
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PrimaryKey,
    Schema,
    Table,
    Watermark,
)

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
class InferredColumn:
    """A column, and what was seen of it."""

    column: Column
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredTable:
    """A table to review. `remarks` stand above it, `watermark_remark` beside its WATERMARK."""

    name: str
    columns: tuple[InferredColumn, ...]
    options: tuple[tuple[str, str], ...]
    watermark: Watermark | None = None
    watermark_remark: str = ""
    primary_key: PrimaryKey | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    remarks: tuple[str, ...] = ()

    def table(self, catalog: str, database: str) -> Table:
        """Return the table as a value. Raises DefinitionError where its parts do not fit together."""
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
    """Make a table's name from a topic, a subject or a path: `sales.orders-v2` becomes `sales_orders_v2`."""
    last = PurePosixPath(text.rstrip("/")).name or "t"
    name = _NOT_IN_NAMES.sub("_", last).strip("_") or "t"
    return f"t_{name}" if name[0].isdigit() else name


def free_name(wanted: str, taken: list[str]) -> str:
    """Return a name that no column has yet, compared as Spark does: without case."""
    lower = {name.lower() for name in taken}
    candidates = (wanted, *(f"{wanted}_{number}" for number in range(2, len(lower) + 3)))
    return next(name for name in candidates if name.lower() not in lower)


def sql_name(name: str) -> str:
    """Write a name as SQL: in backticks where it needs them, or where SQL has the word for itself."""
    return f"`{name}`" if name.lower() in _RESERVED else quote(name)


WIDTH = 116

_TEMPLATE = re.compile(r"\{[{%#]")


def ddl_lines(table: InferredTable) -> list[str]:
    """Return the lines of a file that defines the table."""
    lines = [line for remark in table.remarks for line in _comment(remark)]
    elements = list(_elements(table))
    width = min(max((len(text) for text, _ in elements), default=0), 60) + 1
    lines.append(f"CREATE TABLE {sql_name(table.name)} (")
    for number, (text, remark) in enumerate(elements, start=1):
        ended = text + ("," if number < len(elements) else "")
        lines.append(f"  {ended:<{width}}  -- {_plain(remark)}" if remark else f"  {ended}")
    lines.append(")" if table.comment is not None or table.partition_keys else ") WITH (")
    if table.comment is not None:
        lines.append(f"COMMENT {_text(table.comment)}")
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(sql_name, table.partition_keys))})")
    options = [f"  {_text(key)} = {_text(value)}" for key, value in table.options]
    if lines[-1] != ") WITH (":
        lines.append("WITH (")
    lines += [*(f"{option}," for option in options[:-1]), *options[-1:], ");"]
    return [_escaped(line) for text in lines for line in text.split("\n")]


def _elements(table: InferredTable) -> Iterator[tuple[str, str]]:
    columns = [each.column for each in table.columns]
    name_width = min(max((len(sql_name(column.name)) for column in columns), default=0), 30)
    for each in table.columns:
        yield _column(each.column, name_width), each.remark
    if table.watermark is not None:
        column, expression = sql_name(table.watermark.column), table.watermark.expression
        yield f"WATERMARK FOR {column} AS {expression}", table.watermark_remark
    if table.primary_key is not None:
        names = ", ".join(map(sql_name, table.primary_key.columns))
        yield f"PRIMARY KEY ({names}) NOT ENFORCED", ""


def _column(column: Column, width: int) -> str:
    text = f"{sql_name(column.name):<{width}} "
    match column:
        case ComputedColumn():
            text += f"AS {column.expression}"
        case MetadataColumn():
            text += f"{column.type} METADATA"
            text += f" FROM {_text(column.key)}" if column.key is not None else ""
            text += " VIRTUAL" if column.virtual else ""
        case _:
            text += str(column.type)
    return text + (f" COMMENT {_text(column.comment)}" if column.comment else "")


def _comment(remark: str) -> list[str]:
    return textwrap.wrap(
        _plain(remark),
        WIDTH,
        initial_indent="-- ",
        subsequent_indent="--   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Keep a comment on its line, whatever the name of a field holds."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(line: str) -> str:
    """Escape what Jinja would take for its own marks: SQL files are templates."""
    return _TEMPLATE.sub(lambda mark: "{{ '" + mark[0] + "' }}", line)
