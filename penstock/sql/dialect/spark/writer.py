"""Write Flink's trees as Spark SQL 4.2, with Flink's meaning where the two differ.

`SparkWriter` has the tables by which sqlglot's generator finds the functions of this folder, one module per family.
Calls come from the table in `functions`; those whose form is no template are in FUNCTION_WRITERS. Types are those
that sqlglot inferred (`node.type`, put there by the binder): where a form hangs on a type that is not known, the
query is refused rather than guessed at.
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
from penstock.sql.dialect.spark import aggregates, casts, json, numbers, texts, times, types, unnest
from penstock.sql.dialect.spark.aggregates import aggregate_call
from penstock.sql.dialect.spark.types import kind_of, let, operand
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["FUNCTION_WRITERS", "SparkWriter", "to_spark_query", "write_spark"]

REPLACED = (
    exp.Select, exp.Table, exp.Unnest, exp.If, exp.TryCast, exp.GroupConcat, exp.With, exp.Array,
    exp.Map, exp.Floor, exp.Ceil, exp.StrPosition, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.Variance, exp.VariancePop, exp.FirstValue, exp.LastValue, exp.JSONExtract, exp.JSONObject,
    exp.JSONArray, exp.JSONObjectAgg, exp.JSONArrayAgg, exp.JSONExists, exp.JSONValue, exp.Overlaps,
    exp.SimilarTo, exp.Escape, exp.Grouping, exp.Substring, exp.Overlay, exp.Mod, exp.Is,
)  # fmt: skip
"""Nodes for which sqlglot's writer has a function of its own, in front of its methods."""

FUNCTION_WRITERS: dict[str, Callable[..., str]] = {
    **casts.FUNCTION_WRITERS,
    **numbers.FUNCTION_WRITERS,
    **texts.FUNCTION_WRITERS,
    **times.FUNCTION_WRITERS,
    **json.FUNCTION_WRITERS,
    **aggregates.FUNCTION_WRITERS,
}
"""Functions of the table in `functions` whose form is no template, by their names."""


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


def _table_sql(writer: SparkGenerator, expression: exp.Table, sep: str = " AS ") -> str:
    """A table; its OPTIONS are the planner's to read."""
    expression.set("hints", None)
    return SparkGenerator.table_sql(writer, expression, sep)


# --- operators ---


def _bracket_sql(writer: SparkGenerator, expression: exp.Bracket) -> str:
    """array[i] counted from 1 and map[key]; NULL where there is none."""
    this, index = expression.this, expression.expressions[0]
    if kind_of(this) == exp.DType.MAP or index.is_string:
        return f"{operand(writer, this)}[{writer.sql(index)}]"
    start = str(int(index.name) - 1) if index.is_int else f"{operand(writer, index)} - 1"
    return f"get({writer.sql(this)}, {start})"


def _null_if_any(writer: SparkGenerator, name: str, expression: exp.Greatest | exp.Least) -> str:
    """GREATEST and LEAST: NULL if any argument is (Spark passes over NULLs)."""
    items = [expression.this, *expression.expressions]
    arguments = ", ".join(writer.sql(item) for item in items)
    nullable = [item for item in items if not isinstance(item, exp.Literal)]
    nulls = " OR ".join(f"{operand(writer, item)} IS NULL" for item in nullable)
    if not nullable:
        return f"{name}({arguments})"
    return f"CASE WHEN {nulls} THEN NULL ELSE {name}({arguments}) END"


# --- functions ---


def _anonymous_sql(writer: SparkGenerator, expression: exp.Anonymous) -> str:
    """A function by the table; one that is not there may be the user's own."""
    name = expression.name.upper()
    if name in WINDOW_FUNCTIONS and isinstance(expression.parent, exp.Table):
        raise NodeError(f"{name} stands where no window is planned", expression)
    if name not in FUNCTIONS:
        return SparkGenerator.anonymous_sql(writer, expression)
    return _by_table(writer, name, expression)


def _anonymousaggfunc_sql(writer: SparkGenerator, expression: exp.AnonymousAggFunc) -> str:
    """An aggregate by the table, or one of Spark's own that the planner wrote."""
    name = expression.name.upper()
    if name not in FUNCTIONS:
        return writer.func(expression.name, *expression.expressions)
    return _by_table(writer, name, expression)


def _by_table(writer: SparkGenerator, name: str, call: exp.Expr) -> str:
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
        return aggregate_call(writer, call)
    if row.method:
        return FUNCTION_WRITERS[name](writer, call)
    form = row.form(len(arguments))
    assert form is not None, "a function that takes these arguments has a form"
    return _filled(writer, form, arguments)


def _filled(writer: SparkGenerator, form: str, arguments: Sequence[exp.Expr]) -> str:
    if "{*}" in form or "{rest}" in form:
        operands = [writer.sql(argument) for argument in arguments]
        words = {"*": ", ".join(operands), "rest": ", ".join(operands[1:])}
        return form.format(*(operand(writer, a) for a in arguments), **words)
    operands = [operand(writer, argument) for argument in arguments]
    repeated = any(form.count(f"{{{n}}}") > 1 for n in range(len(operands)))
    fill = form.format
    return let(operands, lambda v: fill(*v)) if repeated else fill(*operands)


class SparkWriter(SparkGenerator):
    """sqlglot's writer for Spark, corrected to Flink's meaning."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        kind: transform
        for kind, transform in SparkGenerator.TRANSFORMS.items()
        # these would rewrite the tree after other dialects' rules, or hide a function below
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
        ScanTable: lambda self, e: self.table_sql(e),
        exp.HexString: lambda _, e: f"X'{e.name}'",
        exp.Greatest: lambda self, e: _null_if_any(self, "greatest", e),
        exp.Least: lambda self, e: _null_if_any(self, "least", e),
    }  # fmt: skip

    # --- what sqlglot calls by its name ---

    version_sql = types.version_sql
    matchrecognize_sql = types.matchrecognize_sql
    lateral_sql = types.lateral_sql
    join_sql = types.join_sql
    with_sql = types.with_sql
    hint_sql = types.hint_sql
    datatype_sql = types.datatype_sql
    interval_sql = types.interval_sql
    literal_sql = types.literal_sql
    like_sql = types.like_sql
    dpipe_sql = casts.dpipe_sql
    cast_sql = casts.cast_sql
    div_sql = numbers.div_sql
    mod_sql = numbers.mod_sql
    substring_sql = texts.substring_sql
    overlay_sql = texts.overlay_sql
    strposition_sql = texts.strposition_sql
    similarto_sql = texts.similarto_sql
    escape_sql = texts.escape_sql
    extract_sql = times.extract_sql
    floor_sql = times.floor_sql
    ceil_sql = times.ceil_sql
    overlaps_sql = times.overlaps_sql
    is_sql = json.is_sql
    jsonexists_sql = json.jsonexists_sql
    jsonvalue_sql = json.jsonvalue_sql
    jsonextract_sql = json.jsonextract_sql
    jsonobject_sql = json.jsonobject_sql
    jsonarray_sql = json.jsonarray_sql
    filter_sql = aggregates.filter_sql
    window_sql = aggregates.window_sql
    ignorenulls_sql = aggregates.ignorenulls_sql
    respectnulls_sql = aggregates.respectnulls_sql
    avg_sql = aggregates.avg_sql
    stddev_sql = aggregates.stddev_sql
    stddevpop_sql = aggregates.stddev_sql
    stddevsamp_sql = aggregates.stddev_sql
    variance_sql = aggregates.stddev_sql
    variancepop_sql = aggregates.stddev_sql
    firstvalue_sql = aggregates.firstvalue_sql
    lastvalue_sql = aggregates.firstvalue_sql
    groupconcat_sql = aggregates.groupconcat_sql
    grouping_sql = aggregates.grouping_sql
    jsonobjectagg_sql = aggregates.jsonobjectagg_sql
    jsonarrayagg_sql = aggregates.jsonarrayagg_sql
    unnest_sql = unnest.unnest_sql
    table_sql = _table_sql
    bracket_sql = _bracket_sql
    anonymous_sql = _anonymous_sql
    anonymousaggfunc_sql = _anonymousaggfunc_sql


class PenstockSpark(Spark):
    """Spark as a target of Flink's trees."""

    Generator = SparkWriter


TARGET: Dialect = PenstockSpark()
