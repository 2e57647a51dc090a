"""Fixtures under the planning that Spark's source does: a step is a batch, watermarks follow the slowest split."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.scan import Rowtime, Scan
from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.testing.connector import FixtureSettings, as_fixture
from penstock.connector.testing.decode import FixtureRecord, publish, write_records

ROWTIME = Rowtime(column="ts", inputs=("ts",), expression="ts", instant=False)


def record(split: int, offset: int, second: int) -> FixtureRecord:
    """A record of that second of 1970."""
    value = f'{{"ts": "1970-01-01 00:00:{second:02}"}}'.encode()
    return FixtureRecord(split=f"t-{split}", offset=offset, key=None, value=value)


RECORDS = (record(0, 0, 10), record(1, 0, 5), record(0, 1, 30), record(1, 1, 20))


@pytest.fixture
def executor(tmp_path: Path):
    """Makes the planning of a scan over RECORDS; `settings` are those of the fixture."""
    write_records(tmp_path, RECORDS)

    def make(idle: str | None = None, **settings: Any) -> PlanningExecutor:
        options = {
            "connector": "kafka",
            "topic": "t",
            "properties.bootstrap.servers": "nowhere:1",
            "scan.startup.mode": "latest-offset",
            "format": "json",
        }
        if idle is not None:
            options["scan.watermark.idle-timeout"] = idle
        table = Table(
            identifier=Identifier(catalog="c", database="d", name="t"),
            schema=Schema(columns=(PhysicalColumn(name="ts", type=parse_type("TIMESTAMP(3)")),)),
            options=tuple(options.items()),
        )
        double = as_fixture(table, FixtureSettings(folder=str(tmp_path), location="p", **settings))
        scan = Scan(
            table=double, columns=("ts",), rowtime=ROWTIME, time_zone="UTC", project=str(tmp_path)
        )
        return PlanningExecutor(scan, scan.open_source())

    return make


def planned(executor: PlanningExecutor, after: SourceState) -> SourceState:
    """The next batch, which there has to be."""
    state = executor.plan(after, None)
    assert state is not None
    return cast("SourceState", state)


def test_a_step_is_a_batch_and_the_slowest_split_leads(executor, tmp_path: Path) -> None:
    """Nothing comes before it is published, all of it after."""
    planning = executor()
    first = planned(planning, SourceState())
    publish(tmp_path, {"t-0": 1, "t-1": 1})
    second = planned(planning, first)
    nothing = planning.plan(second, None)
    publish(tmp_path, {"t-0": 2, "t-1": 1})
    third = planned(planning, second)

    assert first.positions == {"t-0": 0, "t-1": 0}
    assert (second.positions, second.watermark_ms) == ({"t-0": 1, "t-1": 1}, 5_000)
    assert nothing is None
    assert (third.positions, third.watermark_ms) == ({"t-0": 2, "t-1": 1}, 5_000)


def test_a_source_that_ends_closes_all_windows_behind_its_last_record(executor, tmp_path) -> None:
    """Not before: the steps in between have the watermark of their rows."""
    planning = executor(ends=True)
    publish(tmp_path, {"t-0": 1, "t-1": 1})
    first = planned(planning, SourceState())
    publish(tmp_path, {"t-0": 2, "t-1": 2})
    last = planned(planning, first)

    assert first.watermark_ms == 5_000
    assert last.watermark_ms == MAX_WATERMARK_MS


def test_a_silent_split_is_left_behind_once_it_is_idle(executor, tmp_path: Path) -> None:
    """At the plannings that follow a step, where the case says that time passes."""
    planning = executor(idle="1 h", goes_idle=True)
    publish(tmp_path, {"t-0": 1, "t-1": 1})
    state = planned(planning, SourceState())
    for _ in range(1000):
        state = planning.plan(state, None) or state
        if all(split.idle for split in state.splits):
            break
    publish(tmp_path, {"t-0": 2, "t-1": 1})
    state = planned(planning, state)

    assert state.watermark_ms == 30_000
    assert [split.idle for split in state.splits] == [False, True]
