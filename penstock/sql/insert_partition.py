"""PARTITION (column = value, ...) of an INSERT: the values become columns of its query."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputError, UnknownObjectError, did_you_mean
from penstock.catalog.table import Table
from penstock.sql.script import StatementText

__all__ = ["add_columns", "fixed_partition", "partition_errors"]


def fixed_partition(tree: exp.Expr) -> dict[str, exp.Literal]:
    """The partition columns that the statement gives a value, in its order."""
    spec = tree.args.get("partition")
    parts: list[exp.Expr] = spec.expressions if spec is not None else []
    values = {p.this.name: p.args["value"] for p in parts if isinstance(p, exp.Property)}
    return {name: value for name, value in values.items() if isinstance(value, exp.Literal)}


def partition_errors(
    tree: exp.Expr, target: Table, listed: Sequence[exp.Expr], text: StatementText
) -> list[InputError]:
    """What is wrong with the PARTITION clause of an INSERT into `target`."""
    spec = tree.args.get("partition")
    if spec is None:
        return []
    errors: list[InputError] = []
    keys, seen = target.partition_keys, set[str]()
    listed_names = {column.name for column in listed}
    for part in spec.expressions:
        name = part.this.name if isinstance(part, exp.Property) else part.name
        span = text.locate(part)
        value = part.args.get("value") if isinstance(part, exp.Property) else None
        if name not in keys:
            what = f"'{name}' is no partition column of {target.identifier}"
            hint = did_you_mean(name, keys)
            if hint is None:
                hint = f"it is PARTITIONED BY ({', '.join(keys)})" if keys else "it has none"
            errors.append(UnknownObjectError(what, hint=hint, span=span))
        elif name in seen or (value is not None and name in listed_names):
            errors.append(DefinitionError(f"the column '{name}' is named twice", span=span))
        elif value is None:
            hint = (
                "give it a value, or leave it out and let the query give it: its columns come last"
            )
            errors.append(DefinitionError(f"'{name}' has no value", hint=hint, span=span))
        elif not isinstance(value, exp.Literal):
            hint = f"write {name} = 'value'"
            errors.append(DefinitionError("a partition has a plain value", hint=hint, span=span))
        seen.add(name)
    return errors


def add_columns(query: exp.Expr, values: Sequence[exp.Expr]) -> None:
    """Add constant columns behind those of a query, in each of its branches."""
    match query:
        case exp.Values():
            for row in query.expressions:
                for value in values:
                    row.append("expressions", value.copy())
        case exp.SetOperation():
            add_columns(query.this, values)
            add_columns(query.expression, values)
        case exp.Subquery():
            add_columns(query.this, values)
        case _:
            for index, value in enumerate(values):
                query.append("expressions", exp.alias_(value.copy(), f"_partition_{index}"))
