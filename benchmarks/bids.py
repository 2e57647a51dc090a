"""The benchmarks' input: JSON bids of 184 bytes on average, in the shape of the Nexmark bid, made in columns."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from examples.demo.topic import write_lines

PARTITIONS = 4
CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
START = np.datetime64("2026-03-02T00:00:00.000", "ms")
EXTRA_LETTERS = 18


def bid_lines(count: int, partition: int) -> list[bytes]:
    """The records of one partition, one a millisecond."""
    rng = np.random.default_rng(partition)
    times = START + np.arange(count).astype("timedelta64[ms]")
    letters = rng.integers(97, 123, (count, EXTRA_LETTERS), dtype=np.uint8)
    extra = pa.array(letters.view(f"S{EXTRA_LETTERS}").ravel()).cast(pa.string())
    lines = pc.binary_join_element_wise(
        '{"auction":',
        numbers(rng.integers(1000, 20_000, count)),
        ',"bidder":',
        numbers(rng.integers(1000, 50_000, count)),
        ',"price":',
        numbers(rng.integers(100, 10_000_000, count)),
        ',"channel":"',
        pa.array(CHANNELS).take(pa.array(rng.integers(0, len(CHANNELS), count))),
        '","url":"https://nexmark.example/item?query=1&id=',
        numbers(rng.integers(0, 1_000, count)),
        '","dateTime":"',
        pa.array(times).cast(pa.string()),
        '","extra":"',
        extra,
        '"}',
        "",
    )
    encoded: list[bytes] = lines.cast(pa.binary()).to_pylist()
    return encoded


def numbers(values: np.ndarray) -> pa.Array:
    """Integers as text."""
    return pa.array(values).cast(pa.string())


def write_bids(bootstrap: str, topic: str, count: int) -> int:
    """Make the topic and write `count` bids in equal parts; returns how many the broker has taken."""
    each = count // PARTITIONS
    return write_lines(bootstrap, topic, [partial(bid_lines, each, i) for i in range(PARTITIONS)])
