"""`penstock run` as a process that is scraped, that pushes, and whose progress a program reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.sql.metrics.families import FAMILIES, MetricKind
from tests.integration.pipeline import COMMAND, wait_until
from tests.kafka_server import KafkaServer
from tests.sql.lineage.test_openlineage import Server as LineageServer
from tests.sql.metrics.test_otel import Collector, points

SCRIPT = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min');
CREATE TABLE counted (window_start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'counted');
INSERT INTO counted SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
"""
WITHOUT_VALUE = {
    "penstock_dead_letters_total",
    "penstock_kafka_transactions_total",
    "penstock_offset_commits_total",
    "penstock_oldest_unread_timestamp_seconds",
    "penstock_state_files",
    "penstock_state_rows",
}
"""The families of which such a run has nothing: all is read, nothing is left out, no group is named, and RocksDB
counts no rows, and has no files of buckets."""

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


class Run:
    """A running `penstock run`, whose stderr is read as it comes."""

    def __init__(self, project: Path, *arguments: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "run", "job.sql", *arguments],
            cwd=project,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environ,
        )
        self.lines: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def documents(self) -> list[dict[str, object]]:
        """The documents of pipelines on stderr so far."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [each for each in found if "sentence" in each]

    def expect(self, words: str) -> None:
        """Wait until a sentence has these words."""

        def said() -> bool:
            assert self.process.poll() is None, "".join(self.lines)
            return any(words in str(each["sentence"]) for each in self.documents)

        try:
            wait_until(said, seconds=200, what=words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{''.join(self.lines)}") from error

    def url(self) -> str:
        """Where metrics are served, as it says."""
        served = [line for line in list(self.lines) if "/metrics" in line and "http" in line]
        return "" if not served else "http" + served[0].partition("http")[2].strip().rstrip('"}')

    def page(self) -> str:
        """Where its page is, as it says."""
        (served,) = [line for line in list(self.lines) if line.startswith('{"page"')]
        return str(json.loads(served)["page"])

    def stop(self) -> int:
        """End it as Ctrl-C does; its status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(120)
        self._reader.join(10)
        return status


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector of OpenTelemetry."""
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def lineage() -> Iterator[LineageServer]:
    """A server of OpenLineage."""
    made = LineageServer()
    yield made
    made.http.shutdown()
    made.http.server_close()


def scraped(url: str) -> dict[tuple[str, ...], float]:
    """The series of a scrape, by name and sorted values of their labels, without the pipeline's."""
    with urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name,
            *(value for key, value in sorted(sample.labels.items()) if key != "pipeline"),
        ): (sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def pushed_rows(collector: Collector) -> float:
    """The rows read as of the last push; 0 before there is one."""
    read = collector.metrics().get("penstock_rows_read") if collector.requests else None
    return 0 if read is None else sum(points(read).values())


def test_a_run_is_scraped_pushes_and_says_why_nothing_comes(
    kafka: KafkaServer, project: Path, collector: Collector, lineage: LineageServer
) -> None:
    """All families that such a run has; the window is open, so that the sentence tells what it waits for."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": n, "ts": f"2024-05-01 12:00:0{n}"} for n in range(3)])
    script = SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap)
    (project / "job.sql").write_text(script, encoding="utf-8")
    run = Run(
        project,
        *("--metrics-port", "0", "--progress", "json", "--progress-interval", "0.2"),
        *("--ui-port", "0"),
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_METRIC_EXPORT_INTERVAL="500",
        OPENLINEAGE_URL=lineage.url,
    )
    try:
        run.expect("rows of its state wait for the watermark, which is at 2024-05-01 12:00:02Z")
        kafka.produce_json(topic, [{"id": 3, "ts": "2024-05-01 12:01:30"}])
        wait_until(
            lambda: scraped(run.url()).get(("penstock_rows_written_total", "counted")) == 1,
            seconds=60,
            what="the window in the table",
        )
        found, of_page = scraped(run.url()), scraped(f"{run.page()}metrics")
        wait_until(lambda: pushed_rows(collector) == 4, seconds=60, what="a push with all rows")
        pushed = collector.metrics()
    finally:
        status = run.stop()

    assert {key[0] for key in of_page} == {key[0] for key in found}
    assert found["penstock_rows_read_total", "events"] == 4
    assert found["penstock_rows_written_total", "counted"] == 1
    assert found["penstock_delta_files_added_total", "counted"] == 1
    assert found["penstock_delta_version", "counted"] >= 1
    assert found["penstock_sink_commit_seconds_count", "counted"] >= 1
    assert found["penstock_lag_records", "events"] == 0
    assert found["penstock_pipeline_status", "running"] == 1
    assert found["penstock_pipeline_info", "exactly-once", "append", "counted", version("penstock")]
    assert found["penstock_watermark_timestamp_seconds", "events"] == 1714564890
    assert found["penstock_alignment_max_drift_seconds", "g", "events"] == 60
    assert found["penstock_split_position", f"{topic}-0", "events"] == 4
    assert found["penstock_batch_duration_seconds_count",] >= 1
    names = {key[0] for key in found}
    absent = {
        family.exported
        for family in FAMILIES
        if (f"{family.name}_count" if family.kind is MetricKind.HISTOGRAM else family.exported)
        not in names
    }
    assert absent <= WITHOUT_VALUE
    labels = (("pipeline", "job/counted"), ("table", "events"))
    assert points(pushed["penstock_rows_read"]) == {labels: 4}
    assert [event["eventType"] for event in lineage.events] in (
        ["START", "ABORT"],
        ["START", "RUNNING", "ABORT"],
    )
    (read,), (written,) = lineage.events[-1]["inputs"], lineage.events[-1]["outputs"]
    assert (read["namespace"], read["name"]) == (f"kafka://{kafka.bootstrap}", topic)
    assert (written["namespace"], written["name"]) == ("file", str(project / "counted"))
    assert "window_start" in written["facets"]["columnLineage"]["fields"]
    last = run.documents[-1]
    assert (status, last["name"], last["status"]) == (0, "job/counted", "stopped")
    assert str(last["sentence"]).startswith("stopped after batch ")
