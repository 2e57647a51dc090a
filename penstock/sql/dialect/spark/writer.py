"""Writes Flink's trees as Spark SQL 4.2, with Flink's meaning where the two differ.

Functions come from the table in functions.py; nodes whose form depends on types or has a syntax of its own
are methods of the writer's parts (write_*.py, each on top of the one before). Types are those that sqlglot
inferred (`node.type`, put there by bind.py): where a form hangs on a type that is not known, the query is
refused rather than guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError
from sqlglot.generators.spark import SparkGenerator

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS
from penstock.sql.dialect.spark.types import kind_of
from penstock.sql.dialect.spark.unnest import UnnestWriter
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["to_spark_query", "write_spark"]

REPLACED = (
    exp.Select, exp.Table, exp.Unnest, exp.If, exp.TryCast, exp.GroupConcat, exp.With, exp.Array,
    exp.Map, exp.Floor, exp.Ceil, exp.StrPosition, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.Variance, exp.VariancePop, exp.FirstValue, exp.LastValue, exp.JSONExtract, exp.JSONObject,
    exp.JSONArray, exp.JSONObjectAgg, exp.JSONArrayAgg, exp.JSONExists, exp.JSONValue, exp.Overlaps,
    exp.SimilarTo, exp.Escape, exp.Grouping, exp.Substring, exp.Overlay, exp.Mod, exp.Is,
)  # fmt: skip
"""Nodes for which sqlglot's writer has a function of its own, in front of its methods."""


def write_spark(tree: exp.Expr, *, copy: bool = True) -> str:
    """Spark SQL for a query or an expression; `tree` stays as it is, unless `copy` is False. Raises NodeError."""
    try:
        return TARGET.generate(
            copy_tree(tree) if copy else tree,
            identify=True,
            comments=False,
            copy=False,
            unsupported_level=ErrorLevel.RAISE,
        )
    except SqlglotUnsupportedError as error:
        raise NodeError(str(error), tree) from None


def to_spark_query(query: exp.Expr) -> str:
    """Spark SQL for a query whose windowing functions were replaced. Raises UnsupportedError."""
    try:
        return write_spark(query)
    except NodeError as error:
        span = span_of(error.node) or span_of(query)
        raise UnsupportedError(error.message, hint=error.hint, span=span) from None


class SparkWriter(UnnestWriter):
    """sqlglot's writer for Spark, corrected to Flink's meaning."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        kind: transform
        for kind, transform in SparkGenerator.TRANSFORMS.items()
        # these would rewrite the tree after other dialects' rules, or hide a method below
        if kind not in REPLACED
    } | {
        exp.CurrentDate: lambda *_: "current_date()",
        exp.CurrentTimestamp: lambda *_: "current_timestamp()",
        exp.CurrentTime: lambda *_: "current_time()",
        exp.Localtime: lambda *_: "current_time()",
        exp.Localtimestamp: lambda *_: "localtimestamp()",
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false") or exp.null()),
        exp.TryCast: lambda self, e: self.cast_sql(e, safe_prefix="TRY_"),
        exp.Array: lambda self, e: self.func("ARRAY", *e.expressions),
        exp.HexString: lambda _, e: f"X'{e.name}'",
        exp.Greatest: lambda self, e: self._null_if_any("greatest", e),
        exp.Least: lambda self, e: self._null_if_any("least", e),
    }  # fmt: skip

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table; its OPTIONS are the planner's to read."""
        expression.set("hints", None)
        return super().table_sql(expression, sep)

    # --- operators ---

    def bracket_sql(self, expression: exp.Bracket) -> str:
        """array[i] counted from 1 and map[key]; NULL where there is none."""
        this, index = expression.this, expression.expressions[0]
        if kind_of(this) == exp.DType.MAP or index.is_string:
            return f"{self._operand(this)}[{self.sql(index)}]"
        start = str(int(index.name) - 1) if index.is_int else f"{self._operand(index)} - 1"
        return f"get({self.sql(this)}, {start})"

    def _null_if_any(self, name: str, expression: exp.Greatest | exp.Least) -> str:
        """GREATEST and LEAST: NULL if any argument is (Spark passes over NULLs)."""
        items = [expression.this, *expression.expressions]
        arguments = ", ".join(self.sql(item) for item in items)
        nullable = [item for item in items if not isinstance(item, exp.Literal)]
        nulls = " OR ".join(f"{self._operand(item)} IS NULL" for item in nullable)
        if not nullable:
            return f"{name}({arguments})"
        return f"CASE WHEN {nulls} THEN NULL ELSE {name}({arguments}) END"

    # --- functions ---

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """A function by the table; one that is not there may be the user's own."""
        name = expression.name.upper()
        if name in WINDOW_FUNCTIONS and isinstance(expression.parent, exp.Table):
            raise NodeError(f"{name} stands where no window is planned", expression)
        if name not in FUNCTIONS:
            return super().anonymous_sql(expression)
        return self._by_table(name, expression)

    def anonymousaggfunc_sql(self, expression: exp.AnonymousAggFunc) -> str:
        """An aggregate by the table, or one of Spark's own that the planner wrote."""
        name = expression.name.upper()
        if name not in FUNCTIONS:
            return self.func(expression.name, *expression.expressions)
        return self._by_table(name, expression)

    def _by_table(self, name: str, call: exp.Expr) -> str:
        row, arguments = FUNCTIONS[name], call.expressions
        if row.refusal is not None:
            raise NodeError(f"{name} is not supported", call, row.refusal)
        if not row.takes(len(arguments)):
            count = len(arguments) or "none"
            raise NodeError(
                f"{name} takes {row.arities}, not {count}",
                call,
                f"write for instance {row.example}",
            )
        if row.aggregate:
            return self._call(call)
        if row.method:
            return str(getattr(self, f"_{name.lower()}")(call))
        form = row.form(len(arguments))
        assert form is not None, "a function that takes these arguments has a form"
        return self._filled(form, arguments)

    def _filled(self, form: str, arguments: Sequence[exp.Expr]) -> str:
        if "{*}" in form or "{rest}" in form:
            texts = [self.sql(argument) for argument in arguments]
            words = {"*": ", ".join(texts), "rest": ", ".join(texts[1:])}
            return form.format(*(self._operand(a) for a in arguments), **words)
        texts = [self._operand(argument) for argument in arguments]
        repeated = any(form.count(f"{{{n}}}") > 1 for n in range(len(texts)))
        fill = form.format
        return self._let(texts, lambda v: fill(*v)) if repeated else fill(*texts)


class PenstockSpark(Spark):
    """Spark as a target of Flink's trees."""

    Generator = SparkWriter


TARGET: Dialect = PenstockSpark()
