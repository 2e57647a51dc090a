"""What `latency.py` finds in a sink: of each row the time it was made, and the time at which it could be read.

A row of a Delta table can be read from its commit on (the time of the log's file), one of a topic from the broker's
LogAppendTime on. A row of a window is as old as the end of its window.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.steady_bids import MARK

Times = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of each row: when it was made, when it could be read (both in ms), and how many records it stands for."""

FETCH = 20_000
TIMEOUT_S = 30


def delta_rows(table: Path) -> Times:
    """Return the rows of an append."""
    return _of_commits(table, "dateTime", None)


def delta_windows(table: Path) -> Times:
    """Return the rows of a windowed count, which are as old as the ends of their windows."""
    return _of_commits(table, "window_end", "bids")


def topic_rows(bootstrap: str, topic: str) -> Times:
    """Return the records of a topic whose timestamps are the broker's."""
    made, read = [], []
    for value, appended_ms in _records(bootstrap, topic):
        made.append(_time_of(value))
        read.append(appended_ms)
    times = np.array(made, dtype="datetime64[ms]").astype(np.int64)
    return times, np.array(read, dtype=np.int64), np.ones(len(read), dtype=np.int64)


def topic_counts(bootstrap: str, topic: str) -> Times:
    """Return the updates of counts by time: each stands for as many records as it counts more than the one before."""
    made, read, more = [], [], []
    counted: dict[str, int] = {}
    for value, appended_ms in _records(bootstrap, topic):
        time, bids = _time_of(value), int(json.loads(value)["bids"])
        made.append(time)
        read.append(appended_ms)
        more.append(bids - counted.get(time, 0))
        counted[time] = bids
    times = np.array(made, dtype="datetime64[ms]").astype(np.int64)
    return times, np.array(read, dtype=np.int64), np.array(more, dtype=np.int64)


def _time_of(value: bytes) -> str:
    begin = value.index(MARK) + len(MARK)
    return value[begin : value.index(b'"', begin)].decode().removesuffix("Z")


def _records(bootstrap: str, topic: str) -> Iterator[tuple[bytes, int]]:
    """Read a topic: value and time of each record; those of a partition in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency"})
    partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    places = [TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions]
    ends = [consumer.get_watermark_offsets(place, TIMEOUT_S) for place in places]
    wanted = sum(high - low for low, high in ends)
    consumer.assign(places)
    found = 0
    while found < wanted:
        messages = consumer.consume(min(FETCH, wanted - found), TIMEOUT_S)
        if not messages or any(message.error() for message in messages):
            raise RuntimeError("the broker stopped answering")
        found += len(messages)
        for message in messages:
            value = message.value()
            assert value is not None, "no query writes a tombstone"
            yield value, message.timestamp()[1]
    consumer.close()


def _of_commits(table: Path, time_column: str, count_column: str | None) -> Times:
    made, read, counts = [], [], []
    for committed_ms, file in _files(table):
        columns = [time_column] if count_column is None else [time_column, count_column]
        rows = pq.read_table(file, columns=columns)
        times = pc.cast(rows[time_column], pa.timestamp("ms"), safe=False)
        made.append(times.cast(pa.int64()).to_numpy())
        read.append(np.full(rows.num_rows, committed_ms))
        counts.append(
            np.ones(rows.num_rows, dtype=np.int64)
            if count_column is None
            else rows[count_column].to_numpy()
        )
    if not made:
        none = np.array([], dtype=np.int64)
        return none, none, none
    return np.concatenate(made), np.concatenate(read), np.concatenate(counts)


def _files(table: Path) -> Iterator[tuple[int, Path]]:
    """The files of a table as they were added, with the time of the commit; those that were only rewritten are not."""
    for log in sorted((table / "_delta_log").glob("*.json")):
        if not log.stem.isdigit():
            continue
        committed_ms = log.stat().st_mtime_ns // 1_000_000
        for line in log.read_text(encoding="utf-8").splitlines():
            added = json.loads(line).get("add")
            if added is not None and added["dataChange"]:
                yield committed_ms, table / unquote(added["path"])
