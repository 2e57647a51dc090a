"""A standalone Spark cluster on loopback, made of pyspark's own classes: the same file runs there with --master."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from penstock.connector.java import find_java
from tests.integration.pipeline import Pipeline, delta_rows, wait_until
from tests.kafka_server import KafkaServer

SCRIPT = """
CREATE TABLE orders (id BIGINT, amount DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE per_minute (window_start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'per_minute');
CREATE TABLE copied (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO per_minute SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO copied SELECT id FROM orders;
"""


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        """Start the master, wait for its address, start the workers, wait until they are registered."""
        self._launch(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"
        )
        wait_until(
            lambda: "Starting Spark master at" in self._log("master"), seconds=60, what="the master"
        )
        found = re.search(r"spark://[0-9.]+:\d+", self._log("master"))
        assert found is not None
        self.url = found.group(0)
        for number in (1, 2):
            work = str(self._folder / f"work-{number}")
            options = ("--host", "127.0.0.1", "-c", "1", "-m", "1g", "-d", work)
            self._launch(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, self.url
            )
        wait_until(
            lambda: self._log("master").count("Registering worker") == 2,
            seconds=60,
            what="two workers",
        )

    def stop(self) -> None:
        """Stop everything."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def _launch(self, name: str, main: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",  # bin/load-spark-env.sh sets it for the scripts
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(find_java().executable), "-Xmx512m", "-cp", f"{home}/jars/*"]
        # outside of bin/spark-class nobody opens these packages for Spark
        command += [
            f"--add-opens=java.base/{package}=ALL-UNNAMED"
            for package in ("java.lang", "java.nio", "sun.nio.ch")
        ]
        log = (self._folder / f"{name}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [*command, main, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
            )
        )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_file_runs_on_a_cluster(kafka: KafkaServer, cluster: Cluster, project: Path) -> None:
    """Windows and a plain copy, read and written by executors of two workers."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        rows = [
            {
                "id": partition * 600 + i,
                "amount": 1.0,
                "ts": f"2024-01-01 0{partition * 5}:{i // 60:02}:{i % 60:02}",
            }
            for i in range(600)
        ]
        kafka.produce_json(topic, rows, partition=partition)
    script = project / "quickstart.sql"
    script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap), encoding="utf-8")
    pipeline = Pipeline(project, script, ("--master", cluster.url))
    pipeline.start()
    summary = pipeline.finish(600)

    windows, copy = [s for s in summary["statements"] if s["kind"] == "INSERT"]
    assert (windows["rows_in"], windows["rows_out"], windows["rows_dropped"]) == (1200, 20, 0)
    assert copy["rows_out"] == 1200
    assert delta_rows(project / "per_minute", "SELECT count(*), sum(n) FROM {table}") == [
        (20, 1200)
    ]
    assert delta_rows(project / "copied", "SELECT count(DISTINCT id) FROM {table}") == [(1200,)]
