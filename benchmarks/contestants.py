"""Those who read the benchmark's topic, each in a process of its own that waits for orders on standard input.

An order is a line `<sink> <round>`; the answer is a line of JSON with the rows read and the seconds it took.
`python -m benchmarks.contestants NAME BOOTSTRAP TOPIC FOLDER` starts one.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FETCH = 20_000
"""Messages a call of raw consumption, as Penstock's reader asks for."""

TIMEOUT_S = 30
"""For one answer of the broker."""

SPARK_CONF = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""The same for both Sparks."""

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

SPARK_SCHEMA = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP_NTZ, extra STRING
"""

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

    sinks = ("noop",)

    def run(self, sink: str, target: str) -> int:
        """One consumer for all partitions, until it has as many records as there are."""
        assert sink == "noop", "raw consumption writes nowhere"
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


class SparkAlone(Contestant):
    """Spark's own Kafka source and `from_json`."""

    def __init__(self, place: Place) -> None:
        """Start Spark."""
        super().__init__(place)
        from examples.demo.spark_alone import start_spark
        from penstock.connector.delta.connector import delta_jars

        self.spark = start_spark(place.folder / "logs", delta_jars(), {**SPARK_CONF, **DELTA_CONF})

    def run(self, sink: str, target: str) -> int:
        """One streaming query to the end of the topic."""
        from pyspark.sql import functions as f

        reader = self.spark.readStream.format("kafka").option("startingOffsets", "earliest")
        reader = reader.option("kafka.bootstrap.servers", self.place.bootstrap)
        records = reader.option("subscribe", self.place.topic).load()
        bid = f.from_json(f.col("value").cast("string"), SPARK_SCHEMA).alias("bid")
        return stream(records.select(bid).select("bid.*"), sink, self.place.folder / target)


class Penstock(Contestant):
    """Penstock: `SELECT` into Spark's noop sink, `INSERT` into a Delta table."""

    def __init__(self, place: Place) -> None:
        """Start a session and define the sources: one without an end for streams, one with for INSERT."""
        super().__init__(place)
        import os

        import penstock

        os.chdir(place.folder)
        self.session = penstock.connect(**{**SPARK_CONF, "spark.log.level": "OFF"})
        common = (
            f"'connector' = 'kafka', 'topic' = '{place.topic}', 'format' = 'json', "
            f"'properties.bootstrap.servers' = '{place.bootstrap}', 'scan.startup.mode' = 'earliest-offset'"
        )
        self.session.sql(f"CREATE TABLE bids ({COLUMNS}) WITH ({common})")
        bounded = f"{common}, 'scan.bounded.mode' = 'latest-offset'"
        self.session.sql(f"CREATE TABLE all_bids ({COLUMNS}) WITH ({bounded})")

    def run(self, sink: str, target: str) -> int:
        """One streaming query to the end of the topic."""
        from penstock.sql.jobs.job import Job

        if sink == "noop":
            return stream(self.session.sql("SELECT * FROM bids"), sink, self.place.folder / target)
        self.session.sql(f"SET 'pipeline.name' = '{target}'")
        self.session.sql(
            f"CREATE TABLE `{target}` ({COLUMNS}) WITH ('connector' = 'delta', 'path' = '{target}')"
        )
        job = self.session.sql(f"INSERT INTO `{target}` SELECT * FROM all_bids")
        assert isinstance(job, Job), "an INSERT is one job"
        job.await_termination()
        return int(job.progress.rows_in)


def stream(frame: Any, sink: str, target: Path) -> int:
    """Run a streaming frame to the end of what is there; the rows it read."""
    writer = frame.writeStream.format(sink).option("checkpointLocation", f"{target}-checkpoint")
    query = writer.trigger(availableNow=True).start(*([str(target)] if sink == "delta" else []))
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


CONTESTANTS: dict[str, type[Contestant]] = {"raw": Raw, "spark": SparkAlone, "penstock": Penstock}


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
        rows = contestant.run(sink, f"{sink}_{target}")
        seconds = time.perf_counter() - start
        answer.write(json.dumps({"rows": rows, "seconds": seconds}) + "\n")
        answer.flush()


if __name__ == "__main__":
    main()
