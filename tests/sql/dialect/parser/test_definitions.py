"""CREATE, ALTER and DROP of what a catalog holds: read, written and read again, and errors at their tokens."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.sql.dialect import Flink
from penstock.sql.syntax.parse_errors import FlinkParseError

STATEMENTS = r"""
CREATE DATABASE IF NOT EXISTS c.d COMMENT 'x' WITH ('a' = 'b')
CREATE CATALOG IF NOT EXISTS c COMMENT 'x' WITH ('type' = 'generic_in_memory', 'default-database' = 'd')
ALTER DATABASE c.d SET ('a' = 'b', 'c' = 'd')
ALTER CATALOG c SET ('a' = 'b')
ALTER CATALOG c RESET ('a', 'b')
ALTER CATALOG c COMMENT 'x'
DROP CATALOG IF EXISTS c
DROP DATABASE IF EXISTS c.d CASCADE
DROP DATABASE d RESTRICT
CREATE TABLE t (a INT) WITH ('x' = 'y') LIKE u (INCLUDING ALL EXCLUDING OPTIONS OVERWRITING WATERMARKS)
CREATE TABLE t LIKE c.d.u
CREATE TABLE IF NOT EXISTS t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('a' = 'b') AS SELECT a, b FROM u
CREATE TABLE t (b, a) AS WITH x AS (SELECT 1 AS a, 2 AS b) SELECT * FROM x
CREATE TABLE t AS VALUES (1, 'a')
CREATE OR REPLACE TABLE t WITH ('a' = 'b') AS SELECT a FROM u
REPLACE TABLE t (x INT) COMMENT 'x' AS SELECT a FROM u
CREATE TABLE t (a INT) COMMENT 'x' DISTRIBUTED BY HASH (a, b) INTO 4 BUCKETS PARTITIONED BY (a) WITH ('a' = 'b')
CREATE TABLE t (a INT) DISTRIBUTED INTO 3 BUCKETS
CREATE TABLE t (a INT) DISTRIBUTED BY RANGE(a)
CREATE TABLE t (`watermark` INT, watermark INT, `comment` STRING COMMENT 'x')
ALTER TABLE t RENAME TO c.d.u
ALTER TABLE IF EXISTS t SET ('a' = 'b')
ALTER TABLE t SET ()
ALTER TABLE t RESET ('a', 'b')
ALTER TABLE t ADD a INT
ALTER TABLE t ADD (a INT COMMENT 'x' FIRST, b AS a + 1 AFTER c, m STRING METADATA FROM 'k' VIRTUAL)
ALTER TABLE t ADD (WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, CONSTRAINT k PRIMARY KEY (a) NOT ENFORCED)
ALTER TABLE t ADD PRIMARY KEY (a) NOT ENFORCED
ALTER TABLE t ADD WATERMARK FOR ts AS ts
ALTER TABLE t ADD DISTRIBUTION BY HASH(a) INTO 4 BUCKETS
ALTER TABLE t MODIFY DISTRIBUTION INTO 4 BUCKETS
ALTER TABLE t ADD PARTITION (a = 1, b = 'x') WITH ('k' = 'v') PARTITION (a = 2, b = 'y')
ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = 1)
ALTER TABLE t MODIFY a BIGINT NOT NULL AFTER b
ALTER TABLE t MODIFY (a BIGINT FIRST, WATERMARK FOR ts AS ts)
ALTER TABLE t DROP a
ALTER TABLE t DROP (a, b)
ALTER TABLE t DROP `partition`
ALTER TABLE t DROP PRIMARY KEY
ALTER TABLE t DROP CONSTRAINT k
ALTER TABLE t DROP WATERMARK
ALTER TABLE t DROP DISTRIBUTION
ALTER TABLE t DROP PARTITION (a = 1), PARTITION (a = 2)
ALTER TABLE t DROP IF EXISTS PARTITION (a = 1)
ALTER TABLE t RENAME a TO b
ALTER TABLE t RENAME `to` TO b
ALTER VIEW v RENAME TO w
ALTER VIEW c.d.v AS SELECT * FROM t UNION ALL SELECT 1
"""


@pytest.mark.parametrize("sql", STATEMENTS.strip().splitlines())
def test_what_is_written_reads_back_as_the_same_tree(sql: str) -> None:
    """And what is written then is written so again."""
    tree = sqlglot.parse_one(sql, read=Flink)
    written = tree.sql(Flink)

    assert sqlglot.parse_one(written, read=Flink) == tree
    assert sqlglot.parse_one(written, read=Flink).sql(Flink) == written


@pytest.mark.parametrize(
    ("sql", "token", "message"),
    [
        ("CREATE DATABASE", "", "expected a database, found the end of the statement"),
        ("CREATE CATALOG c WITH (type = 'x')", "type", "expected a string, found 'type'"),
        ("CREATE TABLE t LIKE u (INCLUDING)", ")", "expected what to take over, found ')'"),
        ("CREATE TABLE t LIKE u (OVERWRITING ALL)", "OVERWRITING", "unexpected 'OVERWRITING'"),
        (
            "CREATE TABLE t LIKE u (INCLUDING OPTIONS EXCLUDING OPTIONS)",
            "OPTIONS",
            "OPTIONS is given twice",
        ),
        ("CREATE TABLE t (a, b INT) AS SELECT 1", "a", "the column 'a' has no type"),
        ("CREATE TABLE t (a)", "a", "the column 'a' has no type"),
        ("REPLACE TABLE t (a INT)", "", "expected AS, found the end of the statement"),
        (
            "CREATE TABLE t (a INT) DISTRIBUTED INTO 0 BUCKETS",
            "0",
            "expected a number of buckets, found '0'",
        ),
        (
            "ALTER TABLE t ENLARGE",
            "ENLARGE",
            "expected ADD, MODIFY, DROP, RENAME, SET, RESET, found 'ENLARGE'",
        ),
        ("ALTER TABLE t ADD a", "", "expected a type, found the end of the statement"),
        ("ALTER TABLE t ADD (a INT AFTER)", ")", "expected a column, found ')'"),
        ("ALTER TABLE t RENAME a b", "b", "expected TO, found 'b'"),
        ("ALTER VIEW v SET ('a' = 'b')", "SET", "expected RENAME TO or AS, found 'SET'"),
        ("ALTER DATABASE d RESET ('a')", "RESET", "expected SET, found 'RESET'"),
        (
            "ALTER TABEL t DROP a",
            "TABEL",
            "expected TABLE, VIEW, DATABASE or CATALOG, found 'TABEL'",
        ),
    ],
)
def test_an_error_stands_at_its_token(sql: str, token: str, message: str) -> None:
    """With what would have been right."""
    with pytest.raises(FlinkParseError) as caught:
        sqlglot.parse_one(sql, read=Flink)
    error = caught.value

    assert error.message == message
    assert sql[error.start : error.end + 1] == token
