"""`penstock tail`: rows as they come, and a clean end."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time

import pytest

from penstock.connector.kafka.client.client import REQUEST_TIMEOUT_S
from tests.sql.cli.live_tables import commands, define, kafka_table, order

DEADLINE_S = 30.0


class Tail:
    """A `penstock tail` in a process of its own."""

    def __init__(self, folder, *arguments):
        code = "from penstock.sql.cli.commands.app import main; main()"
        command = [sys.executable, "-c", code, "tail", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.text = {"out": "", "err": ""}
        self._streams = selectors.DefaultSelector()
        self._streams.register(self.process.stdout, selectors.EVENT_READ, "out")
        self._streams.register(self.process.stderr, selectors.EVENT_READ, "err")

    def until(self, stream, words):
        """Read both streams until one holds the words."""
        give_up_s = time.monotonic() + DEADLINE_S
        while words not in self.text[stream]:
            assert time.monotonic() < give_up_s, self.text
            for key, _ in self._streams.select(0.1):
                self.text[key.data] += os.read(key.fd, 65536).decode()

    def end(self, number):
        """Send a signal; give the status and how long the end took."""
        began_s = time.monotonic()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        self.text["out"] += out.decode()
        self.text["err"] += err.decode()
        return self.process.returncode, time.monotonic() - began_s


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_new_rows_come_until_a_signal_ends_it(kafka, topic, tmp_path, number):
    """From the end of the topic, whatever the table's start and end are; status 0; no group is touched."""
    name = topic(partitions=2)
    kafka.produce_json(name, [order(i) for i in range(3)])
    define(
        tmp_path,
        kafka_table(
            "orders",
            kafka.bootstrap,
            name,
            properties_group_id="tailing",
            scan_bounded_mode="latest-offset",
        ),
    )
    tail = Tail(tmp_path, "orders", "--format", "json")
    tail.until("err", "reading orders, 2 splits")
    kafka.produce_json(name, [order(7)], partition=1)
    tail.until("out", "n7")
    groups = kafka.admin.list_consumer_groups().result().valid
    status, took_s = tail.end(number)

    assert status == 0
    assert took_s < REQUEST_TIMEOUT_S
    assert [json.loads(line)["id"] for line in tail.text["out"].splitlines()] == [7]
    assert "1 row" in tail.text["err"]
    assert "Traceback" not in tail.text["err"]
    assert "tailing" not in {group.group_id for group in groups}
    assert kafka.committed("tailing", name, [0, 1]) == {}


def test_watermarks_show_what_holds_a_split(kafka, topic, tmp_path):
    """On a pipe a line now and then: the split that is a day ahead waits for the other, and says so."""
    name = topic(partitions=2)
    kafka.produce_json(name, [order(0)], partition=0)
    kafka.produce_json(
        name, [order(i, "2026-01-02 00:00:00") for i in range(1, 50_000)], partition=1
    )
    aligned = {"group": "g", "max-drift": "1 min", "update-interval": "100 ms"}
    define(
        tmp_path,
        kafka_table(
            "orders",
            kafka.bootstrap,
            name,
            **{f"scan_watermark_alignment_{key}": value for key, value in aligned.items()},
        ),
    )
    tail = Tail(tmp_path, "orders", "--from", "earliest", "--watermarks")
    tail.until("err", "paused: 23 h 59 min above what group 'g' allows")
    status, _ = tail.end(signal.SIGINT)

    assert status == 0
    assert "watermark 2025-12-31 23:59:55" in tail.text["err"]


@pytest.mark.slow
def test_ctrl_c_ends_it_while_the_broker_does_not_answer(tmp_path):
    """At once, with status 0, and without complaints of libraries about a thread that waits."""
    define(tmp_path, kafka_table("orders", "127.0.0.1:1", "orders"))
    tail = Tail(tmp_path, "orders")
    tail.until("err", "note: without up")
    status, took_s = tail.end(signal.SIGINT)

    assert status == 0
    assert took_s < REQUEST_TIMEOUT_S
    assert tail.text["err"].splitlines()[1:] in ([], ["0 rows"])


def test_it_ends_after_the_limit(kafka, topic, tmp_path, monkeypatch):
    """A table without a watermark has positions only, and says so."""
    name = topic()
    kafka.produce_json(name, [{"id": i} for i in range(30)])
    options = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{kafka.bootstrap}', 'topic' = '{name}', 'format' = 'json'"
    define(tmp_path, f"CREATE TABLE plain (id BIGINT) WITH ({options})")
    monkeypatch.chdir(tmp_path)
    result = commands()("tail", "plain", "--from", "earliest", "--limit", "4", "--watermarks")

    assert result.exit_code == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["id"],
        ["0"],
        ["1"],
        ["2"],
        ["3"],
    ]
    assert "has no WATERMARK" in result.stderr
    assert "4 rows" in result.stderr
