"""What the dialect reads it writes again so that it reads the same: one line for each form of the language."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from penstock.sql.dialect import Flink

QUERIES = r"""
SELECT a, b FROM t
SELECT DISTINCT a FROM t
SELECT `a b`, t.c.d, `we``ird` FROM cat.db.t AS t WHERE a > 1 AND b LIKE 'x%' ESCAPE '!'
SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' SECOND)) AS w
SELECT * FROM TABLE(HOP(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES))
SELECT * FROM CUMULATE(TABLE db.bids, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY, INTERVAL '3' HOUR) AS w
SELECT * FROM SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND(3)) w JOIN t ON w.k = t.k
SELECT * FROM TABLE(SESSION(DATA => TABLE bids PARTITION BY (k, j), TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' DAY))
SELECT * FROM TUMBLE((SELECT * FROM bids WHERE x = 1), DESCRIPTOR(ts), INTERVAL '1:30' HOUR TO MINUTE)
SELECT * FROM TABLE(TUMBLE(TABLE bids /*+ OPTIONS('a'='b') */, DESCRIPTOR(ts), INTERVAL '100' SECOND))
SELECT * FROM t /*+ OPTIONS('scan.startup.mode'='latest-offset', 'a' = 'b') */ AS x, u
SELECT * FROM t /*+ OPTIONS('a'='b') */ JOIN u /*+ OPTIONS('c'='d') */ ON t.a = u.a
SELECT /*+ BROADCAST(t), STATE_TTL('t'='1d') */ a FROM t
WITH x AS (SELECT 1 AS a), y AS (SELECT * FROM x) SELECT * FROM y UNION ALL SELECT 2
SELECT a FROM t INTERSECT SELECT b FROM u EXCEPT SELECT c FROM v
SELECT CAST(a AS ROW<x INT NOT NULL, y ARRAY<MAP<STRING, BYTES>> 'doc'>), TRY_CAST(b AS DECIMAL(10, 2)), CAST(c AS MULTISET<INT>)
SELECT CAST(a AS VARCHAR(3)), CAST(a AS CHAR(2)), CAST(a AS BINARY(4)), CAST(a AS VARBINARY(5)), CAST(a AS TIME(3)), CAST(a AS INT ARRAY)
SELECT CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE), CAST(a AS TIMESTAMP(3) WITHOUT TIME ZONE), CAST(a AS DOUBLE PRECISION), CAST(a AS ROW(x INT))
SELECT ARRAY[1, 2][1], MAP['a', 1, 'b', 2]['a'], ROW(1, 'x'), (1, 2), m[k], x.y[2].z, ARRAY[ARRAY[1]][1][1]
SELECT TIMESTAMP '2020-01-01 00:00:00', DATE '2020-01-01', TIME '10:00:00', INTERVAL '-10' SECOND, INTERVAL -'3' DAY, INTERVAL '1-6' YEAR TO MONTH
SELECT COUNT(*), COUNT(DISTINCT a), SUM(a) FILTER (WHERE b > 1), LISTAGG(a), LISTAGG(DISTINCT a, ';'), FIRST_VALUE(x), ARRAY_AGG(x) FROM t
SELECT ARRAY_AGG(DISTINCT a IGNORE NULLS), ARRAY_AGG(a RESPECT NULLS) FILTER (WHERE b > 1), LAST_VALUE(a) IGNORE NULLS FROM t
SELECT ARRAY_AGG(a IGNORE NULLS ORDER BY b), LAST_VALUE(a) RESPECT NULLS OVER (ORDER BY b) FROM t
SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn, SUM(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM t
SELECT EXTRACT(HOUR FROM ts), FLOOR(ts TO DAY), CEIL(x), FLOOR(x), TIMESTAMPDIFF(DAY, a, b), TIMESTAMPADD(HOUR, 1, a)
SELECT CURRENT_TIMESTAMP, LOCALTIMESTAMP, CURRENT_DATE, CURRENT_TIME, LOCALTIME, NOW()
SELECT CASE WHEN a THEN 1 ELSE 2 END, CASE a WHEN 1 THEN 2 END, IF(a, 1, 2), COALESCE(a, b), IFNULL(a, b), NULLIF(a, 1)
SELECT a IS NOT NULL, a IS DISTINCT FROM b, a NOT IN (1, 2), a BETWEEN 1 AND 2, NOT a AND b OR c, a IS TRUE, a IN (SELECT b FROM t)
SELECT a || b, a / b, a % b, -a, TRIM(BOTH 'x' FROM a), TRIM(a), SUBSTRING(a FROM 1 FOR 2), SUBSTRING(a, 1), POSITION('a' IN b), OVERLAY(a PLACING b FROM 1 FOR 2)
SELECT JSON_VALUE(a, '$.b'), JSON_VALUE(a, '$.b' RETURNING INT NULL ON EMPTY), DATE_FORMAT(ts, 'yyyy'), my_fn(a), PROCTIME()
SELECT * FROM a LEFT JOIN b ON a.x = b.x AND a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts
SELECT * FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.c = r.c
SELECT * FROM t CROSS JOIN UNNEST(arr) AS u (x)
SELECT * FROM t, LATERAL TABLE(f(x)) AS u (x)
SELECT U&'\0041' || U&'!0041' UESCAPE '!' || 'it''s \n', X'1F', 1.5, 1e3
SELECT a FROM t GROUP BY GROUPING SETS ((a), (b)) HAVING COUNT(*) > 1 ORDER BY a LIMIT 10
SELECT a FROM t GROUP BY CUBE (a, b)
SELECT enum, pivot, unknown, file, format, type, value, `end` FROM t
VALUES (1, 'a'), (2, 'b')
SELECT m.* FROM (SELECT a, x FROM t) MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS y PATTERN (A) DEFINE A AS A.x > 1) AS m
SELECT t.* FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES A.x AS y ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+) DEFINE A AS A.x > 1) AS m
"""

STATEMENTS = """
INSERT INTO t (a, b) SELECT a, b FROM u
INSERT INTO t VALUES (1, CAST(NULL AS STRING)), (2, 'b')
INSERT INTO c.d.t /*+ OPTIONS('a'='b') */ WITH x AS (SELECT 1 AS y) SELECT * FROM x
CREATE TABLE t (a INT) WITH ('connector' = 'kafka')
CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t (id BIGINT NOT NULL COMMENT 'key', `k` STRING METADATA FROM 'key' VIRTUAL, off BIGINT METADATA, v AS a + 1 COMMENT 'x', ts TIMESTAMP(3), n ROW<a INT, b ROW<c STRING>>, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED) COMMENT 'hi' PARTITIONED BY (a, b) WITH ('a' = 'b', 'c' = 'it''s')
CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED)
CREATE TABLE t (a ROW(), b ROW() NOT NULL)
EXPLAIN CREATE TABLE q WITH ('a' = 'b') AS SELECT 1 AS x
CREATE TABLE t (x INT, CONSTRAINT ok PRIMARY KEY (x) NOT ENFORCED)
CREATE TABLE t (a ARRAY<INT NOT NULL> NOT NULL, b MAP<INT, ROW<c TIME(0), d INTERVAL DAY TO SECOND>>, e TIMESTAMP_LTZ(3))
CREATE VIEW v (a, b) COMMENT 'c' AS SELECT 1 AS x, 2 AS y
CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT * FROM t UNION ALL SELECT * FROM u
DROP TEMPORARY TABLE IF EXISTS c.d.t
DROP VIEW v
SET 'a' = 'b'
SET
RESET 'a'
RESET
SHOW TABLES
SHOW VIEWS FROM c.d NOT LIKE 'x%'
SHOW TABLES ILIKE 'x_'
SHOW CREATE TABLE a.b
DESCRIBE t
DESC EXTENDED t
USE CATALOG c
USE a.b
"""


def lines(text: str) -> list[str]:
    """One example a line."""
    return text.strip().splitlines()


@pytest.mark.parametrize("sql", [*lines(QUERIES), *lines(STATEMENTS)])
def test_what_is_written_reads_back_as_the_same_tree(sql: str) -> None:
    """parse, write, parse: the same tree, for every form of the language."""
    tree = sqlglot.parse_one(sql, read=Flink)
    written = tree.sql(Flink)

    assert sqlglot.parse_one(written, read=Flink) == tree


@pytest.mark.parametrize("sql", [*lines(QUERIES), *lines(STATEMENTS)])
def test_writing_twice_changes_nothing(sql: str) -> None:
    """The written form is the one spelling of its tree."""
    once = sqlglot.transpile(sql, read=Flink, write=Flink)[0]

    assert sqlglot.transpile(once, read=Flink, write=Flink)[0] == once


def test_the_dialect_is_known_by_name() -> None:
    """`read="flink"` works wherever sqlglot is."""
    assert sqlglot.parse_one("SELECT 1", read="flink").sql("flink") == "SELECT 1"


def test_a_plain_query_can_be_written_for_another_dialect() -> None:
    """Trees are sqlglot's own, so every writer of sqlglot knows them: types and array positions fit."""
    sql = "SELECT a[1], CAST(x AS TIMESTAMP(3)), CAST(y AS ROW<z INT>) FROM t"

    duckdb = sqlglot.transpile(sql, read="flink", write="duckdb")[0]

    assert duckdb == "SELECT a[1], CAST(x AS TIMESTAMP(3)), CAST(y AS STRUCT(z INT)) FROM t"


def test_nodes_know_their_place() -> None:
    """Columns, tables, functions, types and hints keep the offsets of their text."""
    sql = "SELECT f(x) FROM t /*+ OPTIONS('k'='v') */"
    tree = sqlglot.parse_one(sql, read=Flink)
    pair = tree.find(exp.PropertyEQ)
    call = tree.find(exp.Anonymous)

    assert pair is not None
    assert call is not None
    assert sql[pair.meta["start"] : pair.meta["end"] + 1] == "'k'='v'"
    assert sql[call.meta["start"] : call.meta["end"] + 1] == "f"


def test_a_functions_name_in_backticks_keeps_its_letters() -> None:
    """A plain one is written in capitals, as Flink's documents do."""
    sql = "SELECT `my F`(x), G(x) FROM t"

    assert sqlglot.parse_one(sql, read="flink").sql("flink") == sql
