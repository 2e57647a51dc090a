"""`penstock run` into print, blackhole, files and a database, from a folder of files, as a process."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.integration.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SCRIPT = """
CREATE TEMPORARY TABLE orders (id BIGINT, name STRING) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TEMPORARY TABLE shown (id BIGINT, name STRING) WITH (
  'connector' = 'print', 'print-identifier' = 'shown');
CREATE TEMPORARY TABLE hole (id BIGINT) WITH ('connector' = 'blackhole');
CREATE TEMPORARY TABLE files (id BIGINT, name STRING) PARTITIONED BY (name) WITH (
  'connector' = 'filesystem', 'path' = 'files', 'format' = 'json',
  'sink.partition-commit.policy.kind' = 'success-file');
CREATE TEMPORARY TABLE stored (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:sqlite:stored.db', 'table-name' = 'stored');
INSERT INTO shown SELECT id, name FROM orders;
INSERT INTO hole SELECT id FROM orders;
INSERT INTO files SELECT id, name FROM orders;
INSERT INTO stored SELECT id, name FROM orders;
"""


@pytest.mark.nightly
def test_a_run_fills_every_other_sink_and_goes_on_where_it_stopped(project: Path) -> None:
    """Stdout stays one JSON document, printed rows are on stderr; a second run adds what is new, once."""
    (project / "in").mkdir()
    script = project / "job.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    with sqlite3.connect(project / "stored.db") as database:
        database.execute("CREATE TABLE stored (id INTEGER PRIMARY KEY, name TEXT)")
    for first in (0, 2):
        lines = [json.dumps({"id": n, "name": f"n{n % 2}"}) for n in (first, first + 1)]
        (project / "in" / f"{first}.json").write_text("\n".join(lines))
        pipeline = Pipeline(project=project, script=script, arguments=["--available-now"])
        pipeline.start()
        summary = pipeline.finish(240)
        inserts = [each for each in summary["statements"] if each["kind"] == "INSERT"]
        assert [each["rows_out"] for each in inserts] == [2, 2, 2, 2]
    shown = [line for line in pipeline.log.splitlines() if line.startswith("shown> ")]
    stored = database.execute("SELECT id, name FROM stored ORDER BY id").fetchall()
    database.close()
    files = sorted((project / "files").glob("name=*/part-*.json"))
    written = {json.loads(line)["id"] for file in files for line in file.read_text().splitlines()}

    assert shown == [f"shown> +I[{n}, n{n % 2}]" for n in range(4)]
    assert stored == [(n, f"n{n % 2}") for n in range(4)]
    assert (len(files), written) == (4, {0, 1, 2, 3})
    assert len(list((project / "files").glob("name=*/_SUCCESS"))) == 2
