"""Queries from their SQL to their changes: planned, run batch by batch, equal to the batch answer after each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.runtime.run import KeyedRun
from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.plan.placement.blocks import IncrementalPlan
from penstock.sql.syntax.nodes import ScanTable
from tests.sql.maintain.maintaining import batch_of, open_run
from tests.sql.maintain.planned import plan

Row = tuple[Any, ...]
TYPES = {
    "events": "id BIGINT, k STRING, x INT",
    "cdc": "id BIGINT, region STRING, amount INT",
    "latest": "id BIGINT, region STRING, amount INT",
}
NAMES = {
    table: tuple(part.split()[0] for part in types.split(", ")) for table, types in TYPES.items()
}
# the table has more columns, and what is read of it these three
BEST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC, id) AS n FROM cdc)"
RANKED = (
    "(SELECT id, region, DENSE_RANK() OVER (PARTITION BY region ORDER BY amount) AS n FROM latest)"
)
FIRST = "(SELECT id, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC, id) AS n FROM events)"
PER_REGION = "(SELECT region, MAX(amount) AS m, COUNT(*) AS c FROM cdc GROUP BY region)"
SOME_REGIONS = (
    "SELECT CASE region WHEN 'r0' THEN region END AS r, COUNT(*) AS c FROM {} "
    "GROUP BY CASE region WHEN 'r0' THEN region END"
)
# means the same in Flink SQL and to DuckDB
QUERIES = {
    "chain": f"SELECT c, COUNT(*), SUM(m) FROM {PER_REGION} AS r GROUP BY c",
    "grouping sets": "SELECT region, amount % 3, GROUPING(region), COUNT(DISTINCT region), MAX(amount) FROM cdc "
    "GROUP BY GROUPING SETS ((region, amount % 3), (amount % 3), ()) HAVING COUNT(*) > 1 OR GROUPING(region) = 1",
    "extremes": "SELECT region, MAX(amount), MIN(id), COUNT(DISTINCT amount) FROM cdc GROUP BY region HAVING COUNT(*) > 1",
    "best": f"SELECT region, id FROM {BEST} AS b WHERE n <= 2",
    "join": "SELECT c.id, l.region, l.amount FROM cdc AS c FULL JOIN latest AS l ON c.id = l.id AND c.amount < l.amount",
    "both without a match": f"SELECT DISTINCT a.r, b.r FROM ({SOME_REGIONS.format('cdc')}) AS a FULL JOIN "
    f"({SOME_REGIONS.format('latest')}) AS b ON a.r = b.r",
    "ranked": f"SELECT region, id, n FROM {RANKED} AS b WHERE n <= 2",
    "first of inserts": f"SELECT k, id FROM {FIRST} AS b WHERE n <= 2 AND id > 3",
    "regular join": "SELECT a.k, b.id FROM events AS a LEFT JOIN events AS b ON a.id = b.x",
    "inner join with filters": "SELECT c.id, e.x + 1 FROM cdc c, events e WHERE c.id = e.id AND e.x > 2 AND c.amount > 3",
    "upserts": "SELECT region, SUM(amount), COUNT(*) FROM latest WHERE amount > 2 GROUP BY region",
    "semi and anti": "SELECT id, region FROM latest l WHERE EXISTS (SELECT 1 FROM events e WHERE e.id = l.id) "
    "AND NOT EXISTS (SELECT 1 FROM cdc WHERE cdc.id = l.id AND cdc.amount > l.amount) AND region IN (SELECT k FROM events)",
    "distinct": "SELECT DISTINCT k, x FROM events",
    "distinct values of inserts": "SELECT k, COUNT(DISTINCT x), SUM(DISTINCT x), COUNT(DISTINCT id) FILTER (WHERE x > 2), "
    "MAX(id), COUNT(*) FROM events GROUP BY k HAVING COUNT(DISTINCT x) > 2 AND COUNT(*) < 9",
    "sets": "SELECT region, amount FROM cdc INTERSECT SELECT region, amount FROM latest",
    "union": "SELECT region AS r FROM cdc UNION SELECT k FROM events EXCEPT SELECT region FROM latest",
    "share": f"SELECT r.region, r.c, t.total FROM {PER_REGION} AS r CROSS JOIN (SELECT COUNT(*) AS total FROM cdc) AS t",
    "three joins": f"SELECT e.id, r.m, l.amount FROM events AS e JOIN {PER_REGION} AS r ON e.k = r.region "
    "LEFT JOIN latest AS l ON l.id = e.id AND l.amount > 2",
    "linear": "SELECT region, SUM(amount) + 1, COUNT(*) FILTER (WHERE id > 3), COUNT(amount) FROM cdc "
    "GROUP BY region HAVING SUM(amount) > 5",
    "joined and grouped": "SELECT c.region, COUNT(*), SUM(e.x) FROM cdc c JOIN events e ON c.id = e.id GROUP BY c.region",
    "sums of grouping sets": "SELECT region, id % 2, GROUPING_ID(id % 2, region), SUM(amount) + 1, COUNT(*) FROM latest "
    "GROUP BY ROLLUP (region, id % 2)",
    "grouping sets of a join": "SELECT l.region, c.region, SUM(c.amount) FROM cdc AS c JOIN latest AS l ON c.id = l.id "
    "GROUP BY CUBE (l.region, c.region) HAVING COUNT(*) > 0",
    "all": "SELECT COUNT(*), MAX(amount) FROM cdc",
    "sums of what Spark computes": "SELECT id % 2, COUNT(*) FILTER (WHERE UPPER(region) = 'R0'), "
    "SUM(CASE WHEN LOWER(region) = 'r1' THEN amount END), SUM(amount) FROM cdc GROUP BY id % 2",
    "numbered elements": "SELECT u.n, COUNT(*), SUM(u.v), MAX(u.v) FROM cdc CROSS JOIN UNNEST(ARRAY[amount, 7, id]) "
    "WITH ORDINALITY AS u (v, n) GROUP BY u.n",
    "grouped by a value": "SELECT amount % 3, COUNT(*) FROM cdc GROUP BY amount % 3",
}
LISTS = {
    "of a maximum": "SELECT region, ABS(MAX(amount) - 5), CONCAT(UPPER(region), CAST(COUNT(*) AS STRING)), "
    "LOWER(region) LIKE '%1' FROM cdc GROUP BY region HAVING MAX(amount) > 1",
    "below another": "SELECT a, COUNT(*) FROM (SELECT region, ABS(SUM(amount) - 9) AS a FROM cdc GROUP BY region) AS t "
    "GROUP BY a",
    "without a key": "SELECT CONCAT('n', CAST(COUNT(DISTINCT amount) AS STRING)), ABS(MIN(amount)) FROM latest",
    "of a computed key": "SELECT CONCAT('n', CAST(amount % 3 AS STRING)), ABS(SUM(id)), SUM(id) FROM cdc "
    "GROUP BY amount % 3",
}
"""Queries with a SELECT list that keyed operators do not compute."""
SOME = ("chain", "best", "both without a match", "sums of what Spark computes")


@dataclass
class Tables:
    """Rows of the three tables, and random changes of them; those of a batch are in order."""

    draw: random.Random
    rows: dict[str, Counter[Row]] = field(default_factory=lambda: {t: Counter() for t in TYPES})
    keyed: dict[str, dict[int, Row]] = field(default_factory=lambda: {"cdc": {}, "latest": {}})

    def batch(self, count: int) -> dict[str, list[Row]]:
        """Draw the changes of a batch, their kind last but in events."""
        changes: dict[str, list[Row]] = {table: [] for table in TYPES}
        for _ in range(count):
            event = (self.draw.randrange(8), self._region(), self.draw.randrange(8))
            changes["events"].append(event)
            self.rows["events"][event] += 1
            for table in ("cdc", "latest"):
                changes[table] += self._change(table)
        return changes

    def _region(self) -> str:
        return f"r{self.draw.randrange(3)}"

    def _change(self, table: str) -> Iterator[Row]:
        known, key = self.keyed[table], self.draw.randrange(8)
        before = known.pop(key, None)
        after = (key, self._region(), self.draw.randrange(8))
        if before is not None:
            self.rows[table] -= Counter([before])
        goes = before is not None and self.draw.random() < 0.3
        if not goes:
            known[key] = after
            self.rows[table][after] += 1
        if table == "latest":
            yield (*after, int(RowKind.DELETE if goes else RowKind.UPDATE_AFTER))
            return
        if before is not None:
            yield (*before, int(RowKind.DELETE if goes else RowKind.UPDATE_BEFORE))
        if not goes:
            yield (*after, int(RowKind.INSERT if before is None else RowKind.UPDATE_AFTER))


def feed(
    spark: SparkSession,
    query: IncrementalPlan,
    tables: Sequence[str],
    batch: Mapping[str, list[Row]],
) -> Any:
    """Give what Spark streams for the rows of a batch."""
    tree = query.query.copy()
    for node in tree.find_all(ScanTable):
        table = tables[node.scan]
        types = TYPES[table] + ("" if table == "events" else f", {ROW_KIND} TINYINT")
        rows = spark.createDataFrame(batch[table], types.replace("BIGINT", "LONG"))
        rows.coalesce(1).createOrReplaceTempView(f"planned_{table}")
        node.set("this", exp.to_identifier(f"planned_{table}"))
    return spark.sql(to_spark_query(tree))


def answer(query: str, rows: Mapping[str, Counter[Row]]) -> Counter[Row]:
    """Give what the query means over all rows at once."""
    with duckdb.connect() as connection:
        for table, types in TYPES.items():
            connection.execute(f"CREATE TABLE {table} ({types})")
            if rows[table]:
                connection.executemany(
                    f"INSERT INTO {table} VALUES (?, ?, ?)", list(rows[table].elements())
                )
        return Counter(connection.execute(query).fetchall())


def check(
    spark: SparkSession,
    folder: Path,
    sql: str,
    *,
    batches: int,
    keyed: bool,
    lists_apart: bool = False,
) -> None:
    """Run a query over random batches, one of them a second time, and compare after each."""
    query, tables = plan(sql, lists_apart=lists_apart), Tables(draw=random.Random(3))
    names = tuple(query.tables)
    run: IncrementalRun | KeyedRun | None = None
    given: Counter[Row] = Counter()
    for batch_id in range(batches):
        frame = feed(spark, query.plan, names, tables.batch(4))
        run = run or open_run(frame, query.plan.maintained, f"file:{folder}", keyed=keyed)
        for attempt in range(2 if batch_id == 1 else 1):
            with batch_of(run, frame, batch_id) as changes:
                found = [tuple(row) for row in changes.collect()]
            if attempt == 0:
                for *row, kind in found:
                    given[tuple(row)] += 1 if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1

        assert +given == answer(sql, tables.rows), f"batch {batch_id}"
        assert min(given.values(), default=0) >= 0


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("name", SOME)
def test_the_changes_make_the_batch_answer(
    spark: SparkSession, tmp_path: Path, name: str, *, keyed: bool
) -> None:
    """After every batch, and when one is run again: an operator of each kind."""
    check(spark, tmp_path, QUERIES[name], batches=2, keyed=keyed)


@pytest.mark.parametrize("name", LISTS)
def test_lists_that_are_computed_behind_keyed_operators_make_it_too(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Spark computes these: no keyed operator would run the query with them in its stage."""
    check(spark, tmp_path, LISTS[name], batches=3, keyed=True, lists_apart=True)
    with pytest.raises(AssertionError, match="the expression"):
        check(spark, tmp_path / "other", LISTS[name], batches=1, keyed=True)


@pytest.mark.nightly
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_so_do_those_of_every_query(
    spark: SparkSession, tmp_path: Path, name: str, *, keyed: bool
) -> None:
    """Over one batch more."""
    check(spark, tmp_path, QUERIES[name], batches=3, keyed=keyed)
