"""The coordinator of a query's batches: calls at their time, splits as they are found or asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.contract import SplitMetadataClient, SplitSource
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.alignment import Alignment
from penstock.connector.source.coordinator.coordinator import CoordinatorState
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.source.microbatch.planner import BatchPlanner, BatchPlannerSettings
from penstock.connector.spark.source.coordinator_driver import CoordinatorDriver
from tests.connector.source.planned_source import Listing, pulled, pushed

NOT_ALIGNED = WatermarkSettings()


@dataclass
class Source:
    """What a coordination needs of a SplitSource."""

    make: MakeEnumerator
    watermark: WatermarkSettings

    def enumerator(self, _planner: SplitMetadataClient) -> MakeEnumerator:
        """Give the enumerator that the test wants."""
        return self.make


class Reader(BatchPlanner):
    """A batch planner that also tells which splits it was given."""

    def __init__(self) -> None:
        super().__init__(BatchPlannerSettings(tracks_event_time=False))

    @property
    def ids(self) -> list[str]:
        """The splits, sorted."""
        return sorted(self._splits)


def begin(
    planner: Listing,
    make: MakeEnumerator,
    state: CoordinatorState | None = None,
    watermark: WatermarkSettings = NOT_ALIGNED,
) -> tuple[CoordinatorDriver, Reader]:
    """Start a coordination at time 0."""
    source = cast("SplitSource", Source(make, watermark))
    coordination = CoordinatorDriver(source, planner, state)
    reader = Reader()
    coordination.start(0)
    coordination.register(reader, 0)
    return coordination, reader


def test_splits_are_listed_at_the_interval() -> None:
    """At the first call, then whenever the interval is over; what was missed meanwhile is one listing."""
    planner = Listing({"t-0": 0})
    coordination, reader = begin(planner, pushed(planner, interval_ms=1000))
    coordination.run_due(reader, 0)
    planner.starts["t-1"] = 0
    coordination.run_due(reader, 999)
    before = reader.ids
    coordination.run_due(reader, 4500)
    coordination.run_due(reader, 4999)

    assert before == ["t-0"]
    assert reader.ids == ["t-0", "t-1"]
    assert planner.listings == 2


def test_without_an_interval_splits_are_listed_once() -> None:
    """And an unbounded scan is never told that it has all splits, as in Flink."""
    planner = Listing({"t-0": 0})
    coordination, reader = begin(planner, pushed(planner))
    for now_ms in (0, 10_000, 10_000_000):
        coordination.run_due(reader, now_ms)

    assert planner.listings == 1
    assert not reader.has_all_splits


def test_a_folder_that_is_watched_is_asked_once_until_it_has_a_file() -> None:
    """The request waits in the enumerator; the answer comes with a listing."""
    planner = Listing({}, stops={"f0": 4, "f1": 4})
    coordination, reader = begin(planner, pulled(planner, interval_ms=1000))
    for now_ms in (0, 100):
        coordination.run_due(reader, now_ms)
        coordination.pull(reader, 4, now_ms)
    planner.starts = {"f0": 0, "f1": 0}
    coordination.run_due(reader, 1000)
    given = reader.ids
    coordination.pull(reader, 4, 1000)

    assert given == reader.ids == ["f0"]
    assert not reader.has_all_splits


def test_a_folder_that_is_read_once_is_asked_to_its_end() -> None:
    """Without a read limit all files are one batch."""
    planner = Listing({"f0": 0, "f1": 0}, stops={"f0": 4, "f1": 4})
    coordination, reader = begin(planner, pulled(planner))
    coordination.run_due(reader, 0)
    coordination.pull(reader, None, 0)

    assert reader.ids == ["f0", "f1"]
    assert reader.has_all_splits


def test_an_aligned_folder_has_a_file_in_hand_beyond_the_batch() -> None:
    """Else it would hold nobody of its group between two files."""
    planner = Listing({f"f{i}": 0 for i in range(3)}, stops={f"f{i}": 4 for i in range(3)})
    alignment = Alignment(group="g", max_drift_ms=1, update_interval_ms=1000)
    aligned = WatermarkSettings(alignment=alignment)
    coordination, reader = begin(planner, pulled(planner), watermark=aligned)
    coordination.run_due(reader, 0)
    coordination.pull(reader, 4, 0)

    assert reader.ids == ["f0", "f1"]


def test_a_call_that_finds_no_broker_stays_due() -> None:
    """It is made again at the next attempt, and nothing was told to the enumerator."""
    planner = Listing({"t-0": 0}, failures=[BrokerUnavailableError("away")])
    coordination, reader = begin(planner, pushed(planner))
    with pytest.raises(BrokerUnavailableError):
        coordination.run_due(reader, 0)
    coordination.run_due(reader, 0)

    assert reader.ids == ["t-0"]


def test_another_error_fails_the_query_with_its_cause() -> None:
    """It goes through the enumerator, which may know better."""
    planner = Listing({"t-0": 0}, failures=[ZeroDivisionError("a bug")])
    coordination, reader = begin(planner, pushed(planner))

    with pytest.raises(ZeroDivisionError, match="a bug"):
        coordination.run_due(reader, 0)


def test_a_restart_goes_on_from_the_checkpoint() -> None:
    """Splits that the batches have are not given again, those that nobody has are."""
    planner = Listing({"f0": 0, "f1": 0}, stops={"f0": 4, "f1": 4})
    coordination, reader = begin(planner, pulled(planner))
    coordination.run_due(reader, 0)
    coordination.pull(reader, 4, 0)
    again, restored = begin(planner, pulled(planner), coordination.checkpoint(0))
    again.run_due(restored, 0)
    again.pull(restored, None, 0)

    assert (reader.ids, restored.ids) == (["f0"], ["f1"])
