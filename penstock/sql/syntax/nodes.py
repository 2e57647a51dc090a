"""Syntax nodes for which sqlglot has none: of Flink's statements and definitions, and the tables that a plan reads."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp


class PartitionSpec(exp.Expression):
    """PARTITION (column = value, column): a Property for each with a value, an Identifier for each without."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class AnalyzeTable(exp.Expression):
    """ANALYZE TABLE: `columns` are names, `all` is FOR ALL COLUMNS."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "partition": False,
        "columns": False,
        "all": False,
    }


class CallProcedureStatement(exp.Expression):
    """CALL name(arguments); a named argument is a Kwarg."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class ResourceProperty(exp.Expression):
    """USING JAR 'path' of a function; `kind` is JAR or ARTIFACT."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class CreateFunctionStatement(exp.Expression):
    """CREATE FUNCTION: `this` names it, `expression` is the text behind AS."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "temporary": False,
        "system": False,
        "exists": False,
        "language": False,
        "resources": False,
        "options": False,
    }


class AlterFunctionStatement(exp.Expression):
    """ALTER FUNCTION name AS 'text' [LANGUAGE ...]."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "temporary": False,
        "system": False,
        "exists": False,
        "language": False,
    }


class DropFunctionStatement(exp.Expression):
    """DROP FUNCTION name."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "temporary": False,
        "system": False,
        "exists": False,
    }


class CreateMaterializedTableStatement(exp.Expression):
    """CREATE MATERIALIZED TABLE: `this` is a Schema where columns or a key are declared, else a Table.

    `distribution` is a Distribution, `partitions` are names, `options` Properties, `freshness` is an Interval, `mode` a
    Var.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "alter": False,
        "comment": False,
        "distribution": False,
        "partitions": False,
        "options": False,
        "freshness": False,
        "mode": False,
    }


class AlterMaterializedTableStatement(exp.Expression):
    """ALTER MATERIALIZED TABLE name action: SUSPEND, RESUME, REFRESH, AS, SET, RESET, ADD, MODIFY, DROP, RENAME.

    `options` are those of RESUME WITH and of SET, or the keys of RESET; `expression` is the query of AS, the value of
    SET FRESHNESS and SET REFRESH_MODE, or what ALTER TABLE has behind ADD, MODIFY, DROP and RENAME.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "action": True,
        "partition": False,
        "options": False,
        "expression": False,
    }


class DropMaterializedTableStatement(exp.Expression):
    """DROP MATERIALIZED TABLE name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False}


class JarStatement(exp.Expression):
    """ADD JAR 'path', REMOVE JAR 'path'; `action` is ADD or REMOVE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "action": True}


class SecretStatement(exp.Expression):
    """CREATE | ALTER SECRET name AS 'value', DROP SECRET name; `action` is the first word (Penstock's own)."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "action": True,
        "expression": False,
        "exists": False,
    }


class ModuleStatement(exp.Expression):
    """LOAD MODULE name [WITH (...)], UNLOAD MODULE name, USE MODULES names; `action` is the first word."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "action": True, "options": False}


class StopJobStatement(exp.Expression):
    """STOP JOB 'name' [WITH SAVEPOINT] [WITH DRAIN]."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "savepoint": False, "drain": False}


class ExplainStatement(exp.Expression):
    """EXPLAIN [PLAN FOR | details] statement; `details` are Vars."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "details": False}


class StatementSetBlock(exp.Expression):
    """EXECUTE STATEMENT SET BEGIN insert; ... END: `expressions` are the INSERTs, or CREATE TABLE ... AS."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class RefusedStatement(exp.Expression):
    """A statement about a thing that Penstock has not: `this` are its first words, `expression` the rest as text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": False}


class AlterElements(exp.Expression):
    """ADD or MODIFY of ALTER TABLE: `this` is the word, `expressions` are columns, watermark, key, distribution.

    A column's place (FIRST, AFTER name) is the `position` of its ColumnDef, an exp.ColumnPosition.
    """

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": True}


class Distribution(exp.Property):
    """DISTRIBUTED BY [HASH | RANGE] (columns) [INTO n BUCKETS], or DISTRIBUTED INTO n BUCKETS.

    `kind` is a Var where one is written, `buckets` a literal.
    """

    arg_types: ClassVar[dict[str, Any]] = {"kind": False, "expressions": False, "buckets": False}


class ReplaceTable(exp.Create):
    """REPLACE TABLE name ... AS query: the table has to be there (CREATE OR REPLACE is a Create with `replace`)."""


SCAN_PARTS = ("scan", "arrives", "counts_late", "looked_up", "retry")
"""What a ScanTable has beside the parts of a table: nothing of it is in the text."""


class ScanTable(exp.Table):
    """A table of the catalog in a query that is planned; it is written as the table.

    `scan` is its number among the tables of the query. `arrives`: it is read with the column ARRIVED; `counts_late`: a
    windowing function reads it; `looked_up`: it is the right side of a lookup join, with the `retry` of its hint.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        **exp.Table.arg_types,
        **{part: part == "scan" for part in SCAN_PARTS},
    }

    @classmethod
    def put(cls, table: exp.Table, scan: int) -> ScanTable:
        """Replace a table in its tree."""
        node = cls(**table.args, scan=scan)
        node.type, node.comments = table.type, table.comments
        node.meta.update(table.meta)
        table.replace(node)
        return node

    @property
    def scan(self) -> int:
        """The number of the table."""
        number: int = self.args["scan"]
        return number

    @property
    def arrives(self) -> bool:
        """Whether it is read with the column ARRIVED."""
        return bool(self.args.get("arrives"))

    @property
    def counts_late(self) -> bool:
        """Whether a windowing function reads it, which counts the rows that are late."""
        return bool(self.args.get("counts_late"))

    @property
    def looked_up(self) -> bool:
        """Whether it is looked up in each batch."""
        return bool(self.args.get("looked_up"))
