"""A changelog into a keyed Delta table, with kills: the table is what applying the changes in order gives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pipeline import Pipeline, delta_rows, wait_until
from tests.kafka_server import KafkaServer

PARTITIONS = 4
SCRIPT = """
CREATE TABLE IF NOT EXISTS changes (id BIGINT, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{batch}', 'format' = 'debezium-json'
);
CREATE TABLE IF NOT EXISTS kept (id BIGINT, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'kept');
INSERT INTO kept SELECT id, amount, note FROM changes;
"""


def changes(count: int, keys: int, seed: int) -> Iterator[dict[str, Any]]:
    """Draw a changelog that a database might have written: inserts, updates and deletes of rows that are there."""
    draw = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    for number in range(count):
        key = draw.randrange(keys)
        before = rows.get(key)
        if before is not None and draw.random() < 0.2:
            del rows[key]
            yield {"op": "d", "before": before, "after": None}
            continue
        rows[key] = {"id": key, "amount": number, "note": f"n{number % 7}"}
        yield {"op": "c" if before is None else "u", "before": before, "after": rows[key]}


def applied(changelog: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Apply the changes in order: the reference."""
    table: dict[int, tuple[Any, ...]] = {}
    for change in changelog:
        if change["op"] == "d":
            del table[change["before"]["id"]]
        else:
            row = change["after"]
            table[row["id"]] = (row["id"], row["amount"], row["note"])
    return sorted(table.values())


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "keys", "kills"),
    [(30_000, 2_000, 1), pytest.param(1_000_000, 50_000, 8, marks=pytest.mark.faults)],
    ids=["representative", "million"],
)
def test_a_changelog_replayed_with_kills_gives_the_table_of_its_changes_in_order(
    kafka: KafkaServer, project: Path, count: int, keys: int, kills: int
) -> None:
    """Whatever was going on when the driver, its JVM and its workers died."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    changelog = list(changes(count, keys, seed))
    topic = kafka.create_topic(partitions=PARTITIONS)
    for part in range(PARTITIONS):
        own = (c for c in changelog if (c["after"] or c["before"])["id"] % PARTITIONS == part)
        kafka.produce(topic, (json.dumps(change) for change in own), partition=part)
    script = project / "keep.sql"
    text = SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap, batch=count // (2 * kills + 4))
    script.write_text(text, encoding="utf-8")
    pipeline = Pipeline(project, script)
    for _ in range(kills):
        before = pipeline.batches("kept")
        process = pipeline.start()
        wait_until(
            lambda before=before, process=process: (
                pipeline.batches("kept") > before or process.poll() is not None
            ),
            seconds=240,
            what="a committed batch",
        )
        assert process.poll() is None, "it ended before it was killed: " + pipeline.log[-3000:]
        pipeline.kill()
    pipeline.start()
    pipeline.finish(600)

    found = delta_rows(project / "kept", "SELECT id, amount, note FROM {table} ORDER BY id")
    assert found == applied(changelog)
