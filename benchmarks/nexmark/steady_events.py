"""A producer of recorded events at a constant rate: `python -m benchmarks.nexmark.steady_events TOPIC_AND_EVENTS`.

The argument is JSON of `Events`. It waits for a line on standard input, says when the first event is due, and, once
all are written, how far it was behind. From then on it closes windows: each second one more person, or bid, in every
partition, whose time is an hour after the last event, and of which the query has no row. It ends with its standard
input.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

TICK_S = 0.01
LEAD_S = 1.0
"""From the order to the first event."""
CLOSE_EVERY_S = 1.0
AFTER = timedelta(hours=1)
NOBODY = 10**15
"""A person and an auction that no other event names."""
FLUSH_S = 60
SETTINGS = {"linger.ms": 1, "acks": 1, "queue.buffering.max.messages": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """What is written where: lines of a file, one event after the other into one partition after the other.

    With a `skew_s` the first partition is ahead: all others have their events so much later. Bids close the windows
    where they are `closed_by_bids`, else persons.
    """

    bootstrap: str
    topic: str
    partitions: int
    path: str
    rate: int
    skew_s: int = 0
    closed_by_bids: bool = False

    def as_json(self) -> str:
        """Write the argument of the process."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Numbers of events that are written in order, `delay_s` after they are due without a skew."""

    numbers: Sequence[int]
    delay_s: float


def lanes(count: int, partitions: int, skew_s: int) -> list[Lane]:
    """Return which events are written together."""
    if not skew_s:
        return [Lane(numbers=range(count), delay_s=0)]
    late = [number for number in range(count) if number % partitions]
    return [
        Lane(numbers=range(0, count, partitions), delay_s=0),
        Lane(numbers=late, delay_s=skew_s),
    ]


def closing_line(last: bytes, number: int, *, by_bids: bool = False) -> bytes:
    """Return the record that closes windows behind the last event, for the `number`-th time.

    All bids are of one bidder: their session does not end.
    """
    event: dict[str, Any] = json.loads(last)
    (last_row,) = (row for row in event.values() if isinstance(row, dict))
    at = datetime.fromisoformat(last_row["dateTime"]) + AFTER + timedelta(seconds=number)
    time_text = at.isoformat(sep=" ", timespec="milliseconds")
    if by_bids:
        ids: dict[str, Any] = {"auction": NOBODY, "bidder": NOBODY, "price": 1}
        kind, name = 2, "bid"
        texts: tuple[str, ...] = ("channel", "url", "extra")
    else:
        ids = {"id": NOBODY + number}
        kind, name = 0, "person"
        texts = ("name", "emailAddress", "creditCard", "city", "state", "extra")
    row = {**ids, "dateTime": time_text, **dict.fromkeys(texts, "")}
    closing: dict[str, Any] = {"event_type": kind, name: row}
    return json.dumps({"person": None, "auction": None, "bid": None} | closing).encode()


class Writer:
    """Writes lines into the partitions."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._producer = Producer({"bootstrap.servers": events.bootstrap, **SETTINGS})

    def write(self, line: bytes, number: int) -> None:
        """Write a record."""
        while True:
            try:
                self._producer.produce(
                    self._events.topic, line, partition=number % self._events.partitions
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def write_all(self, lines: Sequence[bytes], start_s: float) -> float:
        """Write events as they become due; returns by how many seconds the latest one was late."""
        rate, behind_s = self._events.rate, 0.0
        todo = lanes(len(lines), self._events.partitions, self._events.skew_s)
        done = [0] * len(todo)
        while any(at < len(lane.numbers) for at, lane in zip(done, todo, strict=True)):
            now_s = time.time()
            for index, lane in enumerate(todo):
                passed_s = now_s - start_s - lane.delay_s
                at = done[index]
                if at < len(lane.numbers):
                    behind_s = max(behind_s, passed_s - lane.numbers[at] / rate)
                while at < len(lane.numbers) and lane.numbers[at] <= passed_s * rate:
                    number = lane.numbers[at]
                    self.write(lines[number], number)
                    at += 1
                done[index] = at
            self._producer.poll(0)
            time.sleep(max(0.0, TICK_S - (time.time() - now_s)))
        self.flush()
        return behind_s

    def flush(self) -> None:
        """Wait until the broker has all records."""
        left = self._producer.flush(FLUSH_S)
        if left:
            raise SystemExit(f"error: the broker did not take {left} records")


def ended(wait_s: float) -> bool:
    """Wait, but not beyond the end of standard input."""
    readable, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(readable) and not sys.stdin.readline()


def main() -> None:
    """Write all events, then close windows until standard input ends."""
    events = Events(**json.loads(sys.argv[1]))
    lines = Path(events.path).read_bytes().splitlines()
    writer = Writer(events)
    print(json.dumps({"ready": True}), flush=True)
    if not sys.stdin.readline():
        return
    start_ms = int((time.time() + LEAD_S) * 1000)
    print(json.dumps({"start_ms": start_ms}), flush=True)
    behind_s = writer.write_all(lines, start_ms / 1000)
    print(json.dumps({"behind_ms": round(behind_s * 1000)}), flush=True)
    number = 0
    while not ended(CLOSE_EVERY_S):
        line = closing_line(lines[-1], number, by_bids=events.closed_by_bids)
        for partition in range(events.partitions):
            writer.write(line, partition)
        writer.flush()
        number += 1


if __name__ == "__main__":
    main()
