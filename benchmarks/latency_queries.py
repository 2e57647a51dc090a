"""The streaming queries of `latency.py`, each in a process of its own that waits for orders on standard input.

`python -m benchmarks.latency_queries SPEC` starts one; SPEC is JSON of a `Spec`. `mark` answers with the newest batch
and the Spark jobs so far; `finish` waits until all records are written, and answers with the phases of each batch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import (
    COLUMNS,
    DELTA_CONF,
    SPARK_CONF,
    SPARK_SCHEMA,
    TIMED_SCHEMA,
    TUNED_CONF,
    WINDOWED,
    Place,
    count_in_windows,
    spark_bids,
    windowed_count,
)
from penstock.connector.spark.internals import java_session

PROGRESS_CONF = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
WINDOW_S = 1
"""Length of the windows, and what the watermark is behind."""

KAFKA_COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)"
CHAIN = """
SELECT `dateTime`, SUM(n) AS bids
FROM (SELECT `dateTime`, auction, COUNT(*) AS n FROM bids GROUP BY `dateTime`, auction)
GROUP BY `dateTime`
"""
"""An aggregate of an aggregate: how many bids of each moment have been read; each record is one more."""

WAIT_S = 60
SETTLED_S = 5
LONGEST_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One query: `target` is a folder, or for `kafka` a topic; the trigger 0 runs batch after batch."""

    engine: str
    case: str
    bootstrap: str
    topic: str
    folder: str
    target: str
    trigger_ms: int

    def as_json(self) -> str:
        """Write the argument of the process."""
        return json.dumps(asdict(self))


def start_spark_alone(spec: Spec) -> tuple[Any, Any]:
    """Start Spark's own source and sink; gives the session and the query."""
    from pyspark.sql import functions as f

    from examples.demo.spark_alone import start_spark
    from penstock.connector.delta.connector import delta_jars

    folder = Path(spec.folder)
    tuned = {key: value for key, (value, _) in TUNED_CONF.items()}
    conf = {**SPARK_CONF, **DELTA_CONF, **tuned, **PROGRESS_CONF}
    spark = start_spark(folder / "logs", delta_jars(), conf)
    place = Place(bootstrap=spec.bootstrap, topic=spec.topic, folder=folder)
    bids = spark_bids(spark, place, TIMED_SCHEMA if spec.case == "window" else SPARK_SCHEMA)
    if spec.case == "window":
        bids = count_in_windows(bids, f"{WINDOW_S} seconds", f"{WINDOW_S} seconds")
    if spec.case == "kafka":
        sent = f.struct("auction", "bidder", "price", "dateTime")
        written = bids.select(f.to_json(sent).alias("value")).writeStream.format("kafka")
        written = written.option("kafka.bootstrap.servers", spec.bootstrap)
        written = written.option("topic", spec.target)
    else:
        written = bids.writeStream.format("delta").option("path", spec.target)
    written = written.option("checkpointLocation", str(folder / "checkpoint"))
    return spark, written.trigger(processingTime=f"{spec.trigger_ms} milliseconds").start()


def start_penstock(spec: Spec) -> tuple[Any, Any]:
    """Start Penstock; gives the session of Spark and the query."""
    import penstock

    os.chdir(spec.folder)
    session = penstock.connect(**{**SPARK_CONF, **PROGRESS_CONF, "spark.log.level": "OFF"})
    session.sql(f"SET 'execution.checkpointing.interval' = '{spec.trigger_ms} ms'")
    kafka = f"'connector' = 'kafka', 'format' = 'json', 'properties.bootstrap.servers' = '{spec.bootstrap}'"
    watermark = ""
    if spec.case == "window":
        watermark = f", WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '{WINDOW_S}' SECOND"
    session.sql(
        f"CREATE TABLE bids ({COLUMNS}{watermark}) WITH ({kafka}, 'topic' = '{spec.topic}', "
        "'scan.startup.mode' = 'earliest-offset')"
    )
    if spec.case == "kafka":
        session.sql(
            f"CREATE TABLE target ({KAFKA_COLUMNS}) WITH ({kafka}, 'topic' = '{spec.target}', "
            "'sink.delivery-guarantee' = 'at-least-once')"
        )
        query = "SELECT auction, bidder, price, `dateTime` FROM bids"
    elif spec.case == "chain":
        session.sql(
            "CREATE TABLE target (`dateTime` TIMESTAMP(3), bids BIGINT, PRIMARY KEY (`dateTime`) NOT ENFORCED) WITH ("
            f"'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', 'topic' = '{spec.target}', "
            f"'properties.bootstrap.servers' = '{spec.bootstrap}', 'sink.delivery-guarantee' = 'at-least-once')"
        )
        query = CHAIN
    else:
        windows = spec.case == "window"
        columns = WINDOWED if windows else COLUMNS
        # who writes a plain append is the default of the table
        session.sql(
            f"CREATE TABLE target ({columns}) WITH ('connector' = 'delta', 'path' = '{spec.target}')"
        )
        query = windowed_count("bids", WINDOW_S) if windows else "SELECT * FROM bids"
    session.sql(f"INSERT INTO target {query}")
    until = time.monotonic() + WAIT_S
    while not (active := session.spark.streams.active):
        if time.monotonic() > until:
            raise SystemExit("error: the query did not start")
        time.sleep(0.05)
    (query_of_spark,) = active
    return session.spark, query_of_spark


STARTS = {"spark": start_spark_alone, "penstock": start_penstock}


def answer(order: str, spark: Any, query: Any) -> dict[str, Any]:
    """Answer one order."""
    jobs = java_session(spark).sparkContext().dagScheduler().numTotalJobs()
    if order == "mark":
        last = query.lastProgress
        return {"batch": last["batchId"] if last else -1, "jobs": jobs}
    assert order == "finish", f"no order {order}"
    settle(query)
    phases = [(one["batchId"], dict(one["durationMs"])) for one in query.recentProgress]
    query.stop()
    return {"phases": phases}


def settle(query: Any) -> None:
    """Wait until no batch has come for a while. Not `processAllAvailable`, which has no bound."""
    until = time.monotonic() + LONGEST_S
    newest, since = -1, time.monotonic()
    while time.monotonic() < until:
        last = query.lastProgress
        if last is not None and last["batchId"] != newest:
            newest, since = last["batchId"], time.monotonic()
        took_s = last["durationMs"]["triggerExecution"] / 1000 if last is not None else 0.0
        if time.monotonic() - since > SETTLED_S + 3 * took_s:
            return
        time.sleep(0.2)


def main() -> None:
    """Serve orders until standard input ends."""
    spec = Spec(**json.loads(sys.argv[1]))
    said = sys.stdout
    sys.stdout = sys.stderr  # whatever libraries print must not mix with the answers
    spark, query = STARTS[spec.engine](spec)
    print(json.dumps({"ready": True}), file=said, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip(), spark, query)), file=said, flush=True)


if __name__ == "__main__":
    main()
