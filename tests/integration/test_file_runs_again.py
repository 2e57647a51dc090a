"""README's ten lines, typed three times: against a broker without the topic, and twice when it is there."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import PenstockError
from tests.delta_tables import read_delta
from tests.kafka_server import KafkaServer
from tests.sql.jobs.test_file_runs_again import readme_file


@pytest.mark.nightly
def test_the_readme_file_runs_again_also_after_a_run_that_failed(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Each run is a session of its own, as `penstock run clicks.sql --available-now` is."""
    topic = f"clicks-{uuid4().hex}"
    text = readme_file().replace("localhost:9092", kafka.bootstrap)
    file = project / "clicks.sql"
    file.write_text(text.replace("'topic' = 'clicks'", f"'topic' = '{topic}'"), encoding="utf-8")

    def run() -> None:
        with penstock.connect(spark) as session:
            session.run_file(file, available_now=True)

    def click(minute: int) -> None:
        ts = f"2026-01-31 10:{minute:02}:00"
        kafka.produce_json(topic, [{"user_id": 1, "url": "/", "ts": ts}] * 3, partition=0)

    with pytest.raises(PenstockError, match="topic"):
        run()  # its tables are in the catalog now
    kafka.create_topic(topic, partitions=1)
    click(0)
    click(1)
    run()
    click(3)
    run()
    rows = read_delta(project / "per_minute").to_pylist()

    assert sorted((row["window_start"].minute, row["clicks"]) for row in rows) == [(0, 3), (1, 3)]
