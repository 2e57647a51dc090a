"""Topic to topic by `penstock run`: exactly once, as a reader of committed records sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.connector.kafka.sink.writing import committed
from tests.integration.pipeline import Pipeline

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

SCRIPT = """
CREATE TABLE orders (id BIGINT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '250');
CREATE TABLE copied (id BIGINT, name STRING) WITH (
  'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'copied');
INSERT INTO copied SELECT id, UPPER(name) FROM orders WHERE id >= 0;
"""


def test_a_copied_topic_has_every_row_once(
    project: Path, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Over several batches."""
    source, sink = topic(partitions=2), topic(partitions=2)
    for partition in range(2):
        rows = [{"id": 2 * i + partition, "name": f"n{i}"} for i in range(500)]
        kafka.produce_json(source, rows, partition=partition)
    script = project / "copy.sql"
    text = SCRIPT.format(source=source, sink=sink, bootstrap=kafka.bootstrap)
    script.write_text(text, encoding="utf-8")
    pipeline = Pipeline(project, script)
    pipeline.start()
    pipeline.finish(150)
    found = sorted(int(bytes(m.key() or b"")[6:-1]) for m in committed(kafka, sink, 2))

    assert found == list(range(1000))
    assert pipeline.batches("copied") >= 4
