"""Those who read the benchmark's topic, each in a process of its own that waits for orders on standard input.

An order is a line `<sink> <round>`; the answer is a line of JSON with the rows read and the seconds it took, or with
an error.
`python -m benchmarks.contestants NAME BOOTSTRAP TOPIC FOLDER` starts one. Flink SQL is `flink_sql.py`, in an
environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FETCH = 20_000
"""Messages a call of raw consumption, as Penstock's reader asks for."""

TIMEOUT_S = 30
"""For one answer of the broker."""

LONGEST_ERROR = 1_000
"""Characters of an answer."""

REST = "rest"
"""In place of a sink, for one that is observed: look at a pipeline that waits."""

SPARK_CONF = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""The same for both Sparks; Penstock has its own defaults beside it."""

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

TUNED_CONF = {
    "spark.sql.adaptive.enabled": (
        "false",
        "the tasks of a batch are few and even: nothing to adapt",
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": (
        "false",
        "half as many files of a checkpoint on a local disk",
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "state outside of Java's heap",
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": (
        "true",
        "a commit of state writes what changed",
    ),
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": (
        "false",
        "saves a read for each write of state",
    ),
    "spark.sql.streaming.numRecentProgressUpdates": ("10", "nobody looks at more"),
}
"""What an expert sets for Spark's own source on two cores beside `SPARK_CONF`, and why."""

TUNED_SOURCE = {
    "kafka.max.poll.records": ("20000", "500 by default: a call for each 500 records"),
    "kafka.max.partition.fetch.bytes": ("8388608", "1 MiB by default: more answers of the broker"),
    "kafka.fetch.max.bytes": ("67108864", "room for the above from all partitions"),
    "kafka.receive.buffer.bytes": ("1048576", "64 KiB by default"),
    "kafka.check.crcs": ("false", "broker and reader share a machine"),
}
"""Options of its Kafka source. Not set: `minPartitions`, as four partitions keep two cores busy."""

SPARK_SCHEMA = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP_NTZ, extra STRING
"""

TIMED_SCHEMA = SPARK_SCHEMA.replace("TIMESTAMP_NTZ", "TIMESTAMP")
"""A watermark of Spark's is on such a time."""

WINDOWED = "window_start TIMESTAMP(3), window_end TIMESTAMP(3), channel STRING, bids BIGINT"
"""What a count of bids in windows of ten seconds, by channel, gives; both have a WATERMARK ten seconds behind."""

COLUMNS = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a contestant reads and writes."""

    bootstrap: str
    topic: str
    folder: Path


class Contestant(ABC):
    """Reads the whole topic once per order."""

    sinks: tuple[str, ...] = ("noop", "delta")

    def __init__(self, place: Place) -> None:
        """Start what has to run before the clock does."""
        self.place = place

    @abstractmethod
    def run(self, sink: str, target: str) -> int:
        """Read everything into the sink; `target` is a name not used before. Returns the rows read."""


class Raw(Contestant):
    """librdkafka through confluent-kafka: records are fetched and thrown away, nothing is decoded."""

    sinks = ("bytes",)

    def run(self, sink: str, target: str) -> int:
        """One consumer for all partitions, until it has as many records as there are."""
        assert sink == "bytes", "raw consumption writes nowhere"
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.place.bootstrap,
                "group.id": target,
                "enable.auto.commit": False,
                "queued.min.messages": 200_000,
                "queued.max.messages.kbytes": 65_536,
                "fetch.max.bytes": 16 << 20,
                "max.partition.fetch.bytes": 8 << 20,
            }
        )
        metadata = consumer.list_topics(self.place.topic, TIMEOUT_S).topics[self.place.topic]
        partitions = [
            TopicPartition(self.place.topic, p, OFFSET_BEGINNING) for p in metadata.partitions
        ]
        ends = [consumer.get_watermark_offsets(p, TIMEOUT_S) for p in partitions]
        wanted, rows = sum(high - low for low, high in ends), 0
        consumer.assign(partitions)
        while rows < wanted:
            messages = consumer.consume(min(FETCH, wanted - rows), TIMEOUT_S)
            if not messages or any(message.error() for message in messages):
                raise RuntimeError("the broker stopped answering")
            rows += len(messages)
        consumer.close()
        return rows


class Drain(Contestant):
    """librdkafka through `penstock-native`: records become Arrow buffers, nothing is decoded."""

    sinks = ("bytes",)

    def run(self, sink: str, target: str) -> int:  # noqa: ARG002  it makes nothing
        """One consumer for all partitions, until it is at the end of each."""
        assert sink == "bytes", "raw consumption writes nowhere"
        from benchmarks.drain import Topic, drained

        return drained(Topic(bootstrap=self.place.bootstrap, rows=0))


class SparkAlone(Contestant):
    """Spark's own Kafka source and `from_json`, as an expert tunes them."""

    sinks = ("bytes", "noop", "delta", "window")

    def __init__(self, place: Place) -> None:
        """Start Spark."""
        super().__init__(place)
        from examples.demo.spark_alone import start_spark
        from penstock.connector.delta.connector import delta_jars

        tuned = {key: value for key, (value, _) in TUNED_CONF.items()}
        conf = {**SPARK_CONF, **DELTA_CONF, **tuned}
        self.spark = start_spark(place.folder / "logs", delta_jars(), conf)

    def run(self, sink: str, target: str) -> int:
        """One streaming query to the end of the topic."""
        path = self.place.folder / target
        if sink == "bytes":
            return stream(spark_records(self.spark, self.place).select("value"), "noop", path)
        if sink == "window":
            timed = spark_bids(self.spark, self.place, TIMED_SCHEMA)
            return stream(count_in_windows(timed), "delta", path)
        return stream(spark_bids(self.spark, self.place), sink, path)


def spark_records(spark: Any, place: Place, options: Mapping[str, str] = {}) -> Any:
    """Read the topic by Spark's own source."""
    reader = spark.readStream.format("kafka").option("startingOffsets", "earliest")
    for key, (value, _) in TUNED_SOURCE.items():
        reader = reader.option(key, value)
    reader = reader.option("kafka.bootstrap.servers", place.bootstrap).options(**options)
    return reader.option("subscribe", place.topic).load()


def spark_bids(spark: Any, place: Place, schema: str = SPARK_SCHEMA) -> Any:
    """Read the topic by Spark's own source, decoded."""
    from pyspark.sql import functions as f

    records = spark_records(spark, place)
    bid = f.from_json(f.col("value").cast("string"), schema).alias("bid")
    return records.select(bid).select("bid.*")


def count_in_windows(bids: Any, length: str = "10 seconds", delay: str = "10 seconds") -> Any:
    """Count bids by channel in windows, each given once it is closed."""
    from pyspark.sql import functions as f

    timed = bids.withWatermark("dateTime", delay)
    counted = timed.groupBy(f.window("dateTime", length), "channel").agg(f.count("*").alias("bids"))
    start, end = f.col("window.start"), f.col("window.end")
    return counted.select(start.alias("window_start"), end.alias("window_end"), "channel", "bids")


class Penstock(Contestant):
    """Penstock: `SELECT` into Spark's noop sink, `INSERT` into a Delta table that Spark or the reading tasks write."""

    sinks: tuple[str, ...] = ("bytes", "noop", "delta", "tasks", "window")

    def __init__(self, place: Place) -> None:
        """Start a session and define the sources: one without an end for streams, one with for INSERT."""
        super().__init__(place)
        import os

        import penstock

        self.jobs: list[Any] = []

        os.chdir(place.folder)
        self.session = penstock.connect(**{**SPARK_CONF, "spark.log.level": "OFF"})
        common = (
            f"'connector' = 'kafka', 'topic' = '{place.topic}', 'format' = 'json', "
            f"'properties.bootstrap.servers' = '{place.bootstrap}', 'scan.startup.mode' = 'earliest-offset'"
        )
        self.session.sql(f"CREATE TABLE bids ({COLUMNS}) WITH ({common})")
        bounded = f"{common}, 'scan.bounded.mode' = 'latest-offset'"
        self.session.sql(f"CREATE TABLE all_bids ({COLUMNS}) WITH ({bounded})")
        raw = common.replace("'json'", "'raw'")
        self.session.sql(f"CREATE TABLE raw_bids (bid BYTES) WITH ({raw})")
        watermark = "WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '10' SECOND"
        self.session.sql(f"CREATE TABLE timed_bids ({COLUMNS}, {watermark}) WITH ({bounded})")

    def run(self, sink: str, target: str) -> int:
        """One streaming query to the end of the topic."""
        if sink in ("bytes", "noop"):
            table = "raw_bids" if sink == "bytes" else "bids"
            found = self.session.sql(f"SELECT * FROM {table}")
            return stream(found, "noop", self.place.folder / target)
        if sink == "window":
            self.create(target, WINDOWED, "auto")
            return self.insert(target, windowed_count("timed_bids", 10))
        self.create(target, COLUMNS, "spark" if sink == "delta" else "auto")
        return self.insert(target, "SELECT * FROM all_bids")

    def create(self, target: str, columns: str, writer: str) -> None:
        """Make a Delta table, written by Spark or by tasks where the query allows that."""
        options = f"'connector' = 'delta', 'path' = '{target}', 'sink.writer' = '{writer}'"
        self.session.sql(f"CREATE TABLE `{target}` ({columns}) WITH ({options})")

    def insert(self, target: str, query: str) -> int:
        """Run an INSERT to the end of its source; the rows it read."""
        from penstock.sql.jobs.job import Job

        self.session.sql(f"SET 'pipeline.name' = '{target}'")
        job = self.session.sql(f"INSERT INTO `{target}` {query}")
        assert isinstance(job, Job), "an INSERT is one job"
        self.jobs[:] = [job]
        job.await_termination()
        return int(job.progress.rows_in)


class Observed(Penstock):
    """Penstock while its metrics and its status page are looked at by another process, which does not count."""

    sinks = ("tasks", "window")

    def __init__(self, place: Place) -> None:
        """Start a session, the two servers and who looks at them, which end with this process."""
        super().__init__(place)
        from contextlib import ExitStack

        from benchmarks.observers import observing

        self.looked: dict[str, Any] = {}
        self.looking = ExitStack()
        self.observers = self.looking.enter_context(
            observing(self.session, self.jobs, place.folder)
        )

    def run(self, sink: str, target: str) -> int:
        """As of Penstock; `looked` is what the observers did meanwhile. Raises LostWorkerError where they failed."""
        from benchmarks.cpu import spent
        from benchmarks.observers import asked_between

        before, began_s = self.observers.asked(), spent(self.observers.pid).total_s
        rows = super().run(sink, target)
        asked = asked_between(before, self.observers.asked())
        self.looked = {
            "asked": asdict(asked),
            "aside_s": spent(self.observers.pid).total_s - began_s,
        }
        return rows

    def rest(self) -> dict[str, Any]:
        """Look at a pipeline that waits, alone and observed. The last order: nobody looks afterwards."""
        from benchmarks.observed import look_at_rest
        from penstock.sql.jobs.job import Job

        self.looking.close()
        self.session.sql(f"CREATE TABLE nowhere ({COLUMNS}) WITH ('connector' = 'blackhole')")
        self.session.sql("SET 'pipeline.name' = 'rest'")
        job = self.session.sql("INSERT INTO nowhere SELECT * FROM bids")
        assert isinstance(job, Job), "an INSERT is one job"
        try:
            return asdict(look_at_rest(self.session, job, self.place.folder))
        finally:
            job.stop()


def windowed_count(table: str, seconds: int) -> str:
    """Write a count by channel in windows in Flink SQL."""
    return (
        "SELECT window_start, window_end, channel, COUNT(*) AS bids FROM "
        f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`dateTime`), INTERVAL '{seconds}' SECOND)) "
        "GROUP BY window_start, window_end, channel"
    )


def stream(frame: Any, sink: str, target: Path) -> int:
    """Run a streaming frame to the end of what is there; the rows it read."""
    writer = frame.writeStream.format(sink).option("checkpointLocation", f"{target}-checkpoint")
    query = writer.trigger(availableNow=True).start(*([str(target)] if sink == "delta" else []))
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


CONTESTANTS: dict[str, type[Contestant]] = {
    "raw": Raw,
    "drain": Drain,
    "spark": SparkAlone,
    "penstock": Penstock,
    "observed": Observed,
}


def main() -> None:
    """Serve orders until standard input ends."""
    name, bootstrap, topic, folder = sys.argv[1:]
    place = Place(bootstrap=bootstrap, topic=topic, folder=Path(folder) / name)
    place.folder.mkdir(parents=True)
    contestant = CONTESTANTS[name](place)
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever libraries print must not mix with the answers
    answer.write('{"ready": true}\n')
    answer.flush()
    for line in sys.stdin:
        sink, target = line.split()
        start = time.perf_counter()
        try:
            if sink == REST and isinstance(contestant, Observed):
                found: dict[str, Any] = contestant.rest()
            else:
                rows = contestant.run(sink, f"{sink}_{target}")
                found = {"rows": rows, "seconds": time.perf_counter() - start}
                found |= contestant.looked if isinstance(contestant, Observed) else {}
        except Exception as error:  # noqa: BLE001  what goes wrong with one sink must not cost the others
            found = {"error": str(error)[:LONGEST_ERROR]}
        answer.write(json.dumps(found) + "\n")
        answer.flush()
    if isinstance(contestant, Observed):
        contestant.looking.close()


if __name__ == "__main__":
    main()
