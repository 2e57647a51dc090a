"""Tests for what `information_schema` says, row by row; and that a query over it needs no Spark where DuckDB agrees."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.definitions.leases import JobReport, this_process
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.information_schema import InformationConnector
from penstock.connector.source.state import SourceState, SplitState, encode_state
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.plan_record import PLAN_FILE, OperatorRecord, PlanRecord
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.context import open_names
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile, StateManifest
from penstock.sql.information_schema.rows import information_rows
from penstock.sql.plan.analysis import analyse
from penstock.sql.script.splitter import split
from penstock.sql.shell.information_schema import look
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import run

ORDERS = """
CREATE TABLE orders (
  id BIGINT NOT NULL COMMENT 'number', price DECIMAL(9, 2),
  at TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL, cents AS CAST(price * 100 AS BIGINT),
  PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR at AS at - INTERVAL '5' SECOND
) COMMENT 'sold' WITH ('connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json',
  'value.format' = 'json', 'properties.bootstrap.servers' = 'localhost:9092',
  'properties.sasl.password' = '${secret:kafka}', 'properties.ssl.key.password' = 'hunter2');
CREATE VIEW cheap (k) AS SELECT id FROM orders WHERE price < 1;
CREATE TEMPORARY VIEW mine AS SELECT 1 AS one;
CREATE FUNCTION f AS 'os.path' LANGUAGE PYTHON
"""


@pytest.fixture
def names(project: Path) -> Namespace:
    """A session's names over a store in a file, with a table, views and a function."""
    names = open_names(SqlCatalog(f"sqlite:///{project}/catalog.db"), project)
    run(ORDERS, names)
    return names


def rows(names: Namespace, project: Path, table: str) -> list[dict[str, Any]]:
    place = Identifier(catalog="default_catalog", database="information_schema", name=table)
    definition = names.lookup(place)
    assert isinstance(definition, Table)
    return information_rows(definition, names, project).to_pylist()


def looked(names: Namespace, project: Path, sql: str) -> pa.Table | None:
    (text,) = split(sql, "test.sql")
    statement = parse_statement(text, names)
    assert isinstance(statement, Select)
    return look(analyse(statement.query, names, project, appends=False), limit=100)


def test_tables_and_views_are_listed_with_what_they_are(names: Namespace, project: Path) -> None:
    """Temporary ones too; nothing of information_schema itself."""
    found = rows(names, project, "tables")

    assert [(row["table_name"], row["table_type"], row["is_temporary"]) for row in found] == [
        ("orders", "BASE TABLE", "NO"),
        ("cheap", "VIEW", "NO"),
        ("mine", "VIEW", "YES"),
    ]
    assert found[0]["connector"] == "upsert-kafka"
    assert found[0]["comment"] == "sold"
    assert found[0]["version"] == 1


def test_columns_say_how_they_come_about(names: Namespace, project: Path) -> None:
    """Physical, metadata and computed ones, key, watermark; a view's with their types."""
    found = {
        (row["table_name"], row["column_name"]): row for row in rows(names, project, "columns")
    }
    place = {"table_catalog": "default_catalog", "table_schema": "default_database"}

    assert found["orders", "id"] == {
        **place,
        "table_name": "orders",
        "column_name": "id",
        "ordinal_position": 1,
        "data_type": "BIGINT",
        "is_nullable": "NO",
        "column_kind": "PHYSICAL",
        "expression": None,
        "watermark": None,
        "key_position": 1,
        "comment": "number",
    }
    at, cents = found["orders", "at"], found["orders", "cents"]
    assert (at["column_kind"], at["expression"]) == ("METADATA", "timestamp")
    assert at["watermark"] == "at - INTERVAL '5' SECOND"
    assert (cents["column_kind"], cents["data_type"]) == ("COMPUTED", "BIGINT")
    assert cents["expression"] == "CAST(price * 100 AS BIGINT)"
    assert found["cheap", "k"]["data_type"] == "BIGINT"
    assert found["mine", "one"]["ordinal_position"] == 1


def test_options_are_shown_without_secrets(names: Namespace, project: Path) -> None:
    """A reference says nothing of what it stands for."""
    found = {row["option_name"]: row["option_value"] for row in rows(names, project, "options")}

    assert found["topic"] == "orders"
    assert found["properties.ssl.key.password"] == "******"
    assert found["properties.sasl.password"] == "${secret:kafka}"


def test_views_functions_and_places_are_listed(names: Namespace, project: Path) -> None:
    """As the session sees them."""
    run("CREATE DATABASE sales COMMENT 'of the shop'", names)
    (project / "lake" / "raw").mkdir(parents=True)
    run("CREATE CATALOG lake WITH ('type' = 'delta-path', 'path' = 'lake')", names)

    cheap, mine = rows(names, project, "views")
    assert cheap["view_definition"].endswith("AS `orders` WHERE price < 1")
    assert (mine["view_definition"], mine["is_materialized"]) == ("SELECT 1 AS one", "NO")
    (function,) = rows(names, project, "functions")
    assert (function["function_name"], function["language"]) == ("f", "PYTHON")
    catalogs = {
        row["catalog_name"]: row["catalog_type"] for row in rows(names, project, "catalogs")
    }
    assert catalogs == {"default_catalog": "penstock", "lake": "delta-path"}
    schemata = [
        (row["catalog_name"], row["schema_name"]) for row in rows(names, project, "schemata")
    ]
    assert schemata == [
        ("default_catalog", "default_database"),
        ("default_catalog", "sales"),
        ("lake", "default"),
        ("lake", "raw"),
    ]


def test_a_catalog_that_is_away_leaves_the_others(names: Namespace, project: Path) -> None:
    """What cannot be checked is left out."""
    (project / "lake").mkdir()
    run("CREATE CATALOG lake WITH ('type' = 'delta-path', 'path' = 'lake')", names)
    (project / "lake").rmdir()

    assert len(rows(names, project, "tables")) == 3
    assert {row["catalog_name"] for row in rows(names, project, "schemata")} == {"default_catalog"}


def checkpoint(place: Path, batches: int, watermark_ms: int) -> None:
    """A checkpoint of so many batches, all done."""
    shape = QueryFingerprint(sources=("clicks",), sink="copies", state=())
    split = SplitState(split_id="clicks-0", owner="clicks", start=0, end=9)
    state = SourceState(splits=(split,), watermark_ms=watermark_ms)
    files = {"penstock-query.json": shape.to_text(), "metadata": '{"id":"249ea227"}'}
    for batch in range(batches):
        files[f"offsets/{batch}"] = (
            f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(encode_state(state))}'
        )
        files[f"commits/{batch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")


def test_checkpoints_of_the_project_say_where_they_are(names: Namespace, project: Path) -> None:
    """The last batch, when it was planned, and its watermark; a damaged one says what is wrong."""
    base = project / ".penstock" / "checkpoints"
    checkpoint(base / "job" / "copies", batches=2, watermark_ms=1_700_000_000_000)
    checkpoint(base / "job" / "copies.set-aside-20240101T000000.000Z", batches=1, watermark_ms=0)
    checkpoint(base / "job" / "broken", batches=2, watermark_ms=0)
    (base / "job" / "broken" / "commits" / "0").unlink()
    (base / "job" / "broken" / "penstock-query.json").write_text("{")
    os.utime(base / "job" / "copies" / "offsets" / "1", (1_700_000_100, 1_700_000_100))

    broken, copies = rows(names, project, "checkpoints")

    assert copies == {
        "pipeline_name": "job",
        "sink_name": "copies",
        "path": str(base / "job" / "copies"),
        "status": "OK",
        "last_batch": 1,
        "committed_batch": 1,
        "last_batch_time": datetime(2023, 11, 14, 22, 15, tzinfo=UTC),
        "watermark": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "stages_run_by": None,
        "problem": None,
    }
    assert broken["status"] == "DAMAGED"
    assert "penstock-query.json" in broken["problem"]


@pytest.mark.parametrize(
    ("folder", "by"), [("keyed/manifests", "keyed operators"), ("maintained/state", "spark")]
)
def test_checkpoints_tell_what_runs_their_stages(
    names: Namespace, project: Path, folder: str, by: str
) -> None:
    """By the states that are in them."""
    place = project / ".penstock" / "checkpoints" / "job" / "copies"
    checkpoint(place, batches=1, watermark_ms=0)
    (place / folder).mkdir(parents=True)

    (copies,) = rows(names, project, "checkpoints")
    assert copies["stages_run_by"] == by


def test_states_of_operators_tell_their_size_and_the_largest_bucket(
    names: Namespace, project: Path
) -> None:
    """As of the newest manifest; a damaged one has no rows, and the checkpoint is looked at elsewhere."""
    base = project / ".penstock" / "checkpoints" / "job"
    for sink in ("copies", "broken"):
        checkpoint(base / sink, batches=2, watermark_ms=0)
        (base / sink / "keyed" / "manifests").mkdir(parents=True)
    manifest = StateManifest(state_id="id", buckets=4, batch_id=0)
    for batch in range(2):
        written = {
            BucketId(stage="group_1", input="orders", bucket=n): StateFile(
                name=f"{batch}-{n}", first=batch, last=batch, rows=10 * n + 1, bytes=100
            )
            for n in range(3)
        }
        manifest = manifest.with_batch(batch, written)
        text = manifest.to_text()
        (base / "copies" / "keyed" / "manifests" / f"{batch}.json").write_text(text)
    (base / "broken" / "keyed" / "manifests" / "1.json").write_text("{")
    assert [each["bound"] for each in rows(names, project, "operator_states")] == [None]
    kept = OperatorRecord(
        name="Aggregate", level=0, mechanism="keyed operator", bound="none", stages=("group_1",)
    )
    plan = PlanRecord(operators=(kept, replace(kept, bound=None, stages=("rows_2",))))
    (base / "copies" / PLAN_FILE).write_text(plan.to_text())

    assert rows(names, project, "operator_states") == [
        {
            "pipeline_name": "job",
            "sink_name": "copies",
            "operator_name": "group_1",
            "input_name": "orders",
            "batch": 1,
            "buckets": 3,
            "row_count": 66,
            "largest_bucket": 42,
            "size_bytes": 600,
            "files": 6,
            "most_files": 2,
            "bound": "none",
            "checkpoint_path": str(base / "copies"),
        }
    ]


def test_pipelines_are_those_that_run_and_those_with_a_checkpoint(
    names: Namespace, project: Path
) -> None:
    """A lease names its runner; a checkpoint without one is of a pipeline that is stopped."""
    base = project / ".penstock" / "checkpoints"
    checkpoint(base / "my_job" / "copies", batches=1, watermark_ms=0)
    checkpoint(base / "old" / "copies", batches=1, watermark_ms=0)
    names.catalog.leases.acquire("my job/copies", this_process())

    running, stopped = rows(names, project, "pipelines")

    assert (running["pipeline_name"], running["sink_name"]) == ("my job", "copies")
    assert (running["status"], running["runner_process"]) == ("RUNNING", os.getpid())
    assert running["checkpoint_path"] == str(base / "my_job" / "copies")
    assert running["since"] is not None
    assert (stopped["pipeline_name"], stopped["status"]) == ("old", "STOPPED")
    assert (running["restarts"], stopped["restarts"]) == (None, None)
    assert running["sentence"].startswith("waits: split clicks-0 had no record with a time")
    assert stopped["sentence"].startswith("stopped after batch 0")


def test_pipelines_have_the_state_that_their_runners_tell(names: Namespace, project: Path) -> None:
    """One that failed stays so until it is started again, with its last error."""
    base = project / ".penstock" / "checkpoints"
    checkpoint(base / "job" / "failed", batches=1, watermark_ms=0)
    catalog = names.catalog
    for name, status in (("job/failed", "failed"), ("job/finished", "finished")):
        lease = catalog.leases.acquire(name, this_process())
        catalog.leases.report_job(
            lease, JobReport(status=status, restarts=10, last_error="no topic 'a'")
        )
        catalog.leases.release(lease)
    lease = catalog.leases.acquire("job/waits", this_process())
    catalog.leases.report_job(
        lease,
        JobReport(
            status="restarting",
            restarts=3,
            waiting_for="Kafka at b:1",
            waiting_since_ms=0,
            late_rows=12,
            bad_records=3,
            sentence="waits for Kafka at b:1 (refused)",
        ),
    )
    waits, failed = rows(names, project, "pipelines")
    catalog.leases.acquire("job/failed", this_process())
    again = next(row for row in rows(names, project, "pipelines") if row["sink_name"] == "failed")

    assert (waits["status"], waits["restarts"]) == ("RESTARTING", 3)
    assert (waits["waiting_for"], waits["waiting_since"]) == (
        "Kafka at b:1",
        datetime(1970, 1, 1, tzinfo=UTC),
    )
    assert (waits["late_rows"], waits["bad_records"]) == (12, 3)
    assert (failed["late_rows"], failed["bad_records"]) == (None, None)
    assert (failed["status"], failed["restarts"], failed["last_error"]) == (
        "FAILED",
        10,
        "no topic 'a'",
    )
    assert failed["checkpoint_path"] == str(base / "job" / "failed")
    assert waits["sentence"] == "waits for Kafka at b:1 (refused)"
    assert failed["sentence"] == "failed: no topic 'a'"
    assert (again["status"], again["last_error"]) == ("RUNNING", None)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (
            "SELECT table_name FROM information_schema.tables WHERE table_type <> 'VIEW'",
            [{"table_name": "orders"}],
        ),
        (
            "SELECT t.table_name, COUNT(c.column_name) AS n FROM information_schema.tables AS t "
            "LEFT JOIN information_schema.columns AS c ON t.table_name = c.table_name "
            "GROUP BY t.table_name HAVING COUNT(*) > 1 ORDER BY n",
            [{"table_name": "orders", "n": 4}],
        ),
        (
            "SELECT DISTINCT key_position FROM information_schema.columns ORDER BY key_position",
            [{"key_position": None}, {"key_position": 1}],
        ),
        (
            "WITH v AS (SELECT * FROM information_schema.views WHERE view_definition LIKE '%price%') "
            "SELECT table_name AS t FROM v LIMIT 1",
            [{"t": "cheap"}],
        ),
    ],
)
def test_queries_are_answered_without_spark(
    names: Namespace, project: Path, sql: str, found: list[dict[str, Any]]
) -> None:
    """Filters, joins, groups, order with NULL lowest: DuckDB has them as Flink."""
    answer = looked(names, project, sql)

    assert answer is not None
    assert answer.to_pylist() == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM information_schema.tables",
        "SELECT version / 2 AS h FROM information_schema.tables",
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'a\\_b'",
        "SELECT UPPER(table_name) AS u FROM information_schema.tables",
        "SELECT CAST(version AS STRING) AS v FROM information_schema.tables",
        "SELECT one FROM mine",
    ],
)
def test_what_may_differ_is_left_to_spark(names: Namespace, project: Path, sql: str) -> None:
    """Names of columns, division, escapes and casts are each engine's own."""
    assert looked(names, project, sql) is None


def test_nobody_elses_table_has_the_connector(names: Namespace, project: Path) -> None:
    """It knows no rows by itself."""
    table = names.lookup(names.resolve(("orders",)))
    assert isinstance(table, Table)

    with pytest.raises(Exception, match="information_schema alone"):
        InformationConnector(project=project).check(table)
