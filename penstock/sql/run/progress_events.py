"""Reads the progress events of a streaming query: those of batches, each once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["batch_events"]


def batch_events(query: StreamingQuery, *, after: int | None) -> list[dict[str, Any]]:
    """Return the events of completed batches after `after` (None: all that Spark keeps), oldest first, as dicts.

    Spark keeps the last 100 (`spark.sql.streaming.numRecentProgressUpdates`). Where there is none or one new event,
    which is the rule, the others are not looked at.
    """
    last = query.lastProgress
    if last is None:
        return []
    newest = last["batchId"] if _is_of_batch(last) else last["batchId"] - 1
    if newest < 0 or newest == after:
        return []
    if after is not None and newest == after + 1 and _is_of_batch(last):
        return [json.loads(last.json)]
    return _kept_after(query, after)


def _is_of_batch(event: Mapping[str, Any]) -> bool:
    """Tell the event of a batch from one that only says that the query waits.

    Spark sends the latter every ten seconds, under the number that the next batch will have.
    """
    return "addBatch" in event["durationMs"]


def _kept_after(query: StreamingQuery, batch: int | None) -> list[dict[str, Any]]:
    recent = query._jsq.recentProgress()  # noqa: SLF001  the public property converts every event at each call
    events: list[dict[str, Any]] = []
    for index in reversed(range(len(recent))):
        event = json.loads(recent[index].json())
        if batch is not None and event["batchId"] <= batch:
            break
        if _is_of_batch(event):
            events.append(event)
    return events[::-1]
