"""Writes syntax trees as Flink SQL; what it writes, the parser reads back as the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.dialect.query import PARTITION_ARGUMENT

__all__ = ["FlinkGenerator"]

DEFAULT_PRECISION = 2
"""Digits that an interval's first field has unless its unit says more (Calcite)."""


class FlinkGenerator(Generator):
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
        **Generator.TRANSFORMS,
        exp.CurrentTimestamp: lambda *_: "CURRENT_TIMESTAMP",
        exp.CurrentTime: lambda *_: "CURRENT_TIME",
        exp.Localtime: lambda *_: "LOCALTIME",
        exp.Localtimestamp: lambda *_: "LOCALTIMESTAMP",
        exp.GroupConcat: lambda self, e: self.func("LISTAGG", e.this, e.args.get("separator")),
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false")),
        exp.Stddev: lambda self, e: self.func("STDDEV_SAMP", e.this),
        exp.Variance: lambda self, e: self.func("VAR_SAMP", e.this),
        exp.VariancePop: lambda self, e: self.func("VAR_POP", e.this),
        exp.TryCast: lambda self, e: self.trycast_sql(e),
        exp.Kwarg: lambda self, e: f"{e.name} => {self.sql(e, 'expression')}",
        exp.Array: lambda self, e: f"ARRAY[{self.expressions(e, flat=True)}]",
    }
    TABLE_HINTS = True
    SUPPORTS_MEDIAN = False

    # --- types and literals ---

    def datatype_sql(self, expression: exp.DataType) -> str:
        """A type as Flink spells it; NOT NULL where the node says so."""
        null = " NOT NULL" if expression.args.get("nullable") is False else ""
        kind = expression.this
        if expression.text("kind") == "MULTISET":
            return f"MULTISET<{self.sql(expression.expressions[0])}>{null}"
        if kind == exp.DType.VARBINARY and not expression.expressions:
            return f"BYTES{null}"
        if kind in (exp.DType.VARCHAR, exp.DType.CHAR) and not expression.expressions:
            return f"STRING{null}"  # sqlglot's own inference gives a bare VARCHAR for any text
        return super().datatype_sql(expression) + null

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

    # --- tables and table functions ---

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table; a table function in TABLE(...), hints behind the name."""
        if isinstance(expression.this, exp.Anonymous):
            alias = self.sql(expression, "alias")
            joins = self.expressions(expression, key="joins", sep="", flat=True)
            return f"TABLE({self.sql(expression, 'this')})" + (sep + alias if alias else "") + joins
        hints = self.expressions(expression, key="hints", sep=" ", flat=True)
        if not hints:
            return super().table_sql(expression, sep)
        bare = expression.copy()
        bare.set("hints", None)
        name = self.table_parts(bare)
        rest = super().table_sql(bare, sep)[len(name) :]
        return f"{name} {hints}{rest}"

    def hint_sql(self, expression: exp.Hint) -> str:
        """/*+ NAME('k'='v') */"""
        return f"/*+ {self.expressions(expression, flat=True).strip()} */"

    def propertyeq_sql(self, expression: exp.PropertyEQ) -> str:
        """'k'='v' of a hint."""
        return f"{self.sql(expression, 'this')}={self.sql(expression, 'expression')}"

    def version_sql(self, expression: exp.Version) -> str:
        """FOR SYSTEM_TIME AS OF of a temporal join."""
        return f"FOR SYSTEM_TIME AS OF {self.sql(expression, 'expression')}"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """A function by its own name; MAP[...] and the arguments of a table function."""
        name = expression.name.upper()
        if name == "MAP":
            return f"MAP[{self.expressions(expression, flat=True)}]"
        if not isinstance(expression.parent, exp.Table):
            return super().anonymous_sql(expression)
        text = ""
        for argument in expression.expressions:
            data = argument.expression if isinstance(argument, exp.Kwarg) else argument
            sql = self._named_table(data) if isinstance(data, exp.Table) else self.sql(data)
            if isinstance(argument, exp.Kwarg):
                if argument.name == PARTITION_ARGUMENT:
                    text += f" PARTITION BY {sql}"
                    continue
                sql = f"{argument.name} => {sql}"
            text += f", {sql}" if text else sql
        return f"{name}({text})"

    def _named_table(self, table: exp.Table) -> str:
        hints = self.expressions(table, key="hints", sep=" ", flat=True)
        return f"TABLE {self.table_parts(table)}" + (f" {hints}" if hints else "")

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

    def create_sql(self, expression: exp.Create) -> str:
        """CREATE TABLE or CREATE VIEW."""
        found = expression.args.get("properties")
        properties: list[exp.Expr] = found.expressions if found else []
        temporary = any(isinstance(p, exp.TemporaryProperty) for p in properties)
        parts = ["CREATE", "TEMPORARY" if temporary else "", expression.args["kind"]]
        parts.append("IF NOT EXISTS" if expression.args.get("exists") else "")
        parts.append(self.sql(expression, "this"))
        options = []
        for item in properties:
            if isinstance(item, exp.SchemaCommentProperty):
                parts.append(f"COMMENT {self.sql(item, 'this')}")
            elif isinstance(item, exp.PartitionedByProperty):
                parts.append(f"PARTITIONED BY {self.sql(item, 'this')}")
            elif isinstance(item, exp.Property) and not isinstance(item, exp.TemporaryProperty):
                options.append(f"{self.sql(item, 'this')} = {self.sql(item, 'value')}")
        if options:
            parts.append(f"WITH ({', '.join(options)})")
        if expression.expression:
            parts.append(f"AS {self.sql(expression, 'expression')}")
        return " ".join(part for part in parts if part)

    def schema_sql(self, expression: exp.Schema) -> str:
        """A name and what stands in parentheses behind it."""
        elements = self.expressions(expression, flat=True)
        return self.sql(expression, "this") + (f" ({elements})" if elements else "")

    def set_sql(self, expression: exp.Set) -> str:
        """SET 'k' = 'v', SET, RESET 'k', RESET."""
        verb = "RESET" if expression.args.get("unset") else "SET"
        return f"{verb} {self.expressions(expression, flat=True)}".strip()

    def show_sql(self, expression: exp.Show) -> str:
        """SHOW in the forms that the parser knows."""
        parts = ["SHOW", expression.name, self.sql(expression, "target")]
        if expression.args.get("db"):
            parts.append(f"FROM {self.sql(expression, 'db')}")
        if expression.args.get("like"):
            parts.append(f"{expression.text('scope_kind')} {self.sql(expression, 'like')}")
        return " ".join(part for part in parts if part)
