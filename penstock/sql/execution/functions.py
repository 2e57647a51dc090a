"""Register users' functions on a Spark session; the SQL type of a plain Python function comes from its type hints.

Of Python table functions (`@udtf`) the right ones stand in FROM, and a LEFT JOIN keeps rows without results.
"""

from __future__ import annotations

import datetime as dt
import decimal
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType
from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, DefinitionError, UnsupportedError, did_you_mean
from penstock.catalog.model.function import Function, Language
from penstock.connector.spark.internals import table_function_name
from penstock.sql.binding.functions import name_span, names_columns
from penstock.sql.dialect.parser.table_functions import calling_relation, is_left, keeping_name
from penstock.sql.plan.rules.inline import called_functions
from penstock.sql.syntax.positions import span_of


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
        why = "it works on Arrow arrays" if schema else "its columns depend on its arguments"
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


SCALARS: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BINARY",
    bytearray: "BINARY",
    decimal.Decimal: "DECIMAL(38, 18)",
    dt.date: "DATE",
    dt.datetime: "TIMESTAMP_NTZ",
    dt.timedelta: "INTERVAL DAY TO SECOND",
}

COLUMNS = ("pandas", "pyarrow")


def result_type(function: Callable[..., Any], *, owner: str) -> str:
    """The Spark type of the result of `function`. Raises DefinitionError where the hint is missing
    or is no SQL type.
    """
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError) as error:
        raise DefinitionError(f"{owner}: its type hints cannot be read: {error}") from error
    if hint is None:
        raise DefinitionError(
            f"{owner}: it does not say what it gives",
            hint="add a type hint, def f(x: int) -> str; or decorate it with pyspark's @udf, @arrow_udf or @pandas_udf",
        )
    found = _spark_type(hint)
    if found is not None:
        return found
    whole_columns = getattr(hint, "__module__", "").split(".")[0] in COLUMNS
    decorator = "@arrow_udf('type') or @pandas_udf('type')" if whole_columns else "@udf('type')"
    raise DefinitionError(
        f"{owner}: its result {_shown(hint)} names no SQL type",
        hint=f"decorate it with pyspark's {decorator}, which says the type of a value",
    )


def _spark_type(hint: Any) -> str | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in arguments if each is not type(None)]
        return _spark_type(rest[0]) if len(rest) == 1 else None
    inner = [_spark_type(each) for each in arguments]
    if origin is list and len(inner) == 1 and inner[0] is not None:
        return f"ARRAY<{inner[0]}>"
    if origin is dict and len(inner) == 2 and None not in inner:
        return f"MAP<{inner[0]}, {inner[1]}>"
    return SCALARS.get(hint)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def register_called(
    query: exp.Expr, namespace: Namespace, spark: SparkSession, project: Path
) -> None:
    """Register the users' functions that a query calls, in its views too. Raises InputError for one that cannot be."""
    for function, calls in called_functions(query, namespace):
        register(function, spark, project, calls)


def called_names(query: exp.Expr, namespace: Namespace) -> tuple[str, ...]:
    """The names by which Spark knows the users' functions that a query calls."""
    called = called_functions(query, namespace)
    return tuple(name for function, calls in called for name in registered_names(function, calls))


def register(
    function: Function, spark: SparkSession, project: Path, calls: Sequence[exp.Anonymous] = ()
) -> None:
    """Register one function, for these calls of it.

    Raises ConfigError, DefinitionError when its code is not there, not a function, or of another kind than its calls.
    """
    for jar in function.jars:
        add_jar(jar, spark, project)
    if function.language is Language.JAVA:
        _register_java(function, spark)
        return
    found = load(function, project)
    check_calls(function, found, calls)
    if isinstance(found, UserDefinedTableFunction):
        register_table_function(function, found, calls, spark)
        return
    if not hasattr(
        found, "asNondeterministic"
    ):  # by this mark spark.udf.register knows what is decorated
        found = F.udf(found, result_type(found, owner=_owner(function)))
    spark.udf.register(function.name, found)


def add_jar(path: str, spark: SparkSession, project: Path) -> None:
    """Add a jar to the session; a path without a scheme is relative to the project. Raises ConfigError."""
    local = "://" not in path
    location = str(project / path) if local else path
    if local and not Path(location).is_file():
        raise ConfigError(
            f"there is no jar '{path}'",
            hint=f"looked for {location}; paths are relative to the project",
        )
    if set(location) & set("'\"\\;`\n\r\0$"):
        raise ConfigError(
            f"the path of the jar '{path}' has a character that Spark would read as SQL",
            hint="rename the file or its folder",
        )
    try:
        spark.sql(f"ADD JAR '{location}'")
    except PySparkException as error:
        raise ConfigError(f"Spark cannot add the jar '{path}': {_first_line(error)}") from error


def load(function: Function, project: Path) -> Any:
    """Import what the function's path names. Raises ConfigError when it is not there, or cannot be imported."""
    module_name, _, attribute = function.code.rpartition(".")
    with _importing_from(project):
        try:
            module = import_module(module_name)
        except ModuleNotFoundError as error:
            missing = error.name or module_name
            if not (module_name == missing or module_name.startswith(f"{missing}.")):
                raise _broken(function, module_name, error) from error
            raise ConfigError(
                f"{_owner(function)}: there is no Python module '{missing}'",
                hint=f"put {missing.replace('.', '/')}.py into {project}, or install the package that has it",
            ) from error
        except Exception as error:  # the module is the user's, and may raise anything
            raise _broken(function, module_name, error) from error
    found = getattr(module, attribute, None)
    if not callable(found) and not isinstance(found, UserDefinedTableFunction):
        names = [name for name, value in vars(module).items() if callable(value)]
        what = "is no function" if hasattr(module, attribute) else "is not there"
        raise ConfigError(
            f"{_owner(function)}: '{attribute}' of the module {module_name} {what}",
            hint=did_you_mean(attribute, names) or f"it has {', '.join(sorted(names)) or 'none'}",
        )
    _send_by_value(module, project)
    return found


def _register_java(function: Function, spark: SparkSession) -> None:
    try:
        spark.udf.registerJavaFunction(function.name, function.code)
    except PySparkException as error:
        raise DefinitionError(
            f"{_owner(function)}: {_first_line(error)}",
            hint="the class implements one of org.apache.spark.sql.api.java.UDF0 to UDF22; its jar is named "
            "by USING JAR '...' or added with ADD JAR",
        ) from error


@contextmanager
def _importing_from(project: Path) -> Iterator[None]:
    """Make modules of the project's folder importable."""
    folder = str(project)
    if folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _send_by_value(module: ModuleType, project: Path) -> None:
    """Send a module of the project to the tasks as code: they do not have its folder."""
    from pyspark import cloudpickle

    file = Path(getattr(module, "__file__", None) or "/")
    inside = file.resolve().is_relative_to(project.resolve())
    if inside and "site-packages" not in file.parts:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _owner(function: Function) -> str:
    return f"function {function.name}"


def _broken(function: Function, module: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{_owner(function)}: the Python module '{module}' cannot be imported: "
        f"{type(error).__name__}: {error}"
    )


def _first_line(error: PySparkException) -> str:
    lines: Iterable[str] = str(error).strip().splitlines()
    return next(iter(lines), type(error).__name__)
