"""Reads to a stop that is behind an open transaction: they wait until it has ended, or fail."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.source.state import SourceState
from penstock.connector.spark.source import planning
from penstock.connector.spark.source.data_source import plan_read
from penstock.connector.spark.source.planning import PlanningExecutor
from tests.connector.kafka.reading import open_transaction, topic_source, wait_for_stable_end
from tests.connector.kafka.source.test_cut_log import SCAN
from tests.kafka_server import KafkaServer

STALLED = "waits at offset 3 for offset 5, but the last stable offset is 3: a transaction is open"


@pytest.fixture
def name(kafka: KafkaServer, topic: Callable[..., str]) -> str:
    """A topic of three records that can be read."""
    made = topic()
    kafka.produce_json(made, [{"id": n} for n in range(3)])
    return made


def to_offset_5(kafka: KafkaServer, name: str) -> KafkaSource:
    """The table up to offset 5, which has to be in the log."""
    bounds = {"scan.bounded.mode": "specific-offsets"}
    return topic_source(
        kafka, name, {**bounds, "scan.bounded.specific-offsets": "partition:0,offset:5"}
    )


def of_transaction() -> list[bytes]:
    """Two records, at offsets 3 and 4."""
    return [json.dumps({"id": n}).encode() for n in (3, 4)]


def test_a_run_waits_for_its_stop(
    kafka: KafkaServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not end before: what is read once the transaction has ended is what ends it."""
    monkeypatch.setattr(planning, "STOP_PAUSE_S", 0.05)
    with open_transaction(kafka, name, of_transaction()):
        executor = PlanningExecutor(SCAN, to_offset_5(kafka, name))
        executor.freeze_ends()
        first = executor.plan(SourceState(), None)
        assert first is not None
        looks = executor.wait_for_stops()
        next(looks)
        assert executor.plan(first, None) is None
        next(looks)
    wait_for_stable_end(kafka, name, 6)
    last = executor.plan(first, None)
    assert last is not None
    assert next(looks, None) is None
    executor.close()

    assert [(split.start, split.end) for split in first.splits] == [(0, 3)]
    assert [(split.start, split.end, split.finished) for split in last.splits] == [(3, 5, True)]


def test_a_run_and_a_read_whose_stop_does_not_come_fail_by_name(
    kafka: KafkaServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "STOP_WAIT_S", 0.0)
    source = to_offset_5(kafka, name)
    with open_transaction(kafka, name, of_transaction()):
        executor = PlanningExecutor(SCAN, source)
        executor.plan(SourceState(), None)
        with pytest.raises(BrokerUnavailableError, match=STALLED):
            next(executor.wait_for_stops())
        executor.close()
        with pytest.raises(BrokerUnavailableError, match=STALLED):
            plan_read(SCAN, source, tasks=None)


def test_a_read_to_the_latest_offset_waits_for_no_transaction(
    kafka: KafkaServer, name: str
) -> None:
    """Its stop is what can be read now."""
    source = topic_source(kafka, name, {"scan.bounded.mode": "latest-offset"})
    with open_transaction(kafka, name, of_transaction()):
        (task,) = plan_read(SCAN, source, tasks=None)

    assert [(split.start, split.stop) for split in task.splits] == [(0, 3)]
