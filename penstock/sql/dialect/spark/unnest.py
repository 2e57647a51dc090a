"""Write UNNEST for Spark: arrays, arrays of rows, maps and multisets."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.parser.table_functions import is_left
from penstock.sql.syntax.parse_errors import NodeError

__all__ = ["VALUE", "unnest_sql", "unnested_columns", "write_unnest"]

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
