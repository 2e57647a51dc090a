"""INSERT, UPDATE, DELETE and TRUNCATE TABLE: the statements that write rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.catalog.model.identifier import Identifier
from penstock.sql.script.splitter import StatementText


class ConflictAction(StrEnum):
    """What an INSERT does with several rows of its query that have one PRIMARY KEY of the target (FLIP-558)."""

    NOTHING = "DO NOTHING"
    """The first row stays."""
    ERROR = "DO ERROR"
    DEDUPLICATE = "DO DEDUPLICATE"
    """The last row stays; where it goes, the one before comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """ON CONFLICT of an INSERT, and its place."""

    action: ConflictAction
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertInto:
    """INSERT INTO | OVERWRITE name [/*+ OPTIONS(...) */] [PARTITION (...)] [(columns)] query [ON CONFLICT].

    `columns` is empty where the statement lists none: then the query fills the target's physical and non-virtual
    metadata columns in order. `output` are the query's column names, None where they are unknown without Spark. The
    values of `partition` are columns of `query` already; with `overwrite` they name the partition that is replaced.
    `replaces`: all rows are removed first, those of other partitions too (REPLACE TABLE ... AS).
    """

    target: Identifier
    columns: tuple[str, ...] = ()
    query: exp.Query | exp.Values
    options: tuple[tuple[str, str], ...] = ()
    output: tuple[str, ...] | None = None
    overwrite: bool = False
    replaces: bool = False
    partition: tuple[tuple[str, str], ...] = ()
    conflict: Conflict | None = None
    source: StatementText = field(repr=False, compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRows:
    """UPDATE table SET column = expression, ... [WHERE condition]; expressions are over the table's columns."""

    table: Identifier
    assignments: tuple[tuple[str, exp.Expr], ...]
    condition: exp.Expr | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """DELETE FROM table [WHERE condition]."""

    table: Identifier
    condition: exp.Expr | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """TRUNCATE TABLE table: removes every row, and keeps the table."""

    table: Identifier
    span: Span = field(compare=False)
