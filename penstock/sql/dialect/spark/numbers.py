"""Write arithmetic for Spark with Flink's meaning.

Of two whole numbers the quotient is whole; a fraction divided by zero is infinite (Java's double), where
Spark's ANSI mode fails; rounding keeps the type of its argument.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.spark.types import (
    FRACTIONS,
    INTEGERS,
    TYPES,
    decimal_of,
    kind_of,
    let,
    number_kind,
    operand,
)
from penstock.sql.syntax.parse_errors import NodeError

WHOLE_NAMES = "'tinyint', 'smallint', 'int', 'bigint'"

BY_ZERO = (
    "CASE WHEN {1} = 0 THEN CASE WHEN isnan({0}) OR {0} = 0 THEN double('NaN') "
    "WHEN {0} > 0 THEN double('Infinity') WHEN {0} < 0 THEN double('-Infinity') END "
    "ELSE {0} / {1} END"
)

# From here on a DOUBLE has no fraction, and floor would not give it back (it gives a BIGINT).
BIG = "9.0E15D"


def div_sql(writer: SparkGenerator, expression: exp.Div) -> str:
    """A / b; of two whole numbers the quotient is whole, rounded towards zero."""
    left, right = expression.left, expression.right
    kinds = (number_kind(left), number_kind(right))
    if all(kind in INTEGERS for kind in kinds):
        result = TYPES[max(kinds, key=INTEGERS.index)]
        return f"CAST({writer.sql(left)} DIV {writer.sql(right)} AS {result})"
    operands = [operand(writer, left), operand(writer, right)]
    if any(kind in FRACTIONS for kind in kinds) and not _is_constant(right):
        return let(operands, lambda v: BY_ZERO.format(*v))
    fractions = (*FRACTIONS, exp.DType.DECIMAL)
    if exp.DType.UNKNOWN not in kinds or any(kind in fractions for kind in kinds):
        return f"{writer.sql(left)} / {writer.sql(right)}"
    # Left to Spark, which knows the types: the value is Flink's, its type DOUBLE.
    open_ = [n for n, kind in enumerate(kinds) if kind == exp.DType.UNKNOWN]
    whole = " AND ".join(f"typeof({{{n}}}) IN ({WHOLE_NAMES})" for n in open_)
    form = f"CASE WHEN {whole} THEN round(({{0}} - {{0}} % {{1}}) / {{1}}) ELSE {{0}} / {{1}} END"
    return let(operands, lambda v: form.format(*v))


def mod_sql(writer: SparkGenerator, expression: exp.Mod) -> str:
    """A % b; of a fraction and zero it is NaN."""
    left, right = expression.left, expression.right
    plain = writer.binary(expression, "%")
    if number_kind(expression) not in FRACTIONS or _is_constant(right):
        return plain
    zero = f"CASE WHEN {operand(writer, right)} = 0 THEN "
    return f"{zero}if({writer.sql(left)} IS NULL, NULL, double('NaN')) ELSE {plain} END"


def rounded(writer: SparkGenerator, function: str, value: exp.Expr) -> str:
    """FLOOR or CEIL of a number (`function`), of the type of its argument."""
    kind = number_kind(value)
    if kind in INTEGERS:
        return f"CAST({function}({writer.sql(value)}) AS {TYPES[kind]})"
    if kind not in FRACTIONS:
        return f"{function}({writer.sql(value)})"
    form = f"if(abs({{0}}) < {BIG}, CAST({function}({{0}}) AS {TYPES[kind]}), {{0}})"
    return let([operand(writer, value)], lambda v: form.format(v[0]))


# --- functions of the table ---


def _ceiling_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return rounded(writer, "ceil", call.expressions[0])


def _sign_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    value = call.expressions[0]
    kind, sizes = number_kind(value), decimal_of(value)
    sql = f"sign({writer.sql(value)})"
    if sizes:
        return f"CAST({sql} AS DECIMAL({sizes[0]}, {sizes[1]}))"
    return f"CAST({sql} AS {TYPES[kind]})" if kind in INTEGERS else sql


def _round_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    value, *rest = call.expressions
    if rest and rest[0].find(exp.Column):
        raise NodeError(
            "ROUND to a number of digits that is not a constant is not supported",
            rest[0],
            "write the number of digits out, or CASE digits WHEN 1 THEN ROUND(x, 1) ... END",
        )
    return writer.func("ROUND", value, *rest)


def _truncate_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    value, *rest = call.expressions
    digits = _digits(rest[0]) if rest else 0
    kind = number_kind(value)
    if digits is None:
        return _truncated_to_null(writer, value, rest[0])
    if kind in INTEGERS:
        unit = 10**-digits if digits < 0 else 1
        sql = operand(writer, value)
        return sql if unit == 1 else f"CAST({sql} DIV {unit} * {unit} AS {TYPES[kind]})"
    text = operand(writer, value)
    if kind in FRACTIONS:
        form = (
            f"CASE WHEN isnan({{0}}) OR abs({{0}}) >= {BIG} THEN {{0}} "
            f"WHEN {{0}} < 0 THEN CAST(ceil({{0}}, {digits}) AS {TYPES[kind]}) "
            f"ELSE CAST(floor({{0}}, {digits}) AS {TYPES[kind]}) END"
        )
        return let([text], lambda v: form.format(v[0]))
    if kind == exp.DType.DECIMAL:
        sizes = decimal_of(value)
        if sizes and digits >= sizes[1]:
            return writer.sql(value)
        form = f"if({{0}} < 0, ceil({{0}}, {digits}), floor({{0}}, {digits}))"
        return let([text], lambda v: form.format(v[0]))
    raise NodeError(
        "TRUNCATE of a value whose type could not be determined",
        call,
        "cast it first, to DOUBLE for instance",
    )


def _truncated_to_null(writer: SparkGenerator, value: exp.Expr, digits: exp.Expr) -> str:
    if digits.find(exp.Column) or not digits.find(exp.Null):
        raise NodeError(
            "TRUNCATE to a number of digits that is not a constant is not supported",
            digits,
            "write the number of digits out",
        )
    return f"nullif({writer.sql(value)}, {writer.sql(value)})"


def _digits(node: exp.Expr) -> int | None:
    """The whole number that a node writes out; None if it does not."""
    if isinstance(node, exp.Neg):
        inner = _digits(node.this)
        return None if inner is None else -inner
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None


def _is_constant(node: exp.Expr) -> bool:
    """Whether a node is a number written out that is not zero."""
    if isinstance(node, exp.Neg | exp.Paren):
        return _is_constant(node.this)
    if isinstance(node, exp.Cast) and kind_of(node.this) in (*INTEGERS, *FRACTIONS):
        return _is_constant(node.this)
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "CEILING": _ceiling_sql,
    "ROUND": _round_sql,
    "SIGN": _sign_sql,
    "TRUNCATE": _truncate_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
