"""Windows over TIMESTAMP_LTZ are cut in the session's time zone; what that cannot be is refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import InputErrors, UnsupportedError
from penstock.sql.convert.statement import parse_statement
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.plan.rules.local_windows import move_windows, zone_offsets_ms
from penstock.sql.script.files import ScriptFile
from penstock.sql.script.project import Project
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from penstock.sql.testing.case_run import run_suite
from penstock.sql.testing.loader import read_test_file
from penstock.sql.testing.report import problem_text
from tests.sql.checkpointed import Job
from tests.sql.sql_objects import new_namespace, run

HOUR_MS = 3_600_000
DAY = "INTERVAL '1' DAY"
TABLES = """
CREATE TABLE sold (k STRING, ms BIGINT, at AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR at AS at)
  WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE local (k STRING, at TIMESTAMP(3), WATERMARK FOR at AS at)
  WITH ('connector' = 'kafka', 'topic' = 'l', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE clocked (k STRING, at AS PROCTIME())
  WITH ('connector' = 'kafka', 'topic' = 'c', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE VIEW seen AS SELECT k, at AS seen_at FROM sold;
CREATE TABLE counted (k STRING, n BIGINT) WITH ('connector' = 'delta', 'path' = 'counted');
"""
COUNT = "INSERT INTO counted SELECT k, COUNT(*) FROM {window} GROUP BY k, window_start, window_end"


def analysed(folder: Path, sql: str, zone: str) -> AnalysedInsert:
    """Check an INSERT in a time zone."""
    job = Job(project=folder, settings={"table.local-time-zone": zone})
    scripts = job.scripts(ScriptFile(name="local_windows.sql", text=f"{TABLES}{sql}"))
    (insert,) = scripts[0].statements[-1].inserts
    return insert


def written(folder: Path, window: str, zone: str) -> str:
    """The windows of the query that runs, as text."""
    insert = analysed(folder, COUNT.format(window=window), zone)
    return to_text(insert.query.query)


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        ("UTC", {0}),
        ("Z", {0}),
        ("+05:30", {5.5}),
        ("GMT-3", {-3}),
        ("Asia/Tokyo", {9}),
        ("Asia/Kolkata", {5.5}),
        ("Europe/Berlin", {1, 2}),
        ("Asia/Shanghai", {8}),
    ],
)
def test_offsets_of_a_time_zone_are_those_since_2000(zone: str, hours: set[float]) -> None:
    """Shanghai had another one in the summers up to 1991: its days are windows."""
    assert {offset / HOUR_MS for offset in zone_offsets_ms(zone)} == hours


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY})", 15 * 3600),
        (f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY}, INTERVAL '6' HOUR)", 21 * 3600),
        (f"HOP(TABLE sold, DESCRIPTOR(at), INTERVAL '6' HOUR, {DAY})", 3 * 3600),
        (f"CUMULATE(TABLE sold, DESCRIPTOR(at), INTERVAL '6' HOUR, {DAY})", 15 * 3600),
        (f"TUMBLE(DATA => TABLE sold, TIMECOL => DESCRIPTOR(at), SIZE => {DAY})", 15 * 3600),
        (
            f"TUMBLE(DATA => TABLE sold, TIMECOL => DESCRIPTOR(at), SIZE => {DAY}, `OFFSET` => INTERVAL '6' HOUR)",
            21 * 3600,
        ),
        (f"TUMBLE((SELECT k, at FROM sold), DESCRIPTOR(at), {DAY})", 15 * 3600),
        (f"TUMBLE((SELECT * FROM sold WHERE k <> ''), DESCRIPTOR(at), {DAY})", 15 * 3600),
        (f"TUMBLE(TABLE seen, DESCRIPTOR(seen_at), {DAY})", 15 * 3600),
        (f"TUMBLE(TABLE clocked, DESCRIPTOR(at), {DAY})", 15 * 3600),
    ],
)
def test_windows_over_instants_get_the_offset_of_the_zone(
    tmp_path: Path, window: str, seconds: int
) -> None:
    """Days of Tokyo begin at 15:00 of UTC."""
    assert f"'{seconds}' SECOND" in written(tmp_path, window, "Asia/Tokyo")


@pytest.mark.parametrize(
    ("window", "zone"),
    [
        (f"TUMBLE(TABLE local, DESCRIPTOR(at), {DAY})", "Asia/Tokyo"),
        (f"TUMBLE((SELECT k, at FROM local), DESCRIPTOR(at), {DAY})", "Europe/Berlin"),
        (f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY})", "UTC"),
        ("TUMBLE(TABLE sold, DESCRIPTOR(at), INTERVAL '1' HOUR)", "Europe/Berlin"),
        ("TUMBLE(TABLE sold, DESCRIPTOR(at), INTERVAL '1' HOUR)", "Asia/Tokyo"),
    ],
)
def test_other_windows_stay_as_they_are_written(tmp_path: Path, window: str, zone: str) -> None:
    """Over local times, in UTC, and where the size divides each offset."""
    assert "SECOND" not in written(tmp_path, window, zone)


def test_hours_of_a_zone_with_several_offsets_are_moved_by_their_rest(tmp_path: Path) -> None:
    """Adelaide has +09:30 and +10:30."""
    window = "TUMBLE(TABLE sold, DESCRIPTOR(at), INTERVAL '1' HOUR)"

    assert "'1800' SECOND" in written(tmp_path, window, "Australia/Adelaide")


@pytest.mark.parametrize(
    "window",
    [
        f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY})",
        "HOP(TABLE sold, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '2' HOUR)",
        f"CUMULATE(TABLE sold, DESCRIPTOR(at), INTERVAL '1' HOUR, {DAY})",
    ],
)
def test_days_of_several_lengths_are_refused(tmp_path: Path, window: str) -> None:
    """With what to write instead."""
    with pytest.raises(InputErrors, match="its offset from UTC changes") as caught:
        written(tmp_path, window, "Europe/Berlin")

    (error,) = caught.value.errors
    assert isinstance(error, UnsupportedError)
    assert "local_time AS CAST(at AS TIMESTAMP(3))" in (error.hint or "")


def test_a_time_of_unknown_type_is_refused() -> None:
    """A TIMESTAMP would be moved with it."""
    window = f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY})"
    query = parse_query(f"SELECT COUNT(*) FROM {window} GROUP BY window_start, window_end")

    move_windows(query, "UTC")
    with pytest.raises(UnsupportedError, match="is unknown"):
        move_windows(query, "Asia/Tokyo")


def test_group_windows_are_moved_too(tmp_path: Path) -> None:
    """They are windowing functions in another form."""
    sql = f"INSERT INTO counted SELECT k, COUNT(*) FROM sold GROUP BY k, TUMBLE(at, {DAY})"

    query = analysed(tmp_path, sql, "Asia/Tokyo").query.query
    assert "'54000' SECOND" in to_text(query)


def test_a_session_has_no_offset(tmp_path: Path) -> None:
    """Gaps are the same in all time zones."""
    window = "SESSION(TABLE sold PARTITION BY k, DESCRIPTOR(at), INTERVAL '1' DAY)"

    assert "SECOND" not in written(tmp_path, window, "Asia/Tokyo")


@pytest.mark.parametrize("joined", [False, True])
def test_a_checkpoint_of_other_windows_does_not_fit(tmp_path: Path, *, joined: bool) -> None:
    """Its panes and groups began at other times, in Spark's state and in that of keyed operators."""
    window = f"TUMBLE(TABLE sold, DESCRIPTOR(at), {DAY})"
    query = COUNT.format(window=window)
    if joined:
        inner = f"SELECT k, window_start AS s, COUNT(*) AS n FROM {window} GROUP BY k, window_start, window_end"
        query = f"INSERT INTO counted SELECT a.k, a.n FROM ({inner}) a JOIN ({inner}) b ON a.k = b.k AND a.s = b.s"
    moved, before = (analysed(tmp_path, query, zone) for zone in ("Asia/Tokyo", "UTC"))

    known = insert_fingerprint(before)
    assert known.state
    assert insert_fingerprint(moved).state != known.state
    assert insert_fingerprint(as_checkpointed(moved, known)).state != known.state


SALES = """CREATE TABLE sales (at TIMESTAMP_LTZ(3), {more}WATERMARK FOR {time} AS {time}) WITH (
  'connector' = 'filesystem', 'path' = 'sales', 'format' = 'json')"""


def starts(
    spark: SparkSession, folder: Path, zone: str, time: str, window: str
) -> list[tuple[datetime, int]]:
    """The starts of windows, and their rows, of a bounded query."""
    (folder / "sales").mkdir(exist_ok=True)
    times = ("2026-07-01 14:59:59Z", "2026-07-01 15:00:00Z", "2026-07-01 22:30:00Z")
    lines = "".join(json.dumps({"at": time}) + "\n" for time in times)
    (folder / "sales" / "one.json").write_text(lines)
    namespace = new_namespace()
    more = "" if time == "at" else f"{time} AS CAST(at AS TIMESTAMP(3)), "
    run(SALES.format(more=more, time=time), namespace)
    query = f"SELECT CAST(window_start AS STRING) AS s, COUNT(*) AS n FROM {window} GROUP BY window_start, window_end"
    (text,) = split(query, "local_windows")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, Select)
    planner = Planner(namespace=namespace, project=folder, settings={"table.local-time-zone": zone})
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = planner.select(statement, spark).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    return sorted((row.s[:16], row.n) for row in rows)


@pytest.mark.parametrize(
    ("zone", "time", "window", "expected"),
    [
        ("Asia/Tokyo", "at", f"TUMBLE(TABLE sales, DESCRIPTOR(at), {DAY})",
         [("2026-07-01 00:00", 1), ("2026-07-02 00:00", 2)]),
        ("Asia/Tokyo", "at", "HOP(TABLE sales, DESCRIPTOR(at), INTERVAL '12' HOUR, INTERVAL '1' DAY)",
         [("2026-07-01 00:00", 1), ("2026-07-01 12:00", 3), ("2026-07-02 00:00", 2)]),
        ("Asia/Kolkata", "at", "TUMBLE(TABLE sales, DESCRIPTOR(at), INTERVAL '1' HOUR)",
         [("2026-07-01 20:00", 2), ("2026-07-02 04:00", 1)]),
        ("Europe/Berlin", "local_time", f"TUMBLE(TABLE sales, DESCRIPTOR(local_time), {DAY})",
         [("2026-07-01 00:00", 2), ("2026-07-02 00:00", 1)]),
    ],
)  # fmt: skip
def test_rows_are_in_the_windows_of_their_local_time(
    spark: SparkSession,
    tmp_path: Path,
    zone: str,
    time: str,
    window: str,
    expected: list[tuple[str, int]],
) -> None:
    """As in Flink; the last is what the refusal of days in Berlin tells to write."""
    assert starts(spark, tmp_path, zone, time, window) == expected


STREAMED = """
SET 'table.local-time-zone' = 'Asia/Tokyo';
CREATE TABLE tokyo_sales (k STRING, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)
  WITH ('connector' = 'kafka', 'topic' = 'tokyo_sales', 'properties.bootstrap.servers' = 'nowhere:1',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE days (day_start STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE most (day_start STRING, n BIGINT, m BIGINT) WITH ('connector' = 'print');
CREATE VIEW tokyo_days AS SELECT window_start AS s, window_end AS e, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE tokyo_sales, DESCRIPTOR(at), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
CREATE VIEW tokyo_hops AS SELECT window_start AS s, window_end AS e, COUNT(*) AS n
  FROM TABLE(HOP(TABLE tokyo_sales, DESCRIPTOR(at), INTERVAL '12' HOUR, INTERVAL '1' DAY))
  GROUP BY window_start, window_end;
INSERT INTO days SELECT CAST(s AS STRING), n FROM tokyo_days;
INSERT INTO most SELECT CAST(d.s AS STRING), d.n, h.n FROM tokyo_days AS d
  JOIN tokyo_hops AS h ON d.s = h.s AND d.e = h.e
"""
STREAMED_CASE = """
files: tokyo.sql
cases:
  - name: days of Tokyo
    steps:
      - tokyo_sales:
          - {k: a, at: 2026-07-01 14:59:59Z}
          - {k: a, at: 2026-07-01 15:00:00Z}
          - {k: b, at: 2026-07-01 22:30:00Z}
      - tokyo_sales: [{k: a, at: 2026-07-05 00:00:00Z}]
      - tokyo_sales: [{k: a, at: 2026-07-05 00:00:01Z}]
    then:
      days:
        - {day_start: "2026-07-01 00:00:00.000000", n: 1}
        - {day_start: "2026-07-02 00:00:00.000000", n: 2}
      most:
        - {day_start: "2026-07-01 00:00:00.000000", n: 1, m: 1}
        - {day_start: "2026-07-02 00:00:00.000000", n: 2, m: 2}
"""


@pytest.mark.slow
def test_streams_and_panes_below_a_join_have_the_same_days(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's windows, and those that keyed operators put together of panes."""
    (tmp_path / "tokyo.sql").write_text(STREAMED, encoding="utf-8")
    (tmp_path / "tokyo_test.yaml").write_text(STREAMED_CASE, encoding="utf-8")
    file = read_test_file(tmp_path / "tokyo_test.yaml")
    cases = [(file, case) for case in file.cases]
    (result,) = run_suite(
        cases, spark, Project(root=tmp_path), lenient=False, ended=lambda *_: None
    )

    assert "\n".join(map(problem_text, result.problems)) == ""
    assert result.passed
