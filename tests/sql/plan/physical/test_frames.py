"""Alignment groups of a query, and the conditions that are left to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.connector.spark.session import configured
from penstock.connector.spark.storage_access import store_of
from penstock.sql.dialect import to_spark_query
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.frames import (
    FrameBuilder,
    group_members,
    without_checked_conditions,
)
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3){watermark})
WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset'{options})
"""
WATERMARK = ", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
ALIGNED = (
    ", 'scan.watermark.alignment.group' = '{}', 'scan.watermark.alignment.max-drift' = '1 min'"
)


@pytest.fixture
def analysed(tmp_path: Path) -> AnalysedQuery:
    """A query without state over two tables of group g, one of group h, a free one, and one without event time."""
    tables = [
        TABLE.format(name="a", watermark=WATERMARK, options=ALIGNED.format("g")),
        TABLE.format(name="b", watermark=WATERMARK, options=ALIGNED.format("g")),
        TABLE.format(name="c", watermark=WATERMARK, options=ALIGNED.format("h")),
        TABLE.format(name="d", watermark=WATERMARK, options=""),
        TABLE.format(name="e", watermark="", options=ALIGNED.format("g")),
    ]
    namespace = new_namespace(";".join(tables))
    union = " UNION ALL ".join(f"SELECT id FROM {name}" for name in "abcde")
    (statement,) = run(union, namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, tmp_path, appends=True)


def test_tables_that_name_the_same_group_are_its_members(analysed: AnalysedQuery) -> None:
    """A table alone in its group needs no board, and one without event time cannot be aligned."""
    names = [leaf.table.identifier.name for leaf in analysed.leaves]
    members = dict(zip(names, group_members(analysed.leaves, names, Path("board")), strict=True))

    assert [name for name, member in members.items() if member is not None] == ["a", "b"]
    assert members["a"] is not None
    assert members["a"].others == (("b", str(analysed.leaves[names.index("b")].table.identifier)),)


def test_an_aligned_table_follows_event_time_in_any_query(analysed: AnalysedQuery) -> None:
    """Others only where an operator waits for their watermark, as that costs."""
    found = {leaf.table.identifier.name: leaf.rowtime is not None for leaf in analysed.leaves}

    assert found == {"a": True, "b": True, "c": True, "d": False, "e": False}


@pytest.mark.parametrize(
    ("query", "is_left"),
    [
        ("SELECT id FROM d WHERE id > 1", False),
        ("SELECT n FROM (SELECT id AS n FROM d WHERE id > 1) WHERE n < 9", False),
        ("SELECT id FROM d", False),
        ("SELECT id FROM d WHERE id > 1 AND RAND() < 0.5", True),
        ("SELECT DISTINCT id FROM d WHERE id > 1", True),
        ("SELECT d.id FROM d, e WHERE d.id = e.id AND d.id > 1", True),
    ],
)
def test_conditions_that_reading_tasks_check_are_not_checked_again(
    tmp_path: Path, query: str, is_left: bool
) -> None:
    """Where rows of one table are all that there is, and none of the conditions is left to Spark."""
    tables = [TABLE.format(name=name, watermark="", options="") for name in "de"]
    namespace = new_namespace(";".join(tables))
    (statement,) = run(query, namespace)
    assert isinstance(statement, Select)
    found = analyse(statement.query, namespace, tmp_path, appends=True)

    assert ("WHERE" in to_spark_query(without_checked_conditions(found))) is is_left


def test_a_scan_has_what_hadoop_knows_of_its_stores(spark: SparkSession, tmp_path: Path) -> None:
    """Of the checkpoint's, and of that of dead letters; of local folders nothing is asked."""
    letters = (
        ", 'scan.watermark.on-future' = 'dead-letter', 'scan.dead-letter.path' = 's3a://letters/d'"
    )
    namespace = new_namespace(TABLE.format(name="d", watermark=WATERMARK, options=letters))
    (statement,) = run("SELECT id FROM d", namespace)
    assert isinstance(statement, Select)
    analysed = analyse(statement.query, namespace, tmp_path, appends=True)
    settings = {"fs.s3a.access.key": "AK", "fs.s3a.bucket.lake.secret.key": "SK"}
    frames = FrameBuilder(
        spark=spark,
        workdir=tmp_path,
        project=tmp_path,
        conf={},
        default_limit=None,
        checkpoint="s3a://lake/job",
    )
    with configured(spark, {**settings, "fs.s3a.bucket.letters.secret.key": "OTHER"}):
        scan = frames._only_scan(analysed.leaves[0], "tag")

    assert scan.access.store_of("s3a://lake/job") == store_of("s3a://lake/job", settings)
    of_letters = scan.access.store_of("s3a://letters/d")
    assert of_letters is not None
    assert dict(of_letters.arguments) == {"access_key": "AK", "secret_key": "OTHER"}
