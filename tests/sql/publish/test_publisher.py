"""Plain Spark SQL sees the catalog: which names, with what in them, for how long, and what is left as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock
from penstock.catalog.errors import ConfigError
from penstock.sql.publish.text import PublishedName
from penstock.sql.session.session import Session

ORDERS = """
    CREATE TABLE orders (
      id BIGINT COMMENT 'the number on the bill', amount DOUBLE, at TIMESTAMP(3),
      cents AS CAST(amount * 100 AS BIGINT), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
    COMMENT 'what was bought'
    WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json')"""
SALES = """
    CREATE TABLE sales (id BIGINT COMMENT 'which', amount DOUBLE)
    WITH ('connector' = 'delta', 'path' = 'sales')"""


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session over an empty catalog, with a folder of three orders."""
    rows = [{"id": n, "amount": n * 1.5, "at": f"2024-05-01 10:00:{n:02d}.000"} for n in (1, 2, 30)]
    (project / "orders").mkdir()
    (project / "orders" / "a.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with penstock.connect(spark) as session:
        yield session


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    """The rows of a query of plain Spark SQL."""
    return sorted(tuple(row) for row in spark.sql(query).collect())


def test_spark_sql_reads_a_table_of_the_split_runtime(
    session: Session, spark: SparkSession
) -> None:
    """Computed columns and comments are there, in this Spark's other sessions too."""
    session.sql(ORDERS)
    described = {c.name: c.description for c in spark.catalog.listColumns("orders")}

    assert rows(spark, "SELECT id, cents FROM orders WHERE id < 9") == [(1, 150), (2, 300)]
    assert rows(spark.newSession(), "SELECT count(*) FROM orders") == [(3,)]
    assert described["id"] == "the number on the bill"
    assert spark.catalog.getTable("orders").description == "what was bought"


def test_a_delta_table_is_spark_s_own_once_something_was_written(
    session: Session, spark: SparkSession
) -> None:
    """Before that it has no rows; then Spark reads it by itself, so that filters reach its files."""
    session.sql(SALES)
    before = rows(spark, "SELECT * FROM sales")
    session.sql("INSERT INTO sales VALUES (1, 2.5), (2, 4.0)")
    plan = spark.table("sales").filter("id > 1")._jdf.queryExecution().executedPlan().toString()

    assert before == []
    assert rows(spark, "SELECT * FROM sales") == [(1, 2.5), (2, 4.0)]
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in plan
    assert [c.description for c in spark.catalog.listColumns("sales")] == ["which", None]


def test_views_are_written_for_spark(session: Session, spark: SparkSession) -> None:
    """Windows, functions and views of views; what they select as it stands keeps its comment."""
    session.sql(ORDERS)
    session.sql("CREATE VIEW small AS SELECT id, cents FROM orders WHERE amount < 9")
    session.sql("CREATE VIEW smaller (nr, c) AS SELECT id, cents FROM small WHERE id = 1")
    session.sql("""
        CREATE VIEW per_minute AS SELECT window_start, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end""")

    assert rows(spark, "SELECT * FROM smaller") == [(1, 150)]
    assert [n for _, n in rows(spark, "SELECT * FROM per_minute")] == [2, 1]
    assert spark.catalog.listColumns("smaller")[0].description == "the number on the bill"


def test_what_is_defined_can_be_asked_for(spark: SparkSession, project: Path) -> None:
    """A session that says so publishes information_schema, which each query reads anew."""
    query = (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'sales'"
    )
    with penstock.connect(spark, publish="session") as session:
        session.sql(SALES)

        assert rows(spark, query) == [("amount", "DOUBLE"), ("id", "BIGINT")]


def test_names_follow_what_is_defined_and_dropped(session: Session, spark: SparkSession) -> None:
    """Other databases are Spark's of the same name; an altered table shows its new column; stop() takes all away."""
    session.sql("CREATE DATABASE shop")
    session.sql(
        "CREATE TABLE shop.t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5')"
    )
    session.sql("CREATE VIEW shop.v AS SELECT * FROM shop.t")
    found = rows(spark, "SELECT count(*) FROM shop.v")
    session.sql("ALTER TABLE shop.t ADD b INT")
    altered = spark.table("shop.v").columns
    session.sql("DROP VIEW shop.v")
    listed = rows(spark, "SHOW TABLES IN shop")
    session.stop()

    assert found == [(5,)]
    assert altered == ["a", "b"]
    # temporary views of the whole Spark session are in every list
    assert [row for row in listed if not row[2]] == [("shop", "t", False)]
    assert not spark.catalog.databaseExists("shop")


def test_what_another_process_defines_is_seen_after_a_refresh(
    session: Session, spark: SparkSession, project: Path
) -> None:
    """So are its DROPs."""
    with penstock.connect(spark, publish="off") as other:
        other.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2')")
        session.refresh()
        found = rows(spark, "SELECT count(*) FROM t")
        other.sql("DROP TABLE t")
        session.refresh()

    assert found == [(2,)]
    assert not spark.catalog.tableExists("t")


def test_a_table_that_spark_has_already_stays(session: Session, spark: SparkSession) -> None:
    """The one of the catalog is left out, and said to be."""
    spark.sql("CREATE TABLE sales (theirs STRING) USING delta")
    try:
        session.sql(SALES)
        session.refresh()
        left = [(out.identifier.name, out.why) for out in session.published.left_out]
        session.stop()

        assert spark.table("sales").columns == ["theirs"]
        assert left == [
            ("sales", "Spark has a table `default`.`sales` already, which stays as it is")
        ]
    finally:
        spark.sql("DROP TABLE sales")


def test_durable_names_stay_and_are_those_that_others_can_read(
    session: Session, spark: SparkSession
) -> None:
    """A table that this process reads is none of them; the next durable session takes the others over.

    A session for itself brings them up to date, and does not take them away.
    """
    session.sql(SALES)
    session.sql(ORDERS)
    session.sql("INSERT INTO sales VALUES (1, 2.5)")
    session.stop()
    with penstock.connect(spark, publish="durable") as durable:
        left = {out.identifier.name for out in durable.published.left_out}
    try:
        assert rows(spark, "SELECT * FROM sales") == [(1, 2.5)]
        assert "orders" in left
        assert not spark.catalog.tableExists("orders")
        with penstock.connect(spark, publish="durable") as again:
            assert PublishedName(database="default", name="sales") in again.published.names.values()
        with penstock.connect(spark, publish="session") as one:
            one.sql("ALTER TABLE sales MODIFY (id BIGINT COMMENT 'its number')")
        assert rows(spark, "SELECT * FROM sales") == [(1, 2.5)]
    finally:
        spark.sql("DROP TABLE sales")


def test_publish_says_one_of_four_things(spark: SparkSession) -> None:
    """Anything else is refused before the catalog is opened."""
    with pytest.raises(ConfigError, match="'session', 'tables', 'durable', 'off'"):
        penstock.connect(spark, publish="sesion")


def test_a_session_takes_over_what_one_before_it_left(
    session: Session, spark: SparkSession
) -> None:
    """A notebook connects again without having stopped; the old session's end then takes nothing away."""
    session.sql(ORDERS)
    with penstock.connect(spark) as second:
        session.stop()

        assert PublishedName(database="default", name="orders") in second.published.names.values()
        assert rows(spark, "SELECT count(*) FROM orders") == [(3,)]


def test_what_spark_cannot_read_is_told(session: Session, spark: SparkSession) -> None:
    """A sink is none of Spark's tables, and a view over it neither."""
    session.sql("CREATE TABLE log (a INT) WITH ('connector' = 'print')")
    session.sql(ORDERS)
    session.sql(
        "CREATE VIEW hinted AS SELECT id FROM orders /*+ OPTIONS('source.path.regex-pattern'='x') */"
    )
    why = {out.identifier.name: out.why for out in session.published.left_out}

    assert sorted(why) == ["hinted", "log"]
    assert "OPTIONS" in why["hinted"]
    with pytest.raises(AnalysisException):
        spark.table("log")


def test_a_stream_of_a_published_table_closes_windows_by_its_watermark(
    session: Session, spark: SparkSession
) -> None:
    """`session.stream` is the stream of a published name, and no withWatermark is needed."""
    session.sql(ORDERS)
    counted = session.stream("orders").groupBy(F.window("at", "10 seconds")).count()
    query = (
        counted.writeStream.format("memory")
        .queryName("counted")
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)

    assert [n for _, n in rows(spark, "SELECT window.start, count FROM counted")] == [2, 1]


def test_spark_s_own_stream_reader_refuses_a_published_view(
    session: Session, spark: SparkSession
) -> None:
    """Spark's class is left as it is, and to it the name is a view."""
    session.sql(ORDERS)

    with pytest.raises(AnalysisException, match="not supported by streaming reading API"):
        spark.readStream.table("orders").schema  # noqa: B018
