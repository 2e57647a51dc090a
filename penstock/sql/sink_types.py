"""Whether the values of an INSERT are of the kind that its table's columns take, as far as their types are known.

Flink lets a sink take what an implicit cast makes of a value (LogicalTypeCasts.supportsImplicitCast), and refuses the
rest before the job starts. Here kinds are told apart and no more: a text is no number, a number no time. Within a kind
the value is cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputError
from penstock.catalog.table import Table
from penstock.sql.bind import data_type
from penstock.sql.checking import Output
from penstock.sql.dialect.access import to_text
from penstock.sql.script import StatementText

__all__ = ["type_errors"]

D = exp.DType
TIMES = (D.DATE, D.TIME, D.TIMESTAMP, D.TIMESTAMPNTZ, D.TIMESTAMPLTZ)
KINDS: Mapping[exp.DType, str] = {
    **dict.fromkeys((D.CHAR, D.VARCHAR, D.TEXT), "text"),
    **dict.fromkeys((D.BINARY, D.VARBINARY), "bytes"),
    **dict.fromkeys((D.TINYINT, D.SMALLINT, D.INT, D.BIGINT), "number"),
    **dict.fromkeys((D.DECIMAL, D.FLOAT, D.DOUBLE), "number"),
    **dict.fromkeys(TIMES, "time"),
    D.BOOLEAN: "boolean",
    D.ARRAY: "array",
    D.MAP: "map",
    D.STRUCT: "row",
}
"""Of the types that are told apart; nothing is said of others."""


def type_errors(
    query: exp.Expr,
    output: Output | None,
    columns: Sequence[str],
    target: Table,
    text: StatementText,
) -> Iterator[InputError]:
    """An error for each value of another kind than the column that it goes into; `columns` are in the query's order."""
    for number, name in enumerate(columns):
        wanted = target.schema.column(name).type
        if wanted is None:
            continue
        kind = KINDS.get(data_type(str(wanted)).this)
        for node, given in _given(query, output, number):
            if kind is None or KINDS.get(given.this, kind) == kind:
                continue
            yield DefinitionError(
                f"the column '{name}' of {target.identifier} is {wanted}, and gets {to_text(given)}",
                hint=f"write CAST(... AS {wanted}); or name the columns in the order of their values, "
                "INSERT INTO t (a, b) ...",
                span=text.locate(node),
            )


def _given(
    query: exp.Expr, output: Output | None, number: int
) -> Iterator[tuple[exp.Expr, exp.DataType]]:
    """What is given for a column, with its type where that is known: by the query, or by each row of VALUES."""
    if isinstance(query, exp.Values):
        items = [row.expressions[number] for row in query.expressions]
        yield from ((item, item.type) for item in items if isinstance(item.type, exp.DataType))
        return
    kind = None if output is None else output[number][1]
    if kind is None:
        return
    selects = query.selects if isinstance(query, exp.Select) else []
    plain = len(selects) == len(output or ()) and not any(item.is_star for item in selects)
    yield selects[number] if plain else query, kind
