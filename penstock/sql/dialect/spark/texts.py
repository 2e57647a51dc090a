"""Write functions of texts and maps for Spark whose form is no template.

Bounds are those of SqlFunctionUtils: a SUBSTRING that begins before its text is empty, one of less than
no characters NULL, an OVERLAY outside its text changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.spark.types import INTEGERS, kind_of, let, operand
from penstock.sql.syntax.parse_errors import NodeError

SUBSTRING = (
    "CASE WHEN {2} < 0 THEN NULL WHEN {1} < -char_length({0}) THEN '' "
    "ELSE substring({0}, {1}, {2}) END"
)

SUBSTRING_TO_END = "CASE WHEN {1} < -char_length({0}) THEN '' ELSE substring({0}, {1}) END"

OVERLAY = (
    "CASE WHEN {1} IS NULL OR {3} IS NULL THEN NULL WHEN {2} <= 0 OR {2} > char_length({0}) THEN {0} "
    "WHEN {3} <= 0 THEN concat(left({0}, {2} - 1), {1}) "
    "ELSE concat(left({0}, {2} - 1), {1}, substring({0}, {2} + {3})) END"
)

SPLIT_INDEX = "CASE WHEN {0} <> '' THEN get(split({0}, {1}), CAST({2} AS INT)) END"

SPLIT_PLAIN = "get(split(nullif({0}, ''), {1}), CAST({2} AS INT))"
"""That for a character that is itself as a regular expression: Java has no pattern to compile for a row, and Spark
splits a text once for all fields of it that a query takes, as none of it is under a condition."""

# A text that is no regular expression; one that is empty splits at white space (StringUtils).
VERBATIM = r"if({0} = '', '\\s', concat('\\Q', replace({0}, '\\E', '\\E\\\\E\\Q'), '\\E'))"

CHARACTER = r"if({0} BETWEEN 1 AND 255, concat('\\Q', chr({0}), '\\E'), NULL)"

SPECIAL = set(".^$\\")

NOT_PLAIN = set(".$|()[{^?*+\\")
"""Characters for which Java's String.split compiles a pattern."""

ANY_OF_SIMILAR = {"_": ".", "%": ".*"}


def substring_sql(writer: SparkGenerator, expression: exp.Substring) -> str:
    """SUBSTRING(s FROM start [FOR length]) and SUBSTRING(s, start [, length])."""
    start, length = expression.args.get("start"), expression.args.get("length")
    assert start is not None, "a SUBSTRING has a start"
    return _part(writer, expression.this, start, length)


def _substr_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    text, start, *length = call.expressions
    return _part(writer, text, start, length[0] if length else None)


def _part(writer: SparkGenerator, text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> str:
    bounds = [start, *([length] if length is not None else [])]
    nodes = [text, *bounds]
    if all(bound.is_int and _whole(bound) >= 0 for bound in bounds):
        return writer.func("SUBSTRING", *nodes)
    form = SUBSTRING_TO_END if length is None else SUBSTRING
    return let([operand(writer, node) for node in nodes], lambda v: form.format(*v))


def overlay_sql(writer: SparkGenerator, expression: exp.Overlay) -> str:
    """OVERLAY(s PLACING r FROM start [FOR length])."""
    placed, length = expression.expression, expression.args.get("for_")
    parts = [operand(writer, n) for n in (expression.this, placed, expression.args["from_"])]
    parts.append(operand(writer, length) if length else f"char_length({parts[1]})")
    return let(parts, lambda v: OVERLAY.format(*v))


def strposition_sql(writer: SparkGenerator, expression: exp.StrPosition) -> str:
    """POSITION(x IN y)."""
    return writer.func("LOCATE", expression.args["substr"], expression.this)


def similarto_sql(writer: SparkGenerator, expression: exp.SimilarTo) -> str:
    """SIMILAR TO a pattern written out, as a regular expression."""
    escape = expression.parent if isinstance(expression.parent, exp.Escape) else None
    pattern = expression.expression
    if not pattern.is_string:
        raise NodeError(
            "SIMILAR TO a pattern that is not written out is not supported",
            pattern,
            "use REGEXP(value, pattern)",
        )
    java = _similar(pattern.name, escape.expression.name if escape else "")
    literal = writer.sql(exp.Literal.string(f"^(?s:{java})$"))
    word = "NOT RLIKE" if expression.args.get("negate") else "RLIKE"
    return f"{operand(writer, expression.this)} {word} {literal}"


def escape_sql(writer: SparkGenerator, expression: exp.Escape) -> str:
    """... LIKE ... ESCAPE 'c'; of SIMILAR TO it is in the regular expression."""
    if isinstance(expression.this, exp.SimilarTo):
        return writer.sql(expression, "this")
    mark = expression.expression
    if mark.is_string and mark.name == "\\":
        return f"{writer.sql(expression, 'this')} ESCAPE '\\\\'"
    return writer.binary(expression, "ESCAPE")


# --- functions of the table ---


def _split_index_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    text, mark, index = call.expressions
    if isinstance(mark, exp.Literal) and mark.is_string and _is_plain(mark.name):
        return SPLIT_PLAIN.format(*map(writer.sql, (text, mark, index)))
    separator = CHARACTER if kind_of(mark) in INTEGERS else VERBATIM

    def build(parts: Sequence[str]) -> str:
        return SPLIT_INDEX.format(parts[0], separator.format(parts[1]), parts[2])

    return let([operand(writer, node) for node in (text, mark, index)], build)


def _is_plain(mark: str) -> bool:
    """Return whether a text is one character that Java splits at without a pattern."""
    return len(mark) == 1 and mark not in NOT_PLAIN and mark <= "\ud7ff"


def _map_union_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    first, *others = (writer.sql(e) for e in call.expressions)
    form = "map_zip_with({0}, {1}, (__k, __a, __b) -> CASE WHEN map_contains_key({1}, __k) THEN __b ELSE __a END)"
    for other in others:
        first = let([first, other], lambda v: form.format(*v))
    return first


def _whole(node: exp.Expr) -> int:
    return -_whole(node.this) if isinstance(node, exp.Neg) else int(node.name)


def _similar(pattern: str, escape: str) -> str:
    """The Java regular expression of a pattern of SIMILAR TO (Calcite's Like.sqlToRegexSimilar)."""
    java, characters, inside = "", iter(pattern), False
    for character in characters:
        if escape and character == escape:
            following = next(characters, "")
            java += "\\" + following if not following.isalnum() else following
            continue
        inside = character == "[" or (inside and character != "]")
        if inside:
            java += character
        else:
            java += ANY_OF_SIMILAR.get(
                character, f"\\{character}" if character in SPECIAL else character
            )
    return java


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "MAP_UNION": _map_union_sql,
    "SPLIT_INDEX": _split_index_sql,
    "SUBSTR": _substr_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
