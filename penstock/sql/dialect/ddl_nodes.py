"""Nodes of definitions that sqlglot has not: they live in Flink's statements only."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp

__all__ = ["AlterElements", "Distribution", "ReplaceTable"]


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
