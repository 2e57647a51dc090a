"""The SQL type of what a plain Python function gives."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.functions import udtf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from pyspark.sql.udtf import UserDefinedTableFunction
from sqlglot import exp

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.identifier import Identifier
from penstock.sql.convert.statement import parse_tree
from penstock.sql.execution.functions import (
    check_calls,
    keeping_rows,
    register_table_function,
    registered_names,
    result_type,
)
from penstock.sql.script.splitter import split


def giving(hint: Any) -> Callable[..., Any]:
    """A function with this hint of its result."""

    def function(x):  # type: ignore[no-untyped-def]
        return x

    function.__annotations__["return"] = hint
    return function


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int, "BIGINT"),
        (bool, "BOOLEAN"),
        (str | None, "STRING"),
        (decimal.Decimal, "DECIMAL(38, 18)"),
        (dt.datetime, "TIMESTAMP_NTZ"),
        (list[float], "ARRAY<DOUBLE>"),
        (dict[str, list[int]] | None, "MAP<STRING, ARRAY<BIGINT>>"),
    ],
)
def test_a_hint_names_a_type(hint: Any, kind: str) -> None:
    """None beside it changes nothing: every result may be NULL."""
    assert result_type(giving(hint), owner="function f") == kind


@pytest.mark.parametrize("hint", [None, int | str, set[int], list, pd.Series, object])
def test_a_hint_that_names_none_is_refused(hint: Any) -> None:
    """With the decorator that would."""
    with pytest.raises(DefinitionError) as caught:
        result_type(giving(hint), owner="function f")

    assert caught.value.hint is not None
    assert "@" in caught.value.hint


# --- which calls of a Python function can run, by what the function is; and what a LEFT JOIN ---


SCHEMA = StructType(
    [StructField("word", StringType(), nullable=False), StructField("length", IntegerType())]
)
FUNCTION = Function(
    identifier=Identifier(catalog="c", database="d", name="words"),
    code="texts.words",
    language=Language.PYTHON,
)
LEFT = "SELECT w FROM t LEFT JOIN LATERAL TABLE(words(a)) AS x (w, n) ON TRUE"


class Words:
    """The words of a text with their lengths; of NULL nothing at all."""

    def __init__(self) -> None:
        self.seen = 0

    def eval(self, text: str | None) -> list[tuple[str, int]] | None:
        """Give the rows of one text."""
        self.seen += 1
        return None if text is None else [(word, len(word)) for word in text.split()]


class Analysed:
    """Its columns are told when it is called."""

    @staticmethod
    def analyze(_: object) -> object:
        """Tell the columns, if anybody asks."""
        raise NotImplementedError

    def eval(self, text: str) -> list[tuple[str]]:
        """Give the rows of one text."""
        return [(text,)]


def table_function() -> UserDefinedTableFunction:
    """The class above, as @udtf has it."""
    made = udtf(Words, returnType=SCHEMA)
    assert isinstance(made, UserDefinedTableFunction)
    return made


def calls(sql: str) -> list[exp.Anonymous]:
    """The calls of `words` in a query."""
    (text,) = split(sql, "q.sql")
    return [c for c in parse_tree(text).find_all(exp.Anonymous) if c.name.lower() == "words"]


def test_a_table_function_is_called_in_from() -> None:
    """With names for all of its columns, or for none."""
    for relation in (
        "LATERAL TABLE(words(a))",
        "LATERAL TABLE(words(a)) AS x",
        "TABLE(words('a')) AS x (w, n)",
    ):
        found = calls(f"SELECT * FROM t, {relation}")

        assert len(found) == 1
        check_calls(FUNCTION, table_function(), found)


@pytest.mark.parametrize(
    ("sql", "message", "place"),
    [
        ("SELECT UPPER(words(a)) FROM t", "words is a table function: it gives rows, not a value", (14, 5)),
        ("SELECT * FROM t, LATERAL TABLE(words(a)) AS x (w)", "x names 1 columns, and words gives 2", (42, 8)),
    ],
)  # fmt: skip
def test_a_table_function_is_refused_where_it_cannot_stand(
    sql: str, message: str, place: tuple[int, int]
) -> None:
    """As a value, and with names for other columns than it has."""
    with pytest.raises(DefinitionError) as caught:
        check_calls(FUNCTION, table_function(), calls(sql))
    span = caught.value.span

    assert caught.value.message == message
    assert span is not None
    assert (span.column, span.length) == place


def test_a_function_that_gives_a_value_is_refused_in_from() -> None:
    """At its name; where a value stands it is right."""
    check_calls(FUNCTION, str.upper, calls("SELECT words(a) FROM t"))
    with pytest.raises(DefinitionError, match="words is no table function") as caught:
        check_calls(FUNCTION, str.upper, calls("SELECT * FROM t, LATERAL TABLE(words(a)) AS x (w)"))

    assert caught.value.span is not None
    assert caught.value.span.column == len("SELECT * FROM t, LATERAL TABLE(") + 1


def test_a_left_join_asks_for_a_function_of_its_own() -> None:
    """Under another name, beside the one that other calls have."""
    assert registered_names(FUNCTION, calls(LEFT)) == ("words", "penstock_left_words")
    assert registered_names(FUNCTION, calls("SELECT * FROM TABLE(words('a'))")) == ("words",)


def test_a_function_gives_a_row_of_nulls_for_a_left_join_where_it_would_give_none() -> None:
    """Once for each call that has no rows; all columns may be NULL then."""
    kept = keeping_rows(table_function(), SCHEMA)
    handler = kept.func()

    assert list(handler.eval("a bc")) == [("a", 1), ("bc", 2)]
    assert list(handler.eval(None)) == list(handler.eval("")) == [(None, None)]
    assert handler.seen == 3
    assert kept.returnType is not None
    assert all(field.nullable for field in kept.returnType.fields)


def test_a_left_join_is_refused_where_the_columns_are_not_known() -> None:
    """Nobody can say then what a row of NULLs is."""
    registered = []

    class Registry:
        """What Spark's session has for table functions."""

        def register(self, name: str, _: object) -> None:
            """Take a name."""
            registered.append(name)

    class Session:
        """As much of Spark's session as is asked for."""

        udtf = Registry()

    analysed = udtf(Analysed)
    assert isinstance(analysed, UserDefinedTableFunction)
    with pytest.raises(UnsupportedError, match="its columns depend on its arguments") as caught:
        register_table_function(FUNCTION, analysed, calls(LEFT), Session())  # type: ignore[arg-type]

    assert caught.value.span is not None
    assert registered == ["words"]
