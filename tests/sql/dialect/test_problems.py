"""A syntax error stands at the token that is wrong, and says so in SQL's words."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.sql.dialect import Flink
from penstock.sql.dialect.problems import FlinkParseError

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
    ("INSERT t SELECT 1", "t", "expected INTO, found 't'"),
    ("DROP DATABSE x", "DATABSE", "expected TABLE or VIEW, found 'DATABSE'"),
    ("SHOW TABLES NOT 'x'", "'x'", "expected LIKE, found a string"),
    ("SET a = b", "a", "expected a string, found 'a'"),
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
        ("CREATE TABLE t LIKE u", "CREATE TABLE ... LIKE"),
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE ... AS"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 4 BUCKETS", "DISTRIBUTED"),
        ("CREATE TABLE t (a RAW('x', 'y'))", "the type RAW"),
        ("CREATE TABLE t (a TIMESTAMP(3) WITH TIME ZONE)", "TIMESTAMP WITH TIME ZONE"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
        ("INSERT OVERWRITE t SELECT 1", "INSERT OVERWRITE"),
        ("INSERT INTO t PARTITION (a = 1) SELECT 1", "PARTITION in INSERT"),
        ("ALTER TABLE t ADD x INT", "ALTER"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("SHOW FUNCTIONS", "SHOW FUNCTIONS"),
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
