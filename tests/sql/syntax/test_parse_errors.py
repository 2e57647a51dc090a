"""A syntax error stands at the token that is wrong, and says so in SQL's words."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify_columns import qualify_columns

from penstock.sql.binding import columns
from penstock.sql.binding.binder import bind_query, type_expression
from penstock.sql.dialect import Flink, flink_to_spark, parse_query
from penstock.sql.dialect.flink import dialect
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.lineage.query import lineage_of_query
from penstock.sql.syntax.parse_errors import FlinkParseError, is_refusal, refusals_ignored
from tests.sql.sql_objects import new_namespace

CASES = [
    ("SELECT a, FROM t", ",", "unexpected ','"),
    ("SELECT (a + 1 FROM t", "FROM", "expected ')', found 'FROM'"),
    ("SELECT a FROM t WHERE", "", "the statement ends too early"),
    ("SELECT", "", "expected an expression, found the end of the statement"),
    ("SELECT * FROM t x y", "y", "unexpected 'y'"),
    ("SELECT CAST(a AS BIGNIT)", "BIGNIT", "unknown type 'BIGNIT'"),
    ("SELECT CAST(a AS)", ")", "expected a type, found ')'"),
    ("SELECT INTERVAL '5' SECND", "SECND", "expected a unit, found 'SECND'"),
    ("SELECT INTERVAL '5:70:x' SECOND", "'5:70:x'", "'5:70:x' is no interval of SECOND"),
    ("SELECT INTERVAL 5 SECOND", "5", "expected a string, found '5'"),
    # what sqlglot would pass over, or take for another dialect's
    ("SELECT , a FROM t", ",", "unexpected ','"),
    ("SELECT a BETWEEN 1 2", "2", "expected AND, found '2'"),
    ("SELECT CASE WHEN a 1 END", "1", "expected THEN, found '1'"),
    ("SELECT FLOOR(a TO", "", "expected a unit, found the end of the statement"),
    ("SELECT CAST(a AS INT FROM t", "FROM", "expected ')', found 'FROM'"),
    ("SELECT SUM(a) OVER (PARTITION BY ORDER BY b)", "ORDER BY", "expected an expression"),
    ("SELECT a FROM t GROUP BY a WHERE b", "WHERE", "WHERE has to precede GROUP BY"),
    ("SELECT a FROM t ORDER BY a LIMIT 1, u", ",", "unexpected ','"),
    ("SELECT a FROM t WHERE b WHERE c", "WHERE", "there is a second WHERE"),
    ("SELECT a FROM t JOIN u JOIN v ON TRUE", "JOIN", "expected ON, found 'JOIN'"),
    (
        "SELECT a FROM t LIMIT 1 UNION SELECT 2",
        "UNION",
        "UNION follows a query that is ordered",
    ),
    ("SELECT a FROM t, TUMBLE(TABLE u, )", ")", "expected an argument, found ')'"),
    ("SELECT a FROM SELECT b FROM t", "SELECT", "expected a table name, found 'SELECT'"),
    ("SELECT a AS FROM t", "FROM", "expected a name, found 'FROM'"),
    ("SELECT a::INT FROM t", ":", "unexpected ':'"),
    ("SELECT 12ab", "12", "'12ab' is no number"),
    ("SELECT 'a' 'b'", "'b'", "unexpected a string"),
    ("SELECT a AT TIME ZONE 'UTC'", "AT", "Flink has no AT TIME ZONE"),
    ("SELECT U&'\\00'", "U&'\\00'", "four hexadecimal digits have to follow each"),
    ("WITH x AS (DROP TABLE t) SELECT 1", "DROP", "expected a query, found 'DROP'"),
    ("SELECT * FROM a.b.c.d", ".", "a name has at most three parts"),
    ("SELECT MAP['a']", "MAP", "MAP[...] takes keys and values in turn"),
    ("SELECT * FROM 'x'", "'x'", "expected a table name, found a string"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, ))", ")", "expected an argument, found ')'"),
    ("SELECT a FROM t /*+ OPTIONS('a') b */", "b", "unexpected 'b'"),
    ("CREATE TABLE t (a INT METADATA VIRTUL)", "VIRTUL", "expected ')', found 'VIRTUL'"),
    ("CREATE TABLE t (PRIMARY KEY (a))", ")", "expected NOT ENFORCED, found ')'"),
    ("CREATE TABLE t (a INT) WITH ('a' = b)", "b", "expected a string, found 'b'"),
    ("CREATE TABLE t (WATERMARK FOR a ts)", "ts", "expected AS, found 'ts'"),
    ("CREATE VIEW v SELECT 1", "SELECT", "expected AS, found 'SELECT'"),
    ("CREATE VIEW v AS", "", "expected a query, found the end of the statement"),
    ("INSERT t SELECT 1", "t", "expected INTO or OVERWRITE, found 't'"),
    ("DROP DATABSE x", "DATABSE", "expected TABLE, VIEW, DATABASE or CATALOG, found 'DATABSE'"),
    ("SHOW TABLES NOT 'x'", "'x'", "expected LIKE, found a string"),
    ("SET a = b c", "c", "expected the end of the statement, found 'c'"),
    ("SELECT a FROM ${T}", "{", "unexpected '{'"),
]


@pytest.mark.parametrize(("sql", "token", "message"), CASES)
def test_an_error_stands_at_its_token(sql: str, token: str, message: str) -> None:
    """Offsets cut the wrong token out of the text; at the end of the text nothing is left to cut."""
    with pytest.raises(FlinkParseError) as caught:
        sqlglot.parse_one(sql, read=Flink)
    error = caught.value

    assert sql[error.start : error.end + 1] == token
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("MERGE INTO t USING u ON t.a = u.a", "MERGE"),
    ],
)
def test_what_flink_has_and_we_have_not_is_refused_by_name(sql: str, what: str) -> None:
    """Not a syntax error, but a clear no."""
    with pytest.raises(FlinkParseError, match="is not supported") as caught:
        sqlglot.parse_one(sql, read=Flink)

    assert caught.value.unsupported
    assert caught.value.message == f"{what} is not supported"


def test_an_error_never_shows_a_string() -> None:
    """It may be a password in the wrong place."""
    with pytest.raises(FlinkParseError) as caught:
        sqlglot.parse_one("CREATE TABLE t (a INT) WITH ('password' 'hunter2')", read=Flink)

    assert "hunter2" not in caught.value.message


def test_a_placeholder_that_nothing_was_put_in_for_is_told_of_templates() -> None:
    """Shells and other tools write values into SQL so; here templates do."""
    with pytest.raises(FlinkParseError) as caught:
        sqlglot.parse_one("SELECT a FROM ${TOPIC}", read="flink")

    assert "{{ var('TOPIC') }}" in str(caught.value.hint)


# --- what sqlglot does not follow is left to Spark; a bug of ours that sqlglot calls upon is ---


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
