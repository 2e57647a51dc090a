"""Register users' functions on a Spark session; the SQL type of a plain Python function comes from its type hint.

A Python function is found by its path, in the project's folder too. Its kind decides how it runs: an Arrow or
pandas function (`arrow_udf`, `pandas_udf`) on whole columns, a plain one with type hints row by row; a table
function (`udtf`) returns rows.
"""

from __future__ import annotations

import datetime as dt
import decimal
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.udtf import UserDefinedTableFunction
from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, DefinitionError, did_you_mean
from penstock.catalog.model.function import Function, Language
from penstock.sql.execution.table_functions import (
    check_calls,
    register_table_function,
    registered_names,
)
from penstock.sql.plan.rules.inline import called_functions

__all__ = ["called_names", "register", "register_called", "result_type"]

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
    place = str(project / path) if local else path
    if local and not Path(place).is_file():
        raise ConfigError(
            f"there is no jar '{path}'",
            hint=f"looked for {place}; paths are relative to the project",
        )
    if set(place) & set("'\"\\;`\n\r\0$"):
        raise ConfigError(
            f"the path of the jar '{path}' has a character that Spark would read as SQL",
            hint="rename the file or its folder",
        )
    try:
        spark.sql(f"ADD JAR '{place}'")
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
