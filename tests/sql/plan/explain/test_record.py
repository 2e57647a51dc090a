"""The operators of queries as a checkpoint records them: what runs each, what it keeps, and until when."""

from __future__ import annotations

from pathlib import Path

from penstock.sql.checkpoint.plan_record import Mechanism, OperatorRecord
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.explain.record import UNBOUNDED, operator_records
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace, run

KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', "
    "'scan.startup.mode' = 'earliest-offset'"
)
TABLES = f"""
CREATE TABLE events (id BIGINT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE counts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'counts');
CREATE TABLE ids (id BIGINT) WITH ('connector' = 'delta', 'path' = 'ids')
"""


def analysed(sql: str, project: Path) -> AnalysedQuery:
    """The query of an INSERT over the tables above."""
    namespace = new_namespace(TABLES)
    (statement,) = run(sql, namespace)
    assert isinstance(statement, InsertInto)
    planner = Planner(namespace=namespace, project=project, settings={})
    return planner.analyse_insert(statement).query


def records(sql: str, project: Path, *, ttl_ms: int = 0) -> dict[str, OperatorRecord]:
    """The operators by the first word of their names."""
    query = analysed(sql, project)
    found = operator_records(query, state_ttl_ms=ttl_ms, tasks_write=False)
    return {each.name.split()[0]: each for each in found}


def test_groups_over_changes_are_kept_by_a_keyed_operator(tmp_path: Path) -> None:
    """By their key; forever, or for the time to live."""
    sql = """INSERT INTO counts SELECT k, COUNT(*) FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS p FROM events) WHERE p = 1 GROUP BY k"""
    found = records(sql, tmp_path)
    group, scan = found["Aggregate"], found["Scan"]

    assert (group.mechanism, group.key, group.bound) == (Mechanism.KEYED, ("k",), UNBOUNDED)
    assert group.stages
    assert scan.mechanism is Mechanism.READING_TASKS
    assert scan.level > group.level
    bound = records(sql, tmp_path, ttl_ms=60_000)["Aggregate"].bound
    assert bound == "table.exec.state.ttl, 60 s after the last change"


def test_windows_are_kept_by_spark_until_the_watermark(tmp_path: Path) -> None:
    """Reading tasks group first."""
    found = records(
        "INSERT INTO counts SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY k, window_start, window_end",
        tmp_path,
    )["Aggregate"]

    assert found.mechanism is Mechanism.TWO_PHASES
    assert found.keeps == "groups of open windows"
    assert found.bound == "the watermark of events"
    assert found.keeps_in_spark


def test_of_a_copy_that_tasks_write_tasks_run_all(tmp_path: Path) -> None:
    """Nothing keeps state."""
    query = analysed("INSERT INTO ids SELECT id FROM events WHERE id > 1", tmp_path)
    found = operator_records(query, state_ttl_ms=0, tasks_write=True)

    assert {each.mechanism for each in found} == {Mechanism.READING_TASKS}
    assert [each.keeps for each in found] == [None] * len(found)
