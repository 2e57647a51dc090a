"""Write Flink's trees as Spark SQL 4.2, with Flink's meaning where the two differ.

UNNEST of arrays, arrays of rows, maps and multisets is written here, too.
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
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS, is_left
from penstock.sql.dialect.spark import aggregates, casts, json, numbers, texts, times, types
from penstock.sql.dialect.spark.aggregates import aggregate_call
from penstock.sql.dialect.spark.types import kind_of, let, operand
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree

VALUE, ORDINALITY = "EXPR$0", "ORDINALITY"
"""How Flink names an element, and its number, where the query does not."""

PAIR = ("KEY", "VALUE")

# a multiset is a map of elements and counts: each element as often as it counts
REPEATED = "flatten(transform(map_entries({0}), e -> array_repeat(e.key, e.value)))"


def unnested_columns(
    node: exp.Unnest, *, ordinality: bool
) -> tuple[tuple[str, exp.DataType | None], ...] | None:
    """Return the columns of an UNNEST by Flink's names, with their types; None where the type of its value is unknown.

    An element of an array or a multiset is one column, a row one for each field, a map's entry two; the number that
    WITH ORDINALITY gives stands behind them, an INT (Flink: UnnestRowsWithOrdinalityFunction).
    """
    value = node.expressions[0].type if len(node.expressions) == 1 else None
    if value is None or not value.is_type(exp.DType.ARRAY, exp.DType.MAP) or not value.expressions:
        return None
    columns: list[tuple[str, exp.DataType | None]]
    row = _row_of(value)
    if _is_map(value):
        columns = list(zip(PAIR, value.expressions, strict=True))
    elif row is not None:
        columns = [(field.name, field.args.get("kind")) for field in row.expressions]
    else:
        columns = [(VALUE, value.expressions[0])]
    if ordinality:
        columns.append((ORDINALITY, exp.DataType(this=exp.DType.INT)))
    return tuple(columns)


def write_unnest(writer: SparkGenerator, expression: exp.Unnest) -> str:
    """A row becomes columns, a map's entry key and value. For LEFT JOIN nothing becomes a row of NULLs."""
    if len(expression.expressions) != 1:
        raise NodeError(
            "UNNEST of several values is not supported", expression, "write an UNNEST for each"
        )
    (value,) = expression.expressions
    ordinality = bool(expression.args.get("offset"))
    text, pairs, row = writer.sql(value), _is_map(value.type), _row_of(value.type)
    if value.type is not None and _is_multiset(value.type):
        text = REPEATED.format(text)
    name = "inline" if row is not None else "explode"
    if ordinality:
        name, text = "inline", _numbered(writer, text, row, pairs=pairs)
    alias = writer.sql(expression, "alias")
    call = writer.func(f"{name}_outer" if is_left(expression) else name, text)
    return f"LATERAL {call}" + (f" AS {alias}" if alias else "")


def _check_names(node: exp.Unnest, columns: Sequence[object] | None) -> None:
    """Refuse an AS that names fewer or more columns than there are: Spark would blame its own function."""
    alias = node.args.get("alias")
    named = alias.columns if alias is not None else []
    if not named or columns is None or len(named) == len(columns):
        return
    count = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
    behind = ", the last of them the number of WITH ORDINALITY" if node.args.get("offset") else ""
    raise NodeError(f"UNNEST gives {count} here{behind}, and AS names {len(named)}", node)


def _numbered(writer: SparkGenerator, text: str, row: exp.DataType | None, *, pairs: bool) -> str:
    """Make an array of structs of what is unfolded, each with its number, from 1."""
    source = f"map_entries({text})" if pairs else text
    if pairs:
        fields = [(PAIR[0], "e.key"), (PAIR[1], "e.value")]
    elif row is not None:
        fields = [(f.name, f"e.{writer.sql(_quoted(f.name))}") for f in row.expressions]
    else:
        fields = [(VALUE, "e")]
    parts = [f"{value} AS {writer.sql(_quoted(name))}" for name, value in fields]
    number = writer.sql(_quoted(ORDINALITY))
    return f"transform({source}, (e, i) -> struct({', '.join(parts)}, i + 1 AS {number}))"


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _is_map(kind: exp.DataType | None) -> bool:
    return kind is not None and kind.is_type(exp.DType.MAP) and not _is_multiset(kind)


def _is_multiset(kind: exp.DataType) -> bool:
    """Whether a type is a multiset, which is a MAP of elements and counts (`parser/types`)."""
    return kind.text("kind") == "MULTISET"


def _row_of(kind: exp.DataType | None) -> exp.DataType | None:
    """The type of the rows in an array or a multiset; None where its elements are none."""
    element = kind.expressions[0] if kind is not None and kind.expressions else None
    if _is_map(kind) or not isinstance(element, exp.DataType):
        return None
    return element if element.is_type(exp.DType.STRUCT) and element.expressions else None


def unnest_sql(writer: SparkGenerator, expression: exp.Unnest) -> str:
    """UNNEST in FROM; an AS with too few or too many names is refused."""
    ordinality = bool(expression.args.get("offset"))
    _check_names(expression, unnested_columns(expression, ordinality=ordinality))
    return write_unnest(writer, expression)


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
    unnest_sql = unnest_sql
    table_sql = _table_sql
    bracket_sql = _bracket_sql
    anonymous_sql = _anonymous_sql
    anonymousaggfunc_sql = _anonymousaggfunc_sql


class PenstockSpark(Spark):
    """Spark as a target of Flink's trees."""

    Generator = SparkWriter


TARGET: Dialect = PenstockSpark()
