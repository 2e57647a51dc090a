"""SELECTs of a file over tables without end, on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.sql.check.script_check import check_scripts
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.job import Job
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import RunMode, StopRequest
from penstock.sql.runner.summary import StatementResult
from penstock.sql.script.files import ScriptFile
from tests.sql.sql_objects import new_namespace

FILE = """
CREATE TABLE made (k BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20', 'fields.k.min' = '1',
  'fields.k.max' = '2');
CREATE TABLE nowhere (k BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT k FROM made;
SELECT k FROM made;
SELECT k, COUNT(*) AS n FROM made GROUP BY k;
"""


class Watcher:
    """A listener that asks for the end once every query has shown its changes."""

    def __init__(self, stop: StopRequest, wanted: dict[tuple[str, ...], set[str]]) -> None:
        self._stop = stop
        self._wanted = wanted
        self.ended: list[str] = []
        self.rows: Counter[tuple[str, ...]] = Counter()

    def job_started(self, _job: Job) -> None:
        """It runs beside the SELECTs."""

    def rows_came(self, columns: Any, rows: Any) -> None:
        self.rows[columns] += len(rows)
        self._wanted[columns] -= {row[0] for row in rows}
        if not any(self._wanted.values()):
            self._stop.count += 1

    def statement_ended(self, result: StatementResult) -> None:
        self.ended.append(f"{result.kind} {result.status.value}")


def test_endless_selects_of_a_file_show_changes_side_by_side_until_they_are_stopped(
    spark: SparkSession, project: Path
) -> None:
    """An INSERT before them runs on, and all end together."""
    namespace, stop = new_namespace(), StopRequest()
    watcher = Watcher(stop, {("op", "k"): {"+I"}, ("op", "k", "n"): {"+I", "-U", "+U"}})
    context = SessionContext(namespace=namespace, project=project, spark=lambda: spark)
    checked = check_scripts(
        (ScriptFile(name="f.sql", text=FILE),),
        context,
        variables={},
        env={},
    )
    planned = plan_scripts(checked, spark, context)

    ScriptRun(context, mode=RunMode.BY_TABLES, stop=stop, listener=watcher).run(planned)

    assert watcher.ended[2:] == ["INSERT stopped", "SELECT stopped", "SELECT stopped"]
    assert not spark.streams.active


LOSSY = """
CREATE TABLE told (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
  'path' = 'told', 'format' = 'json', 'source.monitor-interval' = '1 s', 'bad-records' = 'skip');
SELECT id FROM told;
"""


def test_an_endless_select_says_how_many_records_it_left_out(
    spark: SparkSession, project: Path
) -> None:
    """Those that cannot be decoded, as of an INSERT."""
    (project / "told").mkdir()
    lines = ['{"id": 1, "ts": "2026-01-01 00:00:00"}', "no json", '{"id": "?"}']
    (project / "told" / "a.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    results: list[StatementResult] = []
    watcher = Watcher(StopRequest(), {("op", "id"): {"+I"}})
    watcher.statement_ended = results.append  # type: ignore[method-assign]
    context = SessionContext(namespace=new_namespace(), project=project, spark=lambda: spark)
    checked = check_scripts((ScriptFile(name="f.sql", text=LOSSY),), context, variables={}, env={})
    planned = plan_scripts(checked, spark, context)

    ScriptRun(context, mode=RunMode.AVAILABLE_NOW, stop=StopRequest(), listener=watcher).run(
        planned
    )

    (select,) = [result for result in results if result.kind == "SELECT"]
    assert watcher.rows == {("op", "id"): 1}
    assert (select.rows_dropped, select.bad_records) == (0, 2)
