"""Cases on the real planner and the real split runtime: what comes of each is what a pipeline would have done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.sql.config import Project
from penstock.sql.testing.case_run import CaseResult
from penstock.sql.testing.loader import read_test_file
from penstock.sql.testing.shown import problem_text
from penstock.sql.testing.suite import run_suite

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
