"""Every statement of the language that Penstock runs, as a value; and the names of those it refuses.

This is the one module to read to know the language. Names are resolved; queries are syntax trees of
the dialect `flink` (`penstock.sql.dialect`), whose nodes `source` locates in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog.errors import InputError, Span
from penstock.catalog.identifier import Identifier
from penstock.catalog.table import Table, View
from penstock.sql.script import StatementText

__all__ = [
    "UNSUPPORTED",
    "CreateTable",
    "CreateView",
    "Describe",
    "DropTable",
    "DropView",
    "Explain",
    "InsertInto",
    "ResetOption",
    "Select",
    "SetOption",
    "ShowCreate",
    "ShowOptions",
    "ShowTables",
    "Statement",
    "StatementSet",
    "Unsupported",
    "Use",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE [TEMPORARY] TABLE [IF NOT EXISTS] name (columns, watermark, key) ... WITH (options).

    `option_spans` are the places of the option keys, for errors that connectors find in them.
    """

    table: Table
    if_not_exists: bool = False
    option_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    span: Span = field(compare=False)

    def place(self, error: InputError) -> InputError:
        """Give an error about this table the place of the option that it names, or of the statement."""
        if error.span is None:
            named = (span for key, span in self.option_spans.items() if f"'{key}'" in error.message)
            error.span = next(named, self.span)
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT] AS query."""

    view: View
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP [TEMPORARY] TABLE [IF EXISTS] name."""

    identifier: Identifier
    if_exists: bool = False
    temporary: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView:
    """DROP [TEMPORARY] VIEW [IF EXISTS] name."""

    identifier: Identifier
    if_exists: bool = False
    temporary: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertInto:
    """INSERT INTO name [/*+ OPTIONS(...) */] [(columns)] query or VALUES.

    `columns` is empty where the statement lists none: then the query fills the target's physical
    and non-virtual metadata columns in order. `output` are the query's column names, None where
    they could not be told without Spark.
    """

    target: Identifier
    columns: tuple[str, ...] = ()
    query: exp.Query | exp.Values
    options: tuple[tuple[str, str], ...] = ()
    output: tuple[str, ...] | None = None
    source: StatementText = field(repr=False, compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A query on its own: SELECT, WITH, VALUES, UNION, ..."""

    query: exp.Query | exp.Values
    output: tuple[str, ...] | None = None
    source: StatementText = field(repr=False, compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN insert; ... END, or BEGIN STATEMENT SET; insert; ... END: INSERTs that run as one."""

    inserts: tuple[InsertInto, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN [PLAN FOR | CHANGELOG_MODE] statement."""

    statement: Select | InsertInto | StatementSet
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """SET 'key' = 'value'."""

    key: str
    value: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """SET on its own: shows what is set."""

    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOption:
    """RESET 'key'; all keys where `key` is None."""

    key: str | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """SHOW TABLES | VIEWS [FROM database] [[NOT] LIKE | ILIKE 'pattern'] (% and _ as in LIKE).

    As in Flink, views are among the tables; `views_only` is SHOW VIEWS.
    """

    views_only: bool
    catalog: str
    database: str
    pattern: str | None = None
    negated: bool = False
    ignore_case: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreate:
    """SHOW CREATE TABLE name, SHOW CREATE VIEW name; that it is one or the other was checked."""

    identifier: Identifier
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE | DESC [EXTENDED] name, of a table or view."""

    identifier: Identifier
    extended: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """USE [catalog.]database, USE CATALOG name (then the database is its default one)."""

    parts: tuple[str, ...]
    span: Span = field(compare=False)


Statement = (
    CreateTable
    | CreateView
    | DropTable
    | DropView
    | InsertInto
    | StatementSet
    | Select
    | Explain
    | SetOption
    | ShowOptions
    | ResetOption
    | ShowTables
    | ShowCreate
    | Describe
    | Use
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A statement that Flink has and Penstock refuses: its first words, and what to do instead."""

    words: str
    hint: str | None = None


def _unsupported(words: str, hint: str | None = None) -> Unsupported:
    return Unsupported(words=words, hint=hint)


UNSUPPORTED = (
    _unsupported("CREATE CATALOG"),
    _unsupported("CREATE OR REPLACE TABLE", "write DROP TABLE IF EXISTS, then CREATE TABLE"),
    _unsupported("REPLACE TABLE", "write DROP TABLE IF EXISTS, then CREATE TABLE"),
    _unsupported("CREATE DATABASE", "tables live in default_database"),
    _unsupported("CREATE FUNCTION", "register it on the Spark session: spark.udf.register(...)"),
    _unsupported("CREATE MATERIALIZED TABLE", "write CREATE TABLE, then INSERT INTO"),
    _unsupported("CREATE OR ALTER MATERIALIZED TABLE", "write CREATE TABLE, then INSERT INTO"),
    _unsupported("CREATE MODEL"),
    _unsupported("CREATE CONNECTION"),
    _unsupported("ALTER TABLE", "drop the table and create it again: its data stays where it is"),
    _unsupported("ALTER VIEW", "drop the view and create it again"),
    _unsupported("ALTER MATERIALIZED TABLE"),
    _unsupported("ALTER DATABASE"),
    _unsupported("ALTER CATALOG"),
    _unsupported("ALTER FUNCTION"),
    _unsupported("ALTER MODEL"),
    _unsupported("ALTER CONNECTION"),
    _unsupported("DROP CATALOG"),
    _unsupported("DROP DATABASE"),
    _unsupported("DROP FUNCTION"),
    _unsupported("DROP MATERIALIZED TABLE"),
    _unsupported("DROP MODEL"),
    _unsupported("DROP CONNECTION"),
    _unsupported("INSERT OVERWRITE", "delete the target's data, then INSERT INTO"),
    _unsupported("EXECUTE INSERT", "write INSERT INTO"),
    _unsupported("EXECUTE PLAN"),
    _unsupported("COMPILE PLAN"),
    _unsupported("COMPILE AND EXECUTE PLAN"),
    _unsupported("ANALYZE TABLE"),
    _unsupported("TRUNCATE TABLE"),
    _unsupported("UPDATE"),
    _unsupported("DELETE FROM"),
    _unsupported("CALL"),
    _unsupported("ADD JAR", "pass it to Spark: penstock run --conf spark.jars=..."),
    _unsupported("REMOVE JAR"),
    _unsupported("LOAD MODULE"),
    _unsupported("UNLOAD MODULE"),
    _unsupported("USE MODULES"),
    _unsupported("STOP JOB", "stop the runner: Ctrl-C finishes the batch in flight"),
    _unsupported("DESCRIBE CATALOG"),
    _unsupported("DESCRIBE DATABASE"),
    _unsupported("DESCRIBE FUNCTION"),
    _unsupported("DESCRIBE MODEL"),
    _unsupported("DESCRIBE JOB"),
    *(
        _unsupported(f"SHOW {what}")
        for what in (
            "CATALOGS", "CURRENT CATALOG", "DATABASES", "CURRENT DATABASE", "MATERIALIZED TABLES",
            "COLUMNS", "PARTITIONS", "FUNCTIONS", "USER FUNCTIONS", "PROCEDURES", "MODULES",
            "FULL MODULES", "JARS", "JOBS", "MODELS", "CONNECTIONS", "CREATE CATALOG",
            "CREATE MODEL", "CREATE MATERIALIZED TABLE", "CREATE OR ALTER MATERIALIZED TABLE",
        )
    ),
)  # fmt: skip
"""Statements of Flink 2.2 that are refused at their first word; TEMPORARY and SYSTEM are passed over."""
