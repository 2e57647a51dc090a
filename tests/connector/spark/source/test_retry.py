"""Outages: planning waits for a broker that is away, says so once, and not for ever."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import BrokerUnavailableError, DataLossError
from penstock.connector.kafka.client.errors import broker_unavailable
from penstock.connector.spark.source.retry import (
    Outage,
    OutageFile,
    RetryPolicy,
    current_outage,
    outage_file,
    retry_while_unavailable,
)

QUICK = RetryPolicy(total_s=30.0, first_pause_s=0.001, longest_pause_s=0.002)


class Broker:
    """Does not answer the first times it is asked."""

    def __init__(self, away: int, error: type[Exception] = BrokerUnavailableError) -> None:
        self.away = away
        self.error = error
        self.asked = 0

    def ask(self) -> int:
        """Answer with the number of the question."""
        self.asked += 1
        if self.asked <= self.away:
            raise self.error("no answer")
        return self.asked


def test_planning_goes_on_when_the_broker_is_back(caplog: pytest.LogCaptureFixture) -> None:
    """However many attempts it takes, the log has one line for the outage and one for its end."""
    broker = Broker(away=7)
    with caplog.at_level(logging.WARNING):
        answer = retry_while_unavailable(broker.ask, what="planning orders", patience=QUICK)

    assert answer == 8
    assert [record.message for record in caplog.records] == [
        "planning orders: no answer; trying for 30 s",
        "planning orders continues after 0 s",
    ]


def test_patience_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The error that the broker gave last is the query's."""
    broker = Broker(away=1_000_000)
    with pytest.raises(BrokerUnavailableError):
        retry_while_unavailable(
            broker.ask, what="planning", patience=RetryPolicy(total_s=0.02, first_pause_s=0.005)
        )

    assert 1 < broker.asked < 10


def test_without_patience_the_first_error_is_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    """At the start of a query it may be the address that is wrong."""
    with pytest.raises(BrokerUnavailableError):
        retry_while_unavailable(
            Broker(away=1).ask, what="planning", patience=RetryPolicy(total_s=0.0)
        )

    assert not caplog.records


def test_other_errors_are_not_waited_out() -> None:
    """Deleted records do not come back."""
    broker = Broker(away=1, error=DataLossError)
    with pytest.raises(DataLossError):
        retry_while_unavailable(broker.ask, what="planning", patience=QUICK)

    assert broker.asked == 1


def test_an_outage_is_told_to_the_process_that_runs_the_query(tmp_path: Path) -> None:
    """What does not answer, why, and since when: over the failures of a start too, until it answers."""
    outage = OutageFile(outage_file(tmp_path, "checkpoints/job/t", 1))
    error = broker_unavailable(
        "b:9092", "metadata", 10, "b:9092/bootstrap: Connect to ipv4#1.2.3.4:9092 failed: "
        "Connection refused (after 0ms in state CONNECT)"
    )  # fmt: skip
    seen: list[Outage | None] = []

    def ask() -> int:
        seen.append(current_outage(tmp_path, "checkpoints/job/t"))
        if len(seen) < 3:
            raise error
        return 1

    with pytest.raises(BrokerUnavailableError):
        retry_while_unavailable(
            ask, what="planning", patience=RetryPolicy(total_s=0.0), outage_file=outage
        )
    retry_while_unavailable(ask, what="planning", patience=QUICK, outage_file=outage)
    none, first, second = seen

    assert none is None
    assert first is not None
    assert (first.what, first.reason) == ("Kafka at b:9092", "Connection refused")
    assert str(first) == "Kafka at b:9092 (Connection refused)"
    assert second == first
    assert current_outage(tmp_path, "checkpoints/job/t") is None


def test_an_attempt_without_an_answer_is_told_while_it_runs(tmp_path: Path) -> None:
    """Clients give up after half a minute; then it is known what does not answer, since the same time."""
    outage = OutageFile(outage_file(tmp_path, "a", 0))
    seen: list[Outage] = []

    def look() -> Outage:
        while (found := current_outage(tmp_path, "a")) is None:
            threading.Event().wait(0.001)
        return found

    def ask() -> int:
        seen.append(look())
        if len(seen) == 1:
            raise BrokerUnavailableError("Kafka at b:9092 did not answer within 20 s (offsets)")
        return 1

    retry_while_unavailable(
        ask,
        what="planning",
        patience=replace(QUICK, silence_s=0.001),
        outage_file=outage,
        asked="the source of orders",
    )
    silent, known = seen

    assert str(silent) == "the source of orders (no answer yet)"
    assert known.what == "Kafka at b:9092"
    assert known.since_ms == silent.since_ms
    assert current_outage(tmp_path, "a") is None


def test_an_answer_in_time_leaves_no_trace(tmp_path: Path) -> None:
    """Nothing is written behind it."""
    outage = OutageFile(outage_file(tmp_path, "a", 0))
    for _ in range(20):
        retry_while_unavailable(
            lambda: 1,
            what="planning",
            patience=replace(QUICK, silence_s=0.0001),
            outage_file=outage,
        )
        assert current_outage(tmp_path, "a") is None


def test_the_outage_of_another_query_is_not_told(tmp_path: Path) -> None:
    """Of several sources of one query the longest is."""
    for checkpoint, index in (("a", 0), ("b", 0), ("b", 1)):
        OutageFile(outage_file(tmp_path, checkpoint, index)).note(
            BrokerUnavailableError(
                f"Kafka at {checkpoint}{index} did not answer within 5 s (offsets)"
            )
        )
    outage = current_outage(tmp_path, "b")

    assert outage is not None
    assert (outage.what, outage.reason) == ("Kafka at b0", "within 5 s (offsets)")
    assert current_outage(tmp_path, "c") is None
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
