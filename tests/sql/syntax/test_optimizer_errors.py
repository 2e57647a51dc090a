"""What sqlglot does not follow is left to Spark; a bug of ours that sqlglot calls upon is an error."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify_columns import qualify_columns

from penstock.sql.binding import columns
from penstock.sql.binding.binder import bind_query, type_expression
from penstock.sql.dialect import flink_to_spark, parse_query
from penstock.sql.dialect.flink import dialect
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.lineage.query import lineage_of_query
from penstock.sql.syntax.parse_errors import is_refusal, refusals_ignored
from tests.sql.sql_objects import new_namespace

TABLE = "CREATE TABLE t (a STRING, b INT) WITH ('connector' = 'datagen');"
CALL = "SELECT UPPER(t.a) AS u FROM t UNION ALL SELECT t.a AS u FROM t"


def test_an_error_is_sqlglot_s_if_its_code_was_the_last_of_both() -> None:
    """Whatever library raised it."""

    def read(tree: exp.Expr) -> None:
        qualify_columns(tree, {"t": {"a": "INT"}, "u": {"a": "INT"}}, dialect=FLINK)

    with pytest.raises(OptimizeError) as refused:
        read(parse_query("SELECT x.* FROM t"))
    with pytest.raises(ZeroDivisionError) as ours:
        divide(0)

    assert is_refusal(refused.value)
    assert not is_refusal(ours.value)
    with refusals_ignored():
        read(parse_query("SELECT x.* FROM t"))


def divide(by: int) -> float:
    """Raise, for 0."""
    return 1 / by


def test_a_bug_in_the_types_of_functions_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column check, the types of an expression, lineage and `flink_to_spark` let it through."""

    def broken(*_: Any) -> NoReturn:
        raise TypeError("a bug of ours")

    namespace = new_namespace(TABLE)
    bind_query(parse_query(CALL), namespace)
    monkeypatch.setattr(dialect, "result_argument", broken)
    expression = parse_query("SELECT UPPER(a) AS u").selects[0].this

    with pytest.raises(TypeError, match="a bug of ours"):
        bind_query(parse_query(CALL), namespace)
    with pytest.raises(TypeError, match="a bug of ours"):
        type_expression(expression, {"a": None})
    with pytest.raises(TypeError, match="a bug of ours"):
        flink_to_spark("SELECT UPPER('a') AS u")
    with pytest.raises(TypeError, match="a bug of ours"):
        annotate_types(expression, dialect=FLINK)


def test_a_bug_in_the_column_check_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one in what is looked for between sqlglot's passes."""
    monkeypatch.setattr(columns, "_unknown_columns", lambda *_: {}["a bug of ours"])

    with pytest.raises(KeyError, match="a bug of ours"):
        bind_query(parse_query(CALL), new_namespace(TABLE))


def test_what_sqlglot_does_not_follow_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark analyses the query, too."""

    def refuse(tree: exp.Expr, *_: Any, **__: Any) -> exp.Expr:
        return qualify_columns(parse_query("SELECT x.* FROM t"), {"t": {"a": "INT"}})

    monkeypatch.setattr(columns, "qualify_columns", refuse)
    bound = bind_query(parse_query(CALL), new_namespace(TABLE))

    assert bound.errors == ()
    assert bound.output is None


def test_lineage_lets_a_bug_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sqlglot does not follow stays open."""
    namespace = new_namespace(TABLE)
    query = parse_query("SELECT t.a AS u FROM t")
    assert lineage_of_query(query, namespace).columns is not None

    monkeypatch.setattr("penstock.sql.lineage.query._number_outputs", lambda _: {}["a bug of ours"])

    with pytest.raises(KeyError, match="a bug of ours"):
        lineage_of_query(query, namespace)
