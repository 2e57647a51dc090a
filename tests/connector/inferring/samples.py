"""Samples for the tests of discovery."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.connector.inference.sample import Sample, SampledSplit


def split(
    values: Sequence[bytes | None],
    *,
    number: int = 0,
    keys: Sequence[bytes | None] | None = None,
    times_ms: Sequence[int | None] = (),
) -> SampledSplit:
    """Make a partition of records, as of Kafka."""
    return SampledSplit(
        name=f"partition {number}",
        unit="offset",
        positions=tuple(range(len(values))),
        values=tuple(values),
        keys=tuple(keys) if keys is not None else (None,) * len(values),
        times_ms=times_ms,
    )


def sample(*splits: SampledSplit) -> Sample:
    """Put partitions together."""
    return Sample(origin="topic 'orders' at broker:9092", splits=splits)


def rows(*objects: Any) -> list[bytes]:
    """Write JSON records."""
    return [json.dumps(each).encode() for each in objects]
