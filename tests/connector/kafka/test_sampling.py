"""How a sample is shared out among partitions."""

from __future__ import annotations

import pytest

from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.inference import spread


@pytest.mark.parametrize(
    ("wanted", "held", "shares"),
    [
        (30, [100, 100, 100], [10, 10, 10]),
        (30, [2, 100, 100], [2, 14, 14]),
        (30, [2, 3, 4], [2, 3, 4]),
        (2, [5, 5, 5], [1, 1, 0]),
        (30, [0, 100], [0, 30]),
    ],
)
def test_what_a_short_partition_lacks_is_taken_from_the_others(wanted, held, shares):
    """As even as what is there allows."""
    places = [TopicPartition("t", number) for number in range(len(held))]
    found = spread(wanted, dict(zip(places, held, strict=True)))

    assert [found[place] for place in places] == shares
    assert sum(shares) <= wanted
