"""Statements beside INSERT and SELECT, run as a user runs them: functions, overwriting, changing rows, materialized tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import ConfigError, UnsupportedError
from penstock.sql.jobs.job import Job
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.session.session import Session, connect
from tests.integration.pipeline import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PRICING = """
import pandas as pd
from pyspark.sql.functions import pandas_udf


def discount(price: float, percent: int) -> float | None:
    return None if price is None else price * (100 - percent) / 100


@pandas_udf("string")
def shout(names: pd.Series) -> pd.Series:
    return names.str.upper()


def no_hint(price):
    return price
"""
TABLES = """
CREATE TABLE people (id BIGINT, name STRING, price DOUBLE) WITH ('connector' = 'delta', 'path' = 'people');
INSERT INTO people VALUES (1, 'ann', 10), (2, 'bo', 20), (3, 'cy', 30)
"""
OTHERS = """
CREATE TABLE parted (id BIGINT, price DOUBLE, region STRING) PARTITIONED BY (region)
  WITH ('connector' = 'delta', 'path' = 'parted');
CREATE TABLE files (id BIGINT, region STRING) PARTITIONED BY (region)
  WITH ('connector' = 'filesystem', 'path' = 'files', 'format' = 'json');
CREATE TABLE keyed (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'keyed')
"""


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project with a module of functions."""
    (project / "pricing.py").write_text(PRICING, encoding="utf-8")
    with connect(spark) as session:
        for statement in TABLES.strip().split(";\n"):
            session.sql(statement)
        yield session


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    """What a query gives, sorted."""
    frame = session.sql(query)
    assert frame is not None
    return sorted(tuple(row) for row in frame.collect())


def test_functions_of_python_are_called_in_queries(session: Session) -> None:
    """A plain one by its type hints, a pandas one as it is decorated; one in a view too; a dropped one is gone."""
    session.sql("CREATE FUNCTION Discount AS 'pricing.discount' LANGUAGE PYTHON")
    session.sql("CREATE TEMPORARY SYSTEM FUNCTION shout AS 'pricing.shout' LANGUAGE PYTHON")
    session.sql("CREATE VIEW cheap AS SELECT id, discount(price, 50) AS half FROM people")
    answer = rows(
        session, "SELECT c.id, half, SHOUT(name) FROM cheap c JOIN people p ON c.id = p.id"
    )
    session.sql("CREATE FUNCTION hidden AS 'pricing.no_hint' LANGUAGE PYTHON")
    session.sql("CREATE FUNCTION missing AS 'pricing.discont' LANGUAGE PYTHON")

    assert answer == [(1, 5.0, "ANN"), (2, 10.0, "BO"), (3, 15.0, "CY")]
    with pytest.raises(ConfigError, match="'discont' of the module pricing is not there") as caught:
        session.sql("SELECT missing(1)")
    assert caught.value.hint == "did you mean 'discount'?"
    with pytest.raises(Exception, match="does not say what it gives"):
        session.sql("SELECT hidden(1)")


def test_rows_are_changed_in_place_and_overwritten(session: Session, project: Path) -> None:
    """UPDATE and DELETE tell how many rows; OVERWRITE replaces what PARTITION names, or what the query has rows for."""
    for statement in OTHERS.strip().split(";\n"):
        session.sql(statement)
    updated = rows(session, "UPDATE people SET price = people.price + 1, name = NULL WHERE id >= 2")
    deleted = rows(session, "DELETE FROM people WHERE name IS NULL AND id = 3")
    for table in ("parted", "files"):
        price = "1.5, " if table == "parted" else ""
        session.sql(f"INSERT INTO {table} VALUES (1, {price}'eu'), (2, {price}'us')")
        part = "VALUES (3, 1.5)" if price else "VALUES (3)"
        session.sql(f"INSERT OVERWRITE {table} PARTITION (region = 'eu') {part}")
        session.sql(
            f"INSERT OVERWRITE {table} SELECT id + 1, {price}region FROM {table} WHERE region = 'eu'"
        )
    session.sql("INSERT OVERWRITE keyed SELECT id, 'x' FROM people UNION ALL SELECT 9, 'y'")
    shown = rows(session, "SHOW PARTITIONS files")

    assert (updated, deleted) == ([("2",)], [("1",)])
    assert rows(session, "SELECT id, name, price FROM people") == [
        (1, "ann", 10.0),
        (2, None, 21.0),
    ]
    assert rows(session, "SELECT id, region FROM parted") == [(2, "us"), (4, "eu")]
    assert rows(session, "SELECT id, region FROM files") == [(2, "us"), (4, "eu")]
    assert rows(session, "SELECT id, name FROM keyed") == [(1, "x"), (2, "x"), (9, "y")]
    assert shown == [("region=eu",), ("region=us",)]
    session.sql("TRUNCATE TABLE files")
    session.sql("TRUNCATE TABLE people")
    assert rows(session, "SELECT id FROM files") == rows(session, "SELECT id FROM people") == []
    with pytest.raises(UnsupportedError, match="INSERT OVERWRITE needs a query that ends"):
        session.sql(
            "INSERT OVERWRITE parted SELECT id, 1, 'x' FROM files /*+ OPTIONS('source.monitor-interval' = '1 s') */"
        )


def test_a_materialized_table_is_written_anew_or_kept_by_a_job(session: Session) -> None:
    """FULL at its times and by REFRESH; CONTINUOUS by a streaming query. SUSPEND ends both, RESUME goes on."""
    totals = session.sql(
        "CREATE MATERIALIZED TABLE totals PARTITIONED BY (`last`) WITH ('connector' = 'delta', 'path' = 'totals') "
        "FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL "
        "AS SELECT COUNT(*) AS n, SUM(price) AS total, MAX(name) AS `last` FROM people"
    )
    before = rows(session, "SELECT n, total FROM totals")
    session.sql("INSERT INTO people VALUES (4, 'di', 40)")
    wait_until(
        lambda: rows(session, "SELECT n, total FROM totals") == [(4, 100.0)],
        seconds=60,
        what="the totals",
    )
    session.sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    session.sql("INSERT INTO people VALUES (0, 'al', 1)")
    suspended = rows(session, "SELECT n, total FROM totals")
    session.sql("ALTER MATERIALIZED TABLE totals REFRESH")

    assert isinstance(totals, Job)
    assert (totals.status, totals.exception) == (JobStatus.STOPPED, None)
    assert (before, suspended) == ([(3, 60.0)], [(4, 100.0)])
    assert rows(session, "SELECT n, total FROM totals") == [(5, 101.0)]
    job = session.sql(
        "CREATE MATERIALIZED TABLE live WITH ('connector' = 'delta', 'path' = 'live') "
        "FRESHNESS = INTERVAL '1' SECOND AS SELECT id, UPPER(name) AS name FROM people"
    )
    assert isinstance(job, Job)
    wait_until(lambda: job.progress.batches == 1, seconds=60, what="the batch")
    running = rows(session, "SHOW JOBS")
    session.sql("ALTER MATERIALIZED TABLE live SUSPEND")
    stopped = rows(session, "SHOW JOBS")
    resumed = session.sql("ALTER MATERIALIZED TABLE live RESUME")
    session.sql("INSERT INTO people VALUES (5, 'ed', 50)")
    assert isinstance(resumed, Job)
    wait_until(lambda: resumed.progress.rows_out == 1, seconds=60, what="the row")
    session.sql("STOP JOB 'session/live'")

    assert [row[:5:2] for row in running] == [
        ("session/live", "RUNNING", "this session"),
        ("session/totals", "STOPPED", "this session"),
    ]
    assert [row[2] for row in stopped] == ["STOPPED", "STOPPED"]
    assert resumed.status is JobStatus.STOPPED
    assert rows(session, "SELECT COUNT(*), MAX(name) FROM live") == [(6, "ED")]
