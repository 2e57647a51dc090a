"""Write types, literals and patterns for Spark, and refuse what Spark cannot say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator

from penstock.catalog.model.identifier import UNREAD
from penstock.sql.dialect.parser.table_functions import is_always, is_left, keeping_name, table_call
from penstock.sql.syntax.parse_errors import NodeError

EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"

IN_UTC = f"timestampadd(MICROSECOND, unix_micros({{0}}), {EPOCH})"
"""The local time that a TIMESTAMP_LTZ is in UTC."""

INTEGERS = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)

FRACTIONS = (exp.DType.FLOAT, exp.DType.DOUBLE)

TEXTS = (exp.DType.TEXT, exp.DType.CHAR, exp.DType.VARCHAR)

ATOMS = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean, exp.Bracket, exp.Dot)

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)

LONG = 150
"""Characters from which an argument that a form repeats is given a name: texts would grow by powers."""

QUERY_HINTS = {
    "BROADCAST": "BROADCAST",
    "SHUFFLE_HASH": "SHUFFLE_HASH",
    "SHUFFLE_MERGE": "MERGE",
    "NEST_LOOP": "SHUFFLE_REPLICATE_NL",
}

READ_HINTS = ("LOOKUP", "MULTI_JOIN", "STATE_TTL")

TYPES = {
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INT",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.TEXT: "STRING",
    exp.DType.CHAR: "STRING",
    exp.DType.VARCHAR: "STRING",
    exp.DType.BINARY: "BINARY",
    exp.DType.VARBINARY: "BINARY",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP",
    exp.DType.VARIANT: "VARIANT",
    exp.DType.NULL: "VOID",
}


def type_of(node: exp.Expr | None) -> exp.DataType | None:
    """The type of a node as far as it is known. What is cut to a unit keeps its type (sqlglot: INT)."""
    while isinstance(node, exp.Floor | exp.Ceil | exp.Paren):
        node = node.this
    return node.type if node is not None else None


def kind_of(node: exp.Expr | None) -> exp.DType:
    """The kind of a node's type as far as it is known."""
    if isinstance(node, exp.Interval):
        return exp.DType.INTERVAL
    found = type_of(node)
    return found.this if found and isinstance(found.this, exp.DType) else exp.DType.UNKNOWN


def number_kind(node: exp.Expr | None) -> exp.DType:
    """The kind of a number as Spark will see it; UNKNOWN if it is not sure.

    sqlglot takes a literal with a point for a DOUBLE, and what is computed of it too; in Flink and in
    Spark it is a DECIMAL.
    """
    if isinstance(node, exp.Paren | exp.Neg | exp.Floor | exp.Ceil):
        return number_kind(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and not node.is_int:
        return exp.DType.DOUBLE if "e" in node.name.lower() else exp.DType.DECIMAL
    if isinstance(node, ARITHMETIC):
        return _wider(number_kind(node.this), number_kind(node.expression))
    kind = kind_of(node)
    if node is None or kind not in FRACTIONS or isinstance(node, exp.Cast | exp.Column):
        return kind
    points = any(number_kind(e) == exp.DType.DECIMAL for e in node.find_all(exp.Literal))
    return exp.DType.UNKNOWN if points else kind


def _wider(left: exp.DType, right: exp.DType) -> exp.DType:
    kinds = (left, right)
    if any(kind in FRACTIONS for kind in kinds):
        return exp.DType.DOUBLE
    if all(kind in INTEGERS for kind in kinds):
        return max(kinds, key=INTEGERS.index)
    known = all(kind in (*INTEGERS, exp.DType.DECIMAL) for kind in kinds)
    return exp.DType.DECIMAL if known else exp.DType.UNKNOWN


def decimal_of(node: exp.Expr) -> tuple[int, int] | None:
    """Precision and scale where they are declared; None for what is computed, and for other types."""
    found = node.type if isinstance(node, exp.Column | exp.Cast | exp.Dot) else None
    if found is None or found.this != exp.DType.DECIMAL:
        return None
    sizes = [int(size.name) for size in found.expressions]
    return (sizes[0], sizes[1] if len(sizes) > 1 else 0) if sizes else (10, 0)


def precision_of(kind: exp.DataType, default: int) -> int:
    """The one number of a type, such as the 3 of TIMESTAMP(3)."""
    return int(kind.expressions[0].name) if kind.expressions else default


# --- what is refused ---


def version_sql(writer: SparkGenerator, expression: exp.Version) -> str:
    """FOR SYSTEM_TIME AS OF."""
    raise NodeError(
        "FOR SYSTEM_TIME AS OF has no form in Spark SQL",
        expression,
        "what can be joined so is a table or a view: CREATE VIEW of the query, and join that",
    )


def matchrecognize_sql(writer: SparkGenerator, expression: exp.MatchRecognize) -> str:
    """MATCH_RECOGNIZE."""
    raise NodeError("MATCH_RECOGNIZE is not supported", expression)


def lateral_sql(writer: SparkGenerator, expression: exp.Lateral) -> str:
    """LATERAL (query), and a user's table function by its name; with `outer` the planner unfolds rows."""
    outer = expression.args.get("outer")
    if outer is not None:
        call = writer.func("inline_outer" if outer else "inline", expression.this)
        return f"LATERAL {call} AS {writer.sql(expression, 'alias')}"
    if isinstance(expression.this, exp.Subquery):
        return SparkGenerator.lateral_sql(writer, expression)
    called = table_call(expression)
    if called is None:
        raise NodeError("LATERAL TABLE(...) is not supported", expression)
    name = keeping_name(called.name) if is_left(expression) else called.name
    word = "" if isinstance(expression.parent, exp.From) else "LATERAL "
    alias = writer.sql(expression, "alias")
    return f"{word}{writer.func(name, *called.expressions)}" + (f" AS {alias}" if alias else "")


def join_sql(writer: SparkGenerator, expression: exp.Join, join_op: str | None = None) -> str:
    """A join; one with a table function, or UNNEST, is a CROSS JOIN, as these themselves do what LEFT asks for.

    With ON, Spark would aggregate by the arguments and join the function's rows to that, which no stream can do.
    """
    function = expression.this
    listed = not (expression.side or expression.kind or expression.args.get("on"))
    called = isinstance(function, exp.Lateral) and table_call(function) is not None
    if listed or not (called or isinstance(function, exp.Unnest)):
        return SparkGenerator.join_sql(writer, expression, join_op)
    if expression.side.upper() not in ("", "LEFT"):
        raise NodeError(f"{function.key.upper()} is not joined by {expression.side} JOIN", function)
    on = expression.args.get("on")
    if on is not None and not is_always(expression):
        hint = "write ON TRUE" + ("" if is_left(function) else ", and the condition in WHERE")
        raise NodeError(f"{function.key.upper()} is joined ON TRUE, by no condition", on, hint)
    return writer.seg(f"CROSS JOIN {writer.sql(function)}")


def with_sql(writer: SparkGenerator, expression: exp.With) -> str:
    """WITH, not recursive."""
    if expression.args.get("recursive"):
        raise NodeError("WITH RECURSIVE is not supported", expression)
    return Generator.with_sql(writer, expression)


def hint_sql(writer: SparkGenerator, expression: exp.Hint) -> str:
    """Join hints. The planner has read those that it takes; MULTI_JOIN is of an operator of Flink's alone."""
    hints = []
    for hint in expression.expressions:
        if hint.name in READ_HINTS:
            continue
        if hint.name not in QUERY_HINTS:
            raise NodeError(f"the hint {hint.name} is not supported", hint)
        hints.append(f"{QUERY_HINTS[hint.name]}({writer.expressions(hint, flat=True)})")
    return f" /*+ {', '.join(hints)} */" if hints else ""


# --- types and literals ---


def datatype_sql(writer: SparkGenerator, expression: exp.DataType) -> str:
    """The Spark type that holds a Flink type's values (TIMESTAMP is without a zone in Flink)."""
    kind = expression.this
    inner = [writer.sql(e) for e in expression.expressions]
    if kind in (exp.DType.ARRAY, exp.DType.MAP):
        return f"{kind.value}<{', '.join(inner)}>"
    if kind == exp.DType.STRUCT:
        fields = (
            f"{writer.sql(f, 'this')}: {writer.sql(f, 'kind')}" for f in expression.expressions
        )
        return f"STRUCT<{', '.join(fields)}>"
    if kind == exp.DType.DECIMAL:
        return f"DECIMAL({', '.join(inner) or '10, 0'})"
    if kind == exp.DType.TIME:
        return f"TIME({min(precision_of(expression, 0), 6)})"
    if kind == exp.DType.INTERVAL:
        return f"INTERVAL {inner[0]}" if inner else "INTERVAL DAY TO SECOND"
    if kind not in TYPES:
        raise NodeError(f"the type {kind.value} has no Spark form", expression)
    return TYPES[kind]


def interval_sql(writer: SparkGenerator, expression: exp.Interval) -> str:
    """INTERVAL 'text' UNIT [TO UNIT]; Spark's spelling, WEEK and QUARTER by their parts."""
    unit = expression.args["unit"]
    text = expression.this.name
    if unit.name in ("WEEK", "QUARTER"):
        factor, name = (7, "DAY") if unit.name == "WEEK" else (3, "MONTH")
        return f"INTERVAL '{int(text) * factor}' {name}"
    words = f"{unit.this.name} TO {unit.expression.name}" if unit.expression else unit.name
    return f"INTERVAL '{text}' {words}"


def literal_sql(writer: SparkGenerator, expression: exp.Literal) -> str:
    """A number or a text; in a text Spark finds no variable to substitute, in whatever session it is read."""
    return SparkGenerator.literal_sql(writer, expression).replace("${", UNREAD)


def like_sql(writer: SparkGenerator, expression: exp.Like) -> str:
    r"""LIKE; Flink has no escape unless one is named, Spark has \."""
    pattern = expression.expression
    word = "NOT LIKE" if expression.args.get("negate") else "LIKE"
    if isinstance(expression.parent, exp.Escape):
        return writer.binary(expression, word)
    if isinstance(pattern, exp.Literal):
        doubled = exp.Literal.string(pattern.name.replace("\\", "\\\\"))
        return f"{writer.sql(expression, 'this')} {word} {writer.sql(doubled)}"
    return f"{writer.binary(expression, word)} ESCAPE '\\0'"


# --- what other modules build on ---


def operand(writer: SparkGenerator, node: exp.Expr) -> str:
    """A node's text, safe to stand beside an operator."""
    atom = isinstance(node, ATOMS) and not isinstance(node, exp.Binary)
    return writer.sql(node) if atom else f"({writer.sql(node)})"


def let(texts: Sequence[str], build: Callable[[Sequence[str]], str]) -> str:
    """What `build` makes of the texts, of which it may repeat each; long ones stand for themselves once."""
    depth = max((text.count(" -> ") for text in texts), default=0)
    names = [f"__v{depth}_{n}" if len(t) > LONG else t for n, t in enumerate(texts)]
    sql = build(names)
    for name, text in zip(names, texts, strict=True):
        if name != text:
            sql = f"transform(array({text}), {name} -> {sql})[0]"
    return sql
