"""The plan that a checkpoint has for people: it is read as it was written, and nothing hangs on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.sql.checkpoint.plan_record import (
    PLAN_FILE,
    Mechanism,
    OperatorRecord,
    PlanRecord,
    SinkRecord,
    read_plan,
)
from penstock.sql.checkpoint.reader import LocalFiles

PLAN = PlanRecord(
    operators=(
        OperatorRecord(
            name="Aggregate by k: COUNT(*)",
            level=0,
            mechanism=Mechanism.OPEN,
            key=("k",),
            keeps="COUNT(*)",
            bound="none",
            stages=("stage_0",),
        ),
        OperatorRecord(name="Scan events", level=1, mechanism=Mechanism.READING_TASKS),
    ),
    sinks=(SinkRecord(name="counts", writer="spark", guarantee="exactly-once"),),
)


def stored(folder: Path, text: str) -> LocalFiles:
    """A checkpoint with this text for its plan."""
    (folder / PLAN_FILE).write_text(text)
    return LocalFiles(location=str(folder))


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With the types that it had."""
    assert read_plan(stored(tmp_path, PLAN.to_text())) == PLAN


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"version": 1}', '{"version": 2}'])
def test_what_is_no_plan_is_none(tmp_path: Path, damage: str) -> None:
    """Cut, of another version, or not there: the page does without it."""
    assert read_plan(LocalFiles(location=str(tmp_path))) is None
    assert read_plan(stored(tmp_path, damage)) is None


def test_an_operator_with_other_fields_is_none(tmp_path: Path) -> None:
    """As another version may write them."""
    value = json.loads(PLAN.to_text())
    value["operators"][0]["speed"] = 9
    assert read_plan(stored(tmp_path, json.dumps(value))) is None


def test_the_start_says_what_runs_the_stages_with_state() -> None:
    """What is no stage stays as it is."""
    counted, scan = PLAN.run_by(Mechanism.KEYED).operators

    assert (counted.mechanism, scan.mechanism) == (Mechanism.KEYED, Mechanism.READING_TASKS)
    assert PLAN.run_by(Mechanism.STAGE_OF_SPARK).operators[0].mechanism is Mechanism.STAGE_OF_SPARK
