"""Python table functions (`@udtf`) as queries call them: the right ones in FROM, and what a LEFT JOIN asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType
from sqlglot import exp

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.function import Function
from penstock.connector.spark.internals import table_function_name
from penstock.sql.binding.functions import name_span, names_columns
from penstock.sql.dialect.parser.table_functions import calling_relation, is_left, keeping_name
from penstock.sql.syntax.positions import span_of

__all__ = ["check_calls", "keeping_rows", "register_table_function", "registered_names"]


def check_calls(function: Function, found: Any, calls: Sequence[exp.Anonymous]) -> None:
    """Check that Python's `found` is called where its kind can be, and its columns are named as many as they are.

    Raises DefinitionError at the first call of which that is not so.
    """
    is_table = isinstance(found, UserDefinedTableFunction)
    for call in calls:
        relation = calling_relation(call)
        if is_table and relation is None:
            raise DefinitionError(
                f"{function.name} is a table function: it gives rows, not a value",
                hint=f"call it in FROM: FROM t, LATERAL TABLE({function.name}(t.a)) AS x (b)",
                span=name_span(call),
            )
        if not is_table and relation is not None:
            raise DefinitionError(
                f"{function.name} is no table function: it gives a value, not rows",
                hint="call it where a value stands; a table function is a class decorated with pyspark's @udtf",
                span=name_span(call),
            )
        if relation is not None and names_columns(relation):
            _check_names(function, _schema(function, found), relation)


def register_table_function(
    function: Function,
    found: UserDefinedTableFunction,
    calls: Sequence[exp.Anonymous],
    spark: SparkSession,
) -> None:
    """Register a table function for all `calls` of it. Raises UnsupportedError for a LEFT JOIN that it cannot do."""
    spark.udtf.register(function.name, found)
    left = next(filter(_is_left, calls), None)
    if left is None:
        return
    schema = _schema(function, found)
    if schema is None or found.evalType == PythonEvalType.SQL_ARROW_UDTF:
        why = "it works on Arrow arrays" if schema else "its columns hang on its arguments"
        raise UnsupportedError(
            f"a LEFT JOIN with the table function {function.name} is not supported: {why}",
            hint="decorate it with @udtf(returnType='...'); or let it give a row of None itself, and write CROSS JOIN",
            span=name_span(left),
        )
    spark.udtf.register(keeping_name(function.name), keeping_rows(found, schema))


def registered_names(function: Function, calls: Sequence[exp.Anonymous]) -> tuple[str, ...]:
    """The names by which Spark knows a function that is called so."""
    more = (keeping_name(function.name),) if any(map(_is_left, calls)) else ()
    return (function.name, *more)


def keeping_rows(found: UserDefinedTableFunction, schema: StructType) -> UserDefinedTableFunction:
    """The same table function, but with one row of NULLs where it returns none.

    Spark's operator for table functions in Python has no outer form: without ON a LEFT JOIN with one loses rows, and
    with ON it is an aggregation, which no stream can do.
    """
    handler: Any = found.func
    nothing = (None,) * len(schema.fields)

    class Keeping(handler):  # type: ignore[misc]  # sent to the tasks by value, as the user's own class is
        @wraps(handler.eval)
        def eval(self, *values: Any, **named: Any) -> Iterable[Any]:
            rows = iter(super().eval(*values, **named) or ())
            return chain((next(rows, nothing),), rows)

    return UserDefinedTableFunction(
        Keeping,
        returnType=StructType([StructField(field.name, field.dataType) for field in schema.fields]),
        name=table_function_name(found),
        evalType=found.evalType,
        deterministic=found.deterministic,
    )


def _is_left(call: exp.Anonymous) -> bool:
    relation = calling_relation(call)
    return relation is not None and is_left(relation)


def _schema(function: Function, found: UserDefinedTableFunction) -> StructType | None:
    """The columns of a table function's rows; None where they depend on its arguments (analyze())."""
    try:
        return found.returnType
    except PySparkException as error:
        raise DefinitionError(
            f"function {function.name}: its returnType is no list of columns",
            hint="write @udtf(returnType='word STRING, length INT')",
        ) from error


def _check_names(function: Function, schema: StructType | None, relation: exp.Expr) -> None:
    alias = relation.args["alias"]
    named = len(alias.columns)
    if schema is not None and named != len(schema.fields):
        columns = ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in schema.fields)
        raise DefinitionError(
            f"{alias.name} names {named} columns, and {function.name} gives {len(schema.fields)}",
            hint=f"its rows are ({columns})",
            span=span_of(alias),
        )
