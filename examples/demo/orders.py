"""Makes the demo's input: JSON orders in a Kafka topic, skewed between partitions, out of order within each.

Built in columns, not row by row, so that a million take seconds. The same seed gives the same orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from examples.demo.topic import write_lines

PRODUCTS = ("anvil", "bolt", "gear", "hinge", "spring")
START = np.datetime64("2026-03-02T00:00:00.000", "ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the orders look like. Partition i covers `span_h` hours from `starts_h[i]` on."""

    orders: int = 1_000_000
    starts_h: tuple[float, ...] = (0.0, 3.0, 6.0, 9.0)
    span_h: float = 3.0
    disorder_ms: int = 8_000

    @property
    def partitions(self) -> int:
        """One a start."""
        return len(self.starts_h)

    def spans(self) -> list[tuple[datetime, datetime]]:
        """First and last (exclusive) event time of each partition."""
        start = START.item()
        return [
            (start + timedelta(hours=first), start + timedelta(hours=first + self.span_h))
            for first in self.starts_h
        ]


def event_times(shape: Shape, partition: int, rng: np.random.Generator) -> np.ndarray:
    """Event times of one partition in the order in which they are written."""
    count = shape.orders // shape.partitions
    first = START + np.timedelta64(int(shape.starts_h[partition] * 3_600_000), "ms")
    steady = np.linspace(0, shape.span_h * 3_600_000, count, endpoint=False).astype(np.int64)
    late = rng.integers(0, shape.disorder_ms, count)
    return first + np.maximum(steady - late, 0).astype("timedelta64[ms]")


def order_lines(shape: Shape, partition: int) -> list[bytes]:
    """The JSON records of one partition."""
    rng = np.random.default_rng(partition)
    times = event_times(shape, partition, rng)
    count = len(times)
    numbers = np.arange(count, dtype=np.int64) * shape.partitions + partition
    cents = rng.integers(100, 50_000, count)
    products = pa.array(PRODUCTS).take(pa.array(rng.integers(0, len(PRODUCTS), count)))
    lines = pc.binary_join_element_wise(
        '{"order_id": ',
        pa.array(numbers).cast(pa.string()),
        ', "customer": "customer-',
        pa.array(rng.integers(0, 20_000, count)).cast(pa.string()),
        '", "product": "',
        products,
        '", "amount": ',
        pa.array(cents // 100).cast(pa.string()),
        ".",
        pc.utf8_lpad(pa.array(cents % 100).cast(pa.string()), 2, "0"),
        ', "order_time": "',
        pa.array(times).cast(pa.string()),
        '"}',
        "",
    )
    encoded: list[bytes] = lines.cast(pa.binary()).to_pylist()
    return encoded


def write_orders(bootstrap: str, topic: str, shape: Shape) -> int:
    """Make the topic and write all orders; returns how many the broker has taken."""
    return write_lines(
        bootstrap, topic, [partial(order_lines, shape, i) for i in range(shape.partitions)]
    )
