"""A temporal join in event time from real topics into a Delta table: by the watermark of both, over a replay."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from tests.delta_tables import read_delta
from tests.integration.test_updating_queries import forget_last_batch
from tests.kafka_server import KafkaServer

START_MS = 1_769_853_600_000  # 2026-01-31 10:00:00Z
SCRIPT = """
CREATE TEMPORARY TABLE orders (id INT, currency STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = '{orders}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '{bootstrap}');
CREATE TEMPORARY TABLE rates (currency STRING, rate INT, since TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
                              PRIMARY KEY (currency) NOT ENFORCED, WATERMARK FOR since AS since)
WITH ('connector' = 'upsert-kafka', 'topic' = '{rates}', 'key.format' = 'json', 'value.format' = 'json',
      'properties.bootstrap.servers' = '{bootstrap}');
CREATE TEMPORARY TABLE priced (id INT, rate INT) WITH ('connector' = 'delta', 'path' = 'priced');
INSERT INTO priced SELECT o.id, r.rate FROM orders AS o
  LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency
"""


def give_rates(kafka: KafkaServer, topic: str, rates: list[tuple[str, int | None, int]]) -> None:
    """Write rates at times in seconds; one without a value is a tombstone."""
    values = [
        None if rate is None else json.dumps({"currency": currency, "rate": rate})
        for currency, rate, _ in rates
    ]
    kafka.produce(
        topic,
        values,
        keys=[json.dumps({"currency": currency}) for currency, _, _ in rates],
        timestamps_ms=[START_MS + seconds * 1000 for _, _, seconds in rates],
    )


def give_orders(kafka: KafkaServer, topic: str, orders: dict[int, int]) -> None:
    """Write orders in euros at times in seconds."""
    rows = [
        {"id": number, "currency": "EUR", "ts": f"2026-01-31 10:00:{seconds:02}Z"}
        for number, seconds in orders.items()
    ]
    kafka.produce_json(topic, rows)


def test_orders_get_the_rate_of_their_time_and_late_ones_are_counted(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """An order waits until the watermarks of both topics have passed it; a tombstone ends a rate at its own time."""
    topics = {name: kafka.create_topic() for name in ("orders", "rates")}
    script, dropped = project / "priced.sql", []
    script.write_text(SCRIPT.format(**topics, bootstrap=kafka.bootstrap), encoding="utf-8")

    def run() -> dict[int, int | None]:
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
        dropped.append(job.progress.rows_dropped)
        rows = read_delta(project / "priced").to_pylist()
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: row["rate"] for row in rows}

    give_rates(kafka, topics["rates"], [("EUR", 2, 20), ("EUR", 1, 10), ("USD", 9, 21)])
    give_orders(kafka, topics["orders"], {3: 5, 1: 12, 2: 25})
    first = run()
    forget_last_batch(project / ".penstock" / "checkpoints" / "priced" / "priced")
    give_rates(kafka, topics["rates"], [("EUR", None, 30), ("USD", 3, 50)])
    give_orders(kafka, topics["orders"], {4: 35, 5: 11, 6: 55})
    second = run()

    assert first == {1: 1, 3: None}
    assert second == {**first, 2: 2, 4: None}
    assert dropped == [0, 1]
