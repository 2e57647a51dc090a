"""Cases on the real planner and the real split runtime: what comes of each is what a pipeline would have done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.sql.script.project import Project
from penstock.sql.testing.case_run import CaseResult, run_suite
from penstock.sql.testing.loader import read_test_file
from penstock.sql.testing.report import problem_text

ROOT = Path(__file__).resolve().parents[3]

PIPELINE = """
CREATE TABLE clicks (
  user_id BIGINT, url STRING, ts TIMESTAMP(3), part INT METADATA FROM 'partition' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'nowhere:1',
        'scan.startup.mode' = 'latest-offset', 'format' = 'json', 'bad-records' = 'dead-letter');
CREATE TABLE pages (url STRING, title STRING) WITH ('connector' = 'delta', 'path' = '/nowhere/pages');
CREATE TABLE titled (title STRING, part INT, seen TIMESTAMP_LTZ(3))
  WITH ('connector' = 'kafka', 'topic' = 'titled', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json');
CREATE TABLE per_minute (start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = '/nowhere/per_minute');
CREATE TABLE busy (start TIMESTAMP(3)) WITH ('connector' = 'print');
INSERT INTO titled SELECT title, part, NOW() FROM clicks JOIN pages ON clicks.url = pages.url;
INSERT INTO per_minute SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO busy SELECT start FROM per_minute WHERE n > 1
"""

CHANGES = """
CREATE TABLE customers (id BIGINT, city STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'kafka', 'topic' = 'customers', 'properties.bootstrap.servers' = 'nowhere:1',
        'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json');
CREATE TABLE per_city (city STRING, n BIGINT, PRIMARY KEY (city) NOT ENFORCED)
  WITH ('connector' = 'upsert-kafka', 'topic' = 'cities', 'properties.bootstrap.servers' = 'nowhere:1',
        'key.format' = 'json', 'value.format' = 'json');
INSERT INTO per_city SELECT city, COUNT(*) FROM customers GROUP BY city
"""

CASES = """
files: pipeline.sql
now: 2024-06-01 08:00:00
cases:
  - name: all that a case can look at
    steps:
      - pages: {csv: pages.csv}
        clicks:
          - {user_id: 1, url: a, ts: 2024-01-01 00:00:10}
          - {user_id: 2, url: b, ts: 2024-01-01 00:00:20, $split: 1}
          - {$raw: "{broken", $split: 1}
      - clicks:
          - {user_id: 1, url: a, ts: 2024-01-01 00:01:10}
          - {user_id: 1, url: x, ts: 2024-01-01 00:01:20, $split: 1}
      - clicks:
          - {user_id: 1, url: x, ts: 2024-01-01 00:00:30}
    then:
      titled:
        - {title: Home, part: 0, seen: 2024-06-01 08:00:00Z}
        - {title: Help, part: 1, seen: 2024-06-01 08:00:00Z}
        - {title: Home, part: 0, seen: 2024-06-01 08:00:00Z}
      per_minute: [{start: 2024-01-01 00:00:00, n: 2}]
      busy: [{start: 2024-01-01 00:00:00}]
      $late: 1
      $watermark: 2024-01-01 00:01:05
      $dead_letters: [{table: clicks, $split: 1, $offset: 1, $raw: "{broken", stage: value}]

  - name: a case that is wrong
    ends: true
    given: {clicks: [{user_id: 1, url: a, ts: 2024-01-01 00:00:10}]}
    then: {per_minute: [{start: 2024-01-01 00:00:00, n: 2}]}

  - name: changes of rows
    files: changes.sql
    steps:
      - customers: [{id: 1, city: Ulm}, {id: 2, city: Ulm}]
      - customers:
          - {id: 1, city: Ulm, $kind: -U}
          - {id: 1, city: Bonn, $kind: +U}
          - {id: 2, city: Ulm, $kind: -D}
    then:
      per_city:
        changes:
          - {$kind: +I, city: Ulm, n: 2}
          - {$kind: -D, city: Ulm}
          - {$kind: +I, city: Bonn, n: 1}

  - name: a statement that is refused
    files: refused.sql
    error: {code: PEN-2001, message: user_idd}
"""


WATERMARKS = """
CREATE TABLE orders (
  id STRING, amount DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'nowhere:1',
        'scan.startup.mode' = 'earliest-offset', 'format' = 'json', 'bad-records' = 'skip');
CREATE TABLE per_10s (start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
INSERT INTO per_10s SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
"""

FLINKS = {
    "in order": ("1, 60", "10:00:55", 0),
    "NULL last": ("1, 60, null", "10:00:55", 1),
    # the query does not read what is bad in it: a row without a time
    "a bad record last": ("1, 60, bad", "10:00:55", 1),
    "NULL first": ("null, 1, 60", "10:00:55", 1),
    "out of order": ("60, 1", "10:00:55", 0),
    "two batches, NULL last": ("1, 60; 300, null", "10:04:55", 1),
    "two batches, a late row": ("1, 60, null; 2", "10:00:55", 2),
}
"""Seconds after ten o'clock, batches with `;` between: Flink's watermark, and the rows that no window takes."""


def watermark_case(name: str) -> str:
    """Write a case of FLINKS."""
    batches, watermark, late = FLINKS[name]
    lines = [f"  - name: {name}", "    steps:"]
    for batch in batches.split("; "):
        lines.append("      - orders:")
        for second in batch.split(", "):
            match second:
                case "null":
                    row = "{id: a, amount: 1}"
                case "bad":
                    row = """{$raw: '{"id": "bad", "amount": "x"}'}"""
                case _:
                    at = f"10:{int(second) // 60:02}:{int(second) % 60:02}"
                    row = f"{{id: a, amount: 1, ts: 2026-11-22 {at}}}"
            lines.append(f"          - {row}")
    closed = ["{start: 2026-11-22 10:00:00, n: 1}"]
    closed += ["{start: 2026-11-22 10:01:00, n: 1}"] if watermark > "10:01" else []
    lines += [
        "    then:",
        f"      per_10s: [{', '.join(closed)}]",
        f"      $late: {late}",
        f"      $watermark: 2026-11-22 {watermark}",
    ]
    return "\n".join(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the cases."""
    texts = {
        "pipeline.sql": PIPELINE,
        "changes.sql": CHANGES,
        "refused.sql": PIPELINE.replace("SELECT title, part", "SELECT user_idd, part"),
        "pages.csv": "url,title\na,Home\nb,Help\n",
        "cases_test.yaml": CASES,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(path: Path, spark: SparkSession) -> dict[str, CaseResult]:
    """The results of a test file's cases, by name."""
    file = read_test_file(path)
    cases = [(file, case) for case in file.cases]
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        results = run_suite(
            cases, spark, Project(root=path.parent), lenient=False, ended=lambda *_: None
        )
        return {result.case.name: result for result in results}
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def told(result: CaseResult) -> str:
    """What is wrong with a case, for the message of an assertion."""
    return "\n".join(map(problem_text, result.problems))


@pytest.mark.slow
def test_cases_pass_and_fail_as_they_should(spark: SparkSession, folder: Path) -> None:
    """One Spark for all; nothing is written outside, no broker is asked."""
    results = run(folder / "cases_test.yaml", spark)
    wrong = results.pop("a case that is wrong")

    assert {name: told(r) for name, r in results.items() if not r.passed} == {}
    assert told(wrong).startswith("rows of per_minute differ: 1 changed")
    assert "2 => 1" in told(wrong)
    assert not Path("/nowhere").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_windows_close_by_the_largest_event_time_read(spark: SparkSession, tmp_path: Path) -> None:
    """Flink's watermark, whatever is the last record of a batch."""
    (tmp_path / "orders.sql").write_text(WATERMARKS)
    cases = "\n".join(map(watermark_case, FLINKS))
    (tmp_path / "orders_test.yaml").write_text(f"files: orders.sql\ncases:\n{cases}\n")
    results = run(tmp_path / "orders_test.yaml", spark)

    assert {name: told(r) for name, r in results.items() if not r.passed} == {}
    assert len(results) == len(FLINKS)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_pipelines_that_people_read_first_do_what_they_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    """That of the README, with a test of its own here, and the examples with those beside them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"    (CREATE TABLE clicks .*?window_end;)", readme, re.DOTALL)
    assert found is not None
    (tmp_path / "clicks.sql").write_text(found[1])
    (tmp_path / "clicks_test.yaml").write_text(
        "files: clicks.sql\ncases:\n  - name: readme\n    ends: true\n    given:\n      clicks:\n"
        "        - {user_id: 1, url: a, ts: 2024-01-01 00:00:59}\n"
        "        - {user_id: 1, url: a, ts: 2024-01-01 00:00:01}\n"
        "        - {user_id: 2, url: b, ts: 2024-01-01 00:01:00, $split: 1}\n"
        "    then:\n      per_minute:\n"
        "        - {window_start: 2024-01-01 00:00:00, clicks: 2}\n"
        "        - {window_start: 2024-01-01 00:01:00, clicks: 1}\n"
    )
    results = run(tmp_path / "clicks_test.yaml", spark)
    for path in sorted((ROOT / "examples").rglob("*_test.yaml")):
        results |= run(path, spark)

    assert {name: told(r) for name, r in results.items() if not r.passed} == {}
    assert len(results) > 2
