"""The same topic through Spark's own Kafka source and `withWatermark`: which rows it keeps.

In batches of the size that Penstock gets. The result is taken in update mode, which drops late rows as append
mode does but also shows the windows still open at the end, so that they do not count as lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.connector.jvm.jars import fetch_jars, read_jar_set
from penstock.connector.jvm.java import find_java
from penstock.connector.registry import engine_jars
from penstock.sql.spark_process.class_path import CLASS_PATH, JARS
from penstock.sql.spark_process.jvm import launch_jvm, log_files
from penstock.sql.spark_process.spark_session import start_spark as open_session

ROOT = Path(__file__).resolve().parents[2]
SPARK_KAFKA = ROOT / "benchmarks" / "spark-kafka.jars"
SCHEMA = (
    "order_id BIGINT, customer STRING, product STRING, amount DECIMAL(10, 2), order_time TIMESTAMP"
)


def start_spark(
    logs: Path, more_jars: Sequence[Path] = (), conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A plain local Spark with its own Kafka source; what it has to say goes into files in `logs`."""
    os.environ["JAVA_HOME"] = str(find_java().path)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = [*fetch_jars(read_jar_set(SPARK_KAFKA)), *more_jars]
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "spark-alone",
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(conf or {}),
    }
    launch_jvm(settings, log_files(logs))
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_shared_spark(logs: Path, conf: Mapping[str, str]) -> SparkSession:
    """Penstock's Spark with Spark's own Kafka source beside it: one Java process for both sides of the comparison."""
    jars = {
        CLASS_PATH: os.pathsep.join(map(str, engine_jars())),
        JARS: ",".join(map(str, fetch_jars(read_jar_set(SPARK_KAFKA)))),
    }
    files = log_files(logs)
    return open_session(conf={**conf, **jars}, launch=lambda settings: launch_jvm(settings, files))


def kept_by_window(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    batch: int,
    folder: Path,
    on_batch: Callable[[int, int], None],
) -> dict[datetime, int]:
    """Rows that Spark counts, by start of their ten-minute window. `on_batch` hears batch id and rows kept so far."""
    counts: dict[datetime, int] = {}

    def take(frame: DataFrame, batch_id: int) -> None:
        for row in frame.collect():
            counts[row["start"]] = row["count"]
        on_batch(batch_id, sum(counts.values()))

    own = spark.newSession()  # without what Penstock has set in the other
    own.conf.set("spark.sql.adaptive.enabled", "false")
    records = (
        own.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.max.poll.records", "20000")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
    )
    orders = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("order"))
    windows = (
        orders.select("order.*")
        .withWatermark("order_time", "10 seconds")
        .groupBy(f.window("order_time", "10 minutes"))
        .count()
        .select(f.col("window.start").cast("timestamp_ntz").alias("start"), "count")
    )
    writer = windows.writeStream.outputMode("update").foreachBatch(take)
    query = (
        writer.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return dict(sorted(counts.items()))
