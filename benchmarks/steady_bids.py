"""A producer of bids at a constant rate, for `latency.py`: `python -m benchmarks.steady_bids BOOTSTRAP TOPIC RATE`.

`dateTime` is the time at which a record is made, in ms, which is its timestamp in Kafka, too. It goes on until its
standard input ends, and then prints how many it made in each second, as JSON.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections import Counter

import numpy as np
from confluent_kafka import Producer

from benchmarks.bids import PARTITIONS, bid_lines

TICK_S = 0.01
POOL = 1_000
MARK = b'"dateTime":"'
TIME_LENGTH = len("2026-03-02 00:00:00.000")
FLUSH_S = 60
SETTINGS = {"linger.ms": 1, "acks": 1, "queue.buffering.max.messages": 1_000_000}


def main() -> None:
    """Produce until standard input ends."""
    bootstrap, topic, rate = sys.argv[1:]
    producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})
    parts = [split_time(line) for line in bid_lines(POOL, 0)]
    each_tick = round(int(rate) * TICK_S)
    counts: Counter[int] = Counter()
    number, due = 0, time.time()
    while not ended(due - time.time()):
        due += TICK_S
        now_ms = time.time_ns() // 1_000_000
        text = str(np.datetime64(now_ms, "ms")).replace("T", " ").encode()
        for _ in range(each_tick):
            before, after = parts[number % POOL]
            number += 1
            producer.produce(
                topic, before + text + after, partition=number % PARTITIONS, timestamp=now_ms
            )
        counts[now_ms // 1000] += each_tick
        producer.poll(0)
    left = producer.flush(FLUSH_S)
    if left:
        raise SystemExit(f"error: the broker did not take {left} records")
    print(json.dumps(counts), flush=True)


def split_time(line: bytes) -> tuple[bytes, bytes]:
    """Return what is before and behind the time of a bid."""
    before, after = line.split(MARK)
    return before + MARK, after[TIME_LENGTH:]


def ended(wait_s: float) -> bool:
    """Wait, but not beyond the end of standard input."""
    readable, _, _ = select.select([sys.stdin], [], [], max(wait_s, 0))
    return bool(readable) and not sys.stdin.readline()


if __name__ == "__main__":
    main()
