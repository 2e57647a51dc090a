"""Runs the streaming queries of a case step by step, each step to quiescence.

A query over fixtures alone keeps running and receives what is new. One that reads tables which other queries write
(Delta) is started for each step and reads the data of that moment, so that its input does not depend on which of them
is faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import QueryFailedError
from penstock.connector.contract import AvailableNow, Continuous
from penstock.sql.errors.spark import translate
from penstock.sql.jobs.query_start import start_in_turn
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.plan.physical.batch_metrics import BatchMetrics

__all__ = ["RunningQuery"]

STEP_TIMEOUT_S = 300
"""A step that takes longer never ends."""

QUIET_ROUNDS = 2
"""Plannings in a row that find nothing: a split goes idle at the second one."""


@dataclass(slots=True, kw_only=True)
class RunningQuery:
    """A query of a case. `batches` is what its micro-batches did, in order."""

    query: StartableQuery
    stays_up: bool
    batches: list[BatchMetrics] = field(default_factory=list)
    _stream: StreamingQuery | None = None
    _seen: int = -1

    def start(self) -> None:
        """Start a query that stays up. Raises what it fails with."""
        if self.stays_up:
            with _translated():
                self._stream = start_in_turn(lambda: self.query.start(Continuous()))

    def step(self) -> None:
        """Process the present rows. Raises the error of the query, RunError or InputError."""
        with _translated():
            if self.stays_up:
                assert self._stream is not None, "it was started"
                self._settle(self._stream)
                return
            self._stream = start_in_turn(lambda: self.query.start(AvailableNow()))
            if not self._stream.awaitTermination(STEP_TIMEOUT_S):
                raise _endless(self.query)
            self._collect(self._stream)

    def stop(self) -> None:
        """Stop the query; errors are ignored, as the case has its result."""
        if self._stream is not None:
            self._stream.stop()

    def _settle(self, stream: StreamingQuery) -> None:
        quiet, last = 0, _last_batch(stream)
        while quiet < QUIET_ROUNDS:
            if not stream.isActive:
                # a query whose tables have all ended ends by itself, or by an error
                stream.awaitTermination(STEP_TIMEOUT_S)
                break
            stream.processAllAvailable()
            now = _last_batch(stream)
            quiet, last = (quiet + 1, last) if now == last else (0, now)
        self._collect(stream)

    def _collect(self, stream: StreamingQuery) -> None:
        """Add the events of batches since the last call."""
        for event in _events(stream):
            if int(event["batchId"]) > self._seen and "addBatch" in event["durationMs"]:
                self._seen = int(event["batchId"])
                self.batches.append(self.query.read_metrics(event))


def _events(stream: StreamingQuery) -> Iterator[Mapping[str, Any]]:
    for progress in stream.recentProgress:
        yield json.loads(progress.json)


def _last_batch(stream: StreamingQuery) -> int:
    """Return the number of the last batch that did something."""
    numbers = [e["batchId"] for e in _events(stream) if "addBatch" in e["durationMs"]]
    return int(numbers[-1]) if numbers else -1


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise translate(error) from error


def _endless(query: StartableQuery) -> QueryFailedError:
    return QueryFailedError(f"the query into {query.sink} did not end within {STEP_TIMEOUT_S} s")
