"""Statements other than definitions of tables: what is read is written again as the same, and errors stand at their token."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.sql.dialect import Flink
from penstock.sql.syntax.parse_errors import FlinkParseError

STATEMENTS = """
SHOW CATALOGS NOT ILIKE 'x%'
SHOW CURRENT CATALOG
SHOW DATABASES FROM c LIKE 'd_'
SHOW TABLES FROM c.d NOT LIKE 'x'
SHOW MATERIALIZED TABLES
SHOW COLUMNS FROM a.b NOT LIKE 'x'
SHOW PARTITIONS d.t
SHOW PARTITIONS t PARTITION (a = 'x', b = 2)
SHOW USER FUNCTIONS FROM c.d LIKE 'x'
SHOW PROCEDURES FROM c.d ILIKE 'x'
SHOW FULL MODULES
SHOW JARS
SHOW JOBS
SHOW CREATE OR ALTER MATERIALIZED TABLE m
DESCRIBE CATALOG EXTENDED c
DESCRIBE DATABASE c.d
DESCRIBE FUNCTION EXTENDED f
DESCRIBE JOB 'etl/t'
DESCRIBE catalog
DESCRIBE EXTENDED c.d.t
CREATE FUNCTION f AS 'm.a' LANGUAGE PYTHON
CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS f AS 'com.x.Y' LANGUAGE JAVA USING JAR '/a.jar', JAR 'b.jar'
CREATE TEMPORARY FUNCTION c.d.f AS 'com.x.Y' WITH ('a' = 'b')
ALTER TEMPORARY SYSTEM FUNCTION IF EXISTS f AS 'x.Y' LANGUAGE SCALA
DROP TEMPORARY FUNCTION IF EXISTS f
INSERT OVERWRITE t PARTITION (a = 'x', b = 2) (c, d) SELECT 1, 2
INSERT INTO t /*+ OPTIONS('a'='b') */ PARTITION (a = 'x') SELECT 1
INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING
UPDATE t SET a = 1, b = b + 1 WHERE c > 2
DELETE FROM c.t WHERE a = 'x'
TRUNCATE TABLE c.d.t
ANALYZE TABLE t PARTITION (a = 1, b) COMPUTE STATISTICS FOR COLUMNS a, b
ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS
CALL c.`s y`.p(1, 'a', INTERVAL '1' DAY)
CALL p(a => 1, b => 'x')
CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '3' MINUTE AS SELECT * FROM t
CREATE OR ALTER MATERIALIZED TABLE c.d.m (PRIMARY KEY (id) NOT ENFORCED) COMMENT 'x' PARTITIONED BY (a) WITH ('k' = 'v') FRESHNESS = INTERVAL '3' MINUTE REFRESH_MODE = FULL AS SELECT id, a FROM t
ALTER MATERIALIZED TABLE m SUSPEND
ALTER MATERIALIZED TABLE m RESUME WITH ('a' = 'b')
ALTER MATERIALIZED TABLE m REFRESH PARTITION (ds = '2024')
ALTER MATERIALIZED TABLE m AS SELECT 1 AS a
ALTER MATERIALIZED TABLE m SET ('a' = 'b')
ALTER MATERIALIZED TABLE m RESET ('a', 'b')
DROP MATERIALIZED TABLE IF EXISTS m
ADD JAR '/x.jar'
REMOVE JAR '/x.jar'
LOAD MODULE hive WITH ('a' = 'b')
UNLOAD MODULE core
USE MODULES core, hive
STOP JOB 'x' WITH SAVEPOINT WITH DRAIN
EXPLAIN CHANGELOG_MODE, PLAN_ADVICE INSERT INTO t SELECT 1
EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT a FROM u; END
EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT CASE WHEN a THEN 1 END FROM u; INSERT INTO v SELECT 1; END
EXECUTE STATEMENT SET BEGIN CREATE TABLE t WITH ('a' = 'b') AS SELECT 1; INSERT INTO v SELECT 1; END
CREATE MODEL m INPUT (a INT) OUTPUT (b STRING) WITH ('provider' = 'x')
COMPILE AND EXECUTE PLAN '/a.json' FOR INSERT INTO t SELECT 1
EXECUTE PLAN '/a.json'
""".strip().splitlines()

SAME = (
    ("EXECUTE INSERT INTO t SELECT 1", "INSERT INTO t SELECT 1"),
    ("EXPLAIN PLAN FOR SELECT 1", "EXPLAIN SELECT 1"),
    ("SHOW VIEWS IN d", "SHOW VIEWS FROM d"),
    (
        "BEGIN STATEMENT SET; INSERT INTO t SELECT 1; END",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ),
)
ERRORS = (
    ("SHOW NONSENSE", "NONSENSE"),
    ("SHOW COLUMNS t", "t"),
    ("SHOW CATALOGS NOT 'x'", "'x'"),
    ("CREATE FUNCTION f", ""),
    ("CREATE FUNCTION f AS 'x' LANGUAGE RUST", "RUST"),
    ("CREATE FUNCTION f AS x", "x"),
    ("UPDATE t WHERE a = 1", "WHERE"),
    ("UPDATE t SET a b", "b"),
    ("DELETE t", "t"),
    ("TRUNCATE t", "t"),
    ("CALL p(1,)", ")"),
    ("CREATE MATERIALIZED TABLE m FRESHNESS = 3 AS SELECT 1", "3"),
    ("CREATE MATERIALIZED TABLE m REFRESH_MODE = SOMETIMES AS SELECT 1", "SOMETIMES"),
    ("ALTER MATERIALIZED TABLE m STOP", "STOP"),
    ("STOP JOB x", "x"),
    ("STOP JOB 'x' WITH PLEASURE", "PLEASURE"),
    ("USE MODULES core,", ""),
    ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", "SELECT"),
    ("EXECUTE STATEMENT SET BEGIN CREATE TABLE t (a INT); END", "CREATE"),
    ("EXECUTE STATEMENT SET BEGIN CREATE VIEW v AS SELECT 1; END", "CREATE"),
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_in_its_one_spelling_is_written_as_it_was_read(sql: str) -> None:
    """parse, write: the same text; parse again: the same tree."""
    tree = sqlglot.parse_one(sql, read=Flink)

    assert tree.sql(Flink) == sql
    assert sqlglot.parse_one(tree.sql(Flink), read=Flink) == tree


@pytest.mark.parametrize(("longer", "shorter"), SAME)
def test_two_spellings_of_a_statement_are_one_tree(longer: str, shorter: str) -> None:
    """What Flink takes in older or longer words is written in the shorter ones."""
    assert sqlglot.transpile(longer, read=Flink, write=Flink) == [shorter]


@pytest.mark.parametrize(("sql", "token"), ERRORS)
def test_an_error_stands_at_its_token(sql: str, token: str) -> None:
    """At the end of the text nothing is left to point at."""
    with pytest.raises(FlinkParseError) as caught:
        sqlglot.parse_one(sql, read=Flink)

    assert sql[caught.value.start : caught.value.end + 1] == token


def test_a_statement_set_does_not_swallow_what_follows() -> None:
    """Its own END ends it; the semicolons inside do not."""
    sql = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; INSERT INTO u SELECT 2; END; SELECT 3"
    )

    trees = sqlglot.parse(sql, read=Flink)

    assert [tree and tree.key for tree in trees] == ["statementsetblock", "select"]


@pytest.mark.parametrize(
    ("bare", "quoted"),
    [
        ("SET table.exec.mini-batch.enabled = true", "SET 'table.exec.mini-batch.enabled' = 'true'"),
        ("SET sql-client.execution.result-mode=tableau;", "SET 'sql-client.execution.result-mode' = 'tableau'"),
        ("set pipeline.name = 'a b'", "SET 'pipeline.name' = 'a b'"),
        ("SET 'parallelism.default' = 3", "SET 'parallelism.default' = '3'"),
        ("SET env.java.opts = -Da=b", "SET 'env.java.opts' = '-Da=b'"),
        ("RESET table.local-time-zone", "RESET 'table.local-time-zone'"),
    ],
)  # fmt: skip
def test_set_and_reset_take_keys_and_values_without_quotes(bare: str, quoted: str) -> None:
    """As Flink's SetOperationParseStrategy: up to the next blank."""
    assert sqlglot.parse_one(bare, read="flink").sql("flink") == quoted


@pytest.mark.parametrize(
    "sql",
    [
        "SET a = 5 min",
        "SET dir = file:///x",
        "SET a",
        "SET a =",
        "SET = b",
        "RESET a b",
        "SET a -- b",
    ],
)
def test_set_without_quotes_refuses_what_a_blank_or_a_comment_cuts(sql: str) -> None:
    """A value is never shortened in silence."""
    with pytest.raises(FlinkParseError):
        sqlglot.parse_one(sql, read="flink")


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("EXECUTE SELECT a FROM t", "SELECT a FROM t"),
        ("EXPLAIN EXECUTE SELECT a FROM t", "EXPLAIN SELECT a FROM t"),
        ("CREATE TABLE t (a VARCHAR(9) CHARACTER SET `UTF-16LE`)", "CREATE TABLE t (a VARCHAR(9))"),
        ("SELECT CAST(a AS CHAR(3) CHARACTER SET UTF8 NOT NULL)", "SELECT CAST(a AS CHAR(3) NOT NULL)"),
    ],
)  # fmt: skip
def test_words_that_change_nothing_are_passed_over(written: str, plain: str) -> None:
    """EXECUTE in front of a query, and the character set of a text, which is Unicode in any case."""
    assert sqlglot.parse_one(written, read="flink").sql("flink") == plain
