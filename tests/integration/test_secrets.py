"""No secret in anything that a run leaves or says: while it runs, when it fails, and afterwards."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.secrets.crypto import KEY_FILE_VARIABLE, KEY_VARIABLE
from tests.integration.leaks import command_lines, leaks, spellings
from tests.integration.pipeline import COMMAND, Pipeline, delta_rows, descendants, wait_until
from tests.kafka_listener import NAME, BrokerWithListener
from tests.kafka_server import KafkaServer

USER, PASSWORD, WRONG = "clerk", "cAnary/7+Zq=%41 right", "cAnary/8+Zr=%42 wrong"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required "
BROKER = {
    f"listener.name.{NAME.lower()}.sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{NAME.lower()}.plain.sasl.jaas.config": f'{JAAS}user_{USER}="{PASSWORD}";',
}

TABLES = """
CREATE TABLE orders (id BIGINT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR at AS at - INTERVAL '1' SECOND) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = '${{env:TEST_BROKER}}', 'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.username' = '{user}',
  'properties.sasl.password' = '${{secret:kafka}}',
  'bad-records' = 'dead-letter', 'dead-letter.topic' = 'letters');
CREATE TABLE copies (id BIGINT, name STRING) WITH (
  'connector' = 'kafka', 'topic' = 'copies', 'format' = 'json', 'properties.bootstrap.servers' = '${{env:TEST_BROKER}}',
  'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = '{jaas}username="{user}" password="${{file:{file}}}";',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'copies');
CREATE TABLE fragile (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'fragile', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = '${{env:TEST_BROKER}}', 'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.username' = '{user}',
  'properties.sasl.password' = '${{secret:kafka}}');
CREATE TABLE fragile_kept (id BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE kept (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'kept');
"""
SCRIPT = """
CREATE SECRET kafka AS '{{ env_var("CANARY") }}';
{% include "tables.sql" %}
INSERT INTO kept SELECT id, name FROM orders;
INSERT INTO copies SELECT id, name FROM orders;
INSERT INTO fragile_kept SELECT id FROM fragile;
"""
SINKS = ("kept", "copies")


def test_the_search_finds_what_was_planted(tmp_path: Path) -> None:
    """In every form, in a compressed file, in the name of a file; else it would prove nothing."""
    for form, spelled in spellings(PASSWORD).items():
        folder = tmp_path / form.replace(" ", "-")
        folder.mkdir()
        (folder / "file").write_bytes(b"\x00before" + spelled + b"after")

        assert any(found.endswith(form) for found in leaks(folder, PASSWORD))
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "log.gz").write_bytes(gzip.compress(f"x{PASSWORD}x".encode()))
    (folder / PASSWORD.replace("/", "%2F")).touch()

    assert {found.partition(":")[0] for found in leaks(folder, "cAnary")} == {
        "log.gz",
        PASSWORD.replace("/", "%2F"),
    }
    assert leaks(folder, "nothing-like-it") == []


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker whose second listener asks for the password; records are there."""
    folder = tmp_path_factory.mktemp("guarded")
    with BrokerWithListener(folder, protocol="SASL_PLAINTEXT", settings=BROKER) as broker:
        kafka = KafkaServer(broker)
        for name in ("orders", "copies", "letters", "fragile"):
            kafka.create_topic(name)
        kafka.produce_json("orders", [{"id": n, "name": f"n{n}"} for n in range(20)])
        kafka.produce("orders", [b"no json"])
        yield kafka


def environment(project: Path, kafka: KafkaServer) -> dict[str, str]:
    """Of every process: temporary files lie in the project too."""
    assert isinstance(kafka.broker, BrokerWithListener)
    return {
        "CANARY": PASSWORD,
        "TEST_BROKER": kafka.broker.second_bootstrap,
        "TMPDIR": str(project / "tmp"),
        KEY_VARIABLE: "",
        KEY_FILE_VARIABLE: "",
    }


def run_of(project: Path, kafka: KafkaServer) -> Pipeline:
    """The pipeline, with Spark's event log on, and as talkative as it can be."""
    for name in ("tmp", "events"):
        (project / name).mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (project / "events").as_uri(),
        "spark.local.dir": str(project / "tmp"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={project / 'tmp'}",
    }
    settings = [part for pair in conf.items() for part in ("--conf", "=".join(pair))]
    script = project / "run.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    return Pipeline(project, script, ["--verbose", *settings], environment(project, kafka))


def penstock(project: Path, kafka: KafkaServer, *arguments: str, stdin: str = "") -> bytes:
    """Run another command to its end, and give all that it says."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=project,
        env=os.environ | environment(project, kafka),
        input=stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_leaves_no_secret(
    project: Path, guarded: KafkaServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From a broker that asks for a password into a topic there and a Delta table, until a task fails.

    Then with a password that the broker refuses.
    """
    file = tmp_path_factory.mktemp("mounted") / "password"
    file.write_text(f"{PASSWORD}\n", encoding="utf-8")
    tables = TABLES.format(user=USER, jaas=JAAS, file=file)
    (project / "tables.sql").write_text(tables, encoding="utf-8")
    pipeline = run_of(project, guarded)
    process = pipeline.start()
    try:
        wait_until(
            lambda: process.poll() is not None or min(map(pipeline.batches, SINKS)) > 0,
            seconds=300,
            what="a batch of each query",
        )
        called = command_lines([process.pid, *descendants(process.pid)])
        during = leaks(project, PASSWORD)
        guarded.produce("fragile", [b"no json"])
        output, _ = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            pipeline.kill()
    changed = penstock(project, guarded, "secret", "set", "kafka", stdin=WRONG)
    refused = penstock(project, guarded, "peek", "orders", "--verbose")

    assert delta_rows(project / "kept", "SELECT count(*) FROM {table}") == [(20,)], pipeline.log
    assert process.returncode == 1, pipeline.log
    assert "is not valid JSON" in pipeline.log
    assert b"refuses access" in refused
    said = output + called + changed + refused
    for value in (PASSWORD, WRONG):
        assert [form for form, spelled in spellings(value).items() if spelled in said] == []
        assert leaks(project, value) == []
    assert during == []
    # the search saw what a run leaves: the catalog, the checkpoints, Spark's events
    assert leaks(project, "${secret:kafka}")
    assert list((project / "events").iterdir())
    assert list((project / ".penstock").rglob("offsets/0"))
