"""Which queries send on each row they read: only these go without a count of the rows they send."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.sql.plan.rules.inline import is_plain_projection


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t",
        "SELECT a, b + 1 AS c, UPPER(d) FROM db.t AS x",
        "SELECT CASE WHEN a > 1 THEN 'x' END FROM t /*+ OPTIONS('scan.startup.mode'='latest-offset') */",
        "SELECT a FROM (SELECT a, b FROM t) AS v",
    ],
)
def test_one_row_for_each_row(query: str) -> None:
    assert is_plain_projection(sqlglot.parse_one(query, read="flink"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t WHERE a > 1",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t LIMIT 3",
        "SELECT a FROM t UNION ALL SELECT a FROM t",
        "SELECT a FROM t, u",
        "SELECT t.a FROM t JOIN u ON t.a = u.a",
        "SELECT a, COUNT(*) FROM t GROUP BY a",
        "SELECT COUNT(*) FROM t",
        "SELECT explode(a) FROM t",
        "SELECT some_function(a) FROM t",
        "SELECT a FROM (SELECT a FROM t WHERE a > 1) AS v",
        "SELECT a FROM (VALUES (1), (2)) AS v(a)",
        "SELECT a FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "SELECT a, ROW_NUMBER() OVER (ORDER BY b) FROM t",
        "SELECT ARRAY_AGG(a) FROM t",
        "SELECT x FROM t CROSS JOIN UNNEST(a) AS u(x)",
        "WITH v AS (SELECT a FROM t LIMIT 1) SELECT a FROM v",
        "SELECT 1",
    ],
)
def test_anything_else_is_counted(query: str) -> None:
    assert not is_plain_projection(sqlglot.parse_one(query, read="flink"))
