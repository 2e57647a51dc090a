"""`penstock peek`: the first rows of a table without Spark, and what it says where there are none."""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.kafka.client.client import REQUEST_TIMEOUT_S
from penstock.connector.local.reader import Emission
from penstock.connector.local.split_status import LocalJobStatus, SplitStatus
from penstock.sql.cli.output.report import print_rows
from penstock.sql.cli.output.row_text import RowFormat, RowWriter
from penstock.sql.cli.output.text import looked_at_lines, split_line, split_table, state_text
from penstock.sql.runner.first_rows import RowsEnd, take_rows
from penstock.sql.runner.summary import ResultRows
from tests.sql.cli.live_tables import commands, define, kafka_table, order
from tests.sql.sql_objects import run

NOWHERE = "127.0.0.1:1"

WITHOUT_SPARK = """
import sys
from penstock.sql.cli.commands.app import app
try:
    app(sys.argv[1:])
finally:
    assert "pyspark" not in sys.modules
"""


@pytest.fixture
def penstock(tmp_path, monkeypatch):
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return commands()


@pytest.mark.parametrize("command", ["peek", "tail"])
def test_the_help_shows_a_whole_command_line(penstock, command):
    """It needs no catalog."""
    result = penstock(command, "--help")

    assert result.exit_code == 0
    assert f"penstock {command} orders" in result.stdout


@pytest.mark.parametrize("command", ["peek", "tail"])
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("ordrs", "ordrs", "did you mean"),
        ("seen", "seen is a view", "penstock run"),
        ("lake", "only Spark reads", "penstock run"),
    ],
)
def test_what_is_not_read_by_splits_is_refused_with_what_to_use(
    penstock, tmp_path, command, name, message, hint
):
    """Status 2, nothing on stdout, no stack trace."""
    define(
        tmp_path,
        kafka_table("orders", NOWHERE, "orders")
        + "CREATE TABLE lake (id BIGINT) WITH ('connector' = 'delta', 'path' = 'lake');"
        "CREATE VIEW seen AS SELECT id FROM orders",
    )
    result = penstock(command, name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert hint in result.stderr


def test_a_start_that_needs_a_group_is_the_usual_error(penstock, tmp_path):
    """The default startup mode, and no group: as `penstock run` says it."""
    define(tmp_path, kafka_table("orders", NOWHERE, "orders"))
    result = penstock("peek", "orders")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "'properties.group.id' is required" in result.stderr


# --- on a broker ---


def test_the_first_rows_come_with_metadata_and_computed_columns(kafka, topic, tmp_path):
    """JSON, one object a line; Spark is never imported, and what only it can compute is named and left out."""
    name = topic(partitions=2)
    kafka.produce_json(name, [order(i) for i in range(5)], partition=1)
    define(
        tmp_path,
        kafka_table(
            "orders",
            kafka.bootstrap,
            name,
            properties_group_id="peeking",
            scan_startup_mode="earliest-offset",
        ),
    )
    command = [
        sys.executable,
        "-c",
        WITHOUT_SPARK,
        "peek",
        "orders",
        "--limit",
        "2",
        "--format",
        "json",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert [json.loads(line) for line in run.stdout.splitlines()] == [
        {"id": i, "name": f"n{i}", "ts": "2026-01-01T00:00:00", "part": 1, "twice": 2 * i}
        for i in (0, 1)
    ]
    assert "without up, which only Spark can compute" in run.stderr
    assert kafka.committed("peeking", name, [0, 1]) == {}


def test_it_ends_with_what_is_there_and_says_where_there_is_nothing(
    kafka, topic, tmp_path, penstock
):
    """Fewer rows than the limit; none at all, with what was looked at; --from takes the place of the start."""
    name, empty = topic(), topic(partitions=2)
    kafka.produce_json(name, [order(i) for i in range(3)])
    define(
        tmp_path,
        kafka_table("orders", kafka.bootstrap, name, scan_startup_mode="latest-offset")
        + kafka_table("nothing", kafka.bootstrap, empty, scan_startup_mode="earliest-offset")
        + kafka_table(
            "ended",
            kafka.bootstrap,
            name,
            scan_startup_mode="earliest-offset",
            scan_bounded_mode="latest-offset",
        ),
    )
    late = penstock("peek", "orders")
    early = penstock("peek", "orders", "--from", "earliest")
    nothing = penstock("peek", "nothing", "--format", "json")
    ended = penstock("peek", "ended")

    assert (late.exit_code, late.stdout) == (0, "")
    assert f"{name}-0: waited at 3, where it ends at 3" in late.stderr
    assert "--from earliest" in late.stderr
    assert early.stdout.splitlines()[0].split() == ["id", "name", "ts", "part", "twice"]
    assert len(early.stdout.splitlines()) == 4
    assert "3 rows, all that there are" in early.stderr
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert f"{empty}-1: is empty" in nothing.stderr
    assert "3 rows, all that there are" in ended.stderr


def test_a_topic_that_is_not_there_is_the_usual_error(kafka, topic, tmp_path, penstock):
    """With the nearest name."""
    name = topic()
    define(
        tmp_path,
        kafka_table("orders", kafka.bootstrap, f"{name}x", scan_startup_mode="earliest-offset"),
    )
    result = penstock("peek", "orders")

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"did you mean '{name}'?" in result.stderr


def test_changes_are_shown_with_their_kinds(kafka, topic, tmp_path, penstock):
    """In front of each row, and no column of JSON is lost where the table has one of that name."""
    name, upserts = topic(), topic()
    kafka.produce_json(
        name,
        [
            {"op": "u", "before": {"id": 1, "op": "x"}, "after": {"id": 2, "op": "y"}},
            {"op": "d", "before": {"id": 2, "op": "y"}},
        ],
    )
    kafka.produce(upserts, ['{"name":"a"}', None], keys=['{"id":1}'] * 2)
    place = f"'properties.bootstrap.servers' = '{kafka.bootstrap}'"
    define(
        tmp_path,
        f"CREATE TABLE changes (id INT, op STRING, twice AS id * 2) WITH ('connector' = 'kafka', {place}, "
        f"'topic' = '{name}', 'format' = 'debezium-json', 'scan.startup.mode' = 'earliest-offset');"
        f"CREATE TABLE latest (id INT, name STRING NOT NULL, PRIMARY KEY (id) NOT ENFORCED) WITH ("
        f"'connector' = 'upsert-kafka', {place}, 'topic' = '{upserts}', 'key.format' = 'json', "
        "'value.format' = 'json')",
    )
    changes = penstock("peek", "changes", "--format", "json")
    peeked = penstock("peek", "latest")
    tailed = penstock("tail", "latest", "--limit", "2")

    assert [tuple(json.loads(line).values()) for line in changes.stdout.splitlines()] == [
        ("-U", 1, "x", 2),
        ("+U", 2, "y", 4),
        ("-D", 2, "y", 4),
    ]
    assert [line.split() for line in peeked.stdout.splitlines()] == [
        ["op", "id", "name"],
        ["+U", "1", "a"],
        ["-D", "1", "NULL"],
    ]
    assert tailed.stdout == peeked.stdout


# --- text ---


def test_columns_are_aligned_and_grow(capsys):
    """Control characters of a record reach no terminal; the header stands once."""
    writer = RowWriter(("id", "text"), RowFormat.TABLE)
    writer.write([(1, "a\nb\x1b[2J"), (None, "c")])
    writer.write([])
    writer.write([(1_000_000, {"x": 1})])

    assert capsys.readouterr().out.splitlines() == [
        "id    text",
        "1     a\\nb\\x1b[2J",
        "NULL  c",
        '1000000  {"x": 1}',
    ]
    assert writer.written == 3


def test_timestamps_are_written_as_flink_writes_them(capsys):
    """With a blank for people, as SELECT does; in ISO 8601 for programs, and inside values, which are JSON."""
    at = datetime(2026, 1, 2, 3, 4, 5, 60_000, tzinfo=UTC).replace(tzinfo=None)
    row = (at, at.replace(microsecond=0), at.date(), [at])
    RowWriter(("a", "b", "c", "d"), RowFormat.TABLE).write([row])
    RowWriter(("a",), RowFormat.JSON).write([(at,)])
    print_rows(ResultRows(columns=("a",), rows=((at,),)))
    lines = capsys.readouterr().out.splitlines()

    assert (
        lines[1]
        == '2026-01-02 03:04:05.060  2026-01-02 03:04:05  2026-01-02  ["2026-01-02T03:04:05.060000"]'
    )
    assert lines[2] == '{"a": "2026-01-02T03:04:05.060000"}'
    assert any("2026-01-02 03:04:05.060" in line for line in lines[3:])


def split(split_id="t-0", **more):
    """A split's state."""
    return SplitStatus(**{"split_id": split_id, "reader": 0, "start": 3, "position": 5, **more})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "reading"),
        ({"end": 5}, "caught up"),
        ({"end": 9, "idle": True}, "idle: does not hold the watermark"),
        ({"finished": True, "idle": True}, "read to its end"),
        (
            {"watermark_ms": 90_000, "held_at_ms": 30_000},
            "paused: 1 min above what group 'g' allows",
        ),
    ],
)
def test_a_split_says_what_it_does_and_why_not(more, text):
    """Paused names the group and how far above its limit."""
    assert state_text(split(**more), "g") == text


def test_splits_are_shown_with_position_lag_and_watermark():
    """In a line, in a table, and as what was looked at; of many only the first."""
    status = LocalJobStatus(
        splits=(
            split(end=9, watermark_ms=0),
            split("t-1", end=0, position=3),
            *(split(f"u-{i}") for i in range(30)),
        ),
        watermark_ms=0,
    )
    line = split_line(status, None)

    assert line.startswith(
        "watermark 1970-01-01 00:00:00 (t-1 has no event time yet; scan.watermark.idle-timeout excludes it); - behind; "
        "t-0 (at 5, lag 4, watermark 1970-01-01 00:00:00, reading); t-1 (at 3,"
    )
    assert line.endswith("12 more splits")
    assert looked_at_lines(status)[:3] == [
        "  t-0: read from 3 up to 5, where it ends at 9",
        "  t-1: is empty",
        "  u-0: read from 3 up to 5",
    ]
    assert looked_at_lines(status)[-1] == "  and 12 more"
    assert split_table(status, None).row_count == 21


TARGETS = """
[targets.dev]
[targets.prod.catalog]
url = "sqlite:///prod.db"
"""


SOLD = "CREATE TABLE sold (id BIGINT) WITH ('connector' = 'delta', 'path' = 'sold');"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (("peek", "sold"), "only Spark reads"),
        (("tail", "sold"), "only Spark reads"),
        (("catalog", "show", "sold"), "CREATE TABLE"),
        (("kafka", "transactions", "ls", "--table", "sold"), "sold is not a Kafka table"),
    ],
)
def test_a_command_looks_into_the_catalog_of_its_target(penstock, tmp_path, command, found):
    """The table is in that of one of them; a target that there is not is told by its name."""
    (tmp_path / "penstock.toml").write_text(TARGETS)
    run(SOLD, Namespace(SqlCatalog(f"sqlite:///{tmp_path / 'prod.db'}")))

    prod, dev = (penstock(*command, "--target", target) for target in ("prod", "dev"))

    assert found in prod.stdout + prod.stderr
    assert dev.exit_code == 2
    assert found not in dev.stdout + dev.stderr
    assert "no target 'prd'" in penstock(*command, "--target", "prd").stderr


def test_the_catalog_of_a_target_is_listed(penstock, tmp_path):
    """Not that of another one."""
    (tmp_path / "penstock.toml").write_text(TARGETS)
    run(SOLD, Namespace(SqlCatalog(f"sqlite:///{tmp_path / 'prod.db'}")))

    assert "sold" in penstock("catalog", "ls", "--target", "prod").stdout
    assert "sold" not in penstock("catalog", "ls", "--target", "dev").stdout


class BetweenTwoFiles:
    """A job whose first file is read to its end before the second one is assigned."""

    def __init__(self):
        self.left = [self.rows(1), None, self.rows(2)]
        done = SplitStatus(split_id="a", reader=0, start=0, position=1, end=1, finished=True)
        self.status = LocalJobStatus(splits=(done,))

    @staticmethod
    def rows(number):
        batch = pa.RecordBatch.from_pydict({"id": [number]})
        return Emission(reader=0, split_id="a", batch=batch, watermark_ms=None)

    @property
    def ended(self):
        return not self.left

    def take(self, timeout_s):
        return self.left.pop(0) if self.left else None


def test_all_files_are_read_however_long_the_next_one_takes_to_be_assigned(capsys):
    """That all splits that are known are finished says nothing of those that come."""
    scan = SimpleNamespace(
        source=SimpleNamespace(bounded=True), rows=lambda batch: zip(*batch.columns, strict=True)
    )
    writer = RowWriter(["id"], RowFormat.TABLE)
    end = take_rows(BetweenTwoFiles(), scan, writer.write, limit=5, timeout_ms=10_000)

    assert capsys.readouterr().out.split() == ["id", "1", "2"]
    assert end is RowsEnd.NO_MORE


# --- `penstock tail`: rows as they come, and a clean end ---


DEADLINE_S = 90.0


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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_value_does_nothing_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """It may be a record that somebody else wrote; a file gets it as it is."""
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stdout", written)

    print_rows(ResultRows(columns=("a",), rows=(("b\x1b]0;owned\x1b\\c",),)))

    assert ("b\\x1b]0;owned" in written.getvalue()) is is_terminal
    assert ("b\x1b]0;owned" in written.getvalue()) is not is_terminal
