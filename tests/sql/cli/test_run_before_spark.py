"""`penstock run`: what is refused before Spark is started, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sql.cli.commands import run_scripts
from tests.kafka_server import KafkaServer
from tests.sql.cli.live_tables import commands

pytestmark = pytest.mark.broker

JOB = """
CREATE TABLE clicks (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
  'properties.bootstrap.servers' = '{bootstrap}', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
INSERT INTO copies SELECT id FROM clicks;
"""


class SparkStartedError(Exception):
    """Spark was started."""


def test_a_missing_topic_is_told_before_spark_is_started(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the INSERT that reads it; one that exists lets Spark start."""

    def start(*_: object, **__: object) -> object:
        raise SparkStartedError

    monkeypatch.setattr(run_scripts, "open_spark", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").touch()
    there = kafka.create_topic(partitions=1)
    for topic, name in ((f"{there}-no", "missing.sql"), (there, "there.sql")):
        text = JOB.format(topic=topic, bootstrap=kafka.bootstrap)
        (tmp_path / name).write_text(text, encoding="utf-8")
    penstock = commands()
    missing = penstock("run", "missing.sql")

    assert missing.exit_code == 2, missing.stderr
    assert f"has no topic '{there}-no'" in missing.stderr
    assert "missing.sql:5:1" in missing.stderr
    assert "SparkStartedError" in penstock("run", "there.sql").stderr
