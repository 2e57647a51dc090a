"""Spark's calls on a stream, without Spark: what an outage of the broker means at which moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.commits import OffsetCommits
from penstock.connector.contract import SplitSource
from penstock.connector.file_output import RecordOutput
from penstock.connector.source.state import SourceState, SplitState, encode_state
from penstock.connector.spark.errors import SparkReadableError
from penstock.connector.spark.source.offsets import INITIAL_OFFSET
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.spark.source.stream import SplitStreamReader
from tests.connector.source.planned_source import Listing
from tests.connector.spark.source.test_planning import SCAN

STATE = SourceState(splits=(SplitState(split_id="t-0", owner="t", start=0, end=7),))


@dataclass
class Planning:
    """Answers with these outcomes, one a call."""

    outcomes: list[SourceState | Exception | None]
    planner: Listing = field(default_factory=lambda: Listing({}))
    completed: list[SourceState] = field(default_factory=list)
    offset_commits: OffsetCommits | None = None
    asked_for_owed: int = 0
    looks_for_stops: int = 0

    def close(self) -> None:
        """Nothing is open."""

    def plan(self, _after: SourceState, _limit: int | None) -> SourceState | None:
        """Plan, or fail."""
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def complete(self, end: SourceState) -> None:
        """Note it."""
        self.completed.append(end)

    def check_planned(self, _state: SourceState) -> None:
        """Take any."""

    def freeze_ends(self) -> None:
        """Plan as before."""

    def wait_for_stops(self) -> Iterator[None]:
        """Give up after so many looks."""
        for _ in range(self.looks_for_stops):
            yield
        if self.looks_for_stops:
            raise BrokerUnavailableError("a transaction is open")

    def commit_owed(self) -> None:
        """Count it."""
        self.asked_for_owed += 1


def stream(planning: Planning) -> SplitStreamReader:
    """Make a stream whose planning is scripted."""
    made = SplitStreamReader(SCAN, cast("SplitSource", None), StructType())
    made._executor = cast("PlanningExecutor", planning)
    return made


def test_a_broker_that_is_away_later_is_waited_for() -> None:
    """The next offset is late, as if nothing had been."""
    made = stream(Planning([STATE, BrokerUnavailableError("away"), None]))
    first = made.latestOffset(INITIAL_OFFSET, ReadMaxRows(10))

    assert first == encode_state(STATE)
    assert made.latestOffset(first, ReadMaxRows(10)) == first


def test_a_run_that_ends_waits_for_its_stops() -> None:
    """What is behind an open transaction is read once that has ended; else the run fails, and does not finish."""
    made = stream(Planning([None, None, STATE, None, None, None], looks_for_stops=2))
    made.prepareForTriggerAvailableNow()
    first = made.latestOffset(INITIAL_OFFSET, ReadMaxRows(10))

    assert first == encode_state(STATE)
    with pytest.raises(SparkReadableError, match="a transaction is open"):
        made.latestOffset(first, ReadMaxRows(10))


def test_a_broker_that_was_never_there_fails_the_query_at_once() -> None:
    """It may be the address that is wrong."""
    made = stream(Planning([BrokerUnavailableError("away"), STATE]))

    with pytest.raises(SparkReadableError, match="away"):
        made.latestOffset(INITIAL_OFFSET, ReadMaxRows(10))


@pytest.mark.parametrize(("tasks", "limit"), [(2, ReadMaxRows(40)), (None, ReadAllAvailable())])
def test_a_batch_that_is_sent_in_transactions_is_never_all_there_is(
    tasks: int | None, limit: ReadLimit
) -> None:
    """A broker aborts transactions after their time: a run with an end has the limit of one without."""
    output = RecordOutput(table=SCAN.table, columns=(), tasks=tasks)
    source = cast("SplitSource", SimpleNamespace(max_records_per_batch=None))
    made = SplitStreamReader(replace(SCAN, output=output, default_limit=40), source, StructType())
    assert made.getDefaultReadLimit() == ReadMaxRows(40)

    made._executor = cast("PlanningExecutor", Planning([]))
    made.prepareForTriggerAvailableNow()

    assert made.getDefaultReadLimit() == limit


def test_a_committed_batch_is_published_and_completes_the_checkpoint() -> None:
    """Group offsets for the outside, checkpoint completion for the enumerator."""
    planning = Planning([])
    stream(planning).commit(encode_state(STATE))

    assert planning.planner.committed == [{"t-0": 7}]
    assert planning.completed == [STATE]


def test_an_idle_table_commits_what_its_group_did_not_take() -> None:
    """No batch has other positions to commit, and the group would stay behind."""
    planning = Planning([None, None])
    made = stream(planning)
    for _ in range(2):
        made.latestOffset(encode_state(STATE), ReadMaxRows(10))

    assert planning.planner.committed == [{"t-0": 7}]
    assert planning.asked_for_owed == 1
