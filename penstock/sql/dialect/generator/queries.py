"""Writes syntax trees as Flink SQL; what it writes, the parser reads back as the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.dialect.generator.ddl import DefinitionGenerator
from penstock.sql.dialect.generator.relations import RelationGenerator
from penstock.sql.dialect.generator.statements import StatementWriter

__all__ = ["FlinkGenerator"]

DEFAULT_PRECISION = 2
"""Digits that an interval's first field has unless its unit says more (Calcite)."""


class FlinkGenerator(RelationGenerator, DefinitionGenerator, StatementWriter):
    """The generator of the dialect `flink`."""

    TYPE_MAPPING: ClassVar[dict[Any, str]] = {
        **Generator.TYPE_MAPPING,
        exp.DType.TEXT: "STRING",
        exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
        exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
        exp.DType.STRUCT: "ROW",
        exp.DType.INT: "INT",
    }
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **StatementWriter.TRANSFORMS,
        **DefinitionGenerator.TRANSFORMS,
        exp.CurrentTimestamp: lambda *_: "CURRENT_TIMESTAMP",
        exp.CurrentTime: lambda *_: "CURRENT_TIME",
        exp.Localtime: lambda *_: "LOCALTIME",
        exp.Localtimestamp: lambda *_: "LOCALTIMESTAMP",
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false")),
        exp.Stddev: lambda self, e: self.func("STDDEV_SAMP", e.this),
        exp.Variance: lambda self, e: self.func("VAR_SAMP", e.this),
        exp.VariancePop: lambda self, e: self.func("VAR_POP", e.this),
        exp.TryCast: lambda self, e: self.trycast_sql(e),
        exp.Kwarg: lambda self, e: f"{e.name} => {self.sql(e, 'expression')}",
    }
    TABLE_HINTS = True
    SUPPORTS_MEDIAN = False
    SUPPORTS_BETWEEN_FLAGS = True
    SUPPORTS_WINDOW_EXCLUDE = True

    # --- types and literals ---

    def datatype_sql(self, expression: exp.DataType) -> str:
        """A type as Flink spells it; NOT NULL where the node says so."""
        null = " NOT NULL" if expression.args.get("nullable") is False else ""
        kind = expression.this
        if expression.text("kind") == "MULTISET":
            return f"MULTISET<{self.sql(expression.expressions[0])}>{null}"
        if kind == exp.DType.STRUCT and not expression.expressions:
            return f"ROW(){null}"
        if kind == exp.DType.USERDEFINED:
            return self._opaque_type(expression) + null
        if kind == exp.DType.TIMESTAMPTZ:
            size = self.expressions(expression, flat=True)
            return f"TIMESTAMP{f'({size})' if size else ''} WITH TIME ZONE{null}"
        if kind == exp.DType.VARBINARY and not expression.expressions:
            return f"BYTES{null}"
        if kind in (exp.DType.VARCHAR, exp.DType.CHAR) and not expression.expressions:
            return f"STRING{null}"  # sqlglot's own inference gives a bare VARCHAR for any text
        return super().datatype_sql(expression) + null

    def _opaque_type(self, kind: exp.DataType) -> str:
        name, inner = kind.text("kind"), self.expressions(kind, flat=True)
        if not inner:
            return name
        return f"{name}({inner})" if name == "RAW" else f"{name}<{inner}>"

    def columndef_sql(self, expression: exp.ColumnDef, sep: str = " ") -> str:
        """A column of a table, or a field of a ROW (whose comment is a bare string)."""
        field = isinstance(expression.parent, exp.DataType)
        parts = [self.sql(expression, "this"), self.sql(expression, "kind")]
        for constraint in expression.args.get("constraints") or []:
            kind = constraint.args["kind"]
            if isinstance(kind, exp.CommentColumnConstraint):
                parts.append(
                    self.sql(kind, "this") if field else f"COMMENT {self.sql(kind, 'this')}"
                )
            elif isinstance(kind, exp.Anonymous):  # METADATA [FROM 'key']
                key = self.expressions(kind, flat=True)
                parts.append(f"METADATA FROM {key}" if key else "METADATA")
            else:
                parts.append(self.sql(kind))
        parts.append(self.sql(expression, "position"))
        return sep.join(part for part in parts if part)

    def computedcolumnconstraint_sql(self, expression: exp.ComputedColumnConstraint) -> str:
        """AS expression."""
        return f"AS {self.sql(expression, 'this')}"

    def primarykeycolumnconstraint_sql(self, _: exp.PrimaryKeyColumnConstraint) -> str:
        """A key of one column, beside it."""
        return "PRIMARY KEY NOT ENFORCED"

    def primarykey_sql(self, expression: exp.PrimaryKey) -> str:
        """A key as an element of its own."""
        return f"PRIMARY KEY ({self.expressions(expression, flat=True)}) NOT ENFORCED"

    def interval_sql(self, expression: exp.Interval) -> str:
        """INTERVAL 'text' UNIT [TO UNIT], with the precision that the text needs."""
        unit = expression.args["unit"]
        first, last = (unit.this.name, unit.expression.name) if unit.expression else (unit.name, "")
        digits = len(re.match(r"\D*(\d*)", expression.this.name)[1])  # type: ignore[index]
        words = f"{first}({digits})" if digits > DEFAULT_PRECISION else first
        words += f" TO {last}" if last else ""
        return f"INTERVAL {self.sql(expression, 'this')} {words}"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        """Access as it was written (`offset` tells other dialects that arrays count from 1)."""
        return f"{self.sql(expression, 'this')}[{self.expressions(expression, flat=True)}]"

    # --- functions ---

    def array_sql(self, expression: exp.Array) -> str:
        """ARRAY[a, b], or ARRAY(query)."""
        items = expression.expressions
        query = len(items) == 1 and isinstance(items[0], exp.Query)
        text = self.expressions(expression, flat=True)
        return f"ARRAY({text})" if query else f"ARRAY[{text}]"

    def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
        """ARRAY_AGG(x IGNORE NULLS), as Flink's page has it; behind the parenthesis of others."""
        return self._null_treatment(expression, "IGNORE NULLS")

    def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
        """RESPECT NULLS, in the same places."""
        return self._null_treatment(expression, "RESPECT NULLS")

    def _null_treatment(self, expression: exp.IgnoreNulls | exp.RespectNulls, words: str) -> str:
        call, text = expression.this, self.sql(expression, "this")
        inside = isinstance(call, exp.AnonymousAggFunc) and not isinstance(
            call.expressions[0], exp.Order
        )
        return f"{text.removesuffix(')')} {words})" if inside else f"{text} {words}"

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        """LISTAGG(x, ',')."""
        return self.func("LISTAGG", expression.this, expression.args.get("separator"))

    def extract_sql(self, expression: exp.Extract) -> str:
        """EXTRACT(unit FROM x)."""
        return f"EXTRACT({expression.name} FROM {self.sql(expression, 'expression')})"

    def strposition_sql(self, expression: exp.StrPosition) -> str:
        """POSITION(x IN y)."""
        return f"POSITION({self.sql(expression, 'substr')} IN {self.sql(expression, 'this')})"

    def trim_sql(self, expression: exp.Trim) -> str:
        """TRIM([BOTH | LEADING | TRAILING] [x] FROM y)."""
        what = " ".join(
            filter(None, [expression.text("position"), self.sql(expression, "expression")])
        )
        this = self.sql(expression, "this")
        return f"TRIM({what} FROM {this})" if what else f"TRIM({this})"

    # --- statements ---

    def set_sql(self, expression: exp.Set) -> str:
        """SET 'k' = 'v', SET, RESET 'k', RESET."""
        verb = "RESET" if expression.args.get("unset") else "SET"
        return f"{verb} {self.expressions(expression, flat=True)}".strip()
