"""Tests for catalogs of other kinds and `information_schema` in a session: read, joined, written by Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.catalog.errors import (
    DefinitionError,
    StateMismatchError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session

LAKE = "CREATE CATALOG lake WITH ('type' = 'delta-path', 'path' = 'lake')"
SHOP = (
    "CREATE CATALOG shop WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:db', "
    "'default-database' = 'shop.db')"
)


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session that publishes nothing."""
    (project / "lake" / "sales").mkdir(parents=True)
    (project / "db").mkdir()
    with penstock.connect(spark, publish="off") as session:
        yield session


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    found = session.sql(sql)
    assert isinstance(found, DataFrame)
    return [tuple(row) for row in found.collect()]


def write(session: Session, sql: str) -> None:
    job = session.sql(sql)
    if isinstance(job, Job):
        job.wait()


def shop(project: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(project / "db" / "shop.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, raw BLOB)")
    connection.executemany(
        "INSERT INTO customers VALUES (?, ?, x'00')", [(n, f"c{n}") for n in range(1, 9)]
    )
    connection.commit()
    return connection


def test_tables_of_a_folder_are_created_filled_and_read(session: Session, project: Path) -> None:
    """A table lies where the catalog says; one that Spark made is found, and takes rows."""
    session.sql(LAKE)
    session.sql("CREATE TABLE lake.sales.orders (id BIGINT NOT NULL, name STRING)")
    write(session, "INSERT INTO lake.sales.orders VALUES (1, 'a'), (2, 'b')")
    place = project / "lake" / "sales" / "made"
    session.spark.sql(
        f"CREATE TABLE delta.`{place}` (id BIGINT COMMENT 'k', at TIMESTAMP) USING delta"
    )
    write(
        session,
        "INSERT INTO lake.sales.made SELECT id, CAST(NULL AS TIMESTAMP_LTZ(6)) FROM lake.sales.orders",
    )

    assert (project / "lake" / "sales" / "orders" / "_delta_log").is_dir()
    session.sql("USE lake.sales")
    assert rows(session, "SHOW TABLES") == [("made",), ("orders",)]
    joined = "SELECT o.name FROM orders o JOIN made m ON o.id = m.id ORDER BY o.name"
    assert rows(session, joined) == [("a",), ("b",)]
    assert rows(session, "DESCRIBE made")[0][:2] == ("id", "BIGINT")
    with pytest.raises(DefinitionError, match="does not remove"):
        session.sql("DROP TABLE made")


def test_tables_of_a_database_are_read_and_written(session: Session, project: Path) -> None:
    """Partitions and wanted columns alone are asked for; rows are loaded into Delta, and sent back, once."""
    connection = shop(project)
    session.sql(SHOP)
    parts = (
        "/*+ OPTIONS('scan.partition.column' = 'id', 'scan.partition.num' = '3', "
        "'scan.partition.lower-bound' = '2', 'scan.partition.upper-bound' = '7') */"
    )
    some = f"SELECT COUNT(*), MIN(name), MAX(name) FROM shop.`shop.db`.customers {parts}"

    assert rows(session, some) == [(6, "c2", "c7")]
    frame = session.sql("SELECT name FROM shop.`shop.db`.customers WHERE id > 7")
    assert isinstance(frame, DataFrame)
    assert [row["name"] for row in frame.collect()] == ["c8"]
    session.sql(
        "CREATE TABLE copy (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'copy')"
    )
    assert session.sql("INSERT INTO copy SELECT id, name FROM shop.`shop.db`.customers") is None
    assert rows(session, "SELECT COUNT(*) FROM copy") == [(8,)]
    write(session, "INSERT INTO shop.`shop.db`.customers (id, name) SELECT id + 7, name FROM copy")
    found = connection.execute("SELECT COUNT(*), MAX(id) FROM customers").fetchone()
    assert found == (15, 15)
    connection.close()


def test_a_query_that_is_kept_up_to_date_does_not_follow_a_database(
    session: Session, project: Path
) -> None:
    """Its changes are told to nobody; the error names the table."""
    shop(project).close()
    session.sql(SHOP)
    session.sql(
        "CREATE TABLE facts (id BIGINT, n BIGINT) WITH ('connector' = 'delta', 'path' = 'facts')"
    )
    session.sql(
        "CREATE TABLE sums (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('connector' = 'delta', 'path' = 'sums')"
    )

    with pytest.raises(UnsupportedError, match="customers cannot be followed"):
        session.sql(
            "INSERT INTO sums SELECT c.id, SUM(f.n) FROM facts f "
            "FULL JOIN shop.`shop.db`.customers c ON f.id = c.id GROUP BY c.id"
        )


def test_sparks_own_tables_are_read_and_appended_to(session: Session, project: Path) -> None:
    """Its Delta tables are ours, others Spark's; a stream goes into the first only."""
    spark = session.spark
    spark.sql(f"CREATE DATABASE IF NOT EXISTS external_kinds LOCATION '{project}/warehouse'")
    try:
        spark.sql(
            "CREATE TABLE external_kinds.plain (id BIGINT, day STRING) USING parquet PARTITIONED BY (day)"
        )
        spark.sql("CREATE TABLE external_kinds.lake (id BIGINT) USING delta")
        session.sql("CREATE CATALOG metastore WITH ('type' = 'spark')")
        session.sql("USE CATALOG metastore")
        session.sql("USE external_kinds")

        assert rows(session, "SHOW TABLES") == [("lake",), ("plain",)]
        write(session, "INSERT INTO plain (day, id) VALUES ('mon', 1), ('tue', 2)")
        write(session, "INSERT INTO lake SELECT id FROM plain")
        write(session, "INSERT INTO lake SELECT id + 1 FROM lake WHERE id = 2")
        assert rows(session, "SELECT id FROM lake ORDER BY id") == [(1,), (2,), (3,)]
        assert rows(session, "SELECT id, day FROM plain WHERE day = 'tue'") == [(2, "tue")]
        with pytest.raises(UnsupportedError, match="takes no stream"):
            session.sql("INSERT INTO plain SELECT id, 'wed' FROM lake")
        with pytest.raises(UnsupportedError, match="of type 'spark'"):
            session.sql("DROP TABLE plain")
        with pytest.raises(UnknownObjectError, match="plan") as caught:
            session.sql("SELECT * FROM plan")
        assert caught.value.hint == "did you mean 'plain'?"
    finally:
        spark.sql("DROP DATABASE external_kinds CASCADE")


def test_information_schema_is_read_like_other_tables(session: Session) -> None:
    """Joins and filters, times in UTC, and rows into a table of one's own; a table of its name is not written."""
    session.sql(
        "CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'number', price DECIMAL(9, 2)) COMMENT 'sold' "
        "WITH ('connector' = 'delta', 'path' = 'orders')"
    )
    session.sql("CREATE TABLE kept (name STRING) WITH ('connector' = 'delta', 'path' = 'kept')")
    write(session, "INSERT INTO orders VALUES (1, 1.50)")
    write(session, "INSERT INTO kept SELECT CAST(id AS STRING) FROM orders")
    joined = (
        "SELECT t.comment, c.column_name, c.data_type, c.is_nullable FROM information_schema.tables t "
        "JOIN information_schema.columns c ON t.table_name = c.table_name WHERE t.table_name = 'orders' "
        "ORDER BY c.ordinal_position"
    )

    assert rows(session, joined) == [
        ("sold", "id", "BIGINT", "NO"),
        ("sold", "price", "DECIMAL(9, 2)", "YES"),
    ]
    pipeline, status, batch, written = rows(
        session,
        "SELECT pipeline_name, status, committed_batch, last_batch_time FROM information_schema.checkpoints",
    )[0]
    assert (pipeline, status, batch) == ("session", "OK", 0)
    assert isinstance(written, datetime)
    assert abs(written.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() < 3600
    assert session.sql("INSERT INTO kept SELECT table_name FROM information_schema.tables") is None
    assert ("orders",) in rows(session, "SELECT name FROM kept")
    with pytest.raises(UnsupportedError, match="only read"):
        session.sql("INSERT INTO information_schema.tables SELECT * FROM information_schema.tables")


def test_a_table_that_spark_lost_is_told_before_rows_are_written(
    session: Session, project: Path
) -> None:
    """Between definition and write it was dropped."""
    session.sql(LAKE)
    place = project / "lake" / "sales" / "made"
    session.spark.sql(f"CREATE TABLE delta.`{place}` (id BIGINT) USING delta")
    (place / "_delta_log" / f"{0:020d}.json").write_text("{")

    with pytest.raises(StateMismatchError, match="cannot be read"):
        session.sql("SELECT * FROM lake.sales.made")
