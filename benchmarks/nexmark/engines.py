"""Penstock and Spark alone as engines of `benchmarks.nexmark`, each in a process of its own that waits for orders.

`python -m benchmarks.nexmark.engines NAME PLACE` starts one; PLACE is JSON of a `Place`. Flink SQL is `flink.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks import contestants
from benchmarks.contestants import SPARK_CONF, TUNED_CONF, spark_records
from benchmarks.nexmark.orders import RUN, START, STOP, Order, Place, insert, result_table, serve
from benchmarks.nexmark.queries import Query, read_tables

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job

SPARK_EVENT = """
  event_type INT,
  person STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING, city: STRING, state: STRING,
    dateTime: TIMESTAMP, extra: STRING>,
  auction STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT, reserve: BIGINT,
    dateTime: TIMESTAMP, expires: TIMESTAMP, seller: BIGINT, category: BIGINT, extra: STRING>,
  bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, dateTime: TIMESTAMP,
    extra: STRING>
"""


class Engine(Protocol):
    """Runs queries."""

    def perform(self, order: Order, query: Query) -> dict[str, Any]:
        """Run an order to the end of the topic."""

    def start(self, order: Order, query: Query) -> dict[str, Any]:
        """Start a query that has no end, one at a time."""

    def stop(self, order: Order, query: Query) -> dict[str, Any]:
        """End it. Raises what it failed with."""


class Penstock:
    """A session of Penstock with the topic as a table."""

    def __init__(self, place: Place) -> None:
        import penstock

        os.chdir(place.folder)
        self._place = place
        self._job: Job | None = None
        self._session = penstock.connect(**{**SPARK_CONF, "spark.log.level": "OFF"})
        options = {
            "connector": "kafka",
            "topic": place.topic,
            "properties.bootstrap.servers": place.bootstrap,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
        }
        if place.bounded:
            options["scan.bounded.mode"] = "latest-offset"
        if place.batch_rows:
            options["scan.max-records-per-batch"] = str(place.batch_rows)
        events, views = read_tables()
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        for statement in (events.replace("{options}", given), *views):
            self._session.sql(statement)

    def perform(self, order: Order, query: Query) -> dict[str, Any]:
        """Run a query to the end of the topic; its checkpoint has a folder of its own."""
        self._job = self._insert(order, query)
        self._job.await_termination()
        found = self._found(order)
        self._session.sql(f"DROP TABLE `{order.name}`")
        return found

    def start(self, order: Order, query: Query) -> dict[str, Any]:
        """Start a query that has no end, one at a time."""
        self._job = self._insert(order, query)
        return {}

    def stop(self, order: Order, query: Query) -> dict[str, Any]:  # noqa: ARG002  as the protocol has it
        """End it after the batch in flight. Raises what it failed with."""
        assert self._job is not None, "it was started"
        self._job.request_stop()
        self._job.await_termination()
        return self._found(order)

    def _insert(self, order: Order, query: Query) -> Job:
        from penstock.sql.jobs.job import Job

        self._session.sql(f"SET 'execution.checkpointing.dir' = '{self._folder(order)}'")
        self._session.sql(f"SET 'pipeline.name' = '{order.name}'")
        self._session.sql(result_table(order, query, self._place.bootstrap))
        job = self._session.sql(insert(order, query))
        assert isinstance(job, Job), "an INSERT is one job"
        return job

    def _folder(self, order: Order) -> Path:
        return Path(self._place.folder) / f"checkpoint_{order.name}"

    def _found(self, order: Order) -> dict[str, Any]:
        assert self._job is not None, "it was started"
        progress = self._job.progress
        return {
            "rows_in": int(progress.rows_in),
            "late": int(progress.rows_dropped),
            "batches": int(progress.batches),
            "state_bytes": _size(self._folder(order)),
        }


class Spark:
    """Spark's own source and SQL, which refuses most queries whose result is kept up to date."""

    def __init__(self, place: Place) -> None:
        from pyspark.sql import functions as f

        from examples.demo.spark_alone import start_spark
        from penstock.connector.delta.connector import delta_jars

        self._place = place
        self._running: Any = None
        tuned = {key: value for key, (value, _) in TUNED_CONF.items()}
        tuned["spark.sql.streaming.numRecentProgressUpdates"] = "100000"
        self._spark = start_spark(
            Path(place.folder) / "logs", delta_jars(), {**SPARK_CONF, **tuned}
        )
        where = contestants.Place(
            bootstrap=place.bootstrap, topic=place.topic, folder=Path(place.folder)
        )
        limit = {"maxOffsetsPerTrigger": str(place.batch_rows)} if place.batch_rows else {}
        records = spark_records(self._spark, where, limit)
        event = f.from_json(f.col("value").cast("string"), SPARK_EVENT).alias("event")
        time = "coalesce(person.dateTime, auction.dateTime, bid.dateTime)"
        events = records.select(event).select("event.*").withColumn("dateTime", f.expr(time))
        events.withWatermark("dateTime", "4 seconds").createOrReplaceTempView("events")
        for view in read_tables()[1]:
            self._spark.sql(view.replace("CREATE VIEW", "CREATE TEMPORARY VIEW"))

    def perform(self, order: Order, query: Query) -> dict[str, Any]:
        """Run a query to the end of the topic."""
        self._running = self._writer(order, query).trigger(availableNow=True).start()
        self._running.awaitTermination()
        return self._found(order)

    def start(self, order: Order, query: Query) -> dict[str, Any]:
        """Start a query that has no end, one at a time: one batch after the other, as is Spark's default."""
        self._running = self._writer(order, query).start()
        return {}

    def stop(self, order: Order, query: Query) -> dict[str, Any]:  # noqa: ARG002  as the protocol has it
        """End it. Raises what it failed with."""
        if (failure := self._running.exception()) is not None:
            raise failure
        self._running.stop()
        return self._found(order)

    def _writer(self, order: Order, query: Query) -> Any:
        """Describe the query and its sink, in update mode where its rows have a key."""
        from pyspark.sql import functions as f

        frame = self._spark.sql(query.spark)
        cast = [f.col(name).cast(kind).alias(name) for name, kind in _spark_types(query).items()]
        frame = frame.select(*cast)
        if order.topic:
            key = f.to_json(f.struct(*query.key)) if query.key else f.lit(None).cast("string")
            frame = frame.select(key.alias("key"), f.to_json(f.struct("*")).alias("value"))
        writer = frame.writeStream.format("kafka" if order.topic else "noop")
        writer = writer.outputMode("update" if query.key else "append")
        writer = writer.option("topic", order.topic or "none")
        writer = writer.option("kafka.bootstrap.servers", self._place.bootstrap)
        return writer.option("checkpointLocation", str(self._folder(order)))

    def _folder(self, order: Order) -> Path:
        return Path(self._place.folder) / f"checkpoint_{order.name}"

    def _found(self, order: Order) -> dict[str, Any]:
        progress = self._running.recentProgress
        late = sum(
            operator.get("numRowsDroppedByWatermark", 0)
            for one in progress
            for operator in one["stateOperators"]
        )
        return {
            "late": late,
            "batches": len(progress),
            "state_bytes": _size(self._folder(order)),
        }


def _spark_types(query: Query) -> Mapping[str, str]:
    """Name the types of a result as Spark does."""
    return {name: kind.replace("TIMESTAMP(3)", "TIMESTAMP") for name, kind in query.columns}


def _size(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ENGINES: Mapping[str, type[Penstock | Spark]] = {"penstock": Penstock, "spark": Spark}


def main() -> None:
    """Serve orders until standard input ends."""
    name, given = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries and processes print must not mix with the answers
    engine: Engine = ENGINES[name](Place(**json.loads(given)))
    serve({RUN: engine.perform, START: engine.start, STOP: engine.stop}, answers)


if __name__ == "__main__":
    main()
