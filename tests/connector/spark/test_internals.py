"""PySpark's private attributes are there, and mean what the other modules take them for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType
from pyspark.sql.udtf import UserDefinedTableFunction

from penstock.connector.spark import internals
from penstock.connector.spark.session import configured

pytestmark = pytest.mark.spark


def test_a_copied_session_has_settings_and_views_of_its_own(spark: SparkSession) -> None:
    """It begins with those of the session; a view that is dropped there stays here."""
    spark.conf.set("penstock.test", "one")
    spark.range(3).createOrReplaceTempView("penstock_three")
    copied = internals.clone_session(spark)
    copied.conf.set("penstock.test", "two")
    rows = copied.table("penstock_three").count()
    internals.session_catalog(copied).clearTempTables()

    assert rows == 3
    assert not copied.catalog.tableExists("penstock_three")
    assert spark.catalog.tableExists("penstock_three")
    assert spark.conf.get("penstock.test") == "one"
    assert internals.java_session(copied) != internals.java_session(spark)
    spark.catalog.dropTempView("penstock_three")
    spark.conf.unset("penstock.test")


def test_the_blocks_of_a_local_checkpoint_are_freed(spark: SparkSession) -> None:
    """The frame may be there still."""
    held = spark.range(100).localCheckpoint(eager=True)
    stored = internals.analyzed_plan(held).rdd()
    before = stored.getStorageLevel().isValid()
    internals.unpersist_local_checkpoint(held)

    assert before
    assert not stored.getStorageLevel().isValid()


def test_a_plan_is_made_by_the_settings_of_its_time(spark: SparkSession) -> None:
    """Its rows are computed at each action, and what is observed of them is that of the last one."""
    observed = spark.range(100).observe("found", F.count(F.lit(1)).alias("rows"))
    with configured(spark, {"spark.sql.shuffle.partitions": "3"}):
        frame = internals.planned(observed.groupBy(F.col("id") % 10).count())
    counted = internals.planned(observed)
    given = counted.where("id < 7").count()

    assert frame.rdd.getNumPartitions() == 3
    assert frame.count() == 10
    assert internals.observed_metric(observed, "found") == 100
    assert given == 7


def test_a_function_maps_a_frame_whose_names_need_quotes(spark: SparkSession) -> None:
    """As `mapInArrow` does for plain names; the workers have the environment of the context as it is then."""
    frame = spark.range(0, 4, 1, 2).selectExpr("id AS `a.b`", "id * 2 AS `a``b`", "id + 1 AS `A.b`")

    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [
                sum(row) for row in zip(*(of.to_pylist() for of in batch.columns), strict=True)
            ]
            environment = [os.environ.get("PENSTOCK_TEST_OF_MAPS")] * len(found)
            yield pa.RecordBatch.from_pydict({"found": found, "environment": environment})

    schema = StructType(
        [StructField("found", LongType()), StructField("environment", StringType())]
    )
    before = internals.map_in_arrow(frame, sums, schema).collect()
    spark.sparkContext.environment["PENSTOCK_TEST_OF_MAPS"] = "here"
    after = internals.map_in_arrow(frame, sums, schema).collect()
    del spark.sparkContext.environment["PENSTOCK_TEST_OF_MAPS"]

    assert [tuple(row) for row in before] == [(n * 4 + 1, None) for n in range(4)]
    assert [tuple(row) for row in after] == [(n * 4 + 1, "here") for n in range(4)]


def test_a_path_has_the_file_system_of_the_session_s_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Settings of Hadoop may be made in a session."""
    mount = "fs.viewfs.mounttable.internals.link./here"
    spark.conf.set(mount, tmp_path.as_uri())
    (tmp_path / "file").touch()
    system, file = internals.file_system(spark, "viewfs://internals/here/file")
    spark.conf.unset(mount)

    assert system.exists(file)
    assert system.getUri().getScheme() == "viewfs"


def test_java_gets_an_array(spark: SparkSession) -> None:
    """As `Paths.get(String, String...)` takes it."""
    java = internals.jvm_of(spark).java
    names = internals.java_array(spark, java.lang.String, "b", "c")

    assert list(names) == ["b", "c"]
    assert java.nio.file.Paths.get("a", names).toString() == "a/b/c"


def test_the_progress_of_a_query_is_what_the_public_property_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Event by event, as Java's objects."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("a\n", encoding="utf-8")
    frame = spark.readStream.text(str(tmp_path / "in"))
    query = (
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    )
    query.processAllAvailable()
    query.stop()
    events = internals.recent_progress(query)

    assert [json.loads(one.json())["batchId"] for one in events] == [
        one["batchId"] for one in query.recentProgress
    ]
    assert len(events) > 0


def test_the_context_and_the_gateway_are_this_process_s(spark: SparkSession) -> None:
    """Neither is made by asking for it."""
    assert internals.running_context() == (
        SparkContext.getOrCreate(),
        internals.gateway_of(spark),
    )


def test_a_table_function_has_a_name(spark: SparkSession) -> None:
    """The one that it was made with."""

    class Function:
        def eval(self) -> None:
            """Return no row."""

    made = UserDefinedTableFunction(Function, returnType="a INT", name="f")

    assert internals.table_function_name(made) == "f"
