"""Which conditions reading tasks check, and which are Spark's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

KAFKA = """'connector' = 'kafka', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'"""
TABLES = f"""
CREATE TABLE clicks (
  id BIGINT, url STRING, price DOUBLE, at TIMESTAMP(3), r ROW<url STRING, n INT>, same AS url, twice AS id * 2,
  tags ARRAY<STRING>, items ARRAY<ROW<id BIGINT, parts ARRAY<INT>>>, bag MULTISET<STRING>,
  WATERMARK FOR at AS at
) WITH ('topic' = 't', {KAFKA});
CREATE TABLE changes (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'topic' = 'c', 'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = 'nowhere:1', 'key.format' = 'json',
  'value.format' = 'json');
CREATE TABLE stored (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 's');
CREATE TABLE shown (id BIGINT, url STRING) WITH ('connector' = 'print');
CREATE TABLE spread (id BIGINT, tag STRING) WITH ('connector' = 'print');
CREATE TABLE counts (url STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW dear AS SELECT id AS number, url, price AS p FROM clicks WHERE price > 100;
CREATE VIEW renamed (x, y) AS SELECT url, id FROM clicks;
"""


def analysed(text: str) -> AnalysedQuery:
    namespace = new_namespace(TABLES)
    (statement,) = (parse_statement(one, namespace) for one in split(f"{text};", "f.sql"))
    assert isinstance(statement, InsertInto)
    return Analyzer(namespace=namespace, project=Path("/nowhere")).analyse_insert(statement).query


def pushed(query: str, sink: str = "shown") -> list[str]:
    """The parts that are checked while the first table is read; a last one where Spark checks others."""
    leaf = analysed(f"INSERT INTO {sink} {query}").leaves[0]
    if leaf.fragment is None or not leaf.fragment.parts:
        return []
    more = [] if leaf.fragment.filters_alone else ["..."]
    return [part.sql("flink") for part in leaf.fragment.parts] + more


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT id, url FROM clicks WHERE price > 100", ["price > 100"]),
        ("SELECT id, url FROM clicks AS c WHERE c.id IN (1, 2) OR url IS NULL", ["c.id IN (1, 2) OR url IS NULL"]),
        ("SELECT id, url FROM clicks WHERE (id > 1 AND url LIKE 'a%') AND price < 5",
         ["id > 1", "url LIKE 'a%'", "price < 5"]),
        ("SELECT id, url FROM clicks AS c WHERE r.n = 3 AND c.r.url = 'x'", ["r.n = 3", "c.r.url = 'x'"]),
        ("SELECT id, INITCAP(url) FROM clicks WHERE same = 'x'", ["same = 'x'"]),
        ("SELECT number, url FROM dear WHERE number > 3 AND p < 200", ["price > 100", "number > 3", "p < 200"]),
        ("SELECT y, x FROM renamed WHERE y = 5 AND x <> ''", ["y = 5", "x <> ''"]),
        ("WITH q AS (SELECT id AS a, url FROM clicks WHERE id < 9) SELECT * FROM q WHERE a > 1", ["id < 9", "a > 1"]),
        ("SELECT q.b, q.a FROM (SELECT url, id FROM clicks) AS q (a, b) WHERE q.b = 1 AND a = 'x'",
         ["q.b = 1", "a = 'x'"]),
        ("SELECT id, url FROM clicks WHERE at >= TIMESTAMP '2026-01-01 00:00:00'",
         ["at >= CAST('2026-01-01 00:00:00' AS TIMESTAMP)"]),
    ],
)  # fmt: skip
def test_conditions_over_the_columns_of_a_table_are_checked_where_it_is_read(
    query: str, parts: list[str]
) -> None:
    """By whatever name the query has for them."""
    assert pushed(query) == parts


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT id, url FROM clicks WHERE price > 100 AND INITCAP(url) = 'X' AND id = 1", ["price > 100", "..."]),
        ("SELECT id, url FROM clicks WHERE INITCAP(url) = 'X' AND id = 1", []),
        ("SELECT id, url FROM clicks WHERE twice = 4", []),
        ("SELECT number, url FROM dear WHERE INITCAP(url) = 'X'", ["price > 100", "..."]),
        ("SELECT a, url FROM (SELECT id AS a, url FROM clicks WHERE INITCAP(url) = 'X') WHERE a = 1", []),
        ("SELECT a, u FROM (SELECT id AS a, UUID() AS u FROM clicks) WHERE a = 1", []),
        ("SELECT a, u FROM (SELECT id AS a, INITCAP(url) AS u FROM clicks) WHERE a = 1 AND u = 'X'", ["a = 1", "..."]),
        ("SELECT a, u FROM (SELECT id + 1 AS a, url AS u FROM clicks) WHERE u = 'x'", ["u = 'x'"]),
        ("SELECT id, url FROM clicks WHERE id = 1 UNION ALL SELECT id, url FROM clicks WHERE id = 2", []),
        ("SELECT c.id, s.url FROM clicks AS c JOIN stored AS s ON c.id = s.id WHERE c.id = 1", []),
        ("SELECT c.id, s.url FROM (SELECT * FROM clicks WHERE id = 1) AS c JOIN stored AS s ON c.id = s.id",
         ["id = 1", "..."]),
        ("SELECT id, x FROM clicks CROSS JOIN UNNEST(ARRAY['a']) AS u (x) WHERE id = 1", []),
        ("SELECT id, url FROM stored WHERE id = 1", []),
    ],
)  # fmt: skip
def test_other_conditions_are_checked_by_spark(query: str, parts: list[str]) -> None:
    """What is not in the set and what follows it, what several rows, tables or reads stand behind."""
    assert pushed(query) == parts


@pytest.mark.parametrize(
    ("query", "parts", "behind"),
    [
        ("SELECT id, tag FROM clicks CROSS JOIN UNNEST(tags) AS t (tag) WHERE tag = 'x' AND id = 1 AND url = tag",
         ["id = 1"], 2),
        ("SELECT c.id, CAST(i.id AS STRING) FROM clicks AS c LEFT JOIN UNNEST(c.items) AS i (id, parts) ON TRUE WHERE c.id = 1 AND i.id = 2",
         ["c.id = 1"], 1),
        ("SELECT number, CAST(x AS STRING) FROM dear CROSS JOIN UNNEST(ARRAY[1]) AS t (x)", ["price > 100"], None),
        ("SELECT id, tag FROM clicks CROSS JOIN UNNEST(tags) AS t (tag) WHERE INITCAP(tag) = 'X' AND id = 1", [], 0),
        ("SELECT id, tag FROM clicks CROSS JOIN UNNEST(bag) AS t (tag) WHERE id = 1", [], None),
        ("SELECT q.id, tag FROM (SELECT id, tags FROM clicks WHERE INITCAP(url) = 'X') AS q "
         "CROSS JOIN UNNEST(q.tags) AS t (tag) WHERE id = 1", [], 0),
        ("SELECT id, CAST(part AS STRING) FROM (SELECT c.id, i.parts AS p FROM clicks AS c CROSS JOIN UNNEST(items) AS i (id, parts) "
         "WHERE i.id = 3) AS q CROSS JOIN UNNEST(q.p) AS t (part) WHERE part = 1", [], 2),
    ],
)  # fmt: skip
def test_conditions_of_rows_of_arrays_are_checked_where_their_columns_are_there(
    query: str, parts: list[str], behind: int | None
) -> None:
    """Those that are of no element in front of UNNEST; None: Spark makes the rows of the array."""
    fragment = analysed(f"INSERT INTO spread {query}").leaves[0].fragment

    assert fragment is not None
    assert [part.sql("flink") for part in fragment.parts] == parts
    if behind is None:
        assert fragment.unnesting is None
        assert fragment.columns is None
    else:
        assert fragment.unnesting is not None
        condition = fragment.unnesting.condition
        assert str(condition).count("function='equal'") == behind


def test_a_window_over_a_query_gets_its_rows_and_one_over_a_table_all() -> None:
    """It counts the late rows of the table before the condition is checked."""
    window = "TUMBLE({}, DESCRIPTOR(at), INTERVAL '1' MINUTE)"
    before = "SELECT url, COUNT(*) FROM " + window.format("(SELECT * FROM clicks WHERE id = 1)")
    after = "SELECT url, COUNT(*) FROM " + window.format("TABLE clicks") + " WHERE id = 1"
    end = " GROUP BY url, window_start, window_end"

    assert pushed(before + end, "counts") == ["id = 1", "..."]
    assert pushed(after + end, "counts") == []


def test_changes_are_checked_by_spark() -> None:
    """A row that an update takes out of the condition has to be deleted."""
    query = analysed(
        "INSERT INTO counts SELECT url, COUNT(*) FROM changes WHERE id = 1 GROUP BY url"
    )
    assert query.leaves[0].fragment is None
