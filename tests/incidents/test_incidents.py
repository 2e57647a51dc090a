"""The incidents of docs/operations.md: each is brought about on a real run, seen as a person sees it, and mended.

What the page says of each is what is asserted here: the sentence, the metrics, the alert that fires (where Prometheus
is installed, with its times shortened), and that nothing is lost or doubled once it is over.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CalledProcessError
from threading import Event, Thread

import pytest

from tests.incidents.prometheus import Prometheus, prometheus
from tests.incidents.running import RunningPipeline, penstock, running
from tests.integration.pipeline import delta_rows, wait_until
from tests.kafka_server import KafkaServer
from tests.postgres_server import USER, PostgresServer
from tests.small_disk import small_disk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(900),
]

SOURCE = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json'{options});
"""
COPY = """
CREATE TABLE copies (id BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'delta', 'path' = 'copies');
INSERT INTO copies SELECT id, ts FROM events;
"""
COUNT = """
CREATE TABLE counts (at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'counts');
INSERT INTO counts SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
"""


class Topic:
    """A topic that the pipeline of a project reads, and the records in it: one a second of event time by default."""

    def __init__(self, kafka: KafkaServer, project: Path, *, partitions: int = 1) -> None:
        self.kafka, self._project = kafka, project
        self.name = kafka.create_topic(partitions=partitions)
        self.sent = 0

    def script(self, insert: str, *, folder: Path | None = None, **options: str) -> None:
        """Write `job.sql`; `options` of the table have `_` for `.`, and `__` for `-`."""
        more = "".join(
            f", '{key.replace('__', '-').replace('_', '.')}' = '{value}'"
            for key, value in options.items()
        )
        source = SOURCE.format(topic=self.name, bootstrap=self.kafka.bootstrap, options=more)
        ((folder or self._project) / "job.sql").write_text(source + insert, encoding="utf-8")

    def write(self, records: int, partition: int = 0, *, apart_s: int = 1) -> None:
        """Write the next records, `apart_s` of event time from each other."""
        rows = [
            {"id": self.sent + n, "ts": _time((self.sent + n) * apart_s)} for n in range(records)
        ]
        self.kafka.produce_json(self.name, rows, partition=partition)
        self.sent += records


def _time(second: int) -> str:
    return f"2026-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


@contextmanager
def written(topic: Topic, records: int, every_s: float = 0.5) -> Iterator[None]:
    """Write records again and again while the block runs, as producers do."""
    done = Event()

    def write() -> None:
        while not done.wait(every_s):
            topic.write(records)

    producer = Thread(target=write)
    producer.start()
    try:
        yield
    finally:
        done.set()
        producer.join(30)


def wait_for_alert(server: Prometheus | None, alert: str) -> None:
    """Wait until an alert fires, where there is a Prometheus; else say that this was not tried."""
    if server is None:
        print(f"{alert}: not evaluated, as Prometheus (Debian: prometheus) is not installed")
    else:
        server.wait_for(alert, seconds=180)


def shown(run: RunningPipeline, *names: str) -> None:
    """Print what the page quotes; pytest shows it with -s, or when the test fails."""
    print(f"\nsentence: {run.sentence}\njobs: {run.listed()}")
    for name in names:
        print(name, run.series(name))
    print("log:", *run.log.splitlines()[-4:], sep="\n  ")


def copied(project: Path) -> tuple[int, int]:
    """The rows of the copy, and how many different ones."""
    if not list((project / "copies" / "_delta_log").glob("*.json")):
        return 0, 0
    ((rows, ids),) = delta_rows(
        project / "copies", "SELECT count(*), count(DISTINCT id) FROM {table}"
    )
    return rows, ids


def wait_for_copies(project: Path, rows: int, seconds: float = 180) -> None:
    """Wait until the copy has so many rows, each once."""
    wait_until(
        lambda: copied(project) == (rows, rows), seconds=seconds, what=f"{rows} rows, each once"
    )


@pytest.mark.nightly
def test_a_silent_partition_is_named_and_its_timeout_lets_the_windows_out(
    kafka: KafkaServer, project: Path, tmp_path: Path
) -> None:
    """One partition goes on for twenty minutes of event time and more, the other has no record any more."""
    topic = Topic(kafka, project, partitions=2)
    topic.script(COUNT)
    topic.write(55, partition=1)
    topic.write(1_300)
    with running(project, "counts") as run, prometheus(tmp_path, run.metrics) as server:
        said = run.expect("silent for")
        with written(topic, 10):
            wait_for_alert(server, "PenstockWatermarkHeld")
        wait_until(
            lambda: run.value("penstock_lag_records", "events") == 0, seconds=60, what="no lag"
        )
        shown(run, "penstock_split_holds_watermark", "penstock_watermark_spread_seconds")
        holds = run.series("penstock_split_holds_watermark")
        assert run.value("penstock_rows_written_total", "counts") == 0
        assert run.value("penstock_rows_late_total", "events") == 0
        assert server is None or server.fired() == {"PenstockWatermarkHeld"}
    split = f"{topic.name}-1"
    assert said.startswith(f"waits: split {split} holds the watermark at 2026-01-01 00:00:54Z, ")
    assert said.endswith("set scan.watermark.idle-timeout")
    assert {labels: held for labels, held in holds.items() if held} == {(split, "events"): 1}

    topic.script(COUNT, scan_watermark_idle__timeout="2 s")
    assert "+'scan.watermark.idle-timeout' = '2 s'" in penstock(
        project, "catalog", "apply", "job.sql"
    )
    with running(project, "counts") as again:
        whole = (topic.sent - 1) // 60  # the last minute is open
        with written(topic, 10):  # where all splits are silent, the watermark stays
            wait_until(
                lambda: (again.value("penstock_rows_written_total", "counts") or 0) >= whole,
                seconds=120,
                what="the windows",
            )
            wait_until(
                lambda: again.value("penstock_splits", "idle", "events") == 1,
                seconds=30,
                what="the silent split is idle",
            )
        shown(again, "penstock_splits", "penstock_rows_written_total")
        assert again.value("penstock_rows_late_total", "events") == 0
    counts = f"SELECT count(*) >= {whole}, min(n), max(n) FROM {{table}}"
    assert delta_rows(project / "counts", counts) == [(True, 60, 60)]


@pytest.mark.nightly
def test_a_bad_record_is_named_and_can_be_kept_aside(kafka: KafkaServer, project: Path) -> None:
    """It ends the pipeline at once, which goes on without it once the table keeps such records as dead letters."""
    topic = Topic(kafka, project)
    topic.script(COPY)
    topic.write(10)
    with running(project, "copies") as run:
        wait_for_copies(project, 10)
        kafka.produce(topic.name, [b"{oops"])
        topic.write(1)
        assert run.end() == 1
    print(run.log[-1500:])
    assert f"topic {topic.name}, partition 0, offset 10: it is not valid JSON" in run.log
    assert "'bad-records' = 'dead-letter' of a table keeps them aside" in run.log
    assert run.listed().startswith("failed: failed: topic ")

    topic.script(COPY, bad__records="dead-letter", properties_group_id="copies")
    assert "+'bad-records' = 'dead-letter'" in penstock(project, "catalog", "apply", "job.sql")
    with running(project, "copies") as again:
        wait_for_copies(project, 11)
        shown(again, "penstock_bad_records_total")
        kept = again.value("penstock_bad_records_total", "dead_letter", "undecodable", "events")
        assert kept == 1


@pytest.mark.nightly
def test_a_broker_that_is_away_is_waited_for(
    kafka: KafkaServer, project: Path, tmp_path: Path
) -> None:
    """The pipeline says for what it waits, and goes on by itself."""
    topic = Topic(kafka, project)
    topic.script(COPY)
    topic.write(10)
    with running(project, "copies") as run, prometheus(tmp_path, run.metrics) as server:
        wait_for_copies(project, 10)
        kafka.broker.kill()
        try:
            said = run.expect(f"waits for Kafka at {kafka.bootstrap} (Connection refused)")
            wait_for_alert(server, "PenstockSourceAway")
            shown(run, "penstock_pipeline_waiting", "penstock_pipeline_restarts_total")
            assert run.value("penstock_pipeline_waiting") == 1
            assert run.series("penstock_lag_records") == {}
            assert "waits for Kafka" in run.listed()
        finally:
            kafka.broker.start()
        topic.write(10)
        wait_for_copies(project, 20)
        shown(run, "penstock_pipeline_waiting")
        assert sum(run.series("penstock_pipeline_restarts_total").values()) == 0
        assert run.value("penstock_pipeline_waiting") == 0
        assert server is None or server.fired() == {"PenstockSourceAway"}
    assert said == f"waits for Kafka at {kafka.bootstrap} (Connection refused)"
    assert "answers again, after" in run.log


SLOW = """
CREATE FUNCTION wait_a_little() RETURNS trigger AS $$
BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$ LANGUAGE plpgsql;
CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON copies FOR EACH ROW EXECUTE FUNCTION wait_a_little();
"""


@pytest.mark.nightly
def test_a_sink_that_is_slow_or_hangs_is_seen(
    kafka: KafkaServer, project: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    """A trigger takes 10 ms a row; then another session locks the table."""
    topic = Topic(kafka, project)
    with postgres.schema() as schema:
        postgres.execute("CREATE TABLE copies (id BIGINT PRIMARY KEY, ts TIMESTAMP)", schema=schema)
        postgres.execute(SLOW, schema=schema)
        url = f"jdbc:{postgres.url}?currentSchema={schema}"
        topic.script(
            "CREATE TABLE copies (id BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)\n"
            f"WITH ('connector' = 'jdbc', 'url' = '{url}', 'table-name' = 'copies', 'username' = '{USER}', 'password' = 'none');\n"
            "INSERT INTO copies SELECT id, ts FROM events;",
            scan_max__records__per__batch="500",
        )
        topic.write(10)
        with running(project, "copies") as run, prometheus(tmp_path, run.metrics) as server:
            with written(topic, 150):
                said = run.expect("falls behind", seconds=240)
                wait_for_alert(server, "PenstockLagOld")
                shown(run, "penstock_lag_records", "penstock_batch_phase_seconds_total")
            postgres.execute("DROP TRIGGER slow ON copies", schema=schema)

            def everything() -> bool:
                rows = postgres.execute("SELECT count(*) FROM copies", schema=schema)
                return rows == [(topic.sent,)]

            wait_until(everything, seconds=240, what="all rows in the table")
            with locked(postgres, schema):
                topic.write(10)
                hangs = run.expect("runs for", seconds=240)
                wait_for_alert(server, "PenstockBatchStuck")
                shown(run, "penstock_batch_running_seconds", "penstock_lag_records")
            wait_until(everything, seconds=60, what="the rows that waited for the lock")
            if server is not None:
                print("alerts:", server.fired())
    assert said.startswith("falls behind: the lag grew from ")
    assert "addBatch takes" in said
    assert hangs.startswith("batch ")


@contextmanager
def locked(postgres: PostgresServer, schema: str) -> Iterator[None]:
    """Lock the table in another session."""
    import psycopg

    with psycopg.connect(postgres.url, user=USER) as session:
        session.execute(f"LOCK TABLE {schema}.copies IN ACCESS EXCLUSIVE MODE")  # type: ignore[arg-type]
        yield


SKEWED = """
CREATE TABLE totals (id BIGINT, n BIGINT, times BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'totals');
INSERT INTO totals SELECT id, COUNT(*), COUNT(DISTINCT ts) FROM events GROUP BY id;
"""


@pytest.mark.nightly
def test_a_skewed_key_does_no_harm_and_a_skewed_partition_shows(
    kafka: KafkaServer, project: Path
) -> None:
    """One key has 99 of 100 records of all partitions; then one partition has all records."""
    topic, partitions, records = Topic(kafka, project, partitions=4), 4, 15_000
    topic.script(SKEWED, scan_max__records__per__batch="10000")
    sent = [{"id": 0 if n % 100 else n, "ts": _time(n)} for n in range(records)]
    for partition in range(partitions):
        kafka.produce_json(topic.name, sent, partition=partition)
    with running(project, "totals") as run:
        lag, most = _lag_of_first_batch(run)
        skewed_key = run.sentence
        shown(run, "penstock_lag_records", "penstock_lag_records_max")
        assert most == pytest.approx(lag / partitions, rel=0.2)
        wait_until(lambda: run.sentence == "caught up", seconds=240, what="all is read")
    with running(project, "totals") as run:
        kafka.produce_json(topic.name, [{"id": 0, "ts": _time(n)} for n in range(4 * records)])
        lag, most = _lag_of_first_batch(run)
        shown(run, "penstock_lag_records", "penstock_lag_records_max")
        assert most == lag
        wait_until(lambda: run.sentence == "caught up", seconds=240, what="all is read")
    assert skewed_key.startswith("reads: ")
    key = "SELECT n, times FROM {table} WHERE id = 0"
    of_key = partitions * records - partitions * (records // 100 - 1) + 4 * records
    assert delta_rows(project / "totals", key) == [(of_key, 4 * records)]
    assert delta_rows(project / "totals", "SELECT count(*) FROM {table}") == [(records // 100,)]


def _lag_of_first_batch(run: RunningPipeline) -> tuple[float, float]:
    """Wait until there is a lag; the sum and that of the split with most."""
    names = ("penstock_lag_records", "penstock_lag_records_max", "penstock_lag_records")
    found: list[float] = []

    def lags() -> bool:
        found[:] = [run.value(name, "events") or 0.0 for name in names]
        return 0 < found[0] == found[2]  # of one batch

    wait_until(lags, seconds=240, what="a lag")
    return found[0], found[1]


@pytest.mark.nightly
def test_a_full_disk_makes_it_start_again_until_there_is_room(
    kafka: KafkaServer, project: Path, tmp_path: Path
) -> None:
    """Checkpoint, catalog and table are on it. Nothing is lost, and no restart by hand is needed."""
    topic = Topic(kafka, project)
    with small_disk(project / "disk") as disk:
        topic.script(COPY, folder=disk.outside)
        topic.write(10)
        with (
            running(project, "copies", wrapper=disk.enter) as run,
            prometheus(tmp_path, run.metrics) as server,
        ):
            written_rows = lambda: run.value("penstock_rows_written_total", "copies")  # noqa: E731
            wait_until(lambda: written_rows() == 10, seconds=120, what="the first rows")
            assert sum(run.series("penstock_pipeline_restarts_total").values()) == 0
            disk.fill()
            topic.write(10)
            said = run.expect("No space left on device")
            wait_for_alert(server, "PenstockRestartLoop")
            leased = run.expect("its disk is full")
            shown_full = run.series("penstock_pipeline_restarts_total")
            print(f"\nsentence: {said}\nlater: {leased}\nrestarts: {shown_full}")
            print(run.series("penstock_pipeline_status"), run.log[-3000:])
            with pytest.raises(CalledProcessError) as refused:
                run.listed()
            print(f"jobs: {refused.value.stderr}")
            disk.free()
            wait_until(lambda: (written_rows() or 0) >= 20, seconds=180, what="the other rows")
            shown(run, "penstock_pipeline_status")
            assert server is None or "PenstockRestartLoop" in server.fired()
        shutil.copytree(disk.outside / "copies", project / "copies")
    assert said.startswith("restarts")
    assert leased.startswith("restarts")
    assert "could not be renewed for" in leased
    assert shown_full["PEN-8003",] >= 1
    assert copied(project) == (20, 20)
