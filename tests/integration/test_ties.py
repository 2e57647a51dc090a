"""Ties of ROW_NUMBER from real files: across batches and a replay, within windows, and from an earlier checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.plan import insert_forms
from penstock.sql.plan.analysis import analyse_or_refuse
from penstock.sql.plan.syntax_rules import PlanForm
from penstock.sql.session.session import Session
from tests.integration.test_updating_queries import forget_last_batch, run

DEFINITIONS = """
CREATE TEMPORARY TABLE events (k INT, v INT, n STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TEMPORARY TABLE firsts (k INT, n STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'memory');
CREATE TEMPORARY TABLE counts (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'memory');
CREATE TEMPORARY TABLE stored (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'memory');
CREATE TEMPORARY TABLE bests (k INT, n STRING, PRIMARY KEY (k, n) NOT ENFORCED) WITH ('connector' = 'memory')
"""
FIRSTS = (
    "INSERT INTO firsts SELECT k, n FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM events) WHERE rn = 1"
)
IN_WINDOWS = (
    "INSERT INTO bests SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
    "ORDER BY v) AS rn FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE rn <= 2"
)


def write(folder: Path, name: str, *letters: str) -> None:
    """Write rows of one key, of equal order, under their letters."""
    rows = [f'{{"k":1,"v":5,"n":"{n}","ts":"2024-01-01 00:00:10"}}\n' for n in letters]
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(rows), encoding="utf-8")


def names(session: Session, table: str) -> set[Any]:
    """Give the letters that a table holds."""
    return {row["n"] for row in session.sql(f"SELECT n FROM {table}").collect()}


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session with the tables."""
    write(project, "m.json", "z", "y")
    with penstock.connect(spark) as session:
        for statement in DEFINITIONS.split(";"):
            session.sql(statement)
        yield session


def test_rows_of_later_batches_come_behind_those_of_equal_order(
    session: Session, project: Path
) -> None:
    """By a keyed operator, and in windows that stages rank; the first batch is run again by the second start."""
    script = project / "ties.sql"
    script.write_text(f"{FIRSTS};\n{IN_WINDOWS}", encoding="utf-8")
    run(session, script)
    for table in ("firsts", "bests"):
        forget_last_batch(project / ".penstock" / "checkpoints" / "ties" / table)
    write(project, "a.json", "b", "a")
    run(session, script)

    assert names(session, "firsts") == {"z"}
    assert names(session, "bests") == {"z", "y"}


def in_form(form: PlanForm) -> Any:
    """Analyse INSERTs as a version did."""
    return lambda *a, **k: analyse_or_refuse(*a, **k | {"form": form})


def test_top_1_goes_on_in_the_update_mode_that_its_checkpoint_is_of(
    session: Session,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its best row is in Spark's state: a later row of equal order is none, a better one is."""
    script = project / "ties.sql"
    script.write_text(FIRSTS, encoding="utf-8")
    with monkeypatch.context() as earlier:
        earlier.setattr(insert_forms, "analyse_or_refuse", in_form(PlanForm.PANES))
        run(session, script)
    checkpoint = project / ".penstock" / "checkpoints" / "ties" / "firsts"
    assert "ARG_MIN" in (checkpoint / "penstock-query.json").read_text(encoding="utf-8")

    write(project, "n.json", "b")
    with caplog.at_level("INFO", "penstock"):
        run(session, script)

    assert names(session, "firsts") == {"z"}
    assert "goes on with a checkpoint whose Top-1 runs in Spark's update mode" in caplog.text
    better = '{"k":1,"v":4,"n":"x","ts":"2024-01-01 00:00:10"}\n'
    (project / "in" / "o.json").write_text(better, encoding="utf-8")
    run(session, script)
    assert names(session, "firsts") == {"x"}


COUNTS = "INSERT INTO counts SELECT k, COUNT(DISTINCT n) AS n FROM events GROUP BY k"


def test_distinct_values_go_on_in_the_update_mode_that_their_checkpoint_is_of(
    session: Session,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its values are in Spark's state, and count once; a new checkpoint stores them by a keyed operator."""
    script = project / "ties.sql"
    script.write_text(COUNTS, encoding="utf-8")
    with monkeypatch.context() as earlier:
        earlier.setattr(insert_forms, "analyse_or_refuse", in_form(PlanForm.BEST_ROWS))
        run(session, script)
    shape = project / ".penstock" / "checkpoints" / "ties" / "counts" / "penstock-query.json"
    assert "ARRAY_UNIQUE_AGG" in shape.read_text(encoding="utf-8")

    write(project, "n.json", "z", "b")
    with caplog.at_level("INFO", "penstock"):
        run(session, script)

    assert names(session, "counts") == {3}
    assert "goes on with a checkpoint whose aggregation runs in Spark's update mode" in caplog.text
    assert not (shape.parent / "keyed").exists()


def test_distinct_values_are_stored_once_over_batches(session: Session, project: Path) -> None:
    """By a keyed operator; the first batch is run again by the second start."""
    script = project / "ties.sql"
    script.write_text(COUNTS.replace("counts", "stored"), encoding="utf-8")
    run(session, script)
    checkpoint = project / ".penstock" / "checkpoints" / "ties" / "stored"
    forget_last_batch(checkpoint)
    write(project, "n.json", "z", "b")
    run(session, script)

    assert names(session, "stored") == {3}
    assert (checkpoint / "keyed").exists()


@pytest.mark.parametrize("ttl", ["0 s", "1 d"])
def test_a_group_that_having_leaves_out_is_deleted(
    session: Session, project: Path, ttl: str
) -> None:
    """By its values of all batches; the first is run again by the second start, and one with few passes again."""
    script = project / "ties.sql"
    having = COUNTS.replace("counts", "stored") + " HAVING COUNT(DISTINCT n) <> 3"
    script.write_text(f"SET 'table.exec.state.ttl' = '{ttl}';\n{having}", encoding="utf-8")
    run(session, script)
    checkpoint = project / ".penstock" / "checkpoints" / "ties" / "stored"
    forget_last_batch(checkpoint)
    assert names(session, "stored") == {2}
    found = []
    for letter in ("z", "b", "y", "c"):
        write(project, f"{letter}.json", "z", letter)
        run(session, script)
        found.append(names(session, "stored"))

    assert found == [{2}, set(), set(), {4}]
    assert (checkpoint / "keyed").exists()


def test_an_aggregation_goes_on_from_the_state_of_an_earlier_version(
    session: Session,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its state has no order of arrival; a checkpoint that is new follows the rule."""
    script = project / "ties.sql"
    script.write_text(FIRSTS, encoding="utf-8")
    with monkeypatch.context() as earlier:
        earlier.setattr(insert_forms, "analyse_or_refuse", in_form(PlanForm.TIES_OPEN))
        run(session, script)
    shape = project / ".penstock" / "checkpoints" / "ties" / "firsts" / "penstock-query.json"
    assert "__arrived" not in shape.read_text(encoding="utf-8")

    write(project, "n.json", "b")
    run(session, script)

    assert names(session, "firsts") == {"b"}  # the last one, as ever
    assert "resumes from a checkpoint of an earlier version" in caplog.text
